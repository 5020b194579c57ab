import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { CliFailure } from '../cli-verb.ts'

/** How npx starts this package again, from the place that it came from. */

const PACKAGE = 'agent-gas-station'
/** The folder where npx keeps a package; it may be removed at any time. */
const NPX_FOLDER = /^(.*[\\/]_npx[\\/][^\\/]+)[\\/]/

/**
 * Returns the command for a program that npx keeps; null for any other. A package of a file is never looked up by
 * its name: the owner of that name in a registry would get the key.
 */
export function toNpxCommand(
  program: string,
  platform: NodeJS.Platform = process.platform,
): readonly string[] | null {
  const [, folder] = NPX_FOLDER.exec(program) ?? []
  if (folder === undefined) return null
  const npx = ['npx', '-y', `--package=${readPackageSpec(folder)}`, 'gas']
  return platform === 'win32' ? ['cmd', '/c', ...npx] : npx
}

function readPackageSpec(folder: string): string {
  const { dependencies } = readJson(join(folder, 'package.json'))
  const spec = (dependencies as Record<string, unknown> | undefined)?.[PACKAGE]
  if (typeof spec !== 'string')
    throw new CliFailure(`npx does not say where it has ${PACKAGE} from: install the package first`)
  if (spec.startsWith('file:')) return resolve(folder, spec.slice('file:'.length))
  if (/[:/]/.test(spec)) return spec
  // From a registry: the version that runs now.
  const installed = readJson(join(folder, 'node_modules', PACKAGE, 'package.json'))
  return `${PACKAGE}@${String(installed['version'])}`
}

const readJson = (file: string) => JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>

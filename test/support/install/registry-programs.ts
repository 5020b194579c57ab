import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { TAP } from 'tap'
import { installFolder, NPM_ENV } from './packed-station.ts'
import { REGISTRY_UNREACHABLE, runProgram } from './run-program.ts'

/** Programs that come as npm packages: other versions of Node, other package managers. Nothing of them is run by npm. */

const NODE_PACKAGE = `node-${process.platform}-${process.arch}`
const PACKAGES = {
  node22: `npm:${NODE_PACKAGE}@22.23.3`,
  node24: `npm:${NODE_PACKAGE}@24.21.0`,
  yarn: 'npm:yarn@1.22.22',
  pnpm: 'npm:pnpm@10.34.9',
  eventsource: 'npm:eventsource@4.1.1',
  'event-source-polyfill': 'npm:event-source-polyfill@1.0.31',
} as const

export interface RegistryPrograms {
  /** Why they are not there. */
  readonly skip: string | false
  readonly folder: string
  /** The path of a file of a program. */
  file(name: keyof typeof PACKAGES, path: string): string
}

let installing: Promise<RegistryPrograms> | undefined

/** Installs them once a process. */
export const installRegistryPrograms = (t: Pick<TAP, 'teardown'>): Promise<RegistryPrograms> =>
  (installing ??= install(join(installFolder(t), 'programs')))

async function install(folder: string): Promise<RegistryPrograms> {
  mkdirSync(folder)
  const specs = Object.entries(PACKAGES).map((pair) => pair.join('@'))
  const options = ['--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund', '--force']
  const args = ['install', ...options, ...specs]
  const { code, err } = await runProgram('npm', args, { cwd: folder, env: NPM_ENV })
  if (code !== 0 && !REGISTRY_UNREACHABLE.test(err)) throw new Error(err)
  return {
    skip: code !== 0 && 'the npm registry is not reachable',
    folder,
    file: (name, path) => join(folder, 'node_modules', name, path),
  }
}

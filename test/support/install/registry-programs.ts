import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { REGISTRY_UNREACHABLE, runProgram } from './run-program.ts'
import { NPM_ENV, type PackedStation } from './packed-station.ts'

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

export type RegistryProgram = keyof typeof PACKAGES

let installing: Promise<string> | undefined

/** Installs them once a process; the answer is why they are not there, or false. */
export async function installRegistryPrograms(packed: PackedStation): Promise<string | false> {
  const reason = await (installing ??= install(programFolder(packed)))
  return reason === '' ? false : reason
}

/** The path of a file of a program. */
export const programFile = (packed: PackedStation, name: RegistryProgram, file: string): string =>
  join(programFolder(packed), 'node_modules', name, file)

const programFolder = ({ folder }: PackedStation): string => join(folder, 'programs')

async function install(cwd: string): Promise<string> {
  mkdirSync(cwd, { recursive: true })
  const specs = Object.entries(PACKAGES).map((pair) => pair.join('@'))
  const options = ['--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund', '--force']
  const args = ['install', ...options, ...specs]
  const { code, err } = await runProgram('npm', args, { cwd, env: NPM_ENV })
  if (code === 0) return ''
  if (REGISTRY_UNREACHABLE.test(err)) return 'the npm registry is not reachable'
  throw new Error(err)
}

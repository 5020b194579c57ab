import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TAP } from 'tap'
import { packTarball } from '../../../scripts/build/pack-tarball.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { runProgram, type ProgramResult } from './run-program.ts'

/** The package as users get it: packed and installed once for all tests of a process. */

/** A name that shells, addresses and lists of folders read otherwise. Node itself runs nothing below a backslash. */
export const ODD_NAME = `it's #1 100% "größe" 東京 $x, y`

export interface PackedStation {
  readonly folder: string
  readonly tarball: string
  /** The tarball of the client library. */
  readonly sdk: string
  /** Where npm has installed both. */
  readonly app: string
  readonly installed: ProgramResult
  /** Seconds of each step, for people. */
  readonly seconds: Readonly<Record<string, string>>
}

/** npm keeps downloads below the home. */
export const NPM_ENV = { HOME: process.env['HOME'] ?? '/', npm_config_fetch_retries: '1' }

type Test = Pick<TAP, 'teardown'>

/** In a process of several files, the test of all of them. */
const toProcessTest = (t: Test): Test =>
  (t as Test & { readonly processTest?: Test }).processTest ?? t

let folder: string | undefined
let packed: Promise<PackedStation> | undefined

/** The folder of all that is packed and installed for the tests of a process, which others may enter. */
export function installFolder(t: Test): string {
  if (folder !== undefined) return folder
  const made = mkdtempSync(join(tmpdir(), 'gas-install-'))
  toProcessTest(t).teardown(() => rmSync(made, { recursive: true, force: true, maxRetries: 20 }))
  chmodSync(made, 0o755)
  return (folder = made)
}

/** Packs the package and the client library, and installs both with npm in a folder of an odd name. */
export const packStation = (t: Test): Promise<PackedStation> => (packed ??= pack(toProcessTest(t)))

async function pack(t: Test): Promise<PackedStation> {
  const folder = mkdtempSync(join(tmpdir(), 'gas-install-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20 }))
  chmodSync(folder, 0o755)
  const app = join(folder, ODD_NAME)
  mkdirSync(app)
  const [tarball, packing] = await timed(() => packTarball(folder))
  const sdk = await packSdk(folder)
  const quiet = ['--prefer-offline', '--no-audit', '--no-fund', '--no-update-notifier']
  const [installed, installing] = await timed(() =>
    runProgram('npm', ['install', ...quiet, tarball, sdk], { cwd: app, env: NPM_ENV }),
  )
  return { folder, tarball, sdk, app, installed, seconds: { packing, installing } }
}

async function packSdk(folder: string): Promise<string> {
  const { code, out, err } = await runProgram(
    'npm',
    ['pack', '--silent', '--pack-destination', folder],
    { cwd: join(REPOSITORY_ROOT, 'sdk'), env: NPM_ENV },
  )
  if (code !== 0) throw new Error(err + out)
  return join(folder, out.trim().split('\n').at(-1) ?? '')
}

async function timed<T>(work: () => Promise<T>): Promise<[T, string]> {
  const startedAt = performance.now()
  const result = await work()
  return [result, `${((performance.now() - startedAt) / 1000).toFixed(1)} s`]
}

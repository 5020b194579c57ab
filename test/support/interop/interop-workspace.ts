import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TAP } from 'tap'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { REGISTRY_UNREACHABLE, runProgram, type ProgramResult } from '../install/run-program.ts'
import {
  startTestStationWithPaymentChain,
  type TestPaymentChain,
} from '../payments/test-station-with-payment-chain.ts'
import type { InProcessStation } from '../station/start-test-station.ts'

/** The clients of others in `interop/`: one installation and one station for all their tests. */

export const INTEROP_FOLDER = join(REPOSITORY_ROOT, 'interop')
const STAMP = join(INTEROP_FOLDER, 'node_modules', '.installed-lockfile')

type Test = Pick<TAP, 'teardown' | 'testdir' | 'strictSame' | 'comment'>

/** A station with payments, and programs that run beside it. */
export interface InteropWorkspace {
  readonly main: InProcessStation
  readonly till: TestPaymentChain
  /** Runs `node` with these arguments in `interop/`. */
  run(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<ProgramResult>
  /** Runs a program of `interop/clients/`, and parses the JSON that it prints. Throws if it fails. */
  runClient(
    name: string,
    env: Readonly<Record<string, string>>,
  ): Promise<Readonly<Record<string, unknown>>>
}

let workspace: Promise<InteropWorkspace | string> | undefined

/** In a process of several files, the test of all of them. */
const toProcessTest = (t: Test): Test =>
  (t as Test & { readonly processTest?: Test }).processTest ?? t

/**
 * Installs the clients and starts the station, once a process, and passes them to `use`; `t` is the test of a
 * file. Skips `subject` with the reason if the npm registry is not reachable.
 */
export async function withInteropWorkspace(
  t: Test & Pick<TAP, 'pass'>,
  subject: string,
  use: (space: InteropWorkspace) => void,
): Promise<void> {
  workspace ??= createWorkspace(toProcessTest(t))
  const space = await workspace
  if (typeof space === 'string') t.pass(subject, { skip: space })
  else use(space)
}

async function createWorkspace(t: Test): Promise<InteropWorkspace | string> {
  const missing = await installClients()
  if (missing !== null) return missing
  const { main, till } = await startTestStationWithPaymentChain(t)
  const runHere: InteropWorkspace['run'] = (args, env = {}) =>
    runProgram(process.execPath, args, {
      cwd: INTEROP_FOLDER,
      env: { HOME: t.testdir(), ...env },
    })
  return {
    main,
    till,
    run: runHere,
    async runClient(name, env) {
      const { code, out, err } = await runHere([`clients/${name}.js`], {
        STATION_URL: `${main.url}/mcp`,
        ...env,
      })
      if (code !== 0) throw new Error(`${name} ended with ${code}:\n${err}${out}`)
      return JSON.parse(out) as Record<string, unknown>
    },
  }
}

/** Installs what the lockfile names, unless it is installed. Returns why it cannot be, or null. */
async function installClients(): Promise<string | null> {
  const lockfile = readFileSync(join(INTEROP_FOLDER, 'package-lock.json'))
  const wanted = createHash('sha256').update(lockfile).digest('hex')
  if (existsSync(STAMP) && readFileSync(STAMP, 'utf8') === wanted) return null
  const args = ['ci', '--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline']
  const { HOME = '' } = process.env
  const env = { HOME, npm_config_fetch_retries: '1' }
  const { code, err } = await runProgram('npm', args, { cwd: INTEROP_FOLDER, env })
  if (code === 0) {
    writeFileSync(STAMP, wanted)
    return null
  }
  if (REGISTRY_UNREACHABLE.test(err)) return 'the npm registry is not reachable'
  throw new Error(`npm ci in interop/ ended with ${code}:\n${err}`)
}

import { spawn, type ChildProcess } from 'node:child_process'
import { mkdirSync, openSync, closeSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { REPOSITORY_ROOT } from '../repository-root.ts'
import { failedTapPoints, readTapAssertionCounts } from './read-tap-output.ts'
import type { TestGroup } from './group-test-files-by-process.ts'

/**
 * Runs built test groups, each in a process of tap of its own, several at the same time. tap's own
 * runner parses and draws each of 34,000 assertions a second time: two minutes of processor time.
 */

const BUILT = join(REPOSITORY_ROOT, '.cache/test')
/** Where the TAP output of each group is kept. */
const OUTPUT_DIR = join(BUILT, 'output')
/** Longest time of one group of files. */
const GROUP_TIMEOUT_S = 900
/** After its timeout tap says what was running; then it is killed. */
const KILL_GRACE_MS = 15_000
const NODE_ARGS = [
  // Must come first: what it keeps from loading would load with the others.
  '--import=./test/support/tap/skip-tap-loader.mjs',
  '--enable-source-maps',
  // As `npm start` sets it: without it a tenth of the processor time goes into collecting garbage.
  '--max-semi-space-size=64',
]

export interface TestTotals {
  readonly passed: number
  readonly failed: number
  /** What failed, with diagnostics, a text for each group. */
  readonly failures: readonly string[]
}

/** A repeat of groups under another environment, and what its lines begin with. */
export interface TestVariant {
  readonly label: string
  readonly env: NodeJS.ProcessEnv
}

/** Runs the groups in their order, `jobs` at a time; prints a line for each. */
export async function runTestGroups(
  groups: readonly TestGroup[],
  jobs: number,
  variant: TestVariant = { label: '', env: {} },
): Promise<TestTotals> {
  mkdirSync(OUTPUT_DIR, { recursive: true })
  const waiting = [...groups]
  const totals = { passed: 0, failed: 0, failures: [] as string[] }
  const runNext = async (): Promise<void> => {
    for (let group = waiting.shift(); group !== undefined; group = waiting.shift()) {
      const { passed, failed, failures } = await runGroup(group, variant)
      totals.passed += passed
      totals.failed += failed
      totals.failures.push(...failures)
    }
  }
  await Promise.all(Array.from({ length: jobs }, runNext))
  return totals
}

async function runGroup(group: TestGroup, { label, env }: TestVariant): Promise<TestTotals> {
  const startedAt = Date.now()
  const entry = `${label}${group.entry}`
  const outputFile = join(OUTPUT_DIR, `${entry}.tap`)
  const exit = await runProcess(join(BUILT, 'groups', `${group.entry}.js`), outputFile, env)
  const output = readFileSync(outputFile, 'utf8')
  const counts = readTapAssertionCounts(output)
  // A process that fails without a failed assertion, or ends before it has counted, is a failure.
  const failed = Math.max(counts?.failed ?? 0, exit === '0' && counts !== null ? 0 : 1)
  const passed = counts?.passed ?? 0
  const seconds = ((Date.now() - startedAt) / 1000).toFixed(0)
  console.log(
    `${failed > 0 ? 'FAIL' : 'PASS'} ${entry} ${passed} passed, ${failed} failed, ${seconds} s`,
  )
  if (failed === 0) return { passed, failed, failures: [] }
  const ending = `${entry} ended with ${exit}; its output: ${outputFile}`
  return { passed, failed, failures: [[...failedTapPoints(output), ending].join('\n')] }
}

/** Runs a file with its output in that file; the answer is its exit code or the signal that ended it. */
async function runProcess(
  file: string,
  outputFile: string,
  env: NodeJS.ProcessEnv,
): Promise<string> {
  const output = openSync(outputFile, 'w')
  const child = spawn(process.execPath, [...NODE_ARGS, file], {
    cwd: REPOSITORY_ROOT,
    stdio: ['ignore', output, output],
    env: { ...process.env, ...env, TAP: '1', TAP_TIMEOUT: String(GROUP_TIMEOUT_S) },
  })
  closeSync(output)
  const watchdog = setTimeout(() => stop(child), GROUP_TIMEOUT_S * 1000 + KILL_GRACE_MS)
  const exit = await new Promise<string>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code, signal) => resolve(String(code ?? signal)))
  })
  clearTimeout(watchdog)
  return exit
}

function stop(child: ChildProcess): void {
  child.kill('SIGTERM')
  setTimeout(() => child.kill('SIGKILL'), KILL_GRACE_MS).unref()
}

import { writeSync } from 'node:fs'
import tap, { type TAP, type Test } from 'tap'
import { TAP_ASSERTION_COUNTS_PREFIX } from './read-tap-output.ts'

/** Replaces `tap` in tests that run in groups, many files in one process. */

/** The subtest of the file that runs: top-level tests, assertions and teardowns of a file belong to it. */
let current: Test | undefined

/** Longest time of one file before it counts as hanging. */
const FILE_TIMEOUT_MS = 600_000

/** A test file by its path from the repository's root, and what loads it. */
type TestFile = readonly [name: string, load: () => Promise<unknown>]

/** Runs test files one after the other, each as a subtest with the file's name. */
export function runTestFiles(files: readonly TestFile[]): void {
  // Tests that wait on timers which hold no process would end it, and with it the files that follow.
  const alive = setInterval(() => {}, FILE_TIMEOUT_MS)
  tap.teardown(() => clearInterval(alive))
  process.on('exit', () => {
    const { pass, fail } = tap.counts
    writeSync(1, `\n${TAP_ASSERTION_COUNTS_PREFIX}${pass} ${fail}\n`)
  })
  // An uncaught error fails the innermost test that runs (test/support/tap/skip-tap-loader.mjs).
  process.on('uncaughtException', (error) => innermostTest(current ?? tap).threw(error))
  // All are registered at once: tap ends a process that waits with no subtest left.
  for (const [name, load] of files) {
    void tap.test(name, { timeout: FILE_TIMEOUT_MS }, async (t) => {
      current = t
      await load()
    })
  }
}

function innermostTest(test: TAP | Test): TAP | Test {
  const running = [...test.activeSubtests].at(-1)
  return running === undefined ? test : innermostTest(running as Test)
}

/** The member with the test of the whole process, for what several of its files share. */
const PROCESS_TEST = 'processTest'

const forwarding: ProxyHandler<object> = {
  get(_, key) {
    if (key === PROCESS_TEST) return tap
    const value: unknown = Reflect.get(current ?? tap, key)
    return typeof value === 'function' ? value.bind(current ?? tap) : value
  },
}

export default new Proxy({}, forwarding) as TAP

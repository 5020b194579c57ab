import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { REPOSITORY_ROOT } from '../repository-root.ts'
import { buildTests } from './build-tests.ts'
import type { TestGroup } from './test-groups.ts'

/**
 * `npm test [group…]` and `npm run test:all`: builds the tests and runs their groups with tap. The last
 * line says how many assertions passed and failed, and in how long.
 */

const BUILT = '.cache/test'
/** Longest time of one group of files. */
const GROUP_TIMEOUT_S = 900
const JOBS = 3
/** Suites of outages measure time: with more beside them, calls wait longer than the service lets them. */
const JOBS_WITH_LONG_SUITES = 2
const SUMMARY = /^# \{ total: \d+.*\}$/

const { values, positionals } = parseArgs({
  options: { all: { type: 'boolean', default: false }, list: { type: 'boolean', default: false } },
  allowPositionals: true,
})

const startedAt = Date.now()
const groups = await buildTests()
const chosen = groups.filter(({ name, long }) =>
  positionals.length > 0
    ? positionals.some((prefix) => name.startsWith(prefix))
    : values.all || !long,
)
if (values.list) {
  for (const { name, files } of chosen) console.log(`${name}: ${files.join(' ')}`)
} else {
  const { code, summary } = await runTap(chosen)
  const passed = countOf(summary, 'pass')
  // Without a summary tap itself ended: that is a failure.
  const failed = summary === '' ? 1 : countOf(summary, 'fail')
  const seconds = Math.round((Date.now() - startedAt) / 1000)
  const time = `${Math.floor(seconds / 60)} min ${seconds % 60} s`
  console.log(`${chosen.length} groups in ${time}`)
  console.log(`${passed} passed, ${failed} failed`)
  process.exitCode = code === 0 && failed > 0 ? 1 : code
}

/** Runs the groups; what tap prints goes through, but for its own summary, which is returned. */
async function runTap(selected: readonly TestGroup[]): Promise<{ code: number; summary: string }> {
  const program = join(REPOSITORY_ROOT, 'node_modules/.bin/tap')
  const options = [
    '--disable-coverage',
    '--node-arg=--enable-source-maps',
    `--timeout=${GROUP_TIMEOUT_S}`,
    `--jobs=${values.all ? JOBS_WITH_LONG_SUITES : JOBS}`,
    `--before=${BUILT}/test/support/postgres/test-cluster.js`,
  ]
  const files = selected.map(({ entry }) => `${BUILT}/groups/${entry}.js`)
  const tap = spawn(process.execPath, [program, 'run', ...options, ...files], {
    cwd: REPOSITORY_ROOT,
    stdio: ['inherit', 'pipe', 'inherit'],
  })
  let summary = ''
  createInterface(tap.stdout).on('line', (line) => {
    if (SUMMARY.test(line)) summary = line
    else if (!/^# time=/.test(line)) console.log(line)
  })
  const code = await new Promise<number>((resolve) => {
    tap.once('close', (exitCode) => resolve(exitCode ?? 1))
  })
  return { code, summary }
}

function countOf(summary: string, kind: 'pass' | 'fail'): number {
  return Number(new RegExp(`\\b${kind}: (\\d+)`).exec(summary)?.[1] ?? 0)
}

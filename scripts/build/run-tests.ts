import { execFileSync } from 'node:child_process'
import { parseArgs } from 'node:util'
import { findPackagedPostgres } from '../../test/support/postgres/packaged-postgres.ts'
import { REPOSITORY_ROOT } from '../repository-root.ts'
import { buildTests, listTestGroups } from './build-tests.ts'
import { runTestGroups } from './run-test-groups.ts'
import type { TestGroup } from './group-test-files-by-process.ts'

/**
 * `npm test [group…]` and `npm run test:all`: builds the chosen groups of tests and runs them; `--list`
 * lists them. With `--all` or `--packaged` suites of money and public pages run again on an installed
 * PostgreSQL. The last line says how many assertions passed and failed.
 */

/** Starts the PostgreSQL cluster of its parent process, and ends with that cluster ready. */
const START_CLUSTER = '.cache/test/test/support/postgres/test-postgres-cluster.js'
const JOBS = 3
/** Where other machines take processor time away, more jobs make single tests wait past their timeouts. */
const JOBS_ON_SHARED_PROCESSORS = 2
/** Suites that mostly wait, for repeats, leases and timeouts: they run one at a time beside the others. */
const isWaitingGroup = ({ name }: TestGroup): boolean =>
  /^long-(chaos|jobs|schedules|webhooks)/.test(name)
/** Suites of outages mostly wait, and they measure time: they run by themselves, after the others. */
const OUTAGE_JOBS = 4
const isOutageGroup = ({ name }: TestGroup): boolean => name.startsWith('long-outages')

/** What `npm run test:all` runs again on the PostgreSQL of the system's packages: money and public pages. */
const isPackagedPostgresGroup = ({ name }: TestGroup): boolean =>
  /^(payments|e2e-(payments|public))/.test(name)

const startCluster = (env: NodeJS.ProcessEnv = {}): void => {
  execFileSync(process.execPath, [START_CLUSTER], {
    cwd: REPOSITORY_ROOT,
    stdio: 'inherit',
    env: { ...process.env, ...env },
  })
}

async function runOnPackagedPostgres(groups: readonly TestGroup[], jobs: number) {
  const bin = findPackagedPostgres()
  if (bin === null) {
    console.log('no PostgreSQL of the system is installed: its suites are skipped')
    return []
  }
  const env = { TEST_POSTGRES_BIN: bin }
  startCluster(env)
  return [await runTestGroups(groups, jobs, { label: 'packaged-postgres-', env })]
}

/** Whether a computation that takes some 20 ms, once it is compiled, takes much longer several times. */
function hasSharedProcessors(): boolean {
  const timed = Array.from({ length: 30 }, () => {
    const startedAt = performance.now()
    for (let step = 0, sum = 0; step < 20_000_000; step += 1) sum = (sum * 31 + step) | 0
    return performance.now() - startedAt
  })
  const [uncompiledRuns, chanceDelays] = [5, 3]
  return timed.slice(uncompiledRuns).filter((ms) => ms > 75).length > chanceDelays
}

const { values, positionals } = parseArgs({
  options: {
    all: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    packaged: { type: 'boolean', default: false },
  },
  allowPositionals: true,
})

const startedAt = Date.now()
const chosen = listTestGroups().filter(({ name, long }) =>
  positionals.length > 0
    ? positionals.some((prefix) => name.startsWith(prefix))
    : values.all || !long,
)
if (chosen.length === 0) {
  console.error(`No test group begins with ${positionals.join(' or ')}.`)
  process.exitCode = 1
} else if (values.list) {
  for (const { name, files } of chosen) console.log(`${name}: ${files.join(' ')}`)
} else {
  await buildTests(chosen)
  const jobs = hasSharedProcessors() ? JOBS_ON_SHARED_PROCESSORS : JOBS
  const outages = chosen.filter(isOutageGroup)
  const waiting = chosen.filter(isWaitingGroup)
  const others = chosen.filter((group) => !isOutageGroup(group) && !isWaitingGroup(group))
  startCluster()
  const parts = [
    ...(await Promise.all([runTestGroups(others, jobs), runTestGroups(waiting, 1)])),
    await runTestGroups(outages, OUTAGE_JOBS),
    ...(values.all || values.packaged
      ? await runOnPackagedPostgres(chosen.filter(isPackagedPostgresGroup), jobs)
      : []),
  ]
  const passed = parts.reduce((sum, part) => sum + part.passed, 0)
  const failed = parts.reduce((sum, part) => sum + part.failed, 0)
  for (const failure of parts.flatMap(({ failures }) => failures)) console.log(failure)
  const seconds = Math.round((Date.now() - startedAt) / 1000)
  const time = `${Math.floor(seconds / 60)} min ${seconds % 60} s`
  console.log(`${chosen.length} groups, ${jobs} at a time, in ${time}`)
  console.log(`${passed} passed, ${failed} failed`)
  process.exitCode = failed > 0 ? 1 : 0
}

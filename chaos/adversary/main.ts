import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { buildMutatedService, buildUnmodifiedService } from './build-mutants.ts'
import type { ServiceMutant } from './service-mutant.ts'
import { ADVERSARY_SERVICE_MUTANTS } from './adversary-service-mutants.ts'
import { formatAdversaryReport } from './adversary-report.ts'
import { startLocalAdversaryWebsite } from './website-called-by-adversary.ts'
import {
  adversaryStationSettings,
  createSimulatedOperatorActions,
} from './adversary-operator-actions.ts'
import {
  ALL_ADVERSARY_OPERATION_WEIGHTS,
  runAdversary,
  type AdversaryRunOptions,
  type AdversaryRunResult,
} from './run-adversary.ts'
import { createTestDatabase } from '../../test/support/postgres/test-database.ts'
import { spawnTestStationProcess } from '../../test/support/station/start-test-station.ts'

/**
 * Runs the adversary suite against a build of the service, then against mutants that it must
 * detect.
 */

const { values } = parseArgs({
  options: {
    /** Number of requests; 0 skips the run without mutations. */
    operations: { type: 'string', default: '20000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    /** Mutations to test: `all`, `none`, or comma-separated names. The suite must detect each. */
    plants: { type: 'string', default: 'all' },
  },
})

/** Collects teardowns and runs them in reverse order. */
function createTeardownScope() {
  const works: (() => unknown)[] = []
  return {
    teardown: (work: () => unknown) => works.push(work),
    comment: (line: string) => console.log(line),
    async end() {
      for (const work of works.reverse()) await work()
    },
  }
}

/** Runs the suite against two processes of a built service over a new database. */
async function runAgainstBuild(
  home: string,
  course: AdversaryRunOptions,
): Promise<AdversaryRunResult> {
  const scope = createTeardownScope()
  const dataDir = mkdtempSync(join(tmpdir(), 'gas-station-adversary-'))
  scope.teardown(() => rmSync(dataDir, { recursive: true, force: true }))
  try {
    const database = await createTestDatabase(scope)
    const site = await startLocalAdversaryWebsite(scope)
    const { databaseUrl: DATABASE_URL } = database.settings
    const common = {
      ...adversaryStationSettings(site),
      DATABASE_URL,
      PUBLIC_URL: 'http://gas.test',
    }
    const program = [join(home, 'app/main.js')]
    const start = (name: string, RATE_LIMITS: string) =>
      spawnTestStationProcess(
        scope,
        { ...common, RATE_LIMITS, DATA_DIR: join(dataDir, name) },
        program,
      )
    const main = await start('one', 'off')
    const beside = await start('two', 'on')
    const stage = createSimulatedOperatorActions(scope, [main.url, beside.url], database, site)
    return await runAdversary(stage, course)
  } finally {
    await scope.end()
  }
}

async function runUnmodified(home: string, seed: number, operations: number): Promise<boolean> {
  const startedAt = performance.now()
  const outcome = await runAgainstBuild(home, {
    seed,
    operations,
    operationWeights: ALL_ADVERSARY_OPERATION_WEIGHTS,
  })
  for (const line of formatAdversaryReport(seed, outcome)) console.log(line)
  console.log(`${operations} operations in ${secondsSince(startedAt)} s`)
  return outcome.violations.length === 0
}

async function findMutation(name: string, plant: ServiceMutant, seed: number): Promise<boolean> {
  const startedAt = performance.now()
  const outcome = await runAgainstBuild(await buildMutatedService(name, plant), { seed, ...plant })
  const found = outcome.violations.find(({ rule }) => plant.rules.includes(rule))
  const verdict = found === undefined ? 'NOT FOUND' : `found by ${found.rule}: ${found.description}`
  console.log(
    `${name} (${plant.description}): ${verdict.slice(0, 160)} [${secondsSince(startedAt)} s]`,
  )
  if (found === undefined)
    for (const line of formatAdversaryReport(seed, outcome)) console.log(`  ${line}`)
  return found !== undefined
}

const secondsSince = (at: number) => Math.round((performance.now() - at) / 1_000)

async function main(): Promise<void> {
  const [seed, operations] = [Number(values.seed), Number(values.operations)]
  const names =
    values.plants === 'all' ? Object.keys(ADVERSARY_SERVICE_MUTANTS) : values.plants.split(',')
  console.log(`seed ${seed}`)
  const home = await buildUnmodifiedService()
  let good = operations === 0 || (await runUnmodified(home, seed, operations))
  for (const name of names.filter((one) => one !== 'none')) {
    const plant = ADVERSARY_SERVICE_MUTANTS[name]
    if (plant === undefined)
      throw new Error(`no plant ${name}: ${Object.keys(ADVERSARY_SERVICE_MUTANTS).join(', ')}`)
    good = (await findMutation(name, plant, seed)) && good
  }
  process.exitCode = good ? 0 : 1
}

await main()

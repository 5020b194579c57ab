import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { buildPlanted, buildService } from '../test/adversary/planting.ts'
import type { Plant } from '../test/adversary/plant.ts'
import { PLANTS } from '../test/adversary/plants.ts'
import { reportOf } from '../test/adversary/report.ts'
import { startSite } from '../test/adversary/site.ts'
import { settingsFor, stageOf } from '../test/adversary/stage.ts'
import { EVERYTHING, play, type Course, type Outcome } from '../test/adversary/suite.ts'
import { testDatabase } from '../test/support/database.ts'
import { spawnStation } from '../test/support/station.ts'

const { values } = parseArgs({
  options: {
    /** Requests of the colluding agents; 0 leaves the course out. */
    operations: { type: 'string', default: '20000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    /** Bugs for copies of the service, each of which must be found: all, none, or names with commas. */
    plants: { type: 'string', default: 'all' },
  },
})

/** What a course started, given back in reverse. */
function createScope() {
  const works: (() => unknown)[] = []
  return {
    teardown: (work: () => unknown) => works.push(work),
    comment: (line: string) => console.log(line),
    async end() {
      for (const work of works.reverse()) await work()
    },
  }
}

/** One course against two processes of a built service, over a database of their own. */
async function runCourse(home: string, course: Course): Promise<Outcome> {
  const scope = createScope()
  const dataDir = mkdtempSync(join(tmpdir(), 'gas-station-adversary-'))
  scope.teardown(() => rmSync(dataDir, { recursive: true, force: true }))
  try {
    const database = await testDatabase(scope)
    const site = await startSite(scope)
    const { databaseUrl: DATABASE_URL } = database.settings
    const common = { ...settingsFor(site), DATABASE_URL, PUBLIC_URL: 'http://gas.test' }
    const program = [join(home, 'app/main.js')]
    const start = (name: string, RATE_LIMITS: string) =>
      spawnStation(scope, { ...common, RATE_LIMITS, DATA_DIR: join(dataDir, name) }, program)
    const main = await start('one', 'off')
    const beside = await start('two', 'on')
    const stage = stageOf(scope, [main.url, beside.url], database, site)
    return await play(stage, course)
  } finally {
    await scope.end()
  }
}

async function proveSound(home: string, seed: number, operations: number): Promise<boolean> {
  const startedAt = performance.now()
  const outcome = await runCourse(home, { seed, operations, profile: EVERYTHING })
  for (const line of reportOf(seed, outcome)) console.log(line)
  console.log(`${operations} operations in ${secondsSince(startedAt)} s`)
  return outcome.violations.length === 0
}

async function provePlant(name: string, plant: Plant, seed: number): Promise<boolean> {
  const startedAt = performance.now()
  const outcome = await runCourse(await buildPlanted(name, plant), { seed, ...plant })
  const found = outcome.violations.find(({ rule }) => plant.rules.includes(rule))
  const verdict = found === undefined ? 'NOT FOUND' : `found by ${found.rule}: ${found.says}`
  console.log(`${name} (${plant.says}): ${verdict.slice(0, 160)} [${secondsSince(startedAt)} s]`)
  if (found === undefined) for (const line of reportOf(seed, outcome)) console.log(`  ${line}`)
  return found !== undefined
}

const secondsSince = (at: number) => Math.round((performance.now() - at) / 1_000)

async function main(): Promise<void> {
  const [seed, operations] = [Number(values.seed), Number(values.operations)]
  const names = values.plants === 'all' ? Object.keys(PLANTS) : values.plants.split(',')
  console.log(`seed ${seed}`)
  const home = await buildService()
  let good = operations === 0 || (await proveSound(home, seed, operations))
  for (const name of names.filter((one) => one !== 'none')) {
    const plant = PLANTS[name]
    if (plant === undefined) throw new Error(`no plant ${name}: ${Object.keys(PLANTS).join(', ')}`)
    good = (await provePlant(name, plant, seed)) && good
  }
  process.exitCode = good ? 0 : 1
}

await main()

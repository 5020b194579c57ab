import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { chanceOf } from './chance.ts'
import { clusterLine, clusterSummary, CLUSTER_HEAD } from './cluster-report.ts'
import { cluster, missingForCluster } from './cluster.ts'
import { crashes, settleOpen } from './crashes.ts'
import { load, machine } from './figures.ts'
import { payments, type PaymentOptions } from './payments.ts'
import { planted, plants, type Times } from './plants.ts'
import { raceOn, type Proof } from './race-stations.ts'
import type { Race } from './races.ts'
import {
  crashLine,
  CRASH_HEAD,
  PAYMENT_HEAD,
  paymentLine,
  paymentSummary,
  raceTable,
  summary,
  type Crashed,
} from './report.ts'
import { build, BUILT, freePort, newDataDir, openDatabase } from './station.ts'

const CRASH_CREDITS = 1_000

const { values } = parseArgs({
  options: {
    /** How often something is killed under load. */
    rounds: { type: 'string' },
    /** How often each race is run, on one process and on two. */
    races: { type: 'string' },
    /** How often something goes wrong while payments on a chain are under way. */
    payments: { type: 'string' },
    /** How often something goes wrong with three processes behind nginx. */
    cluster: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    /** Bugs for copies of the service, each of which must be found: all, or names with commas. */
    plant: { type: 'string' },
  },
})
const EVERYTHING: Times = { rounds: 20, races: 3, payments: 10, cluster: 20 }
await main(Number(values.seed), values.plant)

async function main(seed: number, asked?: string): Promise<void> {
  console.log(`seed ${seed}, load ${load()}, ${machine()}`)
  build()
  const names = asked === 'all' ? Object.keys(plants) : asked?.split(',')
  const good = names === undefined ? await prove(BUILT, EVERYTHING, seed) : await found(names, seed)
  process.exitCode = good ? 0 : 1
}

/** True when the proof fails with each of the bugs. */
async function found(names: readonly string[], seed: number): Promise<boolean> {
  const verdicts: string[] = []
  let missed = 0
  for (const name of names) {
    const plant = plants[name]
    if (plant === undefined) throw new Error(`no bug ${name}: ${Object.keys(plants).join(', ')}`)
    console.log(`\nplanted bug: ${plant.says}`)
    const green = await prove(await planted(plant), plant.times, seed)
    if (green) missed += 1
    verdicts.push(`${name} (${plant.says}): ${green ? 'NOT FOUND' : 'found'}`)
  }
  console.log(`\n${verdicts.join('\n')}`)
  return missed === 0
}

/** How often each part runs: as the options say, else as given. */
function timesOf(usual: Times): Times {
  return {
    rounds: Number(values.rounds ?? usual.rounds),
    races: Number(values.races ?? usual.races),
    payments: Number(values.payments ?? usual.payments),
    cluster: Number(values.cluster ?? usual.cluster),
  }
}

/** Runs the parts of the proof on one built service; true when every figure is as promised. */
async function prove(code: string, usual: Times, seed: number): Promise<boolean> {
  const startedAt = performance.now()
  const dataDir = newDataDir()
  const times = timesOf(usual)
  try {
    const proof = { code, dataDir, chance: chanceOf(seed) }
    const good = [
      await agentsPart(times, proof),
      await paymentsPart(times.payments, proof),
      await clusterPart(times.cluster, proof),
    ]
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    console.log(`\nseed ${seed}, load ${load()}, ${seconds} s`)
    return !good.includes(false)
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}

async function agentsPart({ rounds, races: times }: Times, proof: Proof): Promise<boolean> {
  if (rounds === 0 && times === 0) return true
  const races = [...(await racesOn(1, times, proof)), ...(await racesOn(2, times, proof))]
  const crashed = await crash(rounds, proof)
  console.log('\nSummary')
  return summary(races, crashed)
}

/** Payments in a database of their own, so that nothing else explains a difference. */
async function paymentsPart(rounds: number, { code, chance }: Proof): Promise<boolean> {
  if (rounds === 0) return true
  const dataDir = newDataDir()
  const sql = openDatabase(dataDir)
  console.log(`\nPayments on a chain of their own, two processes\n${PAYMENT_HEAD}`)
  try {
    const told: PaymentOptions['told'] = (round, at) => console.log(paymentLine(round, at))
    return paymentSummary(await payments({ code, dataDir, chance, rounds, sql, told }))
  } finally {
    await sql.end({ timeout: 1 })
    rmSync(dataDir, { recursive: true, force: true })
  }
}

/** Needs programs that are not of the service: left out without them, unless it was asked for. */
async function clusterPart(rounds: number, { code, chance }: Proof): Promise<boolean> {
  if (rounds === 0) return true
  const missing = missingForCluster()
  if (missing !== null) {
    const asked = values.cluster !== undefined
    console.log(`\nCluster ${asked ? 'NOT PROVED' : 'left out'}: ${missing}`)
    return !asked
  }
  const dataDir = newDataDir()
  console.log(`\nThree processes, one PostgreSQL, one Redis, behind nginx\n${CLUSTER_HEAD}`)
  try {
    const told = (...round: Parameters<typeof clusterLine>) => console.log(clusterLine(...round))
    return clusterSummary(await cluster({ code, dataDir, chance, rounds, told }))
  } finally {
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  }
}

/** The races on a number of processes, with their table. */
async function racesOn(nodes: number, times: number, proof: Proof): Promise<Race[]> {
  const races = await raceOn(nodes, times, proof, (plane) =>
    console.log(`\nRaces on ${nodes} process${nodes > 1 ? 'es' : ''}, ${plane}`),
  )
  console.log(raceTable(races))
  return races
}

/** Kills under load, then asks the ledger and `gas verify`. */
async function crash(rounds: number, { code, dataDir, chance }: Proof): Promise<Crashed> {
  const env = { STARTER_CREDITS_USDC: String(CRASH_CREDITS) }
  const options = { code, dataDir, port: await freePort(), env }
  const sql = openDatabase(dataDir)
  console.log(`\nkill -9 under the load of 24 clients, fsync on\n${CRASH_HEAD}`)
  const done = await crashes(options, sql, rounds, chance, (round, at) =>
    console.log(crashLine(round, at)),
  )
  try {
    const cut = done.rounds.flatMap(({ open }) => open).length
    const all = await settleOpen(done.station, sql, done.rounds)
    console.log(`${cut} streams were cut; each was asked again until its hold had expired`)
    const verified = verify(code, dataDir)
    console.log(`\ngas verify\n${verified.stdout.trimEnd()}`)
    return { rounds: done.rounds, all, verified: verified.status === 0 }
  } finally {
    await sql.end({ timeout: 1 })
    await done.station.stop()
  }
}

function verify(code: string, dataDir: string) {
  const env = { PATH: process.env['PATH'] ?? '', DATA_DIR: dataDir }
  return spawnSync(process.execPath, [join(code, 'app/cli.js'), 'verify'], {
    cwd: dataDir,
    env,
    encoding: 'utf8',
  })
}

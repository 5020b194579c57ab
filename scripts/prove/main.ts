import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { clientOf } from './agents.ts'
import { chanceOf, type Chance } from './chance.ts'
import { clusterLine, clusterSummary, CLUSTER_HEAD } from './cluster-report.ts'
import { cluster, missingForCluster } from './cluster.ts'
import { crashes, settleOpen } from './crashes.ts'
import { load, machine } from './figures.ts'
import { payments, type PaymentOptions } from './payments.ts'
import { planted, plants } from './plants.ts'
import { race, type Race } from './races.ts'
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
import { build, BUILT, freePort, newDataDir, openDatabase, startStation } from './station.ts'

const RACE_CREDITS = 1
const CRASH_CREDITS = 1_000

const { values } = parseArgs({
  options: {
    /** How often something is killed under load. */
    rounds: { type: 'string', default: '20' },
    /** How often each race is run, on one process and on two. */
    races: { type: 'string', default: '3' },
    /** How often something goes wrong while payments on a chain are under way. */
    payments: { type: 'string', default: '10' },
    /** How often something goes wrong with three processes behind nginx; 20 unless told. */
    cluster: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    /** Breaks a copy of the service on purpose: the proof must fail then. */
    plant: { type: 'string' },
  },
})
const CLUSTER_ROUNDS = 20
await prove(
  {
    rounds: Number(values.rounds),
    races: Number(values.races),
    payments: Number(values.payments),
    cluster: Number(values.cluster ?? CLUSTER_ROUNDS),
  },
  Number(values.seed),
  values.plant,
)

/** How often; 0 leaves a part out. */
interface Times {
  readonly rounds: number
  readonly races: number
  readonly payments: number
  readonly cluster: number
}

async function prove(times: Times, seed: number, plant?: string): Promise<void> {
  const startedAt = performance.now()
  const dataDir = newDataDir()
  console.log(`seed ${seed}, load ${load()}, ${machine()}`)
  try {
    build()
    const code = plant === undefined ? BUILT : planted(plant)
    if (plant !== undefined) console.log(`planted bug: ${plants[plant]?.says ?? ''}`)
    const chance = chanceOf(seed)
    const proof = { code, dataDir, chance }
    const good = [
      await agentsPart(times, proof),
      await paymentsPart(times.payments, proof),
      await clusterPart(times.cluster, proof),
    ]
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    console.log(`\nseed ${seed}, load ${load()}, ${seconds} s`)
    process.exitCode = good.includes(false) ? 1 : 0
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}

async function agentsPart({ rounds, races: times }: Times, proof: Proof): Promise<boolean> {
  if (rounds === 0 && times === 0) return true
  const races = [...(await raceOn(1, times, proof)), ...(await raceOn(2, times, proof))]
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

interface Proof {
  /** The folder of the built service. */
  readonly code: string
  readonly dataDir: string
  readonly chance: Chance
}

/** All races on a number of processes over one database. */
async function raceOn(
  nodes: number,
  times: number,
  { code, dataDir, chance }: Proof,
): Promise<Race[]> {
  const [stations, clients] = [
    [] as Awaited<ReturnType<typeof startStation>>[],
    [] as ReturnType<typeof clientOf>[],
  ]
  const env = { STARTER_CREDITS_USDC: String(RACE_CREDITS) }
  try {
    while (stations.length < nodes) {
      const station = await startStation({ code, dataDir, port: await freePort(), env })
      stations.push(station)
      clients.push(clientOf(station.url, 64))
    }
    console.log(`\nRaces on ${nodes} process${nodes > 1 ? 'es' : ''}, ${stations[0]?.plane ?? ''}`)
    const races: Race[] = []
    for (let at = 0; at < times; at++) {
      races.push(...(await race({ clients, chance, starter: RACE_CREDITS })))
    }
    console.log(raceTable(races))
    return races
  } finally {
    await Promise.all(clients.map((client) => client.close()))
    // The first one owns the database.
    for (const station of stations.reverse()) await station.stop()
  }
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

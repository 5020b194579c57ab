import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createSeededRandom } from './seeded-random.ts'
import {
  formatClusterRound,
  printClusterSummary,
  CLUSTER_PROOF_TABLE_HEADER,
} from './cluster/cluster-report.ts'
import { runClusterFaultProof, missingClusterPrograms } from './cluster/run-cluster-chaos-proof.ts'
import { runCrashRounds, retryInterruptedStreamsAndCompareLedger } from './crash-rounds.ts'
import { loadAverage, describeHostHardware } from './quantiles-host-hardware-and-text-tables.ts'
import {
  runPaymentFaultInjectionRounds,
  type PaymentFaultRoundsOptions,
} from './payment-fault-injection-rounds.ts'
import {
  buildMutantOfService,
  CHAOS_PROOF_MUTANTS,
  type ChaosProofRepetitions,
} from './chaos-proof-mutants.ts'
import { raceLimitsOnStations, type StationRaceSetup } from './limit-race-stations.ts'
import type { LimitRaceResult } from './limit-races.ts'
import {
  formatCrashRound,
  CRASH_TABLE_HEADER,
  PAYMENT_FAULT_ROUND_TABLE_HEADER,
  formatPaymentFaultRound,
  printPaymentFaultSummary,
  formatRaceTable,
  printCrashSummary,
  type CrashRoundsAndVerifyResult,
} from './race-crash-and-payment-report.ts'
import {
  compileStationFromSources,
  STATION_BUILD_DIR,
  createProofDataDirectory,
  connectToEmbeddedStationDatabase,
} from './station-process.ts'
import { findFreePort } from './free-port.ts'
import { REPOSITORY_ROOT } from '../scripts/repository-root.ts'

/** Runs the proof: races, crashes, payments and cluster faults, or the same with mutations. */

const CRASH_CREDITS = 1_000

const { values } = parseArgs({
  options: {
    /** Kills under load. */
    rounds: { type: 'string' },
    /** Repetitions of each race, on one process and on two. */
    races: { type: 'string' },
    /** Faults during payments on a chain. */
    payments: { type: 'string' },
    /** Faults of three processes behind nginx. */
    cluster: { type: 'string' },
    /** Random sequences of commands on the ledger and on its reference. */
    sequences: { type: 'string', default: '10000' },
    /** Random commands on two nodes, after which the journal makes each state. */
    commands: { type: 'string', default: '100000' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    /** Mutations that the proof must detect: `all`, or comma-separated names. */
    plant: { type: 'string' },
  },
})
const DEFAULT_PROOF_ROUNDS: ChaosProofRepetitions = {
  rounds: 20,
  races: 3,
  payments: 10,
  cluster: 20,
}
/** Tests that the test suite runs with fewer draws. */
const LEDGER_MODEL_TEST = 'test/long/payments/ledger-against-reference-model.test.ts'
const JOURNAL_REPLAY_TEST = 'test/long/chaos/journal-replay-of-random-commands.test.ts'

await main(Number(values.seed), values.plant)

async function main(seed: number, asked?: string): Promise<void> {
  console.log(`seed ${seed}, load ${loadAverage()}, ${describeHostHardware()}`)
  compileStationFromSources()
  const names = asked === 'all' ? Object.keys(CHAOS_PROOF_MUTANTS) : asked?.split(',')
  const good =
    names === undefined
      ? proveLedgerModel(values.sequences, seed) &&
        proveJournalReplay(values.commands, seed) &&
        (await runProofs(STATION_BUILD_DIR, DEFAULT_PROOF_ROUNDS, seed))
      : await proveMutationsFound(names, seed)
  process.exitCode = good ? 0 : 1
}

/** Runs the test of the ledger against its reference with all sequences. */
function proveLedgerModel(sequences: string, seed: number): boolean {
  if (sequences === '0') return true
  const env = { FC_RUNS: sequences, FC_SEED: String(seed) }
  return proveByTest(`Ledger and reference, ${sequences} sequences`, LEDGER_MODEL_TEST, env)
}

/** Runs the test of the journal with all commands. */
function proveJournalReplay(commands: string, seed: number): boolean {
  if (commands === '0') return true
  const env = { REPLAY_COMMANDS: commands, REPLAY_SEED: String(seed) }
  return proveByTest(`Journal and states, ${commands} commands`, JOURNAL_REPLAY_TEST, env)
}

function proveByTest(name: string, file: string, env: Readonly<Record<string, string>>): boolean {
  const { status } = spawnSync(process.execPath, ['--import', 'tsx', file], {
    cwd: REPOSITORY_ROOT,
    stdio: ['ignore', 'inherit', 'inherit'],
    // A test that is run by itself has half a minute otherwise.
    env: { TAP_TIMEOUT: '3600', ...process.env, ...env },
  })
  console.log(`\n${name}: ${status === 0 ? 'equal' : 'DIFFERENT'}`)
  return status === 0
}

/** Returns true when the proof fails with each mutation. */
async function proveMutationsFound(names: readonly string[], seed: number): Promise<boolean> {
  const verdicts: string[] = []
  let missed = 0
  for (const name of names) {
    const plant = CHAOS_PROOF_MUTANTS[name]
    if (plant === undefined)
      throw new Error(`no bug ${name}: ${Object.keys(CHAOS_PROOF_MUTANTS).join(', ')}`)
    console.log(`\nplanted bug: ${plant.description}`)
    const green = await runProofs(await buildMutantOfService(plant), plant.rounds, seed)
    if (green) missed += 1
    verdicts.push(`${name} (${plant.description}): ${green ? 'NOT FOUND' : 'found'}`)
  }
  console.log(`\n${verdicts.join('\n')}`)
  return missed === 0
}

/** Counts from the options, else the given defaults. */
function proofRoundsOf(usual: ChaosProofRepetitions): ChaosProofRepetitions {
  return {
    rounds: Number(values.rounds ?? usual.rounds),
    races: Number(values.races ?? usual.races),
    payments: Number(values.payments ?? usual.payments),
    cluster: Number(values.cluster ?? usual.cluster),
  }
}

/** Runs the parts of the proof on one build; returns true when every guarantee holds. */
async function runProofs(
  code: string,
  usual: ChaosProofRepetitions,
  seed: number,
): Promise<boolean> {
  const startedAt = performance.now()
  const dataDir = createProofDataDirectory()
  const times = proofRoundsOf(usual)
  try {
    const proof = { code, dataDir, chance: createSeededRandom(seed) }
    const good = [
      await proveRacesAndCrashes(times, proof),
      await provePayments(times.payments, proof),
      await proveClusterIfInstalled(times.cluster, proof),
    ]
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    console.log(`\nseed ${seed}, load ${loadAverage()}, ${seconds} s`)
    return !good.includes(false)
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}

async function proveRacesAndCrashes(
  { rounds, races: times }: ChaosProofRepetitions,
  proof: StationRaceSetup,
): Promise<boolean> {
  if (rounds === 0 && times === 0) return true
  const races = [...(await racesOn(1, times, proof)), ...(await racesOn(2, times, proof))]
  const crashed = await proveCrashes(rounds, proof)
  console.log('\nSummary')
  return printCrashSummary(races, crashed)
}

/** Payments use a separate database, so that no other operation affects the comparison. */
async function provePayments(rounds: number, { code, chance }: StationRaceSetup): Promise<boolean> {
  if (rounds === 0) return true
  const dataDir = createProofDataDirectory()
  const sql = connectToEmbeddedStationDatabase(dataDir)
  console.log(
    `\nPayments on a chain of their own, two processes\n${PAYMENT_FAULT_ROUND_TABLE_HEADER}`,
  )
  try {
    const onRound: PaymentFaultRoundsOptions['onRound'] = (round, at) =>
      console.log(formatPaymentFaultRound(round, at))
    return printPaymentFaultSummary(
      await runPaymentFaultInjectionRounds({ code, dataDir, chance, rounds, sql, onRound }),
    )
  } finally {
    await sql.end({ timeout: 1 })
    rmSync(dataDir, { recursive: true, force: true })
  }
}

/** Needs nginx and Redis: skipped without them unless requested explicitly. */
async function proveClusterIfInstalled(
  rounds: number,
  { code, chance }: StationRaceSetup,
): Promise<boolean> {
  if (rounds === 0) return true
  const missing = missingClusterPrograms()
  if (missing !== null) {
    const asked = values.cluster !== undefined
    console.log(`\nCluster ${asked ? 'NOT PROVED' : 'left out'}: ${missing}`)
    return !asked
  }
  const dataDir = createProofDataDirectory()
  console.log(
    `\nThree processes, one PostgreSQL, one Redis, behind nginx\n${CLUSTER_PROOF_TABLE_HEADER}`,
  )
  try {
    const onRound = (...round: Parameters<typeof formatClusterRound>) =>
      console.log(formatClusterRound(...round))
    return printClusterSummary(
      await runClusterFaultProof({ code, dataDir, chance, rounds, onRound }),
    )
  } finally {
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  }
}

/** Runs the races on a number of processes and prints their table. */
async function racesOn(
  nodes: number,
  times: number,
  proof: StationRaceSetup,
): Promise<LimitRaceResult[]> {
  const races = await raceLimitsOnStations(nodes, times, proof, (plane) =>
    console.log(`\nRaces on ${nodes} process${nodes > 1 ? 'es' : ''}, ${plane}`),
  )
  console.log(formatRaceTable(races))
  return races
}

/** Kills under load, then compares the ledger and runs `gas verify`. */
async function proveCrashes(
  rounds: number,
  { code, dataDir, chance }: StationRaceSetup,
): Promise<CrashRoundsAndVerifyResult> {
  const env = { STARTER_CREDITS_USDC: String(CRASH_CREDITS) }
  const options = { code, dataDir, port: await findFreePort(), env }
  const sql = connectToEmbeddedStationDatabase(dataDir)
  console.log(`\nkill -9 under the load of 24 clients, fsync on\n${CRASH_TABLE_HEADER}`)
  const done = await runCrashRounds(options, sql, rounds, chance, (round, at) =>
    console.log(formatCrashRound(round, at)),
  )
  try {
    const cut = done.rounds.flatMap(({ open }) => open).length
    const all = await retryInterruptedStreamsAndCompareLedger(done.station, sql, done.rounds)
    console.log(`${cut} streams were cut; each was asked again until its hold had expired`)
    const verified = runGasVerify(code, dataDir)
    console.log(`\ngas verify\n${verified.stdout.trimEnd()}`)
    return { rounds: done.rounds, all, verified: verified.status === 0 }
  } finally {
    await sql.end({ timeout: 1 })
    await done.station.stop()
  }
}

function runGasVerify(code: string, dataDir: string) {
  const env = { PATH: process.env['PATH'] ?? '', DATA_DIR: dataDir }
  return spawnSync(process.execPath, [join(code, 'app/cli/main.js'), 'verify'], {
    cwd: dataDir,
    env,
    encoding: 'utf8',
  })
}

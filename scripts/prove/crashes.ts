import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from '../../persistence/postgres/connect.ts'
import { clientOf, onboard, type Client } from './agents.ts'
import type { Chance } from './chance.ts'
import { compare, someBackend, type Comparison } from './ledger.ts'
import { idOf, insist, newOperation, send, type Operation } from './operations.ts'
import { postmasterOf, startStation, type Station, type StationOptions } from './station.ts'

/** Who is killed: the service, the database server, or one of its processes. */
export const VICTIMS = ['station', 'postgres', 'backend'] as const
export type Victim = (typeof VICTIMS)[number]

export interface Round extends Comparison {
  readonly victim: Victim
  /** How long the load had run. */
  readonly afterMs: number
  /** Asked when the victim died and not answered then. */
  readonly unknown: number
  /** From the kill to the first answer to something asked after it. */
  readonly recoveryMs: number
  /** Acknowledged operations asked again after the crash, and how many were answered otherwise. */
  readonly replayed: number
  readonly changed: number
  readonly settled: readonly Operation[]
  /** Streams that were cut: their key is free again when their hold has expired. */
  readonly open: readonly Operation[]
}

const CLIENTS = 24
const AGENTS = 6
const EARLIEST_MS = 100
const LATEST_MS = 900
const AFTERWARDS_MS = 200
const REPEATED = 25

/** A station under load that loses a part of itself at a random instant and comes back. */
export async function crashes(
  options: StationOptions,
  sql: Sql,
  rounds: number,
  chance: Chance,
  told: (round: Round, at: number) => void,
): Promise<{ rounds: Round[]; station: Station }> {
  let station = await startStation(options)
  const done: Round[] = []
  for (let at = 1; at <= rounds; at++) {
    // Every victim has its turn; the seed decides the order and the instant.
    const victim = at <= VICTIMS.length ? (VICTIMS[at - 1] as Victim) : chance.pick(VICTIMS)
    const played = await round(options, station, sql, victim, chance, at)
    station = played.station
    done.push(played.round)
    told(played.round, at)
  }
  return { rounds: done, station }
}

interface Load {
  readonly operations: Operation[]
  /** The first answer to something asked after an instant. */
  answeredAfter(instant: number): Promise<number>
  stop(): Promise<void>
}

function underLoad(
  client: Client,
  agents: Parameters<typeof newOperation>[0],
  chance: Chance,
  name: string,
): Load {
  const operations: Operation[] = []
  const listeners = new Set<(operation: Operation, at: number) => void>()
  let stopping = false
  const run = async (): Promise<void> => {
    while (!stopping) {
      const operation = newOperation(agents, `${name}-${operations.length}`, chance)
      operations.push(operation)
      // A stream that was cut holds its key for longer than a round: it is asked again at the end.
      if (operation.kind === 'stream') await send(client, operation)
      else await insist(client, operation)
      for (const heard of listeners) heard(operation, performance.now())
    }
  }
  const running = Promise.all(Array.from({ length: CLIENTS }, run))
  return {
    operations,
    answeredAfter: (instant) =>
      new Promise((resolve) => {
        const heard = ({ startedAt, acknowledged }: Operation, at: number): void => {
          if (startedAt < instant || acknowledged === null) return
          listeners.delete(heard)
          resolve(at)
        }
        listeners.add(heard)
      }),
    async stop() {
      stopping = true
      await running
    },
  }
}

async function round(
  options: StationOptions,
  before: Station,
  sql: Sql,
  victim: Victim,
  chance: Chance,
  at: number,
): Promise<{ round: Round; station: Station }> {
  const client = clientOf(before.url, CLIENTS)
  const agents = await onboard(client, AGENTS)
  const load = underLoad(client, agents, chance, `r${at}`)
  const afterMs = chance.whole(EARLIEST_MS, LATEST_MS)
  await sleep(afterMs)
  const backend =
    victim === 'backend' ? await within(someBackend(sql), 'a backend to be found') : null
  const acknowledged = load.operations.filter((one) => one.acknowledged !== null)
  const unknown = load.operations.length - acknowledged.length
  const killedAt = performance.now()
  const recovered = load.answeredAfter(killedAt)
  const station = await strike(options, before, victim, backend)
  const recoveryMs = (await within(recovered, `the ${victim} to recover`)) - killedAt
  await sleep(AFTERWARDS_MS)
  await load.stop()
  const repeated = Array.from({ length: REPEATED }, () => chance.pick(acknowledged))
  const changed = await countChanged(
    client,
    repeated.filter((one) => one !== undefined),
  )
  const open = load.operations.filter((one) => one.acknowledged === null && one.refused === null)
  const settled = load.operations.filter((one) => !open.includes(one))
  const comparison = await within(compare(sql, load.operations), 'the ledger to be read')
  await client.close()
  const counts = { victim, afterMs, unknown, recoveryMs, replayed: repeated.length, changed }
  return { round: { ...comparison, ...counts, settled, open }, station }
}

/** A proof that waits for ever proves nothing. */
async function within<T>(work: Promise<T>, what: string): Promise<T> {
  const patience = new AbortController()
  const late = sleep(LONGEST_MS, LATE, { signal: patience.signal }).catch(() => LATE)
  const first = await Promise.race([work, late])
  patience.abort()
  if (first === LATE) throw new Error(`waited ${LONGEST_MS / 1000} s for ${what}`)
  return first as T
}
const LATE = Symbol('late')
const LONGEST_MS = 30_000

/** Kills with -9. The station is started again by us, the database by its supervisor. */
async function strike(
  options: StationOptions,
  station: Station,
  victim: Victim,
  backend: number | null,
): Promise<Station> {
  if (victim === 'station') {
    await station.kill()
    return startStation(options)
  }
  const pid = victim === 'backend' ? backend : postmasterOf(options.dataDir)
  if (pid === null) throw new Error(`there is no ${victim} to kill`)
  process.kill(pid, 'SIGKILL')
  return station
}

/** Asks again for what was answered before the crash: the answer must be the first one. */
async function countChanged(client: Client, operations: readonly Operation[]): Promise<number> {
  let changed = 0
  for (const operation of operations) {
    const first = operation.acknowledged
    const answer = await send(client, operation)
    if (answer === null || answer.status !== 200 || idOf(answer) !== first) changed += 1
    operation.acknowledged = first
  }
  return changed
}

/** Repeats the streams that were cut, until their expired holds let them through. */
export async function settleOpen(
  station: Station,
  sql: Sql,
  rounds: readonly Round[],
): Promise<Comparison> {
  const client = clientOf(station.url, CLIENTS)
  await Promise.all(
    rounds.flatMap(({ open }) => open).map((operation) => insist(client, operation)),
  )
  await client.close()
  const all = rounds.flatMap(({ settled, open }) => [...settled, ...open])
  return compare(sql, all)
}

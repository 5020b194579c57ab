import { setTimeout as sleep } from 'node:timers/promises'
import { audit, type ClusterAudit, type Played } from './cluster-audit.ts'
import { onGround, type ClusterOptions, type Ground } from './cluster-ground.ts'
import { openHouse, type House } from './cluster-house.ts'
import { newCast, underLoad } from './cluster-load.ts'
import { STRIKES, TROUBLES, type Trouble } from './cluster-strikes.ts'
import { programPath, type Passed } from './nginx.ts'
import { redisProgram } from './redis.ts'

/** What nginx saw from the trouble to the end of the round. */
export interface Traffic {
  readonly requests: number
  /** Statuses of 500 and above, and requests that clients gave up. */
  readonly errors: Readonly<Record<string, number>>
}

export interface ClusterRound {
  readonly trouble: Trouble
  readonly afterMs: number
  readonly asked: number
  readonly answered: number
  /** The longest wait from the first try to the answer. */
  readonly slowestMs: number
  readonly all: Traffic
  /** Of requests that were answered by a station that was not hit. */
  readonly survivors: Traffic
}

export interface ClusterProof {
  readonly rounds: readonly ClusterRound[]
  readonly audit: ClusterAudit
  /** How often the readers of signals had to come back. */
  readonly returns: number
  /** What nginx itself complained about, beyond stations that it could not reach. */
  readonly complaints: readonly string[]
}

export interface ClusterPart extends ClusterOptions {
  readonly rounds: number
  readonly told: (round: ClusterRound, at: number) => void
}

const EARLIEST_MS = 300
const LATEST_MS = 1_200
const AFTERWARDS_MS = 600
const SETTLING_MS = 90_000
const POLL_MS = 100
/** From so many rounds on the last one is a freeze that outlasts every lease. */
const ROUNDS_WITH_LAPSE = 6

/** What this machine lacks for the part; null when it has everything. */
export function missingForCluster(): string | null {
  const missing = [
    ...(programPath('nginx') === null ? ['nginx'] : []),
    ...(redisProgram() === null ? ['redis-server'] : []),
  ]
  return missing.length === 0 ? null : `${missing.join(' and ')} not installed`
}

/** Three stations behind nginx under load, while one part after the other goes wrong. */
export const cluster = (part: ClusterPart): Promise<ClusterProof> =>
  onGround(part, async (ground) => {
    const house = await openHouse(ground)
    try {
      const rounds: ClusterRound[] = []
      const played: Played[] = []
      for (const [at, trouble] of troublesFor(part).entries()) {
        const one = await round(ground, house, trouble, at + 1)
        rounds.push(one.round)
        played.push(one.played)
        part.told(one.round, at + 1)
      }
      const slotsLeft = await house.slotsEnded()
      await settled(ground, house)
      const { sql, receiver, nginx } = ground
      const audited = await audit({ sql, house, receiver, played, slotsLeft })
      const returns = house.readers.reduce((sum, one) => sum + one.returns, 0)
      return { rounds, audit: audited, returns, complaints: complaintsOf(nginx.complaints()) }
    } finally {
      await house.close()
    }
  })

/** Each trouble has its turn; then the seed decides, and the last one is the longest. */
function troublesFor({ rounds, chance }: ClusterPart): Trouble[] {
  const list: Trouble[] = []
  const left = [...TROUBLES]
  while (list.length < rounds) {
    const next = left.length > 0 ? chance.pick(left) : chance.pick(TROUBLES)
    if (left.includes(next)) left.splice(left.indexOf(next), 1)
    list.push(next)
  }
  if (rounds >= ROUNDS_WITH_LAPSE) list[rounds - 1] = 'lapse'
  return list
}

async function round(ground: Ground, house: House, trouble: Trouble, at: number) {
  const { chance, nginx } = ground
  const cast = await newCast(ground)
  const load = underLoad(ground, cast, `c${at}`)
  const afterMs = chance.whole(EARLIEST_MS, LATEST_MS)
  await sleep(afterMs)
  await house.passTime()
  const before = nginx.passed().length
  const hit = await STRIKES[trouble](ground)
  await sleep(AFTERWARDS_MS)
  await load.stop()
  const seen = nginx.passed().slice(before)
  const { operations } = load
  const done: ClusterRound = {
    trouble,
    afterMs,
    asked: operations.length,
    answered: operations.filter((one) => (one.acknowledged ?? one.limited) !== null).length,
    slowestMs: load.slowestMs(),
    all: trafficOf(seen),
    survivors: trafficOf(seen.filter(({ ports }) => ports.at(-1) !== hit)),
  }
  return { round: done, played: { cast, operations } }
}

const GIVEN_UP = 499

function trafficOf(passed: readonly Passed[]): Traffic {
  const errors: Record<string, number> = {}
  for (const { status } of passed)
    if (status >= GIVEN_UP) errors[status] = (errors[status] ?? 0) + 1
  return { requests: passed.length, errors }
}

/** Waits for what is on its way: deliveries, and signals to their readers. */
async function settled({ sql }: Ground, { readers }: House): Promise<void> {
  const until = performance.now() + SETTLING_MS
  while (performance.now() < until) {
    const [found] = await sql<{ pending: number; last: string | null }[]>`
      select (select count(*)::int from deliveries where state = 'pending') as pending,
             (select max(id)::text from signals) as last`
    const heard = readers.every(({ ids }) => ids.at(-1) === (found?.last ?? undefined))
    if (found?.pending === 0 && heard) return
    await sleep(POLL_MS)
  }
}

/** That a station is away is what nginx is asked to find out. */
const EXPECTED =
  /connect\(\) failed|prematurely closed|reset by peer|timed out|temporarily disabled/
const complaintsOf = (text: string): string[] => [
  ...new Set(
    text
      .split('\n')
      .filter((line) => line !== '' && !EXPECTED.test(line))
      .map((line) => line.replace(/^.*?\*\d+ /, '').replace(/, client: .*$/, '')),
  ),
]

import { DAY, HOUR, MINUTE, SECOND, type Clock } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { Channel, ChannelName, Sending } from '../core/notices.ts'
import type { Alert, AlertState, AlertStore } from '../persistence/alerts.ts'
import { within } from '../persistence/within.ts'
import { kept } from './kept.ts'
import { resting } from './resting.ts'
import { rounds, telling } from './rounds.ts'

export interface OwnerLineParts {
  readonly name: ChannelName
  /** Null where the operator has not set it up; then this is why nothing is sent. */
  readonly way: Channel | null
  readonly missing: string
  readonly store: AlertStore
  readonly clock: Clock
  readonly isOutage: (error: unknown) => boolean
  readonly log: (message: string, error: unknown) => void
  readonly everyMs: number
}

const PAUSES_MS = [5 * SECOND, MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR]
const LEASE_MS = MINUTE
const RENEW_MS = LEASE_MS / 3
const NO_WAY_AT_ONCE = 20
/** What is being sent when the node stops is waited for so long. */
const GRACE_MS = 5 * SECOND
/** Whoever waits for a message waits so long. */
const AT_ONCE_MS = 4 * SECOND
const FULL = 'too many messages to this address today'
const NOBODY: Sending = { outcome: 'refused', reason: 'no contact' }

/**
 * One way to people. A node takes up no more messages than it can send at once, and keeps them for
 * itself for as long as that takes: however slow the way is, no other node sends them too.
 */
export function ownerLine({ name, way, missing, store, clock, isOutage, ...rest }: OwnerLineParts) {
  const { log, everyMs } = rest
  const atOnce = way?.atOnce ?? NO_WAY_AT_ONCE
  const flying = new Map<string, Promise<Sending>>()
  const rested = resting(clock)
  const records = { store, clock }
  const renew = renewing(records, flying)
  let trouble: string | null = null
  let ended = false

  async function round(stopping: () => boolean): Promise<void> {
    await renew()
    const most = atOnce - flying.size
    if (most <= 0 || stopping()) return
    const except = [...flying.keys(), ...rested.ids()]
    const claimed = await store.claim({ channel: name, ...leaseFrom(clock.now()), most, except })
    for (const alert of claimed) void take(alert)
  }

  function take(alert: Alert): Promise<Sending> {
    const done = attempt(alert).finally(() => {
      flying.delete(alert.id)
      again.wake()
    })
    done.catch((error: unknown) => lost(alert, error))
    flying.set(alert.id, done)
    return done
  }

  function lost({ id }: Alert, error: unknown): void {
    // An outage before it was sent: it is taken up again when its lease is over.
    if (ended || isOutage(error)) return
    rested.add(id)
    log(`what became of message ${id} to an owner is not kept`, error)
  }

  async function attempt(taken: Alert): Promise<Sending> {
    const alert = await store.toOwner(taken)
    const turn = way === null || alert === null ? null : await turnOf(records, alert)
    if (turn !== null) return turn
    const result = alert === null ? NOBODY : await send(alert)
    await kept(() => settle(records, taken, result), { isOutage, ended: () => ended })
    return result
  }

  async function send({ id, address, subject, body, left }: Alert): Promise<Sending> {
    if (way === null) return { outcome: 'refused', reason: missing }
    const text = left > 0 ? `${body}\nand ${left} more` : body
    const result = await way.send({ id, to: address, subject, text })
    trouble = result.outcome === 'later' ? result.reason : null
    return result
  }

  const again = rounds({
    work: round,
    everyMs,
    log: telling(log, `owners are not told by ${name}`, `owners are told again by ${name}`),
  })

  return {
    start: again.start,
    wake: again.wake,
    /**
     * Sends a message at once that has been added. Null where nobody can say yet what becomes of it:
     * another node has taken it up, or the way takes its time.
     */
    async sendNow(id: string): Promise<Sending | null> {
      const { now, until } = leaseFrom(clock.now())
      const alert = await store.claimOne(id, now, until)
      const done = alert === null ? null : take(alert)
      return done !== null && (await within(done, AT_ONCE_MS)) ? done : null
    },
    /** Why the last message could not be sent yet. */
    trouble: () => trouble,
    async stop(): Promise<void> {
      await again.stop()
      await within(Promise.allSettled([...flying.values()]), GRACE_MS)
      ended = true
      await way?.close()
    },
  }
}
export type OwnerLine = ReturnType<typeof ownerLine>

const leaseFrom = (now: number) => ({ now: new Date(now), until: new Date(now + LEASE_MS) })

type Records = Pick<OwnerLineParts, 'store' | 'clock'>

/** Keeps what is under way for this node, for as long as it takes. */
function renewing({ store, clock }: Records, flying: ReadonlyMap<string, unknown>) {
  let renewedAt = clock.now()
  return async (): Promise<void> => {
    const now = clock.now()
    if (now - renewedAt < RENEW_MS) return
    if (flying.size > 0) await store.renew([...flying.keys()], new Date(now + LEASE_MS))
    renewedAt = now
  }
}

/** Null where a message may go out now; else it waits, or is not sent at all. */
async function turnOf(records: Records, alert: Alert): Promise<Sending | null> {
  const { store, clock } = records
  const { ownerMessagesPerDay, ownerCriticalPerDay, addressMessagesPerDay: all } = LIMITS
  const own = alert.critical ? ownerCriticalPerDay : ownerMessagesPerDay
  const now = new Date(clock.now())
  const dueAt = await store.turnOf(alert, { own, all }, now)
  if (dueAt === null) return null
  const afterMs = dueAt.getTime() - now.getTime()
  if (afterMs <= LIMITS.ownerWaitDays * DAY) {
    await store.postpone(alert, FULL, dueAt)
    return { outcome: 'later', reason: FULL, afterMs }
  }
  const refused = { outcome: 'refused', reason: FULL } as const
  await settle(records, alert, refused)
  return refused
}

async function settle({ store, clock }: Records, alert: Alert, result: Sending): Promise<void> {
  const now = clock.now()
  const reason = result.outcome === 'sent' ? null : result.reason
  const pause = result.outcome === 'later' ? PAUSES_MS[alert.attempts] : undefined
  const state: AlertState =
    result.outcome === 'sent' ? 'sent' : pause === undefined ? 'failed' : 'pending'
  const wait = Math.max(pause ?? 0, result.outcome === 'later' ? (result.afterMs ?? 0) : 0)
  await store.settle(alert, { state, reason, at: new Date(now), dueAt: new Date(now + wait) })
}

import { randomUUID } from 'node:crypto'
import { DAY, HOUR, MINUTE, SECOND, type Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { webhookSignature } from '../core/webhook-signature.ts'
import type { Attempt, Claimed, DeliveryStore } from '../persistence/deliveries.ts'
import type { Post } from '../tools/egress/post.ts'
import { kept } from './kept.ts'
import { resting } from './resting.ts'
import { rounds, telling } from './rounds.ts'

export interface DeliveryParts {
  readonly store: Pick<DeliveryStore, 'claim' | 'settle' | 'letGo'>
  readonly post: Pick<Post, 'send'>
  readonly clock: Clock
  /** Whether an error says that the store cannot be reached right now. */
  readonly isOutage: (error: unknown) => boolean
  readonly log: (message: string, error: unknown) => void
  readonly everyMs?: number
}

/** One attempt, for those who measure. */
export interface Measured {
  readonly seconds: number
  readonly outcome: 'delivered' | 'refused' | 'unanswered'
}

/** Pauses after each failed attempt; after the last one no other follows (decision 41). */
const PAUSES_MS = [5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR]
/** A receiver that takes nothing for so long is disabled. */
const GIVE_UP_MS = 5 * DAY
/** Refused so often, a message no longer holds up those behind it. */
const ASIDE_AFTER = 5
const LEASE_MS = 30 * SECOND
const EVERY_MS = SECOND
const NO_ADDRESS = 'no_address: the Backpack has no pager address any more'
/** Attempts at a time on this node; those in trouble have a line of their own. */
const SLOTS = { well: 48, troubled: 16 }
/** Of them, those of one agent: with however many receivers, it does not keep others waiting. */
const SHARES = { well: 8, troubled: 4 }

type Line = keyof typeof SLOTS

interface Flying {
  readonly line: Line
  readonly agentId: string
  readonly done: Promise<void>
}

/**
 * Sends what waits for receivers: to each in order, one at a time, by one node at a time. A receiver
 * that is slow or dead costs only itself; a node that dies in an attempt leaves it to the next.
 */
export function deliverer(parts: DeliveryParts) {
  const { store, clock, isOutage, log, everyMs = EVERY_MS } = parts
  const flying = new Map<string, Flying>()
  const rested = resting(clock)
  const listeners: ((measured: Measured) => void)[] = []
  const end = new AbortController()
  let lastRound: number | null = null

  async function round(): Promise<void> {
    for (const line of ['well', 'troubled'] as const) await fill(line)
    lastRound = clock.mono()
  }

  async function fill(line: Line): Promise<void> {
    const busy = busyOf(flying.values(), line)
    const most = SLOTS[line] - [...busy.values()].reduce((sum, n) => sum + n, 0)
    if (most <= 0 || end.signal.aborted) return
    const now = clock.now()
    const claimed = await store.claim({
      now: new Date(now),
      until: new Date(now + LEASE_MS),
      lease: randomUUID(),
      most,
      troubled: line === 'troubled',
      except: [...flying.keys(), ...rested.ids()],
      share: SHARES[line],
      busy,
    })
    for (const one of claimed) {
      const done = attempt(one).finally(() => {
        flying.delete(one.webhookId)
        again.wake()
      })
      flying.set(one.webhookId, { line, agentId: one.agentId, done })
    }
    // Behind the receivers of an agent that has all its share now, there may be others'.
    const full = busyOf(flying.values(), line)
    if (claimed.some(({ agentId }) => (full.get(agentId) ?? 0) >= SHARES[line])) again.wake()
  }

  async function attempt(claimed: Claimed): Promise<void> {
    const started = clock.mono()
    const answer = await sent(claimed, { ...parts, signal: end.signal })
    if (answer === null) return letGo(claimed)
    try {
      const ms = Math.round(clock.mono() - started)
      const result = judge(claimed, answer, { now: clock.now(), ms })
      for (const listen of listeners) listen(measuredOf(result))
      // What was answered is not forgotten because the database is away: it would be sent again.
      await kept(() => store.settle(claimed, result), { isOutage, ended: () => end.signal.aborted })
    } catch (error) {
      if (end.signal.aborted) return letGo(claimed)
      rested.add(claimed.webhookId)
      log(`what became of delivery ${claimed.id} is not kept: it will come again`, error)
    }
  }

  /** Another node, or the next start, does it again. */
  const letGo = (claimed: Claimed): Promise<void> =>
    store.letGo(claimed, new Date(clock.now())).catch(() => undefined)

  const again = rounds({
    work: round,
    everyMs,
    log: telling(log, 'webhooks are not delivered', 'webhooks are delivered again'),
  })

  return {
    start: again.start,
    /** Something may be due. */
    wake: again.wake,
    onAttempt: (listener: (measured: Measured) => void) => void listeners.push(listener),
    health: () => ({
      ok: lastRound === null || clock.mono() - lastRound < MINUTE,
      kind: `${flying.size} under way`,
    }),
    /** Takes no more; what is under way is cut, and another node or the next start does it again. */
    async stop(): Promise<void> {
      end.abort(new ServiceError('cancelled'))
      await again.stop()
      await Promise.all([...flying.values()].map(({ done }) => done))
    },
  }
}
export type Deliverer = ReturnType<typeof deliverer>

/** Attempts under way on a line, by agent. */
function busyOf(flying: Iterable<Flying>, wanted: Line): Map<string, number> {
  const busy = new Map<string, number>()
  for (const { line, agentId } of flying)
    if (line === wanted) busy.set(agentId, (busy.get(agentId) ?? 0) + 1)
  return busy
}

interface Sending extends Pick<DeliveryParts, 'post' | 'clock' | 'log'> {
  readonly signal: AbortSignal
}

/** The status; or why there is none; null where this node's end has cut it: that was no attempt. */
async function sent(
  claimed: Claimed,
  { post, clock, log, signal }: Sending,
): Promise<number | string | null> {
  const { url, secrets } = claimed
  if (url === null) return NO_ADDRESS
  if (secrets.length === 0) return 'secret_unreadable'
  try {
    const { headers, body } = signed(claimed, clock.now())
    return await post.send({ url, headers, body, signal })
  } catch (error) {
    if (signal.aborted) return null
    if (error instanceof ServiceError) return reasonOf(error)
    // Without a pause after it, what breaks here would be tried again at once and for ever.
    log(`delivery ${claimed.id} could not be attempted`, error)
    return 'internal'
  }
}

/** One attempt as it goes out: the same text in each, signed anew. */
function signed({ id, type, at, data, secrets }: Claimed, now: number) {
  const body = JSON.stringify({ type, timestamp: at.toISOString(), data })
  const timestamp = Math.floor(now / SECOND)
  const headers = {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': webhookSignature(secrets, { id, timestamp, body }),
  }
  return { headers, body }
}

function reasonOf({ code, details }: ServiceError): string {
  const { reason } = details
  return typeof reason === 'string' ? `${code}: ${reason}` : code
}

const isTaken = (answer: number | string): boolean =>
  typeof answer === 'number' && answer >= 200 && answer < 300

/** What follows from an attempt (decision 41). */
function judge(
  claimed: Pick<Claimed, 'attempts' | 'answered' | 'failingSince' | 'url'>,
  answer: number | string,
  { now, ms }: { now: number; ms: number },
): Attempt {
  const at = new Date(now)
  const seen =
    typeof answer === 'number' ? { status: answer, error: null } : { status: null, error: answer }
  const told = { at, ms, ...seen, dueAt: at, aside: false, disable: null }
  if (isTaken(answer)) return { ...told, state: 'delivered' }
  // The Backpack's pager has no address any more: there is nobody to try again.
  if (claimed.url === null) return { ...told, state: 'failed' }
  if (answer === 410) return { ...told, state: 'failed', disable: 'gone' }
  const failing = now - (claimed.failingSince?.getTime() ?? now)
  const disable = failing >= GIVE_UP_MS ? 'failing' : null
  const pause = PAUSES_MS[claimed.attempts]
  if (pause === undefined) return { ...told, state: 'failed', disable }
  const answered = claimed.answered + (typeof answer === 'number' ? 1 : 0)
  const dueAt = new Date(now + pause)
  return { ...told, state: 'pending', dueAt, aside: answered >= ASIDE_AFTER, disable }
}

function measuredOf({ ms, state, status }: Attempt): Measured {
  const outcome = state === 'delivered' ? 'delivered' : status === null ? 'unanswered' : 'refused'
  return { seconds: ms / SECOND, outcome }
}

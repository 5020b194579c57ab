import { randomUUID } from 'node:crypto'
import { DAY, HOUR, MINUTE, SECOND, type Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { signWebhook } from '../core/webhook-signature.ts'
import type {
  WebhookAttempt,
  ClaimedWebhookDelivery,
  WebhookDeliveryStore,
} from '../persistence/webhooks/webhook-delivery-store.ts'
import type { GuardedPostClient } from '../providers/egress/guarded-post-client.ts'
import { writeWithRetry } from './write-with-retry.ts'
import { createCooldownSet } from './cooldown-set.ts'
import { createPollingLoop, createFailureTransitionLog } from './polling-loop.ts'

export interface WebhookDelivererDeps {
  readonly store: Pick<WebhookDeliveryStore, 'claim' | 'settle' | 'letGo'>
  readonly post: Pick<GuardedPostClient, 'send'>
  readonly clock: Clock
  /** Whether an error says that the store cannot be reached right now. */
  readonly isOutage: (error: unknown) => boolean
  readonly log: (message: string, error: unknown) => void
  readonly everyMs?: number
}

/** One attempt, for those who measure. */
export interface WebhookAttemptMeasurement {
  readonly seconds: number
  readonly outcome: 'delivered' | 'refused' | 'unanswered'
}

/** Pauses after each failed attempt; after the last one no other follows (decision 41). */
const RETRY_DELAYS_MS = [
  5 * SECOND,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  10 * HOUR,
]
/** A receiver that takes nothing for so long is disabled. */
const DISABLE_AFTER_FAILING_MS = 5 * DAY
/** Refused so often, a message no longer holds up those behind it. */
const UNBLOCK_AFTER_REJECTIONS = 5
const LEASE_MS = 30 * SECOND
const POLL_INTERVAL_MS = SECOND
const NO_PAGER_ADDRESS_ERROR = 'no_address: the Backpack has no pager address any more'
/** Attempts at a time on this node; those in trouble have a line of their own. */
const NODE_CONCURRENCY = { well: 48, troubled: 16 }
/** Of them, those of one agent: with however many receivers, it does not keep others waiting. */
const AGENT_CONCURRENCY = { well: 8, troubled: 4 }

type ReceiverHealth = keyof typeof NODE_CONCURRENCY

interface InFlightAttempt {
  readonly pool: ReceiverHealth
  readonly agentId: string
  readonly done: Promise<void>
}

/**
 * Sends what waits for receivers: to each in order, one at a time, by one node at a time. A receiver
 * that is slow or dead costs only itself; a node that dies in an attempt leaves it to the next.
 */
export function createWebhookDeliverer(parts: WebhookDelivererDeps) {
  const { store, clock, isOutage, log, everyMs = POLL_INTERVAL_MS } = parts
  const inFlight = new Map<string, InFlightAttempt>()
  const cooldowns = createCooldownSet(clock)
  const listeners: ((measured: WebhookAttemptMeasurement) => void)[] = []
  const end = new AbortController()
  let lastRound: number | null = null

  async function round(): Promise<void> {
    for (const line of ['well', 'troubled'] as const) await fill(line)
    lastRound = clock.mono()
  }

  async function fill(pool: ReceiverHealth): Promise<void> {
    const busy = countAttemptsByAgent(inFlight.values(), pool)
    const most = NODE_CONCURRENCY[pool] - [...busy.values()].reduce((sum, n) => sum + n, 0)
    if (most <= 0 || end.signal.aborted) return
    const now = clock.now()
    const claimed = await store.claim({
      now: new Date(now),
      until: new Date(now + LEASE_MS),
      lease: randomUUID(),
      most,
      troubled: pool === 'troubled',
      except: [...inFlight.keys(), ...cooldowns.ids()],
      share: AGENT_CONCURRENCY[pool],
      busy,
    })
    for (const one of claimed) {
      const done = attempt(one).finally(() => {
        inFlight.delete(one.webhookId)
        pollingLoop.wake()
      })
      inFlight.set(one.webhookId, { pool, agentId: one.agentId, done })
    }
    // Behind the receivers of an agent that has all its share now, there may be others'.
    const full = countAttemptsByAgent(inFlight.values(), pool)
    if (claimed.some(({ agentId }) => (full.get(agentId) ?? 0) >= AGENT_CONCURRENCY[pool]))
      pollingLoop.wake()
  }

  async function attempt(claimed: ClaimedWebhookDelivery): Promise<void> {
    const started = clock.mono()
    const answer = await sendAttempt(claimed, { ...parts, signal: end.signal })
    if (answer === null) return letGo(claimed)
    try {
      const ms = Math.round(clock.mono() - started)
      const result = toAttemptResult(claimed, answer, { now: clock.now(), ms })
      for (const listen of listeners) listen(toMeasurement(result))
      // What was answered is not forgotten because the database is away: it would be sent again.
      await writeWithRetry(() => store.settle(claimed, result), {
        isOutage,
        isStopped: () => end.signal.aborted,
      })
    } catch (error) {
      if (end.signal.aborted) return letGo(claimed)
      cooldowns.add(claimed.webhookId)
      log(`what became of delivery ${claimed.id} is not kept: it will come again`, error)
    }
  }

  /** Another node, or the next start, does it again. */
  const letGo = (claimed: ClaimedWebhookDelivery): Promise<void> =>
    store.letGo(claimed, new Date(clock.now())).catch(() => undefined)

  const pollingLoop = createPollingLoop({
    work: round,
    everyMs,
    log: createFailureTransitionLog(
      log,
      'webhooks are not delivered',
      'webhooks are delivered again',
    ),
  })

  return {
    start: pollingLoop.start,
    /** Something may be due. */
    wake: pollingLoop.wake,
    onAttempt: (listener: (measured: WebhookAttemptMeasurement) => void) =>
      void listeners.push(listener),
    health: () => ({
      ok: lastRound === null || clock.mono() - lastRound < MINUTE,
      kind: `${inFlight.size} under way`,
    }),
    /** Takes no more; what is under way is cut, and another node or the next start does it again. */
    async stop(): Promise<void> {
      end.abort(new ServiceError('cancelled'))
      await pollingLoop.stop()
      await Promise.all([...inFlight.values()].map(({ done }) => done))
    },
  }
}
export type WebhookDeliverer = ReturnType<typeof createWebhookDeliverer>

/** Attempts under way on a line, by agent. */
function countAttemptsByAgent(
  inFlight: Iterable<InFlightAttempt>,
  wanted: ReceiverHealth,
): Map<string, number> {
  const busy = new Map<string, number>()
  for (const { pool, agentId } of inFlight)
    if (pool === wanted) busy.set(agentId, (busy.get(agentId) ?? 0) + 1)
  return busy
}

interface SendAttemptDeps extends Pick<WebhookDelivererDeps, 'post' | 'clock' | 'log'> {
  readonly signal: AbortSignal
}

/** The status; or why there is none; null where this node's end has cut it: that was no attempt. */
async function sendAttempt(
  claimed: ClaimedWebhookDelivery,
  { post, clock, log, signal }: SendAttemptDeps,
): Promise<number | string | null> {
  const { url, secrets } = claimed
  if (url === null) return NO_PAGER_ADDRESS_ERROR
  if (secrets.length === 0) return 'secret_unreadable'
  try {
    const { headers, body } = signAttempt(claimed, clock.now())
    return await post.send({ url, headers, body, signal })
  } catch (error) {
    if (signal.aborted) return null
    if (error instanceof ServiceError) return describeServiceError(error)
    // Without a pause after it, what breaks here would be tried again at once and for ever.
    log(`delivery ${claimed.id} could not be attempted`, error)
    return 'internal'
  }
}

/** One attempt as it goes out: the same text in each, signed anew. */
function signAttempt({ id, type, at, data, secrets }: ClaimedWebhookDelivery, now: number) {
  const body = JSON.stringify({ type, timestamp: at.toISOString(), data })
  const timestamp = Math.floor(now / SECOND)
  const headers = {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signWebhook(secrets, { id, timestamp, body }),
  }
  return { headers, body }
}

function describeServiceError({ code, details }: ServiceError): string {
  const { reason } = details
  return typeof reason === 'string' ? `${code}: ${reason}` : code
}

const isAccepted = (answer: number | string): boolean =>
  typeof answer === 'number' && answer >= 200 && answer < 300

/** What follows from an attempt (decision 41). */
function toAttemptResult(
  claimed: Pick<ClaimedWebhookDelivery, 'attempts' | 'answered' | 'failingSince' | 'url'>,
  answer: number | string,
  { now, ms }: { now: number; ms: number },
): WebhookAttempt {
  const at = new Date(now)
  const seen =
    typeof answer === 'number' ? { status: answer, error: null } : { status: null, error: answer }
  const told = { at, ms, ...seen, dueAt: at, aside: false, disable: null }
  if (isAccepted(answer)) return { ...told, state: 'delivered' }
  // The Backpack's pager has no address any more: there is nobody to try again.
  if (claimed.url === null) return { ...told, state: 'failed' }
  if (answer === 410) return { ...told, state: 'failed', disable: 'gone' }
  const failing = now - (claimed.failingSince?.getTime() ?? now)
  const disable = failing >= DISABLE_AFTER_FAILING_MS ? 'failing' : null
  const pause = RETRY_DELAYS_MS[claimed.attempts]
  if (pause === undefined) return { ...told, state: 'failed', disable }
  const answered = claimed.answered + (typeof answer === 'number' ? 1 : 0)
  const dueAt = new Date(now + pause)
  return { ...told, state: 'pending', dueAt, aside: answered >= UNBLOCK_AFTER_REJECTIONS, disable }
}

function toMeasurement({ ms, state, status }: WebhookAttempt): WebhookAttemptMeasurement {
  const outcome = state === 'delivered' ? 'delivered' : status === null ? 'unanswered' : 'refused'
  return { seconds: ms / SECOND, outcome }
}

import { randomUUID } from 'node:crypto'
import { DAY, HOUR, MINUTE, SECOND, type Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { signWebhook } from '../core/webhook-signature.ts'
import type { ClaimedWebhookDelivery } from '../persistence/webhooks/webhook-delivery-rows.ts'
import type {
  WebhookAttemptResult,
  WebhookDeliveryStore,
} from '../persistence/webhooks/webhook-delivery-store.ts'
import type { GuardedPostClient } from '../providers/egress/guarded-post-client.ts'
import { recordExternalEffectWithRetry } from './retry-write-during-database-outage.ts'
import { createCooldownSet } from './cooldown-set.ts'
import { createPollingLoop, createFailureTransitionLog } from './polling-loop.ts'

/** Delivers webhooks with retries, in order per receiver. */

export interface WebhookDelivererDeps {
  readonly store: Pick<WebhookDeliveryStore, 'claim' | 'settle' | 'letGo' | 'nextDueAt'>
  readonly post: Pick<GuardedPostClient, 'send'>
  readonly clock: Clock
  /** Whether the error means that the database is unreachable. */
  readonly isOutage: (error: unknown) => boolean
  readonly log: (message: string, error: unknown) => void
  readonly everyMs?: number
}

/** One attempt, for metrics. */
export interface WebhookAttemptMeasurement {
  readonly seconds: number
  readonly outcome: 'delivered' | 'refused' | 'unanswered'
}

/** Pauses after failed attempts; the list ends with the last retry (decision 41). */
const RETRY_DELAYS_MS = [
  5 * SECOND,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  10 * HOUR,
]
/** A receiver that accepts nothing for this time is disabled. */
const DISABLE_AFTER_FAILING_MS = 5 * DAY
/** After this many rejections a message no longer blocks later ones. */
const UNBLOCK_AFTER_REJECTIONS = 5
const LEASE_MS = 30 * SECOND
const POLL_INTERVAL_MS = SECOND
/** While nothing is due and nothing is announced. */
const IDLE_POLL_INTERVAL_MS = 10 * SECOND
const NO_PAGER_ADDRESS_ERROR = 'no_address: the Backpack has no pager address any more'
/** Concurrent attempts on this node. Failing receivers have a separate pool. */
const NODE_CONCURRENCY = { well: 48, troubled: 16 }
/** Concurrent attempts of one agent, so that its receivers do not delay others. */
const AGENT_CONCURRENCY = { well: 8, troubled: 4 }

type ReceiverHealth = keyof typeof NODE_CONCURRENCY

interface InFlightAttempt {
  readonly pool: ReceiverHealth
  readonly agentId: string
  readonly done: Promise<void>
}

/**
 * Delivers to each receiver in order, one attempt at a time over all nodes. A slow or dead receiver
 * delays only itself; attempts of a crashed node are repeated by another.
 */
export function createWebhookDeliverer(parts: WebhookDelivererDeps) {
  const { store, clock, isOutage, log, everyMs = POLL_INTERVAL_MS } = parts
  const inFlight = new Map<string, InFlightAttempt>()
  const cooldowns = createCooldownSet(clock)
  const listeners: ((measured: WebhookAttemptMeasurement) => void)[] = []
  const end = new AbortController()
  let lastRound: number | null = null

  async function round(): Promise<number> {
    const dueAt = await store.nextDueAt()
    const dueIn = dueAt === null ? Infinity : dueAt.getTime() - clock.now()
    if (dueIn <= 0) for (const pool of ['well', 'troubled'] as const) await fill(pool)
    lastRound = clock.mono()
    return dueIn
  }

  async function fill(pool: ReceiverHealth): Promise<void> {
    const busy = countAttemptsByAgent(inFlight.values(), pool)
    const max = NODE_CONCURRENCY[pool] - [...busy.values()].reduce((sum, n) => sum + n, 0)
    if (max <= 0 || end.signal.aborted) return
    const now = clock.now()
    const claimed = await store.claim({
      now: new Date(now),
      until: new Date(now + LEASE_MS),
      lease: randomUUID(),
      most: max,
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
    // Receivers of other agents may wait behind those of an agent that has reached its limit.
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
      // Retried during an outage, because the message would be sent again otherwise.
      await recordExternalEffectWithRetry(() => store.settle(claimed, result), {
        isOutage,
        isStopped: () => end.signal.aborted,
      })
    } catch (error) {
      if (end.signal.aborted) return letGo(claimed)
      cooldowns.add(claimed.webhookId)
      log(`what became of delivery ${claimed.id} is not kept: it will come again`, error)
    }
  }

  /** Another node, or the next start, repeats the attempt. */
  const letGo = (claimed: ClaimedWebhookDelivery): Promise<void> =>
    store.letGo(claimed, new Date(clock.now())).catch(() => undefined)

  const pollingLoop = createPollingLoop({
    work: round,
    everyMs,
    idleMs: Math.max(everyMs, IDLE_POLL_INTERVAL_MS),
    log: createFailureTransitionLog(
      log,
      'webhooks are not delivered',
      'webhooks are delivered again',
    ),
  })

  return {
    start: pollingLoop.start,
    /** Deliveries may be due. */
    wake: pollingLoop.wake,
    /** Another node may leave deliveries. */
    expect: pollingLoop.expect,
    onAttempt: (listener: (measured: WebhookAttemptMeasurement) => void) =>
      void listeners.push(listener),
    health: () => ({
      ok: lastRound === null || clock.mono() - lastRound < MINUTE,
      kind: `${inFlight.size} under way`,
    }),
    /** Aborts running attempts. Another node, or the next start, repeats them. */
    async stop(): Promise<void> {
      end.abort(new ServiceError('cancelled'))
      await pollingLoop.stop()
      await Promise.all([...inFlight.values()].map(({ done }) => done))
    },
  }
}
export type WebhookDeliverer = ReturnType<typeof createWebhookDeliverer>

/** Running attempts of a pool, by agent. */
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

/** Returns the status, or the error as text, or null when the shutdown aborted the attempt. */
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
    // The error needs a retry pause, or it would repeat immediately and forever.
    log(`delivery ${claimed.id} could not be attempted`, error)
    return 'internal'
  }
}

/** Builds an attempt: the body is always the same, the signature is new. */
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

/** The consequences of an attempt (decision 41). */
function toAttemptResult(
  claimed: Pick<ClaimedWebhookDelivery, 'attempts' | 'answered' | 'failingSince' | 'url'>,
  answer: number | string,
  { now, ms }: { now: number; ms: number },
): WebhookAttemptResult {
  const at = new Date(now)
  const seen =
    typeof answer === 'number' ? { status: answer, error: null } : { status: null, error: answer }
  const outcomeFields = { at, ms, ...seen, dueAt: at, aside: false, disable: null }
  if (isAccepted(answer)) return { ...outcomeFields, state: 'delivered' }
  // The Backpack's pager has no address any more.
  if (claimed.url === null) return { ...outcomeFields, state: 'failed' }
  if (answer === 410) return { ...outcomeFields, state: 'failed', disable: 'gone' }
  const failing = now - (claimed.failingSince?.getTime() ?? now)
  const disable = failing >= DISABLE_AFTER_FAILING_MS ? 'failing' : null
  const pause = RETRY_DELAYS_MS[claimed.attempts]
  if (pause === undefined) return { ...outcomeFields, state: 'failed', disable }
  const answered = claimed.answered + (typeof answer === 'number' ? 1 : 0)
  const dueAt = new Date(now + pause)
  return {
    ...outcomeFields,
    state: 'pending',
    dueAt,
    aside: answered >= UNBLOCK_AFTER_REJECTIONS,
    disable,
  }
}

function toMeasurement({ ms, state, status }: WebhookAttemptResult): WebhookAttemptMeasurement {
  const outcome = state === 'delivered' ? 'delivered' : status === null ? 'unanswered' : 'refused'
  return { seconds: ms / SECOND, outcome }
}

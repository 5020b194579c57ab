import type { Clock } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { DeadLetterStore, NewDeadLetter } from '../persistence/dead-letter-store.ts'
import type { DatabaseTransaction } from '../persistence/idempotency/idempotent-writes.ts'
import type {
  WebhookEventTarget,
  OutboxEvent,
  OutboxEventRouterStore,
  BackpackPagerTargets,
} from '../persistence/webhooks/outbox-event-routing-store.ts'
import { createPollingLoop, createFailureTransitionLog, type PollingLoop } from './polling-loop.ts'

/** Routes outbox events to webhooks, pagers and owner alerts. */

/** Event types that a Backpack's pager receives. */
const PAGER_EVENT_TYPES: ReadonlySet<string> = new Set([
  'tool_call',
  'low_balance',
  'daily_limit_hit',
  'error',
  'fuse.tripped',
  'backpack.created',
  'backpack.expiring',
])

/** An event with the pager of its Backpack. */
export interface OutboxEventWithBackpackPager {
  readonly event: OutboxEvent
  readonly pager: BackpackPagerTargets
}

/** Writes owner alerts in the transaction that routes the events. */
export interface OwnerAlertEventSink {
  notify(
    tx: DatabaseTransaction,
    events: readonly OutboxEvent[],
    paged: readonly OutboxEventWithBackpackPager[],
  ): Promise<void>
  /** Called after the transaction: alerts may be due. */
  wake(): void
}

export interface OutboxEventRouterDeps {
  readonly store: OutboxEventRouterStore
  readonly owners: OwnerAlertEventSink
  /** Stores events that cannot be routed. */
  readonly letters: Pick<DeadLetterStore, 'put'>
  readonly clock: Clock
  /** Whether the error means that the database is unreachable. */
  readonly isOutage: (error: unknown) => boolean
  /** Wakes the deliverer: deliveries may be due. */
  readonly wake: () => void
  readonly log: (message: string, error: unknown) => void
  readonly everyMs?: number
}

const POLL_INTERVAL_MS = 1_000
/** While nothing is announced: what a node leaves whose announcement is lost waits this long. */
const IDLE_POLL_INTERVAL_MS = 5_000
/** Commits within this time are routed together. */
const BATCH_WINDOW_MS = 25
/** After this many consecutive rounds with the same failure, an event becomes a dead letter. */
const MAX_REPEATED_FAILURES = 3

/**
 * Routes each event once to the webhooks of its agent, the pager of its Backpack and owner alerts,
 * on any number of nodes and for any commit order. An event that cannot be routed becomes a dead
 * letter, and the others continue.
 */
export function createOutboxEventRouter(parts: OutboxEventRouterDeps): PollingLoop {
  const { store, owners, letters, isOutage, wake, log, everyMs = POLL_INTERVAL_MS } = parts
  /** After a failed batch, events are routed one by one to find the failing one. */
  let isolateEvents = false
  let blocked = false
  let isIdle = false
  let failing = { why: '', times: 0 }
  const routeBatch = (tx: DatabaseTransaction, events: readonly OutboxEvent[]) =>
    routeEvents(parts, tx, events)

  async function work(stopping: () => boolean): Promise<number> {
    // An idle round is one statement instead of a transaction and a read of the table.
    if (isIdle && !(await store.hasEvents())) return Infinity
    let total = 0
    let isElsewhere = false
    blocked = false
    for (let more = true; more;) {
      const count = await next()
      total += count ?? 0
      isElsewhere = count === null
      more = count !== null && count > 0 && !blocked && !stopping()
    }
    while (!stopping() && store.asked() && (await store.again(routeReplayed))) total += 1
    if (total > 0) {
      wake()
      owners.wake()
    }
    // An id gap closes when its transaction ends, so the next round starts soon.
    if (store.waits()) pollingLoop.wake()
    // A node that routes meanwhile may end before the newest events.
    const isBusy = total > 0 || isElsewhere || blocked || isolateEvents
    isIdle = !isBusy
    return isBusy ? everyMs : Infinity
  }

  async function next(): Promise<number | null> {
    try {
      return await store.next(isolateEvents ? routeOneByOne : routeBatch)
    } catch (error) {
      if (isolateEvents || isOutage(error)) throw error
      isolateEvents = true
      return store.next(routeOneByOne)
    }
  }

  /** Returns how many events were routed or became dead letters, up to one that is retried. */
  async function routeOneByOne(
    tx: DatabaseTransaction,
    events: readonly OutboxEvent[],
  ): Promise<number> {
    // Locks all receivers at once, in the common order.
    await store.subscriptions(tx, agentIdsOf(events))
    let failed = false
    for (const [at, event] of events.entries()) {
      const failure = await store.apart(tx, () => routeBatch(tx, [event]))
      if (failure === null) continue
      failed = true
      if (isOutage(failure.error)) throw failure.error
      blocked = !isHopeless(failure.error)
      if (blocked) return at
      await writeDeadLetter(tx, event, failure.error)
    }
    isolateEvents = failed
    if (!failed) failing = { why: '', times: 0 }
    return events.length
  }

  /** Another node or a later round may succeed; repeated equal failures are permanent. */
  function isHopeless(error: unknown): boolean {
    const why = failureSignature(error)
    failing = { why, times: failing.why === why ? failing.times + 1 : 1 }
    return failing.times >= MAX_REPEATED_FAILURES
  }

  async function writeDeadLetter(
    tx: DatabaseTransaction,
    event: OutboxEvent,
    error: unknown,
  ): Promise<void> {
    await letters.put(toDeadLetter(event, error), tx)
    log(`event ${event.id} cannot be routed and is a dead letter`, error)
  }

  /** Routes a replayed dead letter. */
  async function routeReplayed(tx: DatabaseTransaction, event: OutboxEvent): Promise<void> {
    const failure = await store.apart(tx, () => routeBatch(tx, [event]))
    if (failure === null) return
    if (isOutage(failure.error)) throw failure.error
    await writeDeadLetter(tx, event, failure.error)
  }

  const pollingLoop = createPollingLoop({
    work,
    everyMs,
    idleMs: Math.max(everyMs, IDLE_POLL_INTERVAL_MS),
    wakeDelayMs: BATCH_WINDOW_MS,
    log: createFailureTransitionLog(log, 'events are not routed', 'events are routed again'),
  })
  return pollingLoop
}

/** Creates deliveries of the events for all receivers, in order. */
async function routeEvents(
  { store, owners, clock }: OutboxEventRouterDeps,
  tx: DatabaseTransaction,
  events: readonly OutboxEvent[],
): Promise<void> {
  const now = new Date(clock.now())
  const subscriptions = await store.subscriptions(tx, agentIdsOf(events))
  const list: WebhookEventTarget[] = []
  const paged = await readPagerEvents(store, tx, events)
  const byBackpack = await readPagerWebhooks(store, tx, paged, now)
  for (const event of events) {
    for (const { webhookId, agentId, events } of subscriptions) {
      if (agentId === event.agentId && isSubscribedTo(events, event.type))
        list.push({ event, webhookId })
    }
  }
  for (const { event, pager } of paged) {
    const webhookId = byBackpack.get(pager.backpackId)
    if (webhookId !== undefined) list.push({ event, webhookId })
  }
  list.sort((one, other) => (one.event.id < other.event.id ? -1 : 1))
  await store.address(tx, list, LIMITS.webhookBacklog, now)
  await owners.notify(tx, events, paged)
}

const agentIdsOf = (events: readonly OutboxEvent[]): string[] => [
  ...new Set(events.map(({ agentId }) => agentId)),
]

const errorMessage = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)

/** Groups equal failures: the database error code, else the message. */
function failureSignature(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : null
  return typeof code === 'string' ? code : errorMessage(error)
}

const toDeadLetter = ({ id, agentId, type }: OutboxEvent, error: unknown): NewDeadLetter => ({
  kind: 'fact',
  key: String(id),
  reason: errorMessage(error),
  payload: { event_id: String(id), agent_id: agentId, type },
})

const isSubscribedTo = (events: readonly string[], type: string): boolean =>
  events.includes('all') || events.includes(type)

/** Events for pagers, with the current pager of each Backpack. */
async function readPagerEvents(
  store: OutboxEventRouterStore,
  tx: DatabaseTransaction,
  events: readonly OutboxEvent[],
): Promise<OutboxEventWithBackpackPager[]> {
  const pagerEvents = events.filter(
    ({ backpackId, type }) => backpackId !== null && PAGER_EVENT_TYPES.has(type),
  )
  const packs = new Map(
    pagerEvents.map(({ agentId, backpackId }) => [
      backpackId ?? '',
      { agentId, backpackId: backpackId ?? '' },
    ]),
  )
  if (packs.size === 0) return []
  const pagers = new Map(
    (await store.pagers(tx, [...packs.values()])).map((pager) => [pager.backpackId, pager]),
  )
  return pagerEvents.flatMap((event) => {
    const pager = pagers.get(event.backpackId ?? '')
    return pager === undefined ? [] : [{ event, pager }]
  })
}

/** The webhook of each Backpack whose pager has a URL. */
async function readPagerWebhooks(
  store: OutboxEventRouterStore,
  tx: DatabaseTransaction,
  paged: readonly OutboxEventWithBackpackPager[],
  at: Date,
): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  const seen = new Set<string>()
  for (const { event, pager } of paged) {
    const { backpackId, webhookUrl: url } = pager
    if (url === null || seen.has(backpackId)) continue
    seen.add(backpackId)
    const webhookId = await store.pagerWebhook(tx, { agentId: event.agentId, backpackId, url, at })
    if (webhookId !== null) found.set(backpackId, webhookId)
  }
  return found
}

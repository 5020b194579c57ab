import type { Clock } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { DeadLetterStore, NewDeadLetter } from '../persistence/dead-letter-store.ts'
import type { DatabaseTransaction } from '../persistence/idempotency/idempotent-writes.ts'
import type {
  WebhookEventTarget,
  OutboxEvent,
  EventRoutingStore,
  BackpackPager,
} from '../persistence/webhooks/event-routing-store.ts'
import { createPollingLoop, createFailureTransitionLog, type PollingLoop } from './polling-loop.ts'

/** What the pager of a Backpack tells. */
const PAGER_EVENT_TYPES: ReadonlySet<string> = new Set([
  'tool_call',
  'low_balance',
  'daily_limit_hit',
  'error',
  'fuse.tripped',
  'backpack.created',
  'backpack.expiring',
])

/** A fact for the pager of its Backpack. */
export interface PagerEvent {
  readonly event: OutboxEvent
  readonly pager: BackpackPager
}

/** What owners are told; its writes ride in the transaction that hands the facts out. */
export interface OwnerNotifier {
  notify(
    tx: DatabaseTransaction,
    facts: readonly OutboxEvent[],
    paged: readonly PagerEvent[],
  ): Promise<void>
  /** After the transaction: something may be due. */
  wake(): void
}

export interface EventRouterDeps {
  readonly store: EventRoutingStore
  readonly owners: OwnerNotifier
  /** Where facts go that cannot be handed out. */
  readonly letters: Pick<DeadLetterStore, 'put'>
  readonly clock: Clock
  /** Whether an error says that the store cannot be reached right now. */
  readonly isOutage: (error: unknown) => boolean
  /** Something may be due for a receiver. */
  readonly wake: () => void
  readonly log: (message: string, error: unknown) => void
  readonly everyMs?: number
}

const POLL_INTERVAL_MS = 1_000
/** What commits within it is handed out together. */
const BATCH_WINDOW_MS = 25
/** Failing alike so often, in rounds one after the other, facts are left behind as dead letters. */
const MAX_REPEATED_FAILURES = 3

/**
 * Hands facts out: to the webhooks of their agents, to the pagers of their Backpacks, to owners. Each
 * fact once, on any number of nodes, and none is missed, whatever order commits become visible in.
 * One that cannot be handed out becomes a dead letter, and the others go on.
 */
export function createEventRouter(parts: EventRouterDeps): PollingLoop {
  const { store, owners, letters, isOutage, wake, log, everyMs = POLL_INTERVAL_MS } = parts
  /** Since a batch has failed, facts are taken one by one, to find the one that fails. */
  let isolateEvents = false
  let blocked = false
  let failing = { why: '', times: 0 }
  const handOut = (tx: DatabaseTransaction, facts: readonly OutboxEvent[]) =>
    routeEvents(parts, tx, facts)

  async function work(stopping: () => boolean): Promise<void> {
    let handed = 0
    blocked = false
    for (let more = true; more;) {
      const facts = await next()
      handed += facts ?? 0
      more = facts !== null && facts > 0 && !blocked && !stopping()
    }
    while (!stopping() && (await store.again(onceMore))) handed += 1
    if (handed > 0) {
      wake()
      owners.wake()
    }
    // A hole closes as soon as a transaction ends: that is not worth a whole pause.
    if (store.waits()) pollingLoop.wake()
  }

  async function next(): Promise<number | null> {
    try {
      return await store.next(isolateEvents ? oneByOne : handOut)
    } catch (error) {
      if (isolateEvents || isOutage(error)) throw error
      isolateEvents = true
      return store.next(oneByOne)
    }
  }

  /** How many were handed out, or left behind, up to one that is tried again. */
  async function oneByOne(tx: DatabaseTransaction, facts: readonly OutboxEvent[]): Promise<number> {
    // All receivers at once and in order, as everybody locks them.
    await store.subscriptions(tx, agentIdsOf(facts))
    let failed = false
    for (const [at, fact] of facts.entries()) {
      const failure = await store.apart(tx, () => handOut(tx, [fact]))
      if (failure === null) continue
      failed = true
      if (isOutage(failure.error)) throw failure.error
      blocked = !isHopeless(failure.error)
      if (blocked) return at
      await leave(tx, fact, failure.error)
    }
    isolateEvents = failed
    if (!failed) failing = { why: '', times: 0 }
    return facts.length
  }

  /** Another node may be able to, or this one a second later; what fails alike after it waits no more. */
  function isHopeless(error: unknown): boolean {
    const why = failureSignature(error)
    failing = { why, times: failing.why === why ? failing.times + 1 : 1 }
    return failing.times >= MAX_REPEATED_FAILURES
  }

  async function leave(tx: DatabaseTransaction, fact: OutboxEvent, error: unknown): Promise<void> {
    await letters.put(toDeadLetter(fact, error), tx)
    log(`fact ${fact.id} cannot be handed out and is a dead letter`, error)
  }

  /** A dead letter that was replayed. */
  async function onceMore(tx: DatabaseTransaction, fact: OutboxEvent): Promise<void> {
    const failure = await store.apart(tx, () => handOut(tx, [fact]))
    if (failure === null) return
    if (isOutage(failure.error)) throw failure.error
    await leave(tx, fact, failure.error)
  }

  const pollingLoop = createPollingLoop({
    work,
    everyMs,
    wakeDelayMs: BATCH_WINDOW_MS,
    log: createFailureTransitionLog(log, 'facts are not handed out', 'facts are handed out again'),
  })
  return pollingLoop
}

/** Puts facts down for everybody who wants them, in their order. */
async function routeEvents(
  { store, owners, clock }: EventRouterDeps,
  tx: DatabaseTransaction,
  facts: readonly OutboxEvent[],
): Promise<void> {
  const now = new Date(clock.now())
  const subscriptions = await store.subscriptions(tx, agentIdsOf(facts))
  const list: WebhookEventTarget[] = []
  const paged = await readPagerEvents(store, tx, facts)
  const byBackpack = await readPagerWebhooks(store, tx, paged, now)
  for (const event of facts) {
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
  await owners.notify(tx, facts, paged)
}

const agentIdsOf = (facts: readonly OutboxEvent[]): string[] => [
  ...new Set(facts.map(({ agentId }) => agentId)),
]

const errorMessage = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)

/** What failures have in common that are alike: a code of the database, else what was said. */
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

/** The facts that belong to a pager, with the pager as it is now. */
async function readPagerEvents(
  store: EventRoutingStore,
  tx: DatabaseTransaction,
  facts: readonly OutboxEvent[],
): Promise<PagerEvent[]> {
  const told = facts.filter(
    ({ backpackId, type }) => backpackId !== null && PAGER_EVENT_TYPES.has(type),
  )
  const packs = new Map(
    told.map(({ agentId, backpackId }) => [
      backpackId ?? '',
      { agentId, backpackId: backpackId ?? '' },
    ]),
  )
  if (packs.size === 0) return []
  const pagers = new Map(
    (await store.pagers(tx, [...packs.values()])).map((pager) => [pager.backpackId, pager]),
  )
  return told.flatMap((event) => {
    const pager = pagers.get(event.backpackId ?? '')
    return pager === undefined ? [] : [{ event, pager }]
  })
}

/** The receiver of each Backpack whose pager has an address. */
async function readPagerWebhooks(
  store: EventRoutingStore,
  tx: DatabaseTransaction,
  paged: readonly PagerEvent[],
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

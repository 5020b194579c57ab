import type { Clock } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { DeadLetters, NewDeadLetter } from '../persistence/dead-letters.ts'
import type { Tx } from '../persistence/once.ts'
import type { Addressed, Fact, FanOutStore, PagerRow } from '../persistence/fan-out.ts'
import { rounds, telling, type Rounds } from './rounds.ts'

/** What the pager of a Backpack tells. */
const PAGED: ReadonlySet<string> = new Set([
  'tool_call',
  'low_balance',
  'daily_limit_hit',
  'error',
  'fuse.tripped',
  'backpack.created',
  'backpack.expiring',
])

/** A fact for the pager of its Backpack. */
export interface Paged {
  readonly fact: Fact
  readonly pager: PagerRow
}

/** What owners are told; its writes ride in the transaction that hands the facts out. */
export interface TellsOwners {
  facts(tx: Tx, facts: readonly Fact[], paged: readonly Paged[]): Promise<void>
  /** After the transaction: something may be due. */
  wake(): void
}

export interface FanOutParts {
  readonly store: FanOutStore
  readonly owners: TellsOwners
  /** Where facts go that cannot be handed out. */
  readonly letters: Pick<DeadLetters, 'put'>
  readonly clock: Clock
  /** Whether an error says that the store cannot be reached right now. */
  readonly isOutage: (error: unknown) => boolean
  /** Something may be due for a receiver. */
  readonly wake: () => void
  readonly log: (message: string, error: unknown) => void
  readonly everyMs?: number
}

const EVERY_MS = 1_000
/** What commits within it is handed out together. */
const GATHER_MS = 25
/** Failing alike so often, in rounds one after the other, facts are left behind as dead letters. */
const MOST_FAILURES = 3

/**
 * Hands facts out: to the webhooks of their agents, to the pagers of their Backpacks, to owners. Each
 * fact once, on any number of nodes, and none is missed, whatever order commits become visible in.
 * One that cannot be handed out becomes a dead letter, and the others go on.
 */
export function fanOut(parts: FanOutParts): Rounds {
  const { store, owners, letters, isOutage, wake, log, everyMs = EVERY_MS } = parts
  /** Since a batch has failed, facts are taken one by one, to find the one that fails. */
  let careful = false
  let blocked = false
  let failing = { why: '', times: 0 }
  const handOut = (tx: Tx, facts: readonly Fact[]) => addressAll(parts, tx, facts)

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
    if (store.waits()) again.wake()
  }

  async function next(): Promise<number | null> {
    try {
      return await store.next(careful ? oneByOne : handOut)
    } catch (error) {
      if (careful || isOutage(error)) throw error
      careful = true
      return store.next(oneByOne)
    }
  }

  /** How many were handed out, or left behind, up to one that is tried again. */
  async function oneByOne(tx: Tx, facts: readonly Fact[]): Promise<number> {
    // All receivers at once and in order, as everybody locks them.
    await store.subscriptions(tx, agentsOf(facts))
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
    careful = failed
    if (!failed) failing = { why: '', times: 0 }
    return facts.length
  }

  /** Another node may be able to, or this one a second later; what fails alike after it waits no more. */
  function isHopeless(error: unknown): boolean {
    const why = kindOf(error)
    failing = { why, times: failing.why === why ? failing.times + 1 : 1 }
    return failing.times >= MOST_FAILURES
  }

  async function leave(tx: Tx, fact: Fact, error: unknown): Promise<void> {
    await letters.put(letterOf(fact, error), tx)
    log(`fact ${fact.id} cannot be handed out and is a dead letter`, error)
  }

  /** A dead letter that was replayed. */
  async function onceMore(tx: Tx, fact: Fact): Promise<void> {
    const failure = await store.apart(tx, () => handOut(tx, [fact]))
    if (failure === null) return
    if (isOutage(failure.error)) throw failure.error
    await leave(tx, fact, failure.error)
  }

  const again = rounds({
    work,
    everyMs,
    gatherMs: GATHER_MS,
    log: telling(log, 'facts are not handed out', 'facts are handed out again'),
  })
  return again
}

/** Puts facts down for everybody who wants them, in their order. */
async function addressAll(
  { store, owners, clock }: FanOutParts,
  tx: Tx,
  facts: readonly Fact[],
): Promise<void> {
  const now = new Date(clock.now())
  const subscriptions = await store.subscriptions(tx, agentsOf(facts))
  const list: Addressed[] = []
  const paged = await pagedOf(store, tx, facts)
  const byBackpack = await receiversOf(store, tx, paged, now)
  for (const fact of facts) {
    for (const { webhookId, agentId, events } of subscriptions) {
      if (agentId === fact.agentId && wants(events, fact.type)) list.push({ fact, webhookId })
    }
  }
  for (const { fact, pager } of paged) {
    const webhookId = byBackpack.get(pager.backpackId)
    if (webhookId !== undefined) list.push({ fact, webhookId })
  }
  list.sort((one, other) => (one.fact.id < other.fact.id ? -1 : 1))
  await store.address(tx, list, LIMITS.webhookBacklog, now)
  await owners.facts(tx, facts, paged)
}

const agentsOf = (facts: readonly Fact[]): string[] => [
  ...new Set(facts.map(({ agentId }) => agentId)),
]

const reasonOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)

/** What failures have in common that are alike: a code of the database, else what was said. */
function kindOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : null
  return typeof code === 'string' ? code : reasonOf(error)
}

const letterOf = ({ id, agentId, type }: Fact, error: unknown): NewDeadLetter => ({
  kind: 'fact',
  key: String(id),
  reason: reasonOf(error),
  payload: { event_id: String(id), agent_id: agentId, type },
})

const wants = (events: readonly string[], type: string): boolean =>
  events.includes('all') || events.includes(type)

/** The facts that belong to a pager, with the pager as it is now. */
async function pagedOf(store: FanOutStore, tx: Tx, facts: readonly Fact[]): Promise<Paged[]> {
  const told = facts.filter(({ backpackId, type }) => backpackId !== null && PAGED.has(type))
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
  return told.flatMap((fact) => {
    const pager = pagers.get(fact.backpackId ?? '')
    return pager === undefined ? [] : [{ fact, pager }]
  })
}

/** The receiver of each Backpack whose pager has an address. */
async function receiversOf(
  store: FanOutStore,
  tx: Tx,
  paged: readonly Paged[],
  at: Date,
): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  const seen = new Set<string>()
  for (const { fact, pager } of paged) {
    const { backpackId, webhookUrl: url } = pager
    if (url === null || seen.has(backpackId)) continue
    seen.add(backpackId)
    const webhookId = await store.pagerWebhook(tx, { agentId: fact.agentId, backpackId, url, at })
    if (webhookId !== null) found.set(backpackId, webhookId)
  }
  return found
}

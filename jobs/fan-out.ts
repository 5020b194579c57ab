import type { Clock } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { Tx } from '../persistence/once.ts'
import type { Addressed, Fact, FanOutStore, PagerRow } from '../persistence/fan-out.ts'
import { rounds, type Rounds } from './rounds.ts'

/** What the pager of a Backpack tells (spec 6). */
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
  readonly clock: Clock
  /** Something may be due for a receiver. */
  readonly wake: () => void
  readonly log: (message: string, error: unknown) => void
  readonly everyMs?: number
}

const EVERY_MS = 1_000
/** What commits within it is handed out together. */
const GATHER_MS = 25

/**
 * Hands facts out: to the webhooks of their agents, to the pagers of their Backpacks, to owners. Each
 * fact once, on any number of nodes, and none is missed, whatever order commits become visible in.
 */
export function fanOut({
  store,
  owners,
  clock,
  wake,
  log,
  everyMs = EVERY_MS,
}: FanOutParts): Rounds {
  async function work(): Promise<void> {
    let handed = 0
    for (let more = true; more;) {
      const facts = await store.next(handOut)
      handed += facts ?? 0
      more = facts !== null && facts > 0
    }
    if (handed > 0) {
      wake()
      owners.wake()
    }
    // A hole closes as soon as a transaction ends: that is not worth a whole pause.
    if (store.waits()) again.wake()
  }

  async function handOut(tx: Tx, facts: readonly Fact[]): Promise<void> {
    const now = new Date(clock.now())
    const agents = [...new Set(facts.map(({ agentId }) => agentId))]
    const subscriptions = await store.subscriptions(tx, agents)
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

  const again = rounds({
    work,
    everyMs,
    gatherMs: GATHER_MS,
    log: (error) =>
      error === null
        ? log('facts are handed out again', null)
        : log('facts are not handed out', error),
  })
  return again
}

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

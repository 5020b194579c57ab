import { MINUTE, type Clock } from '../core/clock.ts'
import type { FundingOptions } from '../core/funding.ts'
import { LIMITS } from '../core/limits.ts'
import type { ChannelName } from '../core/notices.ts'
import { PAGER, type AlertStore, type NewAlert, type Owner } from '../persistence/alerts.ts'
import type { Fact } from '../persistence/fan-out.ts'
import type { Tx } from '../persistence/once.ts'
import type { Paged } from './fan-out.ts'
import {
  CHANNELS_OF,
  crossedBy,
  lowBalance,
  NOTICES,
  pagedLine,
  type Level,
  type Text,
} from './owner-notices.ts'

export interface OwnerFactsParts {
  readonly store: AlertStore
  /** Why nothing can be sent on a channel; null where it can. */
  readonly missing: (channel: ChannelName) => string | null
  readonly publicUrl: string
  /** Whether agents can be funded by deposits. */
  readonly deposits: boolean
  readonly clock: Clock
}

/** What comes with every call is collected: a message for each would bury those that matter. */
const DIGEST_MS: Record<ChannelName, number> = { email: 15 * MINUTE, telegram: 5 * MINUTE }
const COLLECTED = new Set(['tool_call', 'error'])
/** What is heard whatever else was told that day. */
const CRITICAL: ReadonlySet<string> = new Set([
  'low_balance.critical',
  'fuse.tripped',
  'wallet.exported',
])

/** What owners are told of facts: rows, in the transaction that hands the facts out. */
export function ownerFacts({ store, missing, publicUrl, deposits, clock }: OwnerFactsParts) {
  const fundingOf = ({ agentId }: Fact, { wallet }: Owner): FundingOptions => ({
    agentId,
    address: wallet,
    deposits: deposits ? 'on' : 'off',
    fundUrl: `${publicUrl}/fund/${agentId}`,
  })

  async function tell(tx: Tx, fact: Fact, owner: Owner): Promise<void> {
    const notice = NOTICES[fact.type]
    if (notice !== undefined) {
      const text = notice(fact, owner, fundingOf(fact, owner))
      for (const channel of ['email', 'telegram'] as const) {
        if (addressOf(owner, channel) !== null)
          await queue(tx, fact, owner, channel, fact.type, text)
      }
      return
    }
    const level = crossedBy(fact)
    if (level !== null) await threshold(tx, level, fact, owner)
  }

  /** Each threshold once in twelve hours and channel. Falling through both is told once, as the worse. */
  async function threshold(tx: Tx, level: Level, fact: Fact, owner: Owner): Promise<void> {
    const text = lowBalance(level, fact, owner, fundingOf(fact, owner))
    const ways = CHANNELS_OF[level].filter((channel) => addressOf(owner, channel) !== null)
    // Nobody to tell is kept too, once: whoever looks sees that something was to be told.
    for (const channel of ways.length > 0 ? ways : CHANNELS_OF[level].slice(0, 1)) {
      const told = addressOf(owner, channel) !== null && missing(channel) === null
      const mark = { agentId: fact.agentId, channel, told, at: fact.at }
      if (!(await store.mark(tx, { ...mark, level }, LIMITS.alertHours))) continue
      if (level === 'critical' && CHANNELS_OF.warning.includes(channel) && fell(fact))
        await store.mark(tx, { ...mark, level: 'warning' }, LIMITS.alertHours)
      await queue(tx, fact, owner, channel, `low_balance.${level}`, text)
    }
  }

  async function queue(
    tx: Tx,
    fact: Fact,
    owner: Owner,
    channel: ChannelName,
    topic: string,
    { subject, body }: Text,
  ): Promise<void> {
    const address = addressOf(owner, channel)
    const key = `${fact.id}:${topic}:${channel}`
    const at = new Date(clock.now())
    const { agentId } = fact
    const critical = CRITICAL.has(topic)
    const alert: NewAlert = { key, agentId, topic, channel, address, subject, body, at, critical }
    const notSent = address === null ? 'no contact' : missing(channel)
    await store.add(tx, notSent === null ? alert : { ...alert, notSent })
  }

  const page = ownerPager({ store, missing, clock })

  return async function facts(
    tx: Tx,
    facts: readonly Fact[],
    paged: readonly Paged[],
  ): Promise<void> {
    const told = facts.filter(({ type }) => type === 'low_balance' || Object.hasOwn(NOTICES, type))
    if (told.length > 0) {
      const owners = await store.ownersOf([...new Set(told.map(({ agentId }) => agentId))], tx)
      for (const fact of told) {
        const owner = owners.get(fact.agentId)
        if (owner !== undefined) await tell(tx, fact, owner)
      }
    }
    for (const one of paged) await page(tx, one)
  }
}

/** What a Backpack's pager tells goes to its own address and chat, where there is a way to them. */
function ownerPager({ store, missing, clock }: Omit<OwnerFactsParts, 'publicUrl' | 'deposits'>) {
  return async function page(tx: Tx, { fact, pager }: Paged): Promise<void> {
    const ways = { email: pager.ownerEmail, telegram: pager.ownerTelegram }
    for (const channel of ['email', 'telegram'] as const) {
      const address = ways[channel]
      // Without a way to send it nothing is lost: each fact is stored for polling.
      if (address === null || missing(channel) !== null) continue
      const now = clock.now()
      const body = pagedLine(fact)
      const about = { agentId: fact.agentId, topic: PAGER, channel, address, body }
      const [at, name] = [new Date(now), `${pager.agentName} (${pager.backpackId})`]
      if (COLLECTED.has(fact.type)) {
        const window = Math.floor(now / DIGEST_MS[channel]) + 1
        const key = `digest:${pager.backpackId}:${channel}:${address}:${window}`
        const dueAt = new Date(window * DIGEST_MS[channel] + MINUTE)
        await store.addLine(tx, { ...about, key, subject: `Calls of ${name}`, at, dueAt })
      } else {
        const key = `${fact.id}:pager:${channel}`
        const critical = CRITICAL.has(fact.type) || crossedBy(fact) === 'critical'
        await store.add(tx, { ...about, key, subject: `${fact.type}: ${name}`, at, critical })
      }
    }
  }
}

const addressOf = (owner: Owner, channel: ChannelName): string | null =>
  channel === 'email' ? owner.email : owner.telegram

/** Whether a fall passed the warning level on its way. */
const fell = ({ data }: Fact): boolean => data['from'] === 'healthy'

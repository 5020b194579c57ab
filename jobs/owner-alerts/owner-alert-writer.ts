import { MINUTE, type Clock } from '../../core/clock.ts'
import type { FundingInstructionsInput } from '../../domain/agent-funding-info-and-instructions.ts'
import { LIMITS } from '../../core/limits.ts'
import type { NotificationChannelName } from '../../domain/notification-channel-types.ts'
import {
  PAGER_ALERT_TOPIC,
  type OwnerAlertStore,
  type NewOwnerAlert,
  type AgentOwnerContact,
} from '../../persistence/notifications/owner-alert-store.ts'
import type { OutboxEvent } from '../../persistence/webhooks/outbox-event-routing-store.ts'
import type { DatabaseTransaction } from '../../persistence/idempotency/idempotent-writes.ts'
import type { OutboxEventWithBackpackPager } from '../outbox-event-router.ts'
import {
  LOW_BALANCE_CHANNELS,
  findCrossedBalanceLevel,
  formatLowBalanceAlert,
  OWNER_ALERT_FORMATTERS,
  formatBackpackPagerEventLine,
  type LowBalanceLevel,
  type OwnerAlertText,
} from './owner-alert-texts.ts'

/** Writes owner alerts for events. */

export interface OwnerAlertWriterDeps {
  readonly store: OwnerAlertStore
  /** Why a channel cannot send; null if it can. */
  readonly missing: (channel: NotificationChannelName) => string | null
  readonly publicUrl: string
  /** Whether agents can be funded by deposits. */
  readonly deposits: boolean
  readonly clock: Clock
}

/** Frequent events are collected in digests, so that they do not bury important ones. */
const DIGEST_WINDOW_MS: Record<NotificationChannelName, number> = {
  email: 15 * MINUTE,
  telegram: 5 * MINUTE,
}
const DIGEST_EVENT_TYPES = new Set(['tool_call', 'error'])
/** Topics with a separate daily limit. */
const CRITICAL_TOPICS: ReadonlySet<string> = new Set([
  'low_balance.critical',
  'fuse.tripped',
  'wallet.exported',
  'agent.frozen',
  'agent.unfrozen',
])

/** Creates the writer. It adds rows in the transaction that routes the events. */
export function createOwnerAlertWriter({
  store,
  missing,
  publicUrl,
  deposits,
  clock,
}: OwnerAlertWriterDeps) {
  const fundingOf = (
    { agentId }: OutboxEvent,
    { wallet }: AgentOwnerContact,
  ): FundingInstructionsInput => ({
    agentId,
    address: wallet,
    deposits: deposits ? 'on' : 'off',
    fundUrl: `${publicUrl}/fund/${agentId}`,
  })

  async function writeAlert(
    tx: DatabaseTransaction,
    event: OutboxEvent,
    owner: AgentOwnerContact,
  ): Promise<void> {
    const notice = OWNER_ALERT_FORMATTERS[event.type]
    if (notice !== undefined) {
      const text = notice(event, owner, fundingOf(event, owner))
      for (const channel of ['email', 'telegram'] as const) {
        if (channelAddress(owner, channel) !== null)
          await queue(tx, event, owner, channel, event.type, text)
      }
      return
    }
    const level = findCrossedBalanceLevel(event)
    if (level !== null) await threshold(tx, level, event, owner)
  }

  /**
   * Alerts once per threshold, channel and `alertHours`. Crossing both thresholds gives the
   * critical alert only.
   */
  async function threshold(
    tx: DatabaseTransaction,
    level: LowBalanceLevel,
    event: OutboxEvent,
    owner: AgentOwnerContact,
  ): Promise<void> {
    const text = formatLowBalanceAlert(level, event, owner, fundingOf(event, owner))
    const ways = LOW_BALANCE_CHANNELS[level].filter(
      (channel) => channelAddress(owner, channel) !== null,
    )
    // Without any contact one alert is stored as not sent, so that the event stays visible.
    for (const channel of ways.length > 0 ? ways : LOW_BALANCE_CHANNELS[level].slice(0, 1)) {
      const sendable = channelAddress(owner, channel) !== null && missing(channel) === null
      const mark = { agentId: event.agentId, channel, sent: sendable, at: event.at }
      if (!(await store.mark(tx, { ...mark, level }, LIMITS.alertHours))) continue
      if (
        level === 'critical' &&
        LOW_BALANCE_CHANNELS.warning.includes(channel) &&
        fellFromHealthy(event)
      )
        await store.mark(tx, { ...mark, level: 'warning' }, LIMITS.alertHours)
      await queue(tx, event, owner, channel, `low_balance.${level}`, text)
    }
  }

  async function queue(
    tx: DatabaseTransaction,
    event: OutboxEvent,
    owner: AgentOwnerContact,
    channel: NotificationChannelName,
    topic: string,
    { subject, body }: OwnerAlertText,
  ): Promise<void> {
    const address = channelAddress(owner, channel)
    const key = `${event.id}:${topic}:${channel}`
    const at = new Date(clock.now())
    const { agentId } = event
    const critical = CRITICAL_TOPICS.has(topic)
    const alert: NewOwnerAlert = {
      key,
      agentId,
      topic,
      channel,
      address,
      subject,
      body,
      at,
      critical,
    }
    const notSent = address === null ? 'no contact' : missing(channel)
    await store.add(tx, notSent === null ? alert : { ...alert, notSent })
  }

  const page = createPagerAlertWriter({ store, missing, clock })

  return async function facts(
    tx: DatabaseTransaction,
    events: readonly OutboxEvent[],
    paged: readonly OutboxEventWithBackpackPager[],
  ): Promise<void> {
    const alertable = events.filter(
      ({ type }) => type === 'low_balance' || Object.hasOwn(OWNER_ALERT_FORMATTERS, type),
    )
    if (alertable.length > 0) {
      const owners = await store.ownersOf([...new Set(alertable.map(({ agentId }) => agentId))], tx)
      for (const event of alertable) {
        const owner = owners.get(event.agentId)
        if (owner !== undefined) await writeAlert(tx, event, owner)
      }
    }
    for (const one of paged) await page(tx, one)
  }
}

/** Sends pager events to the pager's own address and chat. */
function createPagerAlertWriter({
  store,
  missing,
  clock,
}: Omit<OwnerAlertWriterDeps, 'publicUrl' | 'deposits'>) {
  return async function page(
    tx: DatabaseTransaction,
    { event, pager }: OutboxEventWithBackpackPager,
  ): Promise<void> {
    const ways = { email: pager.ownerEmail, telegram: pager.ownerTelegram }
    for (const channel of ['email', 'telegram'] as const) {
      const address = ways[channel]
      // Nothing is lost without a channel: events can be polled.
      if (address === null || missing(channel) !== null) continue
      const now = clock.now()
      const body = formatBackpackPagerEventLine(event)
      const about = { agentId: event.agentId, topic: PAGER_ALERT_TOPIC, channel, address, body }
      const [at, name] = [new Date(now), `${pager.agentName} (${pager.backpackId})`]
      if (DIGEST_EVENT_TYPES.has(event.type)) {
        const window = Math.floor(now / DIGEST_WINDOW_MS[channel]) + 1
        const key = `digest:${pager.backpackId}:${channel}:${address}:${window}`
        const dueAt = new Date(window * DIGEST_WINDOW_MS[channel] + MINUTE)
        await store.addLine(tx, { ...about, key, subject: `Calls of ${name}`, at, dueAt })
      } else {
        const key = `${event.id}:pager:${channel}`
        const critical =
          CRITICAL_TOPICS.has(event.type) || findCrossedBalanceLevel(event) === 'critical'
        await store.add(tx, { ...about, key, subject: `${event.type}: ${name}`, at, critical })
      }
    }
  }
}

const channelAddress = (
  owner: AgentOwnerContact,
  channel: NotificationChannelName,
): string | null => (channel === 'email' ? owner.email : owner.telegram)

/** Whether the fall also crossed the warning level. */
const fellFromHealthy = ({ data }: OutboxEvent): boolean => data['from'] === 'healthy'

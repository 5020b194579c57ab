import { DAY, HOUR, MINUTE, SECOND, type Clock } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { Channel, ChannelName, Sending } from '../core/notices.ts'
import type { Alert, AlertState, AlertStore } from '../persistence/alerts.ts'
import type { TellsOwners } from './fan-out.ts'
import { ownerFacts } from './owner-facts.ts'
import { rounds } from './rounds.ts'

export interface AlertParts {
  readonly store: AlertStore
  /** Null where the operator has not set it up. */
  readonly channels: Readonly<Record<ChannelName, Channel | null>>
  readonly publicUrl: string
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
  readonly everyMs?: number
}

export type ChannelHealth = {
  readonly ok: boolean
  readonly kind: string
  readonly detail?: string
}

const PAUSES_MS = [5 * SECOND, MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR]
const LEASE_MS = MINUTE
const EVERY_MS = SECOND
const AT_ONCE = 20
const SETTING: Record<ChannelName, string> = { email: 'SMTP_URL', telegram: 'TELEGRAM_BOT_TOKEN' }

/** Tells owners, by e-mail and chat, what they should know; what cannot be sent is recorded so. */
export function ownerAlerts({ store, channels, publicUrl, clock, log, ...rest }: AlertParts) {
  const { everyMs = EVERY_MS } = rest
  const trouble = new Map<ChannelName, string>()

  const missing = (channel: ChannelName): string | null =>
    channels[channel] === null ? `no ${SETTING[channel]}` : null

  const facts = ownerFacts({ store, missing, publicUrl, clock })
  async function round(): Promise<void> {
    for (;;) {
      const now = clock.now()
      const due = await store.claim(new Date(now), new Date(now + LEASE_MS), AT_ONCE)
      await Promise.all(due.map(attempt))
      if (due.length < AT_ONCE) return
    }
  }

  async function attempt(alert: Alert): Promise<Sending> {
    const result = await send(alert)
    const now = clock.now()
    const at = new Date(now)
    const reason = result.outcome === 'sent' ? null : result.reason
    const pause = result.outcome === 'later' ? PAUSES_MS[alert.attempts] : undefined
    const state: AlertState =
      result.outcome === 'sent' ? 'sent' : pause === undefined ? 'failed' : 'pending'
    const wait = Math.max(pause ?? 0, result.outcome === 'later' ? (result.afterMs ?? 0) : 0)
    await store.settle(alert, { state, reason, at, dueAt: new Date(now + wait) })
    return result
  }

  async function send({ id, channel, address, subject, body, left }: Alert): Promise<Sending> {
    const way = channels[channel]
    if (way === null) return { outcome: 'refused', reason: missing(channel) ?? '' }
    const since = new Date(clock.now() - DAY)
    if ((await store.sentTo(channel, address, since)) >= LIMITS.ownerMessagesPerDay)
      return { outcome: 'refused', reason: 'too many messages to this address today' }
    const text = left > 0 ? `${body}\nand ${left} more` : body
    const result = await way.send({ id, to: address, subject, text })
    if (result.outcome === 'later') trouble.set(channel, result.reason)
    else trouble.delete(channel)
    return result
  }

  const again = rounds({
    work: round,
    everyMs,
    log: (error) =>
      error === null ? log('owners are told again', null) : log('owners are not told', error),
  })

  return {
    /** What is told rides in the transaction that hands facts out. */
    tells: { facts, wake: again.wake } satisfies TellsOwners,
    start: again.start,

    /** Sends a message at once that has been added; null when another node has taken it up. */
    async sendNow(id: string): Promise<Sending | null> {
      const now = clock.now()
      const alert = await store.claimOne(id, new Date(now), new Date(now + LEASE_MS))
      return alert === null ? null : attempt(alert)
    },

    /** Why nothing can be sent on a channel; null where it can. */
    missing,
    /** Whether there is a way to send on a channel. */
    can: (channel: ChannelName): boolean => channels[channel] !== null,

    /** How each way to owners stands, in the form of a dependency of the service. */
    health(): Record<ChannelName, ChannelHealth> {
      const of = (channel: ChannelName, kind: string): ChannelHealth => {
        const reason = missing(channel)
        if (reason !== null) return { ok: true, kind: `disabled: ${reason}` }
        const detail = trouble.get(channel)
        return detail === undefined ? { ok: true, kind } : { ok: false, kind, detail }
      }
      return { email: of('email', 'smtp'), telegram: of('telegram', 'telegram') }
    },

    async stop(): Promise<void> {
      await again.stop()
      await Promise.all(Object.values(channels).map(async (channel) => channel?.close()))
    },
  }
}
export type OwnerAlerts = ReturnType<typeof ownerAlerts>

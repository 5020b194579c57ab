import { SECOND, type Clock } from '../core/clock.ts'
import type { Channel, ChannelName, Sending } from '../core/notices.ts'
import type { AlertStore } from '../persistence/alerts.ts'
import type { TellsOwners } from './fan-out.ts'
import { ownerFacts } from './owner-facts.ts'
import { ownerLine, type OwnerLine } from './owner-line.ts'

export interface AlertParts {
  readonly store: AlertStore
  /** Null where the operator has not set it up. */
  readonly channels: Readonly<Record<ChannelName, Channel | null>>
  readonly publicUrl: string
  /** Whether agents can be funded by deposits. */
  readonly deposits: boolean
  readonly clock: Clock
  /** Whether an error says that the store cannot be reached right now. */
  readonly isOutage: (error: unknown) => boolean
  readonly log: (message: string, error: unknown) => void
  readonly everyMs?: number
}

export type ChannelHealth = {
  readonly ok: boolean
  readonly kind: string
  readonly detail?: string
}

const EVERY_MS = SECOND
const SETTING: Record<ChannelName, string> = { email: 'SMTP_URL', telegram: 'TELEGRAM_BOT_TOKEN' }

/** Tells owners, by e-mail and chat, what they should know; what cannot be sent is recorded so. */
export function ownerAlerts(alerting: AlertParts) {
  const { channels, publicUrl, deposits, everyMs = EVERY_MS, ...parts } = alerting
  const { store, clock } = parts
  const lineOf = (name: ChannelName) =>
    ownerLine({ ...parts, name, way: channels[name], missing: `no ${SETTING[name]}`, everyMs })
  const lines: Record<ChannelName, OwnerLine> = {
    email: lineOf('email'),
    telegram: lineOf('telegram'),
  }
  const missing = (channel: ChannelName): string | null =>
    channels[channel] === null ? `no ${SETTING[channel]}` : null
  const all = () => Object.values(lines)
  const wake = () => all().forEach((line) => line.wake())
  const facts = ownerFacts({ store, missing, publicUrl, deposits, clock })

  return {
    /** What is told rides in the transaction that hands facts out. */
    tells: { facts, wake } satisfies TellsOwners,
    start: () => all().forEach((line) => line.start()),

    /** Sends a message at once that has been added; null where it is not known yet whether it was taken. */
    sendNow: (channel: ChannelName, id: string): Promise<Sending | null> =>
      lines[channel].sendNow(id),

    /** Why nothing can be sent on a channel; null where it can. */
    missing,
    /** Whether there is a way to send on a channel. */
    can: (channel: ChannelName): boolean => channels[channel] !== null,

    /** How each way to owners stands, in the form of a dependency of the service. */
    health(): Record<ChannelName, ChannelHealth> {
      const of = (channel: ChannelName, kind: string): ChannelHealth => {
        const reason = missing(channel)
        if (reason !== null) return { ok: true, kind: `disabled: ${reason}` }
        const detail = lines[channel].trouble()
        return detail === null ? { ok: true, kind } : { ok: false, kind, detail }
      }
      return { email: of('email', 'smtp'), telegram: of('telegram', 'telegram') }
    },

    async stop(): Promise<void> {
      await Promise.all(all().map((line) => line.stop()))
    },
  }
}
export type OwnerAlerts = ReturnType<typeof ownerAlerts>

import { SECOND, type Clock } from '../../core/clock.ts'
import type {
  NotificationChannel,
  NotificationChannelName,
  NotificationSendResult,
} from '../../domain/notification-channel-types.ts'
import type { OwnerAlertStore } from '../../persistence/notifications/owner-alert-store.ts'
import type { OwnerAlertEventSink } from '../outbox-event-router.ts'
import { createPollingLoop, createFailureTransitionLog } from '../polling-loop.ts'
import { createOwnerAlertWriter } from './owner-alert-writer.ts'
import { createOwnerAlertSender, type OwnerAlertSender } from './owner-alert-sender.ts'

/** Assembles owner alerts: writer, senders and health. */

export interface OwnerAlertsDeps {
  readonly store: OwnerAlertStore
  /** Null for a channel that is not configured. */
  readonly channels: Readonly<Record<NotificationChannelName, NotificationChannel | null>>
  readonly publicUrl: string
  /** Whether agents can be funded by deposits. */
  readonly deposits: boolean
  readonly clock: Clock
  /** Whether the error means that the database is unreachable. */
  readonly isOutage: (error: unknown) => boolean
  readonly log: (message: string, error: unknown) => void
  readonly everyMs?: number
}

export type AlertChannelHealth = {
  readonly ok: boolean
  readonly kind: string
  readonly detail?: string
}

const POLL_INTERVAL_MS = SECOND
/** While nothing is due and nothing is announced. */
const IDLE_POLL_INTERVAL_MS = 10 * SECOND
const CHANNEL_SETTING_NAMES: Record<NotificationChannelName, string> = {
  email: 'SMTP_URL',
  telegram: 'TELEGRAM_BOT_TOKEN',
}

/** Alerts owners by e-mail and chat. Alerts that cannot be sent are stored with the reason. */
export function createOwnerAlerts(alerting: OwnerAlertsDeps) {
  const { channels, publicUrl, deposits, everyMs = POLL_INTERVAL_MS, ...parts } = alerting
  const { store, clock } = parts
  const createSender = (name: NotificationChannelName) =>
    createOwnerAlertSender({
      ...parts,
      name,
      channel: channels[name],
      disabledReason: `no ${CHANNEL_SETTING_NAMES[name]}`,
      onAttempted: () => pollingLoop.wake(),
      everyMs,
    })
  const senders: Record<NotificationChannelName, OwnerAlertSender> = {
    email: createSender('email'),
    telegram: createSender('telegram'),
  }
  const missing = (channel: NotificationChannelName): string | null =>
    channels[channel] === null ? `no ${CHANNEL_SETTING_NAMES[channel]}` : null
  const all = () => Object.values(senders)

  /** One query asks for all channels. A channel that fails does not delay the others. */
  async function round(stopping: () => boolean): Promise<number> {
    await settleAll(all().map((sender) => sender.renew()))
    const dueAts = await store.nextDueAts()
    const names = Object.keys(senders) as NotificationChannelName[]
    const waits = names.map((name) => senders[name].sendDue(dueAts.get(name), stopping))
    return Math.min(...(await settleAll(waits)))
  }
  const pollingLoop = createPollingLoop({
    work: round,
    everyMs,
    idleMs: Math.max(everyMs, IDLE_POLL_INTERVAL_MS),
    log: createFailureTransitionLog(
      parts.log,
      'alerts to owners are not sent',
      'alerts to owners are sent again',
    ),
  })
  const { wake } = pollingLoop
  const notify = createOwnerAlertWriter({ store, missing, publicUrl, deposits, clock })

  return {
    /** Writes alerts in the transaction that routes events. */
    tells: { notify, wake } satisfies OwnerAlertEventSink,
    start: pollingLoop.start,
    /** Another node may leave alerts. */
    expect: pollingLoop.expect,

    /** Sends a stored alert at once; null when the result is not known in time. */
    sendNow: (
      channel: NotificationChannelName,
      id: string,
    ): Promise<NotificationSendResult | null> => senders[channel].sendNow(id),

    /** Why a channel cannot send; null if it can. */
    missing,
    /** Whether a channel can send. */
    can: (channel: NotificationChannelName): boolean => channels[channel] !== null,

    /** Health of each channel, as a dependency of the service. */
    health(): Record<NotificationChannelName, AlertChannelHealth> {
      const of = (channel: NotificationChannelName, kind: string): AlertChannelHealth => {
        const reason = missing(channel)
        if (reason !== null) return { ok: true, kind: `disabled: ${reason}` }
        const detail = senders[channel].trouble()
        return detail === null ? { ok: true, kind } : { ok: false, kind, detail }
      }
      return { email: of('email', 'smtp'), telegram: of('telegram', 'telegram') }
    },

    async stop(): Promise<void> {
      await pollingLoop.stop()
      await Promise.all(all().map((sender) => sender.stop()))
    },
  }
}
export type OwnerAlerts = ReturnType<typeof createOwnerAlerts>

/** Waits for all of them, then rejects with the first error. */
async function settleAll<T>(work: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(work)
  return Promise.all(work)
}

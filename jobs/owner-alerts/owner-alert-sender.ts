import { DAY, HOUR, MINUTE, SECOND, type Clock } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import type {
  NotificationChannel,
  NotificationChannelName,
  NotificationSendResult,
} from '../../domain/notification-channel-types.ts'
import {
  WEEKLY_DIGEST_TOPIC,
  type OwnerAlert,
  type OwnerAlertDeliveryState,
  type OwnerAlertStore,
} from '../../persistence/notifications/owner-alert-store.ts'
import { succeedsWithin } from '../../persistence/query-timeout.ts'
import { recordExternalEffectWithRetry } from '../retry-write-during-database-outage.ts'
import { createCooldownSet } from '../cooldown-set.ts'

/** Sends the alerts of one channel. */

export interface OwnerAlertSenderDeps {
  readonly name: NotificationChannelName
  /** Null when the channel is not configured; `disabledReason` says why. */
  readonly channel: NotificationChannel | null
  readonly disabledReason: string
  readonly store: OwnerAlertStore
  readonly clock: Clock
  readonly isOutage: (error: unknown) => boolean
  readonly log: (message: string, error: unknown) => void
  /** Called after each attempt: another alert can be taken. */
  readonly onAttempted: () => void
  /** Milliseconds until the next round while alerts are due or being sent. */
  readonly everyMs: number
}

const RETRY_DELAYS_MS = [5 * SECOND, MINUTE, 5 * MINUTE, 30 * MINUTE, 2 * HOUR]
/** A digest is worth reading for days: it outlasts a mail server that is down over a weekend. */
const DIGEST_RETRY_DELAYS_MS = [...RETRY_DELAYS_MS, ...Array<number>(12).fill(6 * HOUR)]
const LEASE_MS = MINUTE
const LEASE_RENEWAL_MS = LEASE_MS / 3
const DISABLED_CHANNEL_CONCURRENCY = 20
/** Maximum wait for running sends at shutdown. */
const SHUTDOWN_GRACE_MS = 5 * SECOND
/** Maximum wait of a caller of `sendNow`. */
const SEND_NOW_TIMEOUT_MS = 4 * SECOND
const DAILY_LIMIT_REASON = 'too many messages to this address today'
const NO_CONTACT_RESULT: NotificationSendResult = { outcome: 'refused', reason: 'no contact' }

/**
 * Sends alerts on one channel. A node claims only as many alerts as it can send at once and renews
 * the claims while sending, so that no other node sends them too.
 */
export function createOwnerAlertSender({
  name,
  channel,
  disabledReason,
  store,
  clock,
  isOutage,
  ...rest
}: OwnerAlertSenderDeps) {
  const { log, onAttempted, everyMs } = rest
  const atOnce = channel?.maxConcurrent ?? DISABLED_CHANNEL_CONCURRENCY
  const inFlight = new Map<string, Promise<NotificationSendResult>>()
  const cooldowns = createCooldownSet(clock)
  const records = { store, clock }
  let trouble: string | null = null
  let ended = false

  async function sendDue(dueAt: Date | undefined, stopping: () => boolean): Promise<number> {
    const dueIn = dueAt === undefined ? Infinity : dueAt.getTime() - clock.now()
    if (dueIn > 0) return inFlight.size > 0 ? everyMs : dueIn
    const max = atOnce - inFlight.size
    if (max <= 0 || stopping()) return everyMs
    const except = [...inFlight.keys(), ...cooldowns.ids()]
    const claimed = await store.claim({ channel: name, ...alertLease(clock.now()), max, except })
    for (const alert of claimed) void take(alert)
    return everyMs
  }

  function take(alert: OwnerAlert): Promise<NotificationSendResult> {
    const done = attempt(alert).finally(() => {
      inFlight.delete(alert.id)
      onAttempted()
    })
    done.catch((error: unknown) => lost(alert, error))
    inFlight.set(alert.id, done)
    return done
  }

  function lost({ id }: OwnerAlert, error: unknown): void {
    // During an outage before the send, the alert is claimed again after its lease.
    if (ended || isOutage(error)) return
    cooldowns.add(id)
    log(`what became of message ${id} to an owner is not kept`, error)
  }

  async function attempt(taken: OwnerAlert): Promise<NotificationSendResult> {
    const alert = await store.toOwner(taken)
    const turn =
      channel === null || alert === null ? null : await postponeIfOverLimit(records, alert)
    if (turn !== null) return turn
    const result = alert === null ? NO_CONTACT_RESULT : await send(alert)
    await recordExternalEffectWithRetry(() => recordSendResult(records, taken, result), {
      isOutage,
      isStopped: () => ended,
    })
    return result
  }

  async function send({
    id,
    address,
    subject,
    body,
    omittedLines,
    unsubscribeUrl,
  }: OwnerAlert): Promise<NotificationSendResult> {
    if (channel === null) return { outcome: 'refused', reason: disabledReason }
    const text = omittedLines > 0 ? `${body}\nand ${omittedLines} more` : body
    const result = await channel.send({ id, to: address, subject, text, unsubscribeUrl })
    trouble = result.outcome === 'later' ? result.reason : null
    return result
  }

  return {
    /** Extends the leases of running sends. */
    renew: createLeaseRenewer(records, inFlight),
    /**
     * Claims and begins to send due alerts. `dueAt`: when the next alert of this channel is due, undefined if none
     * waits. Returns in how many milliseconds to ask again.
     */
    sendDue,
    /**
     * Sends a stored alert at once. Returns null when the result is not known in time or another
     * node has claimed the alert.
     */
    async sendNow(id: string): Promise<NotificationSendResult | null> {
      const { now, until } = alertLease(clock.now())
      const alert = await store.claimOne(id, now, until)
      const done = alert === null ? null : take(alert)
      return done !== null && (await succeedsWithin(done, SEND_NOW_TIMEOUT_MS)) ? done : null
    },
    /** Why the last message could not be sent; null after a success. */
    trouble: () => trouble,
    /** Waits a few seconds for running sends. Call it after the last round. */
    async stop(): Promise<void> {
      await succeedsWithin(Promise.allSettled([...inFlight.values()]), SHUTDOWN_GRACE_MS)
      ended = true
      await channel?.close()
    },
  }
}
export type OwnerAlertSender = ReturnType<typeof createOwnerAlertSender>

const alertLease = (now: number) => ({ now: new Date(now), until: new Date(now + LEASE_MS) })

type AlertStoreDeps = Pick<OwnerAlertSenderDeps, 'store' | 'clock'>

/** Renews the leases of running sends. */
function createLeaseRenewer(
  { store, clock }: AlertStoreDeps,
  inFlight: ReadonlyMap<string, unknown>,
) {
  let renewedAt = clock.now()
  return async (): Promise<void> => {
    const now = clock.now()
    if (now - renewedAt < LEASE_RENEWAL_MS) return
    if (inFlight.size > 0) await store.renew([...inFlight.keys()], new Date(now + LEASE_MS))
    renewedAt = now
  }
}

/** Returns null if the alert can be sent now. Otherwise postpones or rejects it. */
async function postponeIfOverLimit(
  records: AlertStoreDeps,
  alert: OwnerAlert,
): Promise<NotificationSendResult | null> {
  const { store, clock } = records
  const { ownerMessagesPerDay, ownerCriticalPerDay, addressMessagesPerDay: perAddress } = LIMITS
  const perAgent = alert.critical ? ownerCriticalPerDay : ownerMessagesPerDay
  const now = new Date(clock.now())
  const dueAt = await store.turnOf(alert, { perAgent, perAddress }, now)
  if (dueAt === null) return null
  const afterMs = dueAt.getTime() - now.getTime()
  if (afterMs <= LIMITS.ownerWaitDays * DAY) {
    await store.postpone(alert, DAILY_LIMIT_REASON, dueAt)
    return { outcome: 'later', reason: DAILY_LIMIT_REASON, afterMs }
  }
  const refused = { outcome: 'refused', reason: DAILY_LIMIT_REASON } as const
  await recordSendResult(records, alert, refused)
  return refused
}

async function recordSendResult(
  { store, clock }: AlertStoreDeps,
  alert: OwnerAlert,
  result: NotificationSendResult,
): Promise<void> {
  const now = clock.now()
  const reason = result.outcome === 'sent' ? null : result.reason
  const delays = alert.topic === WEEKLY_DIGEST_TOPIC ? DIGEST_RETRY_DELAYS_MS : RETRY_DELAYS_MS
  const pause = result.outcome === 'later' ? delays[alert.attempts] : undefined
  const state: OwnerAlertDeliveryState =
    result.outcome === 'sent' ? 'sent' : pause === undefined ? 'failed' : 'pending'
  const wait = Math.max(pause ?? 0, result.outcome === 'later' ? (result.afterMs ?? 0) : 0)
  await store.settle(alert, { state, reason, at: new Date(now), dueAt: new Date(now + wait) })
}

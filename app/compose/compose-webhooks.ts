import { DAY, HOUR, type Clock } from '../../core/clock.ts'
import type { EncryptionKeys } from '../../core/key-derivation-and-encryption.ts'
import { LIMITS } from '../../core/limits.ts'
import type { NotificationChannel } from '../../domain/notification-channel-types.ts'
import { isDatabaseUnavailableError as isOutage } from '../../http/detect-database-unavailable-error.ts'
import { createWebhookDeliverer } from '../../jobs/webhook-deliverer.ts'
import { createOutboxEventRouter } from '../../jobs/outbox-event-router.ts'
import { createOwnerAlerts } from '../../jobs/owner-alerts/owner-alert-service.ts'
import { createWeeklyDigestJob } from '../../jobs/owner-alerts/weekly-digest-job.ts'
import { createWeeklyDigestStore } from '../../persistence/notifications/weekly-digest-store.ts'
import { createAgentPeriodFiguresReader } from '../../persistence/account-statement/weekly-digest-figures.ts'
import { createOwnerAlertStore } from '../../persistence/notifications/owner-alert-store.ts'
import type { AggregateChanges, CommitBatchResult } from '../../persistence/commit-batch.ts'
import type { DeadLetterStore } from '../../persistence/dead-letter-store.ts'
import { createWebhookDeliveryStore } from '../../persistence/webhooks/webhook-delivery-store.ts'
import { createOutboxEventRoutingStore } from '../../persistence/webhooks/outbox-event-routing-store.ts'
import { createMailSuppressionStore } from '../../persistence/notifications/mail-suppression-store.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import { createAgentSpendingReportStore } from '../../persistence/account-statement/agent-spending-report-store.ts'
import type { MessageBus } from '../../persistence/message-bus.ts'
import { NEW_TABLE_ROWS_TOPIC } from '../../realtime/throttled-new-rows-announcer.ts'
import { createWebhookStore } from '../../persistence/webhooks/webhook-store.ts'
import { withDatabaseAnswerTimeout } from '../../persistence/query-timeout.ts'
import { parseIpAddressAllowlist } from '../../providers/egress/public-ip-address.ts'
import { createGuardedPostClient } from '../../providers/egress/guarded-post-client.ts'
import type { DnsAddressResolver } from '../../providers/egress/dns-resolver.ts'
import { defaultMailFrom } from '../../providers/mail/agent-mail.ts'
import { createSmtpNotificationChannel } from '../../providers/mail/smtp-notification-channel.ts'
import { createTelegramNotificationChannel } from '../../providers/upstream/telegram-notification-channel.ts'
import type { Config } from '../config.ts'

/** Composes webhooks, pagers and owner alerts. */

export interface ComposeWebhooksDeps {
  readonly config: Pick<Config, 'mail' | 'telegram' | 'ssrfAllow'> & {
    readonly chain: Pick<Config['chain'], 'deposits'>
  }
  readonly publicUrl: string
  readonly userAgent: string
  readonly plane: { readonly bus: Pick<MessageBus, 'subscribe'> }
  readonly sql: Sql
  readonly clock: Clock
  /** Decrypts the webhook secrets. */
  readonly sealing: EncryptionKeys
  readonly letters: Pick<DeadLetterStore, 'put'>
  /** Replaces DNS resolution of receivers. */
  readonly resolve?: DnsAddressResolver | undefined
  readonly log: (message: string, error: unknown) => void
}

/** Maximum connections to one origin: the maximum concurrent attempts of a node. */
const CONNECTIONS = 64

/** Creates the delivery of events to webhooks, pagers and owners. */
export function composeWebhooks(parts: ComposeWebhooksDeps) {
  const { sql, clock, sealing, letters, publicUrl, userAgent, resolve, log } = parts
  const deliveries = createWebhookDeliveryStore(sql, sealing, letters)
  const post = createGuardedPostClient({
    allow: parseIpAddressAllowlist(parts.config.ssrfAllow),
    userAgent,
    timeoutMs: LIMITS.webhookAttemptMs,
    maxBytes: LIMITS.webhookAnswerBytes,
    connections: CONNECTIONS,
    ...(resolve === undefined ? {} : { resolve }),
  })
  const sender = createWebhookDeliverer({ store: deliveries, post, clock, isOutage, log })
  const alerts = createOwnerAlertStore(sql)
  const channels = channelsOf(parts)
  const { deposits } = parts.config.chain
  const owners = createOwnerAlerts({
    store: alerts,
    channels,
    publicUrl,
    deposits,
    clock,
    isOutage,
    log,
  })
  const digests = createWeeklyDigestStore(sql)
  const digestJob = createWeeklyDigestJob({
    digests,
    alerts,
    figuresOf: createAgentPeriodFiguresReader(sql),
    publicUrl,
    clock,
    wake: owners.tells.wake,
    log,
  })
  const eventRouter = createOutboxEventRouter({
    store: createOutboxEventRoutingStore(sql, sealing),
    owners: owners.tells,
    letters,
    clock,
    isOutage,
    wake: sender.wake,
    log,
  })
  /** Other nodes announce their events: what a node leaves that dies is found a second later. */
  const expect = () => [eventRouter, sender, owners].forEach((part) => part.expect())
  const unsubscribe = parts.plane.bus.subscribe(
    NEW_TABLE_ROWS_TOPIC,
    (table) => table === 'outbox' && expect(),
    expect,
  )
  const hooks = createWebhookStore(sql, sealing)
  const since = (now: Date, days: number) => new Date(now.getTime() - days * DAY)
  return {
    /** Services for the routes. */
    served: {
      webhooks: {
        store: hooks,
        deliveries,
        checkUrl: post.check,
        checkSpelling: post.checkWithoutDns,
        wake: sender.wake,
        deliverer: sender,
      },
      owners: {
        store: alerts,
        alerts: owners,
        spending: createAgentSpendingReportStore(sql),
        digests,
        mail: channels.email,
      },
    },
    /** Called after each commit: routes its events at once. */
    committed(_: readonly AggregateChanges[], { storedEvents }: CommitBatchResult): void {
      if (storedEvents > 0) eventRouter.wake()
    },
    async sweep(now: Date): Promise<void> {
      await deliveries.sweep(since(now, LIMITS.deliveryDays))
      await alerts.sweep(since(now, LIMITS.alertDays))
      await hooks.forgetTests(new Date(now.getTime() - HOUR))
    },
    start(): void {
      eventRouter.start()
      sender.start()
      owners.start()
      // Without mail the weeks stay open: an operator who sets it up later sends the last one.
      if (channels.email !== null) digestJob.start()
    },
    async stop(): Promise<void> {
      unsubscribe()
      await Promise.all([eventRouter.stop(), digestJob.stop()])
      await Promise.all([sender.stop(), owners.stop()])
      await post.close()
    },
  }
}

/** Rejects e-mail to addresses whose owner has unsubscribed. */
const withMailSuppression = (sql: Sql, mail: NotificationChannel): NotificationChannel => ({
  ...mail,
  async send(notice) {
    try {
      const suppressed = await withDatabaseAnswerTimeout(
        createMailSuppressionStore(sql).of(notice.to),
      )
      if (suppressed?.reason === 'asked') return { outcome: 'refused', reason: 'unwanted' }
    } catch {
      return { outcome: 'later', reason: 'unavailable' }
    }
    return mail.send(notice)
  },
})

function channelsOf({ config, publicUrl, sql }: ComposeWebhooksDeps) {
  const { mail, telegram } = config
  const from = mail.from ?? defaultMailFrom(publicUrl)
  return {
    email:
      mail.url === null
        ? null
        : withMailSuppression(sql, createSmtpNotificationChannel({ url: mail.url.reveal(), from })),
    telegram:
      telegram.token === null
        ? null
        : createTelegramNotificationChannel({
            base: telegram.base,
            token: telegram.token.reveal(),
          }),
  }
}

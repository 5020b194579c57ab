import { DAY, HOUR, type Clock } from '../core/clock.ts'
import type { SealingKeys } from '../core/crypto.ts'
import { LIMITS } from '../core/limits.ts'
import type { Channel } from '../core/notices.ts'
import { isDatabaseLost as isOutage } from '../http/database-lost.ts'
import { deliverer } from '../jobs/deliveries.ts'
import { fanOut } from '../jobs/fan-out.ts'
import { ownerAlerts } from '../jobs/owner-alerts.ts'
import { alertStore } from '../persistence/alerts.ts'
import type { AggregateChanges } from '../persistence/commit.ts'
import type { DeadLetters } from '../persistence/dead-letters.ts'
import { deliveryStore } from '../persistence/deliveries.ts'
import { fanOutStore } from '../persistence/fan-out.ts'
import { suppressionStore } from '../persistence/mail-suppressions.ts'
import type { Sql } from '../persistence/plane.ts'
import { spendingStore } from '../persistence/spending.ts'
import { webhookStore } from '../persistence/webhooks.ts'
import { answered } from '../persistence/within.ts'
import { parseAllow } from '../tools/egress/address.ts'
import { createPost } from '../tools/egress/post.ts'
import type { ResolveAll } from '../tools/egress/resolver.ts'
import { createMail } from '../tools/mail/smtp.ts'
import { createTelegram } from '../tools/upstream/telegram.ts'
import type { Config } from './config.ts'

export interface WebhookParts {
  readonly config: Pick<Config, 'mail' | 'telegram' | 'ssrfAllow'> & {
    readonly chain: Pick<Config['chain'], 'deposits'>
  }
  readonly publicUrl: string
  readonly userAgent: string
  readonly sql: Sql
  readonly clock: Clock
  /** Opens the envelopes of the secrets. */
  readonly sealing: SealingKeys
  readonly letters: Pick<DeadLetters, 'put'>
  /** How names of receivers are found, where not by the name servers. */
  readonly resolve?: ResolveAll | undefined
  readonly log: (message: string, error: unknown) => void
}

/** To one origin at a time: as many as there may be attempts on a node. */
const CONNECTIONS = 64

/** Facts on their way to webhooks, pagers and owners. */
export function composeWebhooks(parts: WebhookParts) {
  const { sql, clock, sealing, letters, publicUrl, userAgent, resolve, log } = parts
  const deliveries = deliveryStore(sql, sealing, letters)
  const post = createPost({
    allow: parseAllow(parts.config.ssrfAllow),
    userAgent,
    timeoutMs: LIMITS.webhookAttemptMs,
    maxBytes: LIMITS.webhookAnswerBytes,
    connections: CONNECTIONS,
    ...(resolve === undefined ? {} : { resolve }),
  })
  const sender = deliverer({ store: deliveries, post, clock, isOutage, log })
  const alerts = alertStore(sql)
  const channels = channelsOf(parts)
  const { deposits } = parts.config.chain
  const owners = ownerAlerts({ store: alerts, channels, publicUrl, deposits, clock, isOutage, log })
  const facts = fanOut({
    store: fanOutStore(sql, sealing),
    owners: owners.tells,
    letters,
    clock,
    isOutage,
    wake: sender.wake,
    log,
  })
  const hooks = webhookStore(sql, sealing)
  const since = (now: Date, days: number) => new Date(now.getTime() - days * DAY)
  return {
    /** What the routes reach of it. */
    served: {
      webhooks: {
        store: hooks,
        deliveries,
        checkUrl: post.check,
        checkSpelling: post.checkSpelling,
        wake: sender.wake,
        deliverer: sender,
      },
      owners: { store: alerts, alerts: owners, spending: spendingStore(sql) },
    },
    /** Called after each commit: what it let out is handed on at once. */
    committed(changes: readonly AggregateChanges[]): void {
      if (changes.some(({ events }) => events.length > 0)) facts.wake()
    },
    async sweep(now: Date): Promise<void> {
      await deliveries.sweep(since(now, LIMITS.deliveryDays))
      await alerts.sweep(since(now, LIMITS.alertDays))
      await hooks.forgetTests(new Date(now.getTime() - HOUR))
    },
    start(): void {
      facts.start()
      sender.start()
      owners.start()
    },
    async stop(): Promise<void> {
      await facts.stop()
      await Promise.all([sender.stop(), owners.stop()])
      await post.close()
    },
  }
}

/** Who wants no more e-mail of this station gets none, whoever has named the address. */
const unlessUnwanted = (sql: Sql, mail: Channel): Channel => ({
  ...mail,
  async send(notice) {
    try {
      const suppressed = await answered(suppressionStore(sql).of(notice.to))
      if (suppressed?.reason === 'asked') return { outcome: 'refused', reason: 'unwanted' }
    } catch {
      return { outcome: 'later', reason: 'unavailable' }
    }
    return mail.send(notice)
  },
})

function channelsOf({ config, publicUrl, sql }: WebhookParts) {
  const { mail, telegram } = config
  const from = mail.from ?? `gas-station@${new URL(publicUrl).hostname}`
  return {
    email:
      mail.url === null ? null : unlessUnwanted(sql, createMail({ url: mail.url.reveal(), from })),
    telegram:
      telegram.token === null
        ? null
        : createTelegram({ base: telegram.base, token: telegram.token.reveal() }),
  }
}

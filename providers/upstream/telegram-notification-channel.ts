import { Agent, fetch } from 'undici'
import { DAY, MINUTE, SECOND } from '../../core/clock.ts'
import {
  toSingleLine,
  type NotificationChannel,
  type EmailOrTelegramMessage,
  type NotificationSendResult,
} from '../../domain/notification-channel-types.ts'
import { readLimitedBody } from '../egress/fetch-errors-and-body-limit.ts'
import { createOperatorDnsLookup } from '../egress/operator-dns-lookup.ts'

/** Notifications by Telegram. */

export interface TelegramSettings {
  /** Base URL of the Bot API without a trailing slash. */
  readonly base: string
  readonly token: string
}

/** Long, because the Bot API has no idempotency: a timeout would send the message twice. */
const TELEGRAM_TIMEOUT_MS = MINUTE
/** Maximum requested retry delay. */
const MAX_RETRY_AFTER_MS = DAY
const CONNECTIONS = 4
const MAX_TELEGRAM_REPLY_BYTES = 64 * 1024
/** Maximum length of a message in the Bot API. */
const MAX_TELEGRAM_TEXT_CHARS = 4_096

/** Creates a channel to Telegram chats with `sendMessage`, as plain text without markup. */
export function createTelegramNotificationChannel({
  base,
  token,
}: TelegramSettings): NotificationChannel {
  const agent = new Agent({
    connections: CONNECTIONS,
    connect: { timeout: 3 * SECOND, lookup: createOperatorDnsLookup() },
  })
  const url = `${base}/bot${token}/sendMessage`

  async function ask({
    to,
    subject,
    text,
  }: EmailOrTelegramMessage): Promise<NotificationSendResult> {
    const reply = await fetch(url, {
      method: 'POST',
      dispatcher: agent,
      redirect: 'manual',
      signal: AbortSignal.timeout(TELEGRAM_TIMEOUT_MS),
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        chat_id: to,
        text: `${subject}\n\n${text}`.slice(0, MAX_TELEGRAM_TEXT_CHARS),
        link_preview_options: { is_disabled: true },
      }),
    })
    return toSendingOutcome(
      reply.status,
      (await readLimitedBody(reply, MAX_TELEGRAM_REPLY_BYTES)).toString('utf8'),
    )
  }

  return {
    maxConcurrent: CONNECTIONS,
    // The URL contains the token, so connection errors are not passed on.
    send: (notice) =>
      ask(notice).catch(() => ({ outcome: 'later' as const, reason: 'telegram does not answer' })),
    close: () => agent.destroy(),
  }
}

interface BotReply {
  readonly ok?: boolean
  readonly description?: string
  readonly parameters?: { readonly retry_after?: number }
}

function toSendingOutcome(status: number, text: string): NotificationSendResult {
  const { ok, description = '', parameters } = parse(text)
  if (ok === true) return { outcome: 'sent' }
  const reason = `telegram ${status}${description === '' ? '' : `: ${toSingleLine(description, 200)}`}`
  if (status === 429) {
    const seconds = parameters?.retry_after
    return {
      outcome: 'later',
      reason,
      ...(typeof seconds === 'number'
        ? { afterMs: Math.min(seconds * SECOND, MAX_RETRY_AFTER_MS) }
        : {}),
    }
  }
  // 401 and 404 concern the token, which the operator may fix; 400 and 403 concern the chat.
  return { outcome: status === 400 || status === 403 ? 'refused' : 'later', reason }
}

function parse(text: string): BotReply {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}

import { Agent, fetch } from 'undici'
import { DAY, MINUTE, SECOND } from '../../core/clock.ts'
import { oneLine, type Channel, type Notice, type Sending } from '../../core/notices.ts'
import { readAtMost } from '../egress/failure.ts'
import { operatorLookup } from '../egress/lookup.ts'

export interface TelegramSettings {
  /** Where the Bot API answers, without a slash at its end. */
  readonly base: string
  readonly token: string
}

/** A message whose answer is not waited for would come twice: the Bot API knows no repetition. */
const ANSWER_MS = MINUTE
/** A wait that is asked for counts up to here. */
const LONGEST_WAIT_MS = DAY
const CONNECTIONS = 4
const ANSWER_BYTES = 64 * 1024
/** A message of the Bot API ends there. */
const LONGEST_TEXT = 4_096

/** Chats of Telegram by its Bot API (`sendMessage`), plain text: no markup is read. */
export function createTelegram({ base, token }: TelegramSettings): Channel {
  const agent = new Agent({
    connections: CONNECTIONS,
    connect: { timeout: 3 * SECOND, lookup: operatorLookup() },
  })
  const url = `${base}/bot${token}/sendMessage`

  async function ask({ to, subject, text }: Notice): Promise<Sending> {
    const reply = await fetch(url, {
      method: 'POST',
      dispatcher: agent,
      redirect: 'manual',
      signal: AbortSignal.timeout(ANSWER_MS),
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        chat_id: to,
        text: `${subject}\n\n${text}`.slice(0, LONGEST_TEXT),
        link_preview_options: { is_disabled: true },
      }),
    })
    return verdict(reply.status, (await readAtMost(reply, ANSWER_BYTES)).toString('utf8'))
  }

  return {
    atOnce: CONNECTIONS,
    // The address holds the token: no error of the connection is handed on.
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

function verdict(status: number, text: string): Sending {
  const { ok, description = '', parameters } = parse(text)
  if (ok === true) return { outcome: 'sent' }
  const reason = `telegram ${status}${description === '' ? '' : `: ${oneLine(description, 200)}`}`
  if (status === 429) {
    const seconds = parameters?.retry_after
    return {
      outcome: 'later',
      reason,
      ...(typeof seconds === 'number'
        ? { afterMs: Math.min(seconds * SECOND, LONGEST_WAIT_MS) }
        : {}),
    }
  }
  // 401 and 404 are about our token, which the operator may put right; 400 and 403 are about the chat.
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

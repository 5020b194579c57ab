import type { AddressInfo } from 'node:net'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { SMTPServer, type SMTPServerSession } from 'smtp-server'
import {
  sendJsonFixture,
  startFixtureServer,
  type TeardownScope,
} from '../upstreams/fixture-server.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'

/** Local SMTP and Telegram servers that record messages. */

export interface ReceivedMail {
  readonly to: readonly string[]
  readonly from: string
  readonly subject: string
  /** The whole message with headers. */
  readonly raw: string
}

export interface ReceivedTelegramMessage {
  readonly chat: string
  readonly text: string
}

/** Polls until a condition holds; fails after a timeout. */
export async function eventually(
  holds: () => boolean | Promise<boolean>,
  what: string,
): Promise<void> {
  const until = performance.now() + 30_000
  while (!(await holds())) {
    if (performance.now() > until) throw new Error(`it never came: ${what}`)
    await new Promise((done) => setTimeout(done, 20))
  }
}

/**
 * A local SMTP server that stores messages at once or with a delay, or rejects them with a code.
 */
export async function startTestMailServer(t: TeardownScope) {
  const letters: ReceivedMail[] = []
  const mood: {
    refuse: number | null
    holds: () => Promise<void>
    /** Rejected recipients in lower case, with the text of the 550 reply. */
    unknown: Record<string, string>
  } = { refuse: null, holds: async () => undefined, unknown: {} }
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    logger: false,
    onRcptTo({ address }, _session, done) {
      const said = mood.unknown[address.toLowerCase()]
      done(said === undefined ? null : Object.assign(new Error(said), { responseCode: 550 }))
    },
    onData(stream, session, done) {
      void answerTo(stream, session, done)
    },
  })
  async function answerTo(
    stream: Readable,
    session: SMTPServerSession,
    done: (refused: Error | null, taken: string) => void,
  ): Promise<void> {
    done(await take(stream, session), 'x-fixture: kept')
  }
  /** Stores a message; returns the rejection, if any. */
  async function take(stream: Readable, { envelope }: SMTPServerSession): Promise<Error | null> {
    const raw = await text(stream)
    await mood.holds()
    if (mood.refuse !== null) return Object.assign(new Error('no'), { responseCode: mood.refuse })
    const { mailFrom, rcptTo } = envelope
    letters.push({
      to: rcptTo.map(({ address }) => address),
      from: mailFrom === false ? '' : mailFrom.address,
      subject:
        /^Subject: ((?:.+(?:\r\n[ \t])?)+)/m.exec(raw)?.[1]?.replace(/\r\n[ \t]/g, ' ') ?? '',
      raw,
    })
    return null
  }
  server.on('error', () => {})
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  t.teardown(() => new Promise<void>((done) => server.close(done)))
  const { port } = server.server.address() as AddressInfo
  return { url: `smtp://127.0.0.1:${port}`, letters, mood }
}

/** A server with the Bot API's `sendMessage`, optionally delayed. */
export async function startTestTelegram(t: TeardownScope) {
  const messages: ReceivedTelegramMessage[] = []
  const mood: {
    answer: (chat: string) => { status: number; body: object } | null
    holds: () => Promise<void>
  } = { answer: () => null, holds: async () => undefined }
  const token = '4242:test-token'
  const served = await startFixtureServer(t, (request, response) => {
    void text(request).then(async (body) => {
      if (request.url !== `/bot${token}/sendMessage`)
        return sendJsonFixture(
          response,
          { ok: false, error_code: 404, description: 'Not Found' },
          404,
        )
      const asked = JSON.parse(body) as { chat_id: string; text: string }
      const refused = mood.answer(asked.chat_id)
      if (refused !== null) return sendJsonFixture(response, refused.body, refused.status)
      messages.push({ chat: asked.chat_id, text: asked.text })
      await mood.holds()
      sendJsonFixture(response, { ok: true, result: { message_id: messages.length } })
    })
  })
  return { base: served.base, token, messages, mood, seen: served.requests }
}

/** Waits until every event is dispatched and at most `most` alerts are pending. */
export const waitUntilOwnerAlertsDispatched = ({ sql }: { readonly sql: Sql }, most = 0) =>
  eventually(async () => {
    const [row] = await sql`
      select (select coalesce(max(id), 0) from outbox) <= (select position from event_routing_cursor) as handed,
             (select count(*)::int from alerts where state = 'pending') as waiting`
    return row?.['handed'] === true && row['waiting'] <= most
  }, 'the end of all alerts')

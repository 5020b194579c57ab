import { Readable } from 'node:stream'
import type SMTPConnection from 'nodemailer/lib/smtp-connection'
import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import type { EmailOrTelegramMessage } from '../../domain/notification-channel-types.ts'
import { agentMailFooter, senderAddress } from './agent-mail.ts'
import { unknownMailboxStatusOfSmtpError } from './smtp-bounce.ts'
import type { Mailer, MailSuppressionList } from './mail-port.ts'
import {
  mailSenderHost,
  toMailMessage,
  type MailSettings,
  type SmtpError,
} from './smtp-notification-channel.ts'

/** Sends e-mail at most once. */

const CONNECT_MS = 5 * SECOND
const MAIL_SOCKET_TIMEOUT_MS = 30 * SECOND

/**
 * Uses one connection per message, without retries: a connection pool would resend a message whose connection
 * broke after the server may have accepted it.
 */
export function createAtMostOnceMailer(
  { url, from, publicUrl }: MailSettings & { readonly publicUrl: string },
  suppressions: MailSuppressionList,
  log: (message: string, error: unknown) => void,
): Mailer {
  const host = mailSenderHost(from)
  const sender = senderAddress(from)
  return {
    publicUrl,
    findSuppression: (address) => suppressions.of(address),
    async send(notice, seal, signal) {
      const { default: MailComposer } = await import('nodemailer/lib/mail-composer')
      const text = `${notice.text.trimEnd()}${agentMailFooter(notice.agentId, publicUrl)}`
      const message = toMailMessage({ ...notice, text }, from, host)
      const whole = await new MailComposer(message).compile().build()
      signal.throwIfAborted()
      const { to } = notice
      try {
        return await deliverMail({ url, envelope: { from: sender, to }, whole, seal, signal })
      } catch (error) {
        const status = unknownMailboxStatusOfSmtpError(((error as Error).cause ?? {}) as SmtpError)
        // Recorded before the rejection, since the caller may retry at once.
        if (status !== null)
          await suppressions
            .bounced(to, status)
            .catch((cause: unknown) => log('an address that bounced was not kept', cause))
        throw error
      }
    },
  }
}

interface MailDelivery {
  readonly url: string
  readonly envelope: { readonly from: string; readonly to: EmailOrTelegramMessage['to'] }
  readonly whole: Buffer
  readonly seal: () => void
  readonly signal: AbortSignal
}

const FIXTURE_REPLY = /\bx-fixture\b/

async function deliverMail({
  url,
  envelope,
  whole,
  seal,
  signal,
}: MailDelivery): Promise<'live' | 'fixture'> {
  const [{ parseConnectionUrl }, { default: Connection }] = await Promise.all([
    import('nodemailer/lib/shared'),
    import('nodemailer/lib/smtp-connection'),
  ])
  signal.throwIfAborted()
  const options = parseConnectionUrl(url)
  const connection = new Connection({
    ...options,
    connectionTimeout: CONNECT_MS,
    greetingTimeout: CONNECT_MS,
    dnsTimeout: CONNECT_MS,
    socketTimeout: MAIL_SOCKET_TIMEOUT_MS,
    logger: false,
  })
  let leaving = false
  const message = createMessageStream(whole, () => {
    seal()
    leaving = true
  })
  return new Promise((resolve, reject) => {
    const end = (error: unknown, said = '') => {
      signal.removeEventListener('abort', leave)
      if (error === null) connection.quit()
      else connection.close()
      if (error === null) resolve(FIXTURE_REPLY.test(said) ? 'fixture' : 'live')
      else
        reject(
          signal.aborted && !leaving ? signal.reason : toDeliveryError(error as SmtpError, leaving),
        )
    }
    const leave = () => {
      if (!leaving) end(signal.reason)
    }
    signal.addEventListener('abort', leave)
    const send = () =>
      connection.send(envelope, message, (error, info) => end(error, info?.response))
    connection.on('error', end)
    connection.connect((error) => {
      if (error !== undefined) return end(error)
      const { auth } = options as { auth?: SMTPConnection.Credentials }
      if (auth === undefined) return send()
      connection.login(auth, (refused) => (refused ? end(refused) : send()))
    })
  })
}

/** Read only when the server asks for the message, so `before` runs right before the first byte. */
function createMessageStream(whole: Buffer, before: () => void): Readable {
  return new Readable({
    read() {
      try {
        before()
        this.push(whole)
        this.push(null)
      } catch (error) {
        this.destroy(error as Error)
      }
    },
  })
}

/** An answer of the server is final; silence after the first byte leaves the outcome unknown. */
function toDeliveryError(error: SmtpError, leaving: boolean): unknown {
  const { code = 'error', responseCode } = error
  if (responseCode !== undefined)
    return new ServiceError(
      'upstream_error',
      { provider: 'smtp', smtp_status: responseCode },
      error,
    )
  if (leaving) return new ServiceError('outcome_unknown', { provider: 'smtp' }, error)
  if (error instanceof ServiceError) return error
  return new ServiceError('upstream_error', { provider: 'smtp', reason: code }, error)
}

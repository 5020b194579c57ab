import { SECOND } from '../../core/clock.ts'
import {
  toSingleLine,
  type NotificationChannel,
  type EmailOrTelegramMessage,
  type NotificationSendResult,
} from '../../domain/notification-channel-types.ts'

/** Notifications by e-mail. */

export interface MailSettings {
  /** `smtp://` or `smtps://`, with user and password if required. */
  readonly url: string
  /** The From address, with or without a name. */
  readonly from: string
}

const CONNECT_MS = 5 * SECOND
/** A server may process a complete message slowly; after a timeout it would be sent twice. */
const SMTP_SOCKET_TIMEOUT_MS = 60 * SECOND
const CONNECTIONS = 2
const MAX_SUBJECT_CHARS = 150

/**
 * Creates a plain-text SMTP channel with one recipient per message. Only the subject and the address come
 * from callers: the subject is flattened to one line, and the address is never parsed as a list.
 */
export function createSmtpNotificationChannel({ url, from }: MailSettings): NotificationChannel {
  let opened: ReturnType<typeof openTransport> | undefined
  const host = mailSenderHost(from)
  return {
    maxConcurrent: CONNECTIONS,
    async send(notice) {
      try {
        const transport = await (opened ??= openTransport(url))
        await transport.sendMail(toMailMessage(notice, from, host))
        return { outcome: 'sent' }
      } catch (error) {
        return toSendingFailure(error as SmtpError)
      }
    },
    async close() {
      const transport = await opened
      transport?.close()
    },
  }
}

/** Loads the client with the first message: a station without mail does without it. */
async function openTransport(url: string) {
  const { createTransport } = await import('nodemailer')
  const transport = createTransport({
    url,
    pool: true,
    maxConnections: CONNECTIONS,
    connectionTimeout: CONNECT_MS,
    greetingTimeout: CONNECT_MS,
    dnsTimeout: CONNECT_MS,
    socketTimeout: SMTP_SOCKET_TIMEOUT_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  // An idle connection may break; without a listener that would end the process.
  transport.on('error', () => undefined)
  return transport
}

/** Returns the message of a notification; its id identifies a repeat. */
export const toMailMessage = (
  { id, to, subject, text, unsubscribeUrl }: EmailOrTelegramMessage,
  from: string,
  host: string,
) => ({
  from,
  to: { name: '', address: to },
  subject: withoutEncodedWords(toSingleLine(subject, MAX_SUBJECT_CHARS)),
  text,
  messageId: `<${id}@${host}>`,
  headers: {
    'Auto-Submitted': 'auto-generated',
    ...(unsubscribeUrl == null
      ? {}
      : {
          'List-Unsubscribe': `<${unsubscribeUrl}>`,
          'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
        }),
  },
})

/**
 * A subject in ASCII is sent as it is, and a reader would decode what looks like an encoded word (RFC 2047): another text
 * than the one that was checked.
 */
const withoutEncodedWords = (subject: string): string => subject.replaceAll('=?', '= ?')

/** Returns the host of the From address. */
export const mailSenderHost = (from: string): string =>
  /@([A-Za-z0-9.-]+)/.exec(from)?.[1] ?? 'localhost'

export interface SmtpError extends Error {
  readonly code?: string
  readonly responseCode?: number
  /** The last response of the server, and its command. */
  readonly response?: string
  readonly command?: string
}

/** Returns the kind of failure only, since a response may quote the password. */
function toSendingFailure({ code = 'error', responseCode }: SmtpError): NotificationSendResult {
  const reason = responseCode === undefined ? `smtp ${code}` : `smtp ${responseCode}`
  const final =
    (responseCode !== undefined && responseCode >= 500 && code !== 'EAUTH') ||
    (code === 'EENVELOPE' && responseCode === undefined)
  return { outcome: final ? 'refused' : 'later', reason }
}

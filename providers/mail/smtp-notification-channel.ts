import { createTransport } from 'nodemailer'
import { SECOND } from '../../core/clock.ts'
import {
  toSingleLine,
  type NotificationChannel,
  type OutgoingNotification,
  type NotificationSendResult,
} from '../../domain/notifications.ts'

export interface MailSettings {
  /** `smtp://` or `smtps://`, with user and password where the server wants them. */
  readonly url: string
  /** What stands in From: an address, with or without a name. */
  readonly from: string
}

const CONNECT_MS = 5 * SECOND
/** A server may think long about a message it has been given whole; cut off, it would come twice. */
const SMTP_SOCKET_TIMEOUT_MS = 60 * SECOND
const CONNECTIONS = 2
const MAX_SUBJECT_CHARS = 150

/**
 * E-mail by SMTP, plain text, one recipient. Nothing a caller wrote reaches a header but the subject
 * and the address: the first is flattened to one line, the second is never read as a list.
 */
export function createSmtpNotificationChannel({ url, from }: MailSettings): NotificationChannel {
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
  // An idle connection that breaks concerns nobody; without a listener the process would end.
  transport.on('error', () => undefined)
  const host = senderHost(from)
  return {
    maxConcurrent: CONNECTIONS,
    async send(notice) {
      try {
        await transport.sendMail(toMailMessage(notice, from, host))
        return { outcome: 'sent' }
      } catch (error) {
        return toSendingFailure(error as SmtpError)
      }
    },
    async close() {
      transport.close()
    },
  }
}

/** The letter of a notice; its id makes a repeated one known. */
export const toMailMessage = (
  { id, to, subject, text }: OutgoingNotification,
  from: string,
  host: string,
) => ({
  from,
  to: { name: '', address: to },
  subject: toSingleLine(subject, MAX_SUBJECT_CHARS),
  text,
  messageId: `<${id}@${host}>`,
  headers: { 'Auto-Submitted': 'auto-generated' },
})

/** The host of the address in From. */
export const senderHost = (from: string): string =>
  /@([A-Za-z0-9.-]+)/.exec(from)?.[1] ?? 'localhost'

export interface SmtpError extends Error {
  readonly code?: string
  readonly responseCode?: number
  /** The last line of what the server answered, and to which command. */
  readonly response?: string
  readonly command?: string
}

/** Only what kind of trouble: an answer may quote the password that was sent. */
function toSendingFailure({ code = 'error', responseCode }: SmtpError): NotificationSendResult {
  const reason = responseCode === undefined ? `smtp ${code}` : `smtp ${responseCode}`
  const final =
    (responseCode !== undefined && responseCode >= 500 && code !== 'EAUTH') ||
    (code === 'EENVELOPE' && responseCode === undefined)
  return { outcome: final ? 'refused' : 'later', reason }
}

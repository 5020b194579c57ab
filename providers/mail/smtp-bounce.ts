import type { SmtpError } from './smtp-notification-channel.ts'

/** Of the classes of RFC 3463: a bad destination address, or a mailbox that has moved or is closed. */
const UNKNOWN_MAILBOX_STATUS = /^5\.(?:1\.(?:[1-6]|10)|2\.1)$/
/** What servers say when they refuse the one who sends, what is sent, or how often. */
const SENDER_REJECTION =
  /relay|spam|block|black ?list|deny|denied|denies|policy|reputation|authenticat|sender|spf|dkim|dmarc|listed|\brate|too many|quota|later|content/i
const LINK = /https?:/i

/**
 * The answer by which a mail server says that an address does not exist; null for every other one. What
 * is refused for the letter's sake or the station's, or because too much was sent, says nothing of the
 * address: one caller could close it to all others by that.
 */
export function parseBounceStatus({
  responseCode,
  response = '',
  command,
}: SmtpError): number | null {
  if (responseCode === undefined || responseCode < 500) return null
  // Before them nobody was named.
  if (command !== 'RCPT TO' && command !== 'DATA') return null
  if (SENDER_REJECTION.test(response)) return null
  const [, enhanced] = /^\d{3}[ -](\d\.\d{1,3}\.\d{1,3})\b/.exec(response) ?? []
  if (enhanced !== undefined) return UNKNOWN_MAILBOX_STATUS.test(enhanced) ? responseCode : null
  const plain = responseCode === 550 && command === 'RCPT TO' && !LINK.test(response)
  return plain ? responseCode : null
}

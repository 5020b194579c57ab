import type { SmtpError } from './smtp-notification-channel.ts'

/** Recognises bounces in SMTP errors. */

/** Status codes of RFC 3463: a bad destination address, or a mailbox that has moved or is closed. */
const UNKNOWN_MAILBOX_STATUS = /^5\.(?:1\.(?:[1-6]|10)|2\.1)$/
/** Texts of refusals for the sender, the content or the rate. */
const SENDER_REJECTION =
  /relay|spam|block|black ?list|deny|denied|denies|policy|reputation|authenticat|sender|spf|dkim|dmarc|listed|\brate|too many|quota|later|content/i
const LINK = /https?:/i

/**
 * Returns the SMTP status when an address does not exist; null for all other errors. Refusals for the
 * message, the station or the rate are not about the address: otherwise one caller could block an address for
 * all others.
 */
export function unknownMailboxStatusOfSmtpError({
  responseCode,
  response = '',
  command,
}: SmtpError): number | null {
  if (responseCode === undefined || responseCode < 500) return null
  // Earlier commands name no recipient.
  if (command !== 'RCPT TO' && command !== 'DATA') return null
  if (SENDER_REJECTION.test(response)) return null
  const [, enhanced] = /^\d{3}[ -](\d\.\d{1,3}\.\d{1,3})\b/.exec(response) ?? []
  if (enhanced !== undefined) return UNKNOWN_MAILBOX_STATUS.test(enhanced) ? responseCode : null
  const plain = responseCode === 550 && command === 'RCPT TO' && !LINK.test(response)
  return plain ? responseCode : null
}

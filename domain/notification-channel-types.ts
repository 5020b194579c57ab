/** Channels to a person: e-mail or Telegram. */
export type NotificationChannelName = 'email' | 'telegram'

/** A plain text message to a person. */
export interface EmailOrTelegramMessage {
  /** The same for all attempts. */
  readonly id: string
  readonly to: string
  readonly subject: string
  readonly text: string
  /** Where a POST ends messages of this kind (RFC 8058); null or absent for one that has to be read. */
  readonly unsubscribeUrl?: string | null
}

/** Result of an attempt: `later` may be retried, `refused` is permanent. */
export type NotificationSendResult =
  | { readonly outcome: 'sent' }
  | { readonly outcome: 'later'; readonly reason: string; readonly afterMs?: number }
  | { readonly outcome: 'refused'; readonly reason: string }

/** Sends messages to people. Never rejects. */
export interface NotificationChannel {
  /** Maximum concurrent sends. */
  readonly maxConcurrent: number
  send(notice: EmailOrTelegramMessage): Promise<NotificationSendResult>
  close(): Promise<void>
}

/** Normalizes an address: e-mail in lower case, chat numbers without leading zeros. */
export const normalizeContactAddress = (
  channel: NotificationChannelName,
  address: string,
): string => (channel === 'email' ? address.toLowerCase() : address.replace(/^(-?)0+(?=\d)/, '$1'))

/** Text for a header or subject: one line without control characters. */
export const toSingleLine = (text: string, maxChars: number): string =>
  text
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
    .slice(0, maxChars)

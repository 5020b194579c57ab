/** The ways to a person: an e-mail address, or a chat on Telegram. */
export type NotificationChannelName = 'email' | 'telegram'

/** A message to a person; plain text. */
export interface OutgoingNotification {
  /** The same for every attempt to send it. */
  readonly id: string
  readonly to: string
  readonly subject: string
  readonly text: string
}

/** What became of an attempt: `later` may be tried again, `refused` never will be taken. */
export type NotificationSendResult =
  | { readonly outcome: 'sent' }
  | { readonly outcome: 'later'; readonly reason: string; readonly afterMs?: number }
  | { readonly outcome: 'refused'; readonly reason: string }

/** Sends to people; never rejects. */
export interface NotificationChannel {
  /** How many it sends at a time; further ones would wait. */
  readonly maxConcurrent: number
  send(notice: OutgoingNotification): Promise<NotificationSendResult>
  close(): Promise<void>
}

/** An address however it was spelt: mailboxes know no case, and the number of a chat no zeros before it. */
export const normalizeContactAddress = (
  channel: NotificationChannelName,
  address: string,
): string => (channel === 'email' ? address.toLowerCase() : address.replace(/^(-?)0+(?=\d)/, '$1'))

/** One line of a header or a subject: nothing in it can end the line, or hide in it. */
export const toSingleLine = (text: string, most: number): string =>
  text
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
    .slice(0, most)

import type { OutgoingNotification } from '../../domain/notifications.ts'

/** Why an address gets no letters: its mailbox was not known, or its owner wants none. */
export interface SuppressedMailbox {
  readonly reason: 'bounced' | 'asked'
  readonly smtpStatus: number | null
  readonly since: Date
  /** Null: for good. */
  readonly until: Date | null
}

/** The addresses that get no letters. */
export interface MailSuppressionList {
  of(address: string): Promise<SuppressedMailbox | null>
  /** A mail server has answered so that there is no such mailbox. */
  bounced(address: string, smtpStatus: number): Promise<void>
}

/** One letter to one person, sent once. */
export interface Mailer {
  /** Why an address gets no letter; null where it does. */
  findSuppression(address: string): Promise<SuppressedMailbox | null>
  /**
   * Resolves when the server has taken the letter: `fixture` where a stand-in took it that says so. `seal` is called before its first byte leaves, and
   * what it throws stops the letter. Rejects with `upstream_error` where it surely was not taken
   * (`smtp_status`: what the server refused it with), with `outcome_unknown` where nobody can say, and
   * with the reason of the signal before the seal.
   */
  send(
    letter: OutgoingNotification,
    seal: () => void,
    signal: AbortSignal,
  ): Promise<'live' | 'fixture'>
}

import type { EmailOrTelegramMessage } from '../../domain/notification-channel-types.ts'

/** Why an address gets no mail: its mailbox is unknown, or its owner unsubscribed. */
export interface SuppressedMailbox {
  readonly reason: 'bounced' | 'asked'
  readonly smtpStatus: number | null
  readonly since: Date
  /** Null for permanent. */
  readonly until: Date | null
}

/** Addresses that get no mail. */
export interface MailSuppressionList {
  of(address: string): Promise<SuppressedMailbox | null>
  /** Records that a mail server reported an unknown mailbox. */
  bounced(address: string, smtpStatus: number): Promise<void>
}

/** A mail that an agent has written. */
export interface AgentMail extends EmailOrTelegramMessage {
  readonly agentId: string
}

/** Sends mails of agents to one recipient, at most once; a footer names the agent. */
export interface Mailer {
  /** The address of the station, which no mail of an agent may link. */
  readonly publicUrl: string
  /** Returns why an address gets no mail; null where it does. */
  findSuppression(address: string): Promise<SuppressedMailbox | null>
  /**
   * Resolves when the server has accepted the message: with `fixture` where a test server did. `seal` is
   * called before the first byte is sent; when it throws, nothing is sent. Rejects with `upstream_error`
   * where the message was not accepted (`smtp_status`: the server's refusal), with `outcome_unknown` where
   * that is uncertain, and with the signal's reason before the seal.
   */
  send(message: AgentMail, seal: () => void, signal: AbortSignal): Promise<'live' | 'fixture'>
}

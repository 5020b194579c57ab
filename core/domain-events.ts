/**
 * Facts that leave a commit through the outbox: what pagers, webhooks, alerts and sockets deliver.
 * Decision 42 says what causes each.
 */
export type DomainEventType =
  | 'tool_call'
  | 'low_balance'
  | 'topup'
  | 'agent_ping'
  | 'bounty_received'
  | 'daily_limit_hit'
  | 'error'
  | 'fuse.tripped'
  | 'backpack.created'
  | 'backpack.expiring'
  | 'wallet.exported'
  | 'webhook.disabled'
  // a schedule's run has ended; its runs have stopped for want of credits
  | 'schedule.result'
  | 'schedule.paused'

export interface DomainEvent {
  readonly type: DomainEventType
  /** The agent it is addressed to. */
  readonly to: string
  /** The Backpack whose pager it belongs to, if any. */
  readonly backpackId?: string | null
  /** JSON values only; amounts as USDC numbers. */
  readonly data: Record<string, unknown>
}

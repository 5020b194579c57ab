/**
 * Domain events that a commit writes to the outbox, for pagers, webhooks, alerts and sockets.
 * Decision 42 lists the cause of each.
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
  // a run of a schedule ended; a schedule stopped for lack of credits
  | 'schedule.result'
  | 'schedule.paused'

export interface DomainEvent {
  readonly type: DomainEventType
  /** The receiving agent. */
  readonly to: string
  /** The Backpack whose pager gets it, if any. */
  readonly backpackId?: string | null
  /** JSON values only; amounts as USDC numbers. */
  readonly data: Record<string, unknown>
}

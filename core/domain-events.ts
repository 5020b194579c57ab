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
  // its owner froze the agent, or let it go on
  | 'agent.frozen'
  | 'agent.unfrozen'
  | 'webhook.disabled'
  // a run of a schedule ended; a schedule stopped for lack of credits
  | 'schedule.result'
  | 'schedule.paused'
  // a tool that the agent sells was listed, suspended or reviewed
  | 'tool.judged'

export interface DomainEvent {
  readonly type: DomainEventType
  /** The receiving agent. */
  readonly to: string
  /** The Backpack whose pager gets it, if any. */
  readonly backpackId?: string | null
  /** JSON values only; amounts as USDC numbers. */
  readonly data: Record<string, unknown>
  /** Stored only if the agent has a webhook or a stream (decision 189). */
  readonly onlyIfHeard?: boolean
}

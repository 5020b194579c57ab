import type { DomainEvent } from './domain-events.ts'
import type { Micros } from './money.ts'

/** The kinds of aggregates: each has one mailbox and one version. */
export type AggregateKind = 'agent' | 'visitor' | 'payer' | 'fleet' | 'drop' | 'bounty'

export type LedgerTransferKind =
  | 'grant'
  | 'hold'
  | 'release'
  | 'charge'
  | 'fee'
  | 'send'
  | 'tip'
  | 'tip_fee'
  // from a chain into the service, and from there to an agent or a fleet
  | 'deposit'
  | 'topup'
  | 'bonus'
  | 'reorg'
  // payments of single calls on other rails
  | 'settlement'
  | 'refund'
  | 'loss'
  // a fleet's pool
  | 'draw'
  | 'draw_back'
  // what others bring, and what is given away
  | 'referral'
  | 'payout'
  | 'drop'
  // a bounty: into its escrow, and from there to its claimer or back
  | 'escrow'
  | 'bounty'
  | 'escrow_back'
  // of fees into the pool that pays for reads of the Hive, and from there to authors
  | 'royalty_feed'
  | 'royalty'
  // the part of a price that is another agent's
  | 'share'

/** One ledger movement, debit account -> credit account; the amount is positive. */
export interface LedgerTransfer {
  readonly debit: string
  readonly credit: string
  readonly amount: Micros
  readonly kind: LedgerTransferKind
  readonly callId?: string | null
  /** What the payer wrote beside it. */
  readonly memo?: string | null
  /** `PROMO_TRANSFERABLE` is on: it may take promotional credits from one agent for another. */
  readonly promoAllowed?: boolean
}

/** A part of a call's price that is another agent's; it is credited in the commit of the call. */
export interface PriceShare {
  /** The agent. */
  readonly to: string
  readonly amount: Micros
  /**
   * What is written and told with it. `credited` is what reaches the agent: what the caller pays with
   * promotional credits returns to the grants where those cannot be sent (decision 152).
   */
  readonly stagedWrites?: (credited: Micros) => {
    readonly rows: readonly { table: string; row: Record<string, unknown> }[]
    readonly events: readonly DomainEvent[]
  }
  /** The treasury takes nothing of this price: all the rest is the tools'. */
  readonly withoutFee?: boolean
}

/** A watch of the calling agent that begins or ends with its call; how many there are is bounded. */
export interface WatchListChange {
  readonly type: 'BEGIN' | 'END'
  readonly watchId: string
}

/** How often an agent may call a tool a UTC day. */
export interface DailyToolQuota {
  readonly most: number
}

/** Free calls that an agent has for life, by the tool they are of. */
export interface LifetimeFreeCalls {
  readonly name: string
  readonly most: number
}

/**
 * What the calling agent owns for good from its call on, or that its memories were put in order, by
 * one who has seen `seen` orders before. The call fails where that does not hold any more.
 */
export type EntitlementChange =
  | { readonly type: 'OWN'; readonly names: readonly string[] }
  | { readonly type: 'ORDER'; readonly seen: number }

/** One row of `calls`: a tool call, or another write that carried an Idempotency-Key. */
export interface CallRow {
  readonly callId: string
  /** The agent, or null for a caller without a key. */
  readonly agentId: string | null
  readonly keyId: string | null
  readonly operation: string
  readonly tool: string | null
  readonly rail: string
  readonly cost: Micros
  readonly status: 'ok' | 'failed'
  readonly errorCode: string | null
  readonly ms: number
  readonly taskId: string | null
  readonly backpackId: string | null
  readonly ghost: boolean
  readonly idempotencyKey: string | null
  readonly requestHash: string | null
  /** The JSON text of `{ status, body }`, only when an Idempotency-Key was sent. */
  readonly response: string | null
  /** When the call was admitted, in milliseconds: the instant its fuse windows count. */
  readonly at: number
}

/** Refusals of one kind by one Backpack within a minute. */
export interface BackpackRefusalCount {
  /** The id of its row, made at the first refusal, so that the log is in order of time. */
  readonly id: string
  readonly backpackId: string
  /** A tool, or a permission to spend. */
  readonly tool: string
  readonly code: string
  /** The instant of the first of them; its minute is what they are counted in. */
  readonly firstAt: number
  readonly lastAt: number
  readonly times: number
}

/** The first answer to a request that carried an Idempotency-Key. */
export interface IdempotentResponse {
  readonly callId: string
  readonly operation: string
  readonly requestHash: string
  readonly response: { readonly status: number; readonly body: unknown }
}

/** A message into another aggregate's durable inbox; delivered once per (receiver, id). */
export interface InboxMessage {
  readonly receiver: string
  readonly receiverKind: AggregateKind
  readonly id: string
  /** The event its receiver's own actor takes. */
  readonly event: Record<string, unknown>
}

/** Work to do later, in the aggregate that set it. */
export interface DurableTimer {
  readonly id: string
  readonly dueAt: number
  readonly command: string
  readonly input: Record<string, unknown>
}

/** One command in the history of its aggregate; texts are the codec's. */
export interface JournalRow {
  readonly version: number
  readonly commandId: string
  readonly at: number
  readonly command: string
  readonly changed: string
}

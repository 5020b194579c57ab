import type { DomainEvent } from './domain-events.ts'
import type { Micros } from './money.ts'

/** Kinds of aggregates. Each aggregate has one mailbox and one version. */
export type AggregateKind =
  | 'agent'
  | 'visitor'
  | 'payer'
  | 'fleet'
  | 'drop'
  | 'bounty'
  | 'tool'
  | 'listing'

export type LedgerTransferKind =
  | 'grant'
  | 'hold'
  | 'release'
  | 'charge'
  | 'fee'
  | 'send'
  | 'tip'
  | 'tip_fee'
  // USDC from a chain, credited to an agent or a fleet
  | 'deposit'
  | 'topup'
  | 'bonus'
  | 'reorg'
  // on-chain payments of single calls
  | 'settlement'
  | 'refund'
  | 'loss'
  // the pool of a fleet
  | 'draw'
  | 'draw_back'
  // referrals and gifts
  | 'referral'
  | 'payout'
  | 'drop'
  // a bounty: into escrow, then to the claimer or back to the poster
  | 'escrow'
  | 'bounty'
  | 'escrow_back'
  // a listing of the marketplace: to its seller, and the part of the station
  | 'sale'
  | 'sale_fee'
  // fees to the Hive royalty pool, and royalties to authors
  | 'royalty_feed'
  | 'royalty'
  // the share of another agent in a price
  | 'share'
  // a task pass: bought, a slot returned after its expiry, and what is left at its end
  | 'pass'
  | 'pass_back'
  | 'breakage'

/** One ledger movement from the debit to the credit account. The amount is positive. */
export interface LedgerTransfer {
  readonly debit: string
  readonly credit: string
  readonly amount: Micros
  readonly kind: LedgerTransferKind
  readonly callId?: string | null
  /** The payer's note. */
  readonly memo?: string | null
  /** `PROMO_TRANSFERABLE` is on: promotional credits may move between agents. */
  readonly promoAllowed?: boolean
}

/** What pays a price: the free or held credits of the agent, or the clearing account of a chain. */
export type CallPriceSource = 'free' | 'held' | `owed:${string}`

/** The price of a call without the parts for other agents: one row of the ledger. */
export interface CallPriceWithoutAgentShares {
  readonly callId: string
  readonly source: CallPriceSource
  readonly amount: Micros
  /** The part for the treasury; the rest goes to the tools. */
  readonly fee: Micros
  /** The part that promotional credits pay. */
  readonly promo: Micros
}

/** Another agent's share of a price, credited in the commit of the call. */
export interface PriceShare {
  /** Agent id. */
  readonly to: string
  readonly amount: Micros
  /**
   * Rows and events of the share. `credited` is the amount the agent receives: promotional credits
   * that must not move return to the grants account (decision 152).
   */
  readonly stagedWrites?: (credited: Micros) => {
    readonly rows: readonly { table: string; row: Record<string, unknown> }[]
    readonly events: readonly DomainEvent[]
  }
  /** The treasury takes no fee; the rest goes to the tools account. */
  readonly withoutFee?: boolean
}

/** A watch that starts or ends with the call. The number of watches is limited. */
export interface HiveWatchListChange {
  readonly type: 'BEGIN' | 'END'
  readonly watchId: string
}

/** Calls of a tool per agent and UTC day. */
export interface DailyToolQuota {
  readonly most: number
}

/** Lifetime free calls of an agent, by tool. */
export interface LifetimeFreeCalls {
  readonly name: string
  readonly most: number
}

/**
 * Items the agent owns after the call, or a memory reorganization based on `seen` earlier ones. The
 * call fails if another call changed that first.
 */
export type OwnershipOrMemoryReorganization =
  | { readonly type: 'OWN'; readonly names: readonly string[] }
  | { readonly type: 'ORDER'; readonly seen: number }

/** A row of `calls`: a tool call, or another write with an Idempotency-Key. */
export interface CallRow {
  readonly callId: string
  /** Null for a caller without a key. */
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
  /** JSON text of `{ status, body }`; null without an Idempotency-Key. */
  readonly response: string | null
  /** Admission time in milliseconds. Spend windows count the call at this time. */
  readonly at: number
}

/** Rejections of one kind by one Backpack within a minute. */
export interface BackpackRefusalCount {
  /** Row id, created at the first rejection, so that ids sort by time. */
  readonly id: string
  readonly backpackId: string
  /** A tool or a spending permission. */
  readonly tool: string
  readonly code: string
  /** Time of the first one. They are counted in its minute. */
  readonly firstAt: number
  readonly lastAt: number
  readonly times: number
}

/** The first response to a request with an Idempotency-Key. */
export interface IdempotentResponse {
  readonly callId: string
  readonly operation: string
  readonly requestHash: string
  readonly response: { readonly status: number; readonly body: unknown }
}

/** A message to the durable inbox of another aggregate. Delivered once per (receiver, id). */
export interface InboxMessage {
  readonly receiver: string
  readonly receiverKind: AggregateKind
  readonly id: string
  /** The event for the receiver's main actor. */
  readonly event: Record<string, unknown>
}

/** A command to run later, in the aggregate that set the timer. */
export interface DurableTimer {
  readonly id: string
  readonly dueAt: number
  readonly command: string
  readonly input: Record<string, unknown>
}

/** One command in the history of its aggregate. Texts are JSON with tagged bigints. */
export interface AggregateCommandJournalRow {
  readonly version: number
  readonly commandId: string
  readonly at: number
  readonly command: string
  /** An array of `JournalChange` (journal-actor-state-delta.ts). */
  readonly changed: string
}

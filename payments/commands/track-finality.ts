import type { CommandContext } from '../../actors/aggregate-command-types.ts'
import type { Micros } from '../../core/money.ts'
import type { PaymentChainName } from '../ledger-accounts.ts'

/** A transfer on a chain that is booked with its block. */
export interface FinalityTrackedTransfer {
  readonly chain: PaymentChainName
  readonly tx: string
  readonly logIndex: number
  readonly kind: 'settlement' | 'fleet_topup'
  /** The settlement or the fleet. */
  readonly ref: string
  readonly asset: string | null
  /** The sender of the tokens, in lower case; null if irrelevant. */
  readonly sender: string | null
  /** Atomic units. */
  readonly amount: bigint
  readonly bonus: Micros
  /** Null if unknown: the first check reads it from the transaction. */
  readonly block: bigint | null
}

/** A transfer that `payments/settlement/finality-watcher.ts` reports as undone. */
export interface ReversedChainTransfer {
  readonly id: string
  readonly chain: string
  readonly tx: string
  readonly logIndex: number
  readonly kind: string
  readonly ref: string
}

/** The chains with reorganisations that we can query. */
const REORGABLE_CHAINS: ReadonlySet<PaymentChainName> = new Set(['base', 'bsc'])

/** Tracks a booked transfer until its block is final. */
export function trackTransferFinality(ctx: CommandContext, booked: FinalityTrackedTransfer): void {
  const { chain, tx, logIndex, kind, ref, asset, sender, amount, bonus, block } = booked
  if (!REORGABLE_CHAINS.has(chain)) return
  ctx.row('unfinalized_transfers', {
    id: ctx.newId(),
    chain,
    tx,
    log_index: logIndex,
    kind,
    ref,
    receiver: ctx.aggregateId,
    asset,
    sender,
    amount: amount.toString(),
    bonus_micros: bonus.toString(),
    block: block?.toString() ?? null,
    block_hash: null,
    at: new Date(ctx.now).toISOString(),
  })
}

/** Reverses a transfer in this commit; a second reversal is rejected. */
export function recordReversedTransfer(
  ctx: CommandContext,
  { id, chain, tx, logIndex, kind, ref }: ReversedChainTransfer,
): void {
  const at = new Date(ctx.now).toISOString()
  ctx.row('reverted_transfers', { id, chain, tx, log_index: logIndex, kind, ref, at })
}

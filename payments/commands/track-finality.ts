import type { CommandContext } from '../../actors/command.ts'
import type { Micros } from '../../core/money.ts'
import type { PaymentChainName } from '../ledger-accounts.ts'

/** A movement on a chain that is booked with its block. */
export interface FinalityTrackedTransfer {
  readonly chain: PaymentChainName
  readonly tx: string
  readonly logIndex: number
  readonly kind: 'settlement' | 'fleet_topup'
  /** The settlement or the fleet. */
  readonly ref: string
  readonly asset: string | null
  /** Whose tokens moved, in lower case; null where that does not matter. */
  readonly sender: string | null
  /** Atomic units. */
  readonly amount: bigint
  readonly bonus: Micros
  /** Null where nobody has said: the first look at its transaction says it. */
  readonly block: bigint | null
}

/** A movement as `payments/settlement/finality-watcher.ts` names it when the chain has undone it. */
export interface ReversedChainTransfer {
  readonly id: string
  readonly chain: string
  readonly tx: string
  readonly logIndex: number
  readonly kind: string
  readonly ref: string
}

/** The chains whose blocks may be replaced after they were seen, and that we can ask. */
const REORGABLE_CHAINS: ReadonlySet<PaymentChainName> = new Set(['base', 'bsc'])

/** Has a movement that this commit books watched until its block is final. */
export function trackTransferFinality(ctx: CommandContext, booked: FinalityTrackedTransfer): void {
  const { chain, tx, logIndex, kind, ref, asset, sender, amount, bonus, block } = booked
  if (!REORGABLE_CHAINS.has(chain)) return
  ctx.row('unfinal_moves', {
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

/** Takes a movement off the books in this commit; done a second time, the commit is refused. */
export function recordReversedTransfer(
  ctx: CommandContext,
  { id, chain, tx, logIndex, kind, ref }: ReversedChainTransfer,
): void {
  const at = new Date(ctx.now).toISOString()
  ctx.row('undone_moves', { id, chain, tx, log_index: logIndex, kind, ref, at })
}

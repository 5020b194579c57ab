import type { TransactionReceipt } from 'viem'
import type { ActorSystem } from '../../actors/aggregate-command-types.ts'
import type { LatestAndFinalBlocks } from '../../chain/evm/incoming-token-transfers.ts'
import { receiptHasTransfer } from '../../chain/evm/match-transfer-in-transaction-receipt.ts'
import { SECOND, type Clock } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import type {
  FinalityStore,
  ObservedBlock,
  UnfinalizedTransfer,
} from '../../persistence/payments/finality-store.ts'
import { reverseFleetTopUpCommand } from '../commands/fleet-top-up-reversal-commands.ts'
import { settlementLoadOptions } from '../commands/payment-claim-commands.ts'
import { reverseReorgedSettlementCommand } from '../commands/settlement-commands.ts'
import type { PaymentChainName } from '../ledger-accounts.ts'

/** Chain queries of the finality watcher. */
export interface FinalityChainSource {
  heads(): Promise<LatestAndFinalBlocks>
  /** Null if the node has no block of that number. */
  blockHash(block: bigint): Promise<string | null>
  receiptOf(tx: string): Promise<TransactionReceipt | null>
  /** How many transactions of our own key are in blocks. */
  sentCount(): Promise<number>
}

export interface FinalityWatcherDeps {
  readonly chain: PaymentChainName
  readonly source: FinalityChainSource
  readonly store: FinalityStore
  readonly actors: Pick<ActorSystem, 'ask'>
  /** The key that settles on this chain; lower case. */
  readonly settler: string
  /** Schedules a settlement at once. */
  readonly kick: (settlement: string) => void
  readonly clock: Pick<Clock, 'now'>
  readonly log: (message: string, error: unknown) => void
}

const MAX_MOVES_PER_ROUND = 200
/** A reorganisation changes the newest blocks first: this many are checked each time. */
const MAX_NEWEST_BLOCKS = 16
/** Used if a node knows no `finalized` block, or it does not advance: an hour of Base. */
const FALLBACK_FINAL_DEPTH_BLOCKS = 1_800n
/** The newest final block. */
export const latestFinalBlock = ({ latest, finalized }: LatestAndFinalBlocks): bigint =>
  finalized > latest - FALLBACK_FINAL_DEPTH_BLOCKS
    ? finalized
    : latest - FALLBACK_FINAL_DEPTH_BLOCKS

/** A transaction of unknown block that no block contains is dropped after this. */
const GRACE_MS = 30 * SECOND

/**
 * Watches booked transfers until their blocks are final: settled payments and fleet top-ups
 * (deposits have their own scanner). A transfer in a replaced block is reversed once the new chain
 * has grown past it by the confirmations of a deposit: a payment is settled again with the payer's
 * signature, or is lost. Any number of nodes may run it at once.
 */
export function createFinalityWatcher(parts: FinalityWatcherDeps) {
  const { chain, source, store, settler, clock, log } = parts

  /** Checks all open transfers once; resolves to the number of reversals. */
  async function look(): Promise<number> {
    const fresh = await store.fresh(chain, MAX_MOVES_PER_ROUND)
    if (fresh.length === 0 && (await store.blocks(chain, 0n, 1)).length === 0) return 0
    const heads = await source.heads()
    const gone = await anchorAll(fresh, heads)
    for (const block of await replaced(heads)) gone.push(...(await leftBehind(block, heads)))
    if (gone.length > 0) await reopen()
    const undone = await Promise.all(gone.map((move) => reverseMove(parts, move)))
    return undone.filter(Boolean).length
  }

  /** Reads the block of each new transfer from its transaction; returns those without a block. */
  async function anchorAll(
    moves: readonly UnfinalizedTransfer[],
    heads: LatestAndFinalBlocks,
  ): Promise<UnfinalizedTransfer[]> {
    const gone: UnfinalizedTransfer[] = []
    const receipts = await receiptsOf(moves)
    for (const move of moves) {
      const receipt = receipts.get(move.tx) ?? null
      const here = receipt !== null && (move.block ?? receipt.blockNumber) === receipt.blockNumber
      if (receipt !== null && here && receiptHasTransfer(receipt, move)) await anchor(move, receipt)
      else if (isPast(move, heads)) gone.push(move)
    }
    return gone
  }

  const anchor = ({ id }: UnfinalizedTransfer, { blockNumber, blockHash }: TransactionReceipt) =>
    store.anchor([id], { number: blockNumber, hash: blockHash })

  async function receiptsOf(moves: readonly UnfinalizedTransfer[]) {
    const txs = [...new Set(moves.map(({ tx }) => tx))]
    const receipts = await Promise.all(txs.map((tx) => source.receiptOf(tx)))
    return new Map(txs.map((tx, at) => [tx, receipts[at] ?? null]))
  }

  /** The new chain is far enough past it that a missing transfer may not return. */
  const isPast = ({ block, at }: UnfinalizedTransfer, { latest }: LatestAndFinalBlocks): boolean =>
    block === null
      ? clock.now() - at.getTime() >= GRACE_MS
      : latest >= block + BigInt(LIMITS.depositConfirmations)

  /** The blocks that are no longer part of the chain; completes those that are and are final. */
  async function replaced(heads: LatestAndFinalBlocks): Promise<ObservedBlock[]> {
    const final = latestFinalBlock(heads)
    const blocks = await store.blocks(chain, final, MAX_NEWEST_BLOCKS)
    const hashes = await Promise.all(blocks.map(({ number }) => source.blockHash(number)))
    const others: ObservedBlock[] = []
    for (const [at, block] of blocks.entries()) {
      const hash = hashes[at] ?? null
      // A node that lags behind proves nothing.
      if (hash === null) continue
      if (hash !== block.hash) others.push(block)
      else if (block.number <= final) await store.final(chain, block)
    }
    return others
  }

  /** Transfers of replaced blocks. A top-up that is in another block is kept. */
  async function leftBehind(
    block: ObservedBlock,
    heads: LatestAndFinalBlocks,
  ): Promise<UnfinalizedTransfer[]> {
    const gone: UnfinalizedTransfer[] = []
    for (const move of await store.movesIn(chain, block)) {
      const receipt = move.kind === 'settlement' ? null : await source.receiptOf(move.tx)
      if (receipt !== null && receiptHasTransfer(receipt, move)) await anchor(move, receipt)
      else if (isPast(move, heads)) gone.push(move)
    }
    return gone
  }

  /** Sends transactions of our key again that are in no block any more. */
  async function reopen(): Promise<void> {
    const count = await store.reopen(chain, settler, await source.sentCount())
    if (count > 0)
      log(`${count} transactions of ${settler} on ${chain} are in no block any more`, null)
  }

  return { look }
}
export type FinalityWatcher = ReturnType<typeof createFinalityWatcher>

/** Reverses a transfer; false if that failed for now. */
async function reverseMove(
  { chain, actors, kick, log }: FinalityWatcherDeps,
  move: UnfinalizedTransfer,
): Promise<boolean> {
  const { kind, ref, receiver, tx, block } = move
  log(`${chain} has undone ${kind} ${ref} of ${tx} in block ${block}`, null)
  try {
    if (kind === 'settlement') {
      await actors.ask(
        receiver,
        reverseReorgedSettlementCommand,
        { settlement: ref, move },
        settlementLoadOptions(ref),
      )
      kick(ref)
    } else await actors.ask(receiver, reverseFleetTopUpCommand, { move })
    return true
  } catch (error) {
    // Another node may have been faster; otherwise the next round finds it again.
    log(`${kind} ${ref} was not taken back`, error)
    return false
  }
}

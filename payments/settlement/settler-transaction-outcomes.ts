import { setTimeout as pause } from 'node:timers/promises'
import type { TransactionReceipt } from 'viem'
import type { EvmClient } from '../../chain/evm/evm-client.ts'
import type { HexString } from '../../chain/onchain-payment-types.ts'
import { findTransactionReceipt } from '../../chain/evm/settler-evm-transactions.ts'
import type {
  SettlerTransactionStore,
  StoredSettlerTransaction,
} from '../../persistence/payments/settler-transaction-store.ts'

/** What a chain reports about the transactions for a purpose. */
export interface SettlerTransactionOutcome {
  /** `mined`: succeeded as a whole; its members carry their own results. */
  readonly state: 'mined' | 'reverted' | 'void' | 'open'
  readonly receipt: TransactionReceipt | null
}

const OPEN_OUTCOME: SettlerTransactionOutcome = { state: 'open', receipt: null }

/**
 * Finds the outcome of stored transactions. Results from blocks are stored on the row of the nonce.
 */
export function createSettlerTransactionOutcomeFinder(
  chain: string,
  client: EvmClient,
  transactions: SettlerTransactionStore,
) {
  const awaited = new Map<string, Promise<SettlerTransactionOutcome>>()

  /**
   * Any transaction signed for a nonce may have been mined; checks the newest first. The stored
   * result counts only without a block: a block may have appeared or vanished since.
   */
  async function verdictOf(
    all: readonly StoredSettlerTransaction[],
  ): Promise<SettlerTransactionOutcome> {
    const receipts = await Promise.all(
      all.map(({ hash }) => findTransactionReceipt(client, hash as HexString)),
    )
    for (const [at, tx] of all.entries()) {
      const receipt = receipts[at] ?? null
      if (receipt !== null) return noted(tx, receipt)
    }
    const state = all[0]?.state
    return { state: state === 'reverted' || state === 'void' ? state : 'open', receipt: null }
  }

  async function noted(
    tx: StoredSettlerTransaction,
    receipt: TransactionReceipt,
  ): Promise<SettlerTransactionOutcome> {
    // A transfer to itself is a cancellation.
    const isCancel = receipt.to?.toLowerCase() === tx.settler
    const state = isCancel ? 'void' : receipt.status === 'success' ? 'mined' : 'reverted'
    if (tx.state !== state) await transactions.mark({ chain, address: tx.settler }, tx.nonce, state)
    return { state, receipt }
  }

  async function poll(
    tx: StoredSettlerTransaction,
    forMs: number,
    signal: AbortSignal,
  ): Promise<SettlerTransactionOutcome> {
    const every = client.pollingInterval
    for (let waited = 0; waited < forMs && !signal.aborted; waited += every) {
      const receipt = await findTransactionReceipt(client, tx.hash as HexString)
      if (receipt !== null) return noted(tx, receipt)
      await pause(every, undefined, { signal }).catch(() => {})
    }
    return OPEN_OUTCOME
  }

  return {
    look: async (purpose: string): Promise<SettlerTransactionOutcome> =>
      verdictOf(await transactions.all(chain, purpose)),

    /**
     * The outcome of a nonce; `head` is the height of the answering node, from the same request.
     */
    async lookAt({
      settler,
      nonce,
    }: StoredSettlerTransaction): Promise<SettlerTransactionOutcome & { readonly head: bigint }> {
      const all = await transactions.ofNonce({ chain, address: settler }, nonce)
      const asked = [client.getBlockNumber({ cacheTime: 0 }), verdictOf(all)] as const
      const [head, verdict] = await Promise.all(asked)
      return { ...verdict, head }
    },

    /** Waits until a block contains it; all members of a batch share one poll. */
    wait(
      tx: StoredSettlerTransaction,
      forMs: number,
      signal: AbortSignal,
    ): Promise<SettlerTransactionOutcome> {
      const known = awaited.get(tx.hash)
      if (known !== undefined) return known
      const verdict = poll(tx, forMs, signal).finally(() => awaited.delete(tx.hash))
      awaited.set(tx.hash, verdict)
      return verdict
    },
  }
}
export type SettlerTransactionOutcomeFinder = ReturnType<
  typeof createSettlerTransactionOutcomeFinder
>

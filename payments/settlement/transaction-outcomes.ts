import { setTimeout as pause } from 'node:timers/promises'
import type { TransactionReceipt } from 'viem'
import type { EvmClient } from '../../chain/evm/evm-client.ts'
import type { HexString } from '../../chain/payment.ts'
import { findTransactionReceipt } from '../../chain/evm/transactions.ts'
import type {
  SettlerTransactionStore,
  StoredSettlerTransaction,
} from '../../persistence/payments/settler-transaction-store.ts'

/** What a chain says of the transactions for a purpose. */
export interface TransactionOutcome {
  /** `mined`: it succeeded as a whole; what it carries says itself whether it did. */
  readonly state: 'mined' | 'reverted' | 'void' | 'open'
  readonly receipt: TransactionReceipt | null
}

const OPEN_OUTCOME: TransactionOutcome = { state: 'open', receipt: null }

/** What became of stored transactions. Whatever a block says is kept on the row of the nonce. */
export function createTransactionOutcomes(
  chain: string,
  client: EvmClient,
  transactions: SettlerTransactionStore,
) {
  const awaited = new Map<string, Promise<TransactionOutcome>>()

  /**
   * Any of those that were ever signed for a nonce may have been mined, the newest first. What was
   * kept counts where no block says anything: a block may have come, or gone, since it was written.
   */
  async function verdictOf(all: readonly StoredSettlerTransaction[]): Promise<TransactionOutcome> {
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
  ): Promise<TransactionOutcome> {
    // A transfer to itself is what took the place of something else.
    const isCancel = receipt.to?.toLowerCase() === tx.settler
    const state = isCancel ? 'void' : receipt.status === 'success' ? 'mined' : 'reverted'
    if (tx.state !== state) await transactions.mark({ chain, address: tx.settler }, tx.nonce, state)
    return { state, receipt }
  }

  async function poll(
    tx: StoredSettlerTransaction,
    forMs: number,
    signal: AbortSignal,
  ): Promise<TransactionOutcome> {
    const every = client.pollingInterval
    for (let waited = 0; waited < forMs && !signal.aborted; waited += every) {
      const receipt = await findTransactionReceipt(client, tx.hash as HexString)
      if (receipt !== null) return noted(tx, receipt)
      await pause(every, undefined, { signal }).catch(() => {})
    }
    return OPEN_OUTCOME
  }

  return {
    look: async (purpose: string): Promise<TransactionOutcome> =>
      verdictOf(await transactions.all(chain, purpose)),

    /** The same of a nonce; `head`: how far the node that said so was, asked with the same request. */
    async lookAt({
      settler,
      nonce,
    }: StoredSettlerTransaction): Promise<TransactionOutcome & { readonly head: bigint }> {
      const all = await transactions.ofNonce({ chain, address: settler }, nonce)
      const asked = [client.getBlockNumber({ cacheTime: 0 }), verdictOf(all)] as const
      const [head, verdict] = await Promise.all(asked)
      return { ...verdict, head }
    },

    /** Waits for a block to have it; all that it carries wait for one reading. */
    wait(
      tx: StoredSettlerTransaction,
      forMs: number,
      signal: AbortSignal,
    ): Promise<TransactionOutcome> {
      const known = awaited.get(tx.hash)
      if (known !== undefined) return known
      const verdict = poll(tx, forMs, signal).finally(() => awaited.delete(tx.hash))
      awaited.set(tx.hash, verdict)
      return verdict
    },
  }
}
export type TransactionOutcomes = ReturnType<typeof createTransactionOutcomes>

import { setTimeout as pause } from 'node:timers/promises'
import type { TransactionReceipt } from 'viem'
import type { EvmClient } from '../chain/evm.ts'
import type { Hex } from '../chain/payment.ts'
import { receiptOf } from '../chain/transactions.ts'
import type { SettlerLane, StoredTx } from '../persistence/settler-lane.ts'

/** What a chain says of the transactions for a purpose. */
export interface Verdict {
  /** `mined`: it succeeded as a whole; what it carries says itself whether it did. */
  readonly state: 'mined' | 'reverted' | 'void' | 'open'
  readonly receipt: TransactionReceipt | null
}

const OPEN: Verdict = { state: 'open', receipt: null }

/** What became of stored transactions. Whatever a block says is kept on the row of the nonce. */
export function verdicts(chain: string, client: EvmClient, lane: SettlerLane) {
  const awaited = new Map<string, Promise<Verdict>>()

  /**
   * Any of those that were ever signed for a nonce may have been mined, the newest first. What was
   * kept counts where no block says anything: a block may have come, or gone, since it was written.
   */
  async function verdictOf(all: readonly StoredTx[]): Promise<Verdict> {
    const receipts = await Promise.all(all.map(({ hash }) => receiptOf(client, hash as Hex)))
    for (const [at, tx] of all.entries()) {
      const receipt = receipts[at] ?? null
      if (receipt !== null) return noted(tx, receipt)
    }
    const state = all[0]?.state
    return { state: state === 'reverted' || state === 'void' ? state : 'open', receipt: null }
  }

  async function noted(tx: StoredTx, receipt: TransactionReceipt): Promise<Verdict> {
    // A transfer to itself is what took the place of something else.
    const isCancel = receipt.to?.toLowerCase() === tx.settler
    const state = isCancel ? 'void' : receipt.status === 'success' ? 'mined' : 'reverted'
    if (tx.state !== state) await lane.mark({ chain, address: tx.settler }, tx.nonce, state)
    return { state, receipt }
  }

  async function poll(tx: StoredTx, forMs: number, signal: AbortSignal): Promise<Verdict> {
    const every = client.pollingInterval
    for (let waited = 0; waited < forMs && !signal.aborted; waited += every) {
      const receipt = await receiptOf(client, tx.hash as Hex)
      if (receipt !== null) return noted(tx, receipt)
      await pause(every, undefined, { signal }).catch(() => {})
    }
    return OPEN
  }

  return {
    look: async (purpose: string): Promise<Verdict> => verdictOf(await lane.all(chain, purpose)),

    /** The same of a nonce; `head`: how far the node that said so was, asked with the same request. */
    async lookAt({ settler, nonce }: StoredTx): Promise<Verdict & { readonly head: bigint }> {
      const all = await lane.ofNonce({ chain, address: settler }, nonce)
      const asked = [client.getBlockNumber({ cacheTime: 0 }), verdictOf(all)] as const
      const [head, verdict] = await Promise.all(asked)
      return { ...verdict, head }
    },

    /** Waits for a block to have it; all that it carries wait for one reading. */
    wait(tx: StoredTx, forMs: number, signal: AbortSignal): Promise<Verdict> {
      const known = awaited.get(tx.hash)
      if (known !== undefined) return known
      const verdict = poll(tx, forMs, signal).finally(() => awaited.delete(tx.hash))
      awaited.set(tx.hash, verdict)
      return verdict
    },
  }
}
export type Verdicts = ReturnType<typeof verdicts>

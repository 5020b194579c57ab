import type { EvmClient } from '../../chain/evm/evm-client.ts'
import {
  readFinalizedNonce,
  readAccountNonce,
  type AccountNonceAtBlock,
} from '../../chain/evm/read-account-nonce-from-chain.ts'
import type { Clock } from '../../core/clock.ts'
import type {
  SettlerAddress,
  SettlerTransactionStore,
  StoredSettlerTransaction,
} from '../../persistence/payments/settler-transaction-store.ts'
import type { SettlerTransactionOutcomeFinder } from './settler-transaction-outcomes.ts'

/** Reconciles the nonces a settler key has used with the chain. */

export interface NonceReconcilerDeps {
  readonly chain: string
  readonly client: EvmClient
  readonly transactions: SettlerTransactionStore
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
  readonly signal: AbortSignal
  /** The reconciled key. */
  readonly own: SettlerAddress
  readonly outcomes: Pick<SettlerTransactionOutcomeFinder, 'lookAt'>
  readonly send: (tx: StoredSettlerTransaction) => Promise<unknown>
  /** Sends it again at a higher fee, or cancels it. */
  readonly push: (tx: StoredSettlerTransaction) => Promise<void>
  /** Cancels it. */
  readonly drop: (tx: StoredSettlerTransaction) => Promise<void>
  readonly patienceMs: number
}

const FEE_BUMP_AFTER_MS = 30_000
const MAX_TRANSACTIONS_PER_ROUND = 200
const MAX_RECHECKED_TRANSACTIONS = 50

/**
 * Checks the nonces that a key has given out. Nodes behind one address differ in height, and blocks
 * are replaced: a foreign use of a nonce, or a freed nonce, must be seen twice.
 */
export function createNonceReconciler(parts: NonceReconcilerDeps): () => Promise<void> {
  const { chain, client, transactions, clock, log, signal, own, outcomes, patienceMs } = parts
  const [used, free] = [createFirstSeenTracker(), createFirstSeenTracker()]
  let [newest, lookedAgainAt] = [0n, -Infinity]

  /** Stored transactions without a result from a block, ordered by nonce. */
  async function waiting({ block, count }: AccountNonceAtBlock): Promise<void> {
    const all = await transactions.unconfirmed(own, MAX_TRANSACTIONS_PER_ROUND)
    const since = used(all.filter(({ nonce }) => nonce < count).map(nonceOf), {
      block,
      at: clock.mono(),
    })
    for (const tx of all) {
      if (signal.aborted) return
      const first = since.get(tx.nonce)
      const age = clock.now() - tx.createdAt.getTime()
      if (first !== undefined) await answered(tx, first)
      else if (age > FEE_BUMP_AFTER_MS) await parts.push(tx)
      else if (age > patienceMs) await parts.send(tx)
    }
  }

  /** Its nonce is used: a block contains it, will show it, or never had it. */
  async function answered(tx: StoredSettlerTransaction, first: NonceSighting): Promise<void> {
    const { state, head } = await outcomes.lookAt(tx)
    if (state !== 'open' || !isOld(first) || head < first.block) return
    await transactions.mark(own, tx.nonce, 'void')
    log(`the nonce ${tx.nonce} of ${own.address} on ${chain} was used elsewhere`, null)
  }

  /**
   * Handles transactions whose nonce is free again: their block was replaced, and later nonces
   * wait. Successful ones are sent again; for failed ones the nonce is cancelled.
   */
  async function undone({ block, count }: AccountNonceAtBlock): Promise<void> {
    const all = await transactions.answered(own, count, MAX_TRANSACTIONS_PER_ROUND)
    const since = free(all.map(nonceOf), { block, at: clock.mono() })
    for (const tx of all) {
      const first = since.get(tx.nonce)
      if (signal.aborted) return
      if (first === undefined || !isOld(first) || block <= first.block) continue
      const { receipt, head } = await outcomes.lookAt(tx)
      if (receipt !== null || head < block) continue
      log(`the transaction ${tx.nonce} of ${own.address} on ${chain} is in no block any more`, null)
      await (tx.state === 'mined' ? transactions.reopen(own, tx.nonce) : parts.drop(tx))
    }
  }

  /** Until its block is final, a nonce of foreign use may still turn out to be ours. */
  async function lookAgain(): Promise<void> {
    if (clock.mono() - lookedAgainAt < patienceMs) return
    lookedAgainAt = clock.mono()
    const final = (await readFinalizedNonce(client, own.address)) ?? 0
    for (const tx of await transactions.voided(own, final, MAX_RECHECKED_TRANSACTIONS)) {
      if (signal.aborted) return
      await outcomes.lookAt(tx)
    }
  }

  const isOld = ({ at }: NonceSighting): boolean => clock.mono() - at >= patienceMs

  return async () => {
    const standing = await readAccountNonce(client, own.address)
    // A node that lags behind says nothing about later blocks.
    if (standing === null || standing.block < newest) return
    newest = standing.block
    await transactions.reconcile(own, standing.count)
    await undone(standing)
    await waiting(standing)
    await lookAgain()
  }
}

const nonceOf = ({ nonce }: StoredSettlerTransaction): number => nonce

interface NonceSighting {
  readonly block: bigint
  readonly at: number
}

/** Remembers since when a condition holds for each nonce; forgets it when the condition ends. */
function createFirstSeenTracker() {
  let known: ReadonlyMap<number, NonceSighting> = new Map()
  return (nonces: readonly number[], now: NonceSighting): ReadonlyMap<number, NonceSighting> => {
    known = new Map(nonces.map((nonce) => [nonce, known.get(nonce) ?? now]))
    return known
  }
}

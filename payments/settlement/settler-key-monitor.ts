import type { Eip1559Fees } from '../../chain/evm/evm-client.ts'
import { readConfirmedNonce, readNativeBalance } from '../../chain/evm/transactions.ts'
import { createNonceReconciler, type NonceReconcilerDeps } from './nonce-reconciler.ts'

export interface SettlerKeyMonitorDeps extends NonceReconcilerDeps {
  readonly fees: () => Promise<Eip1559Fees>
}

/** Below so many transfers of gas, more than one batch of them, nothing runs before it settles. */
const MIN_TRANSFERS_OF_GAS = 50n
const TRANSFER_GAS = 100_000n

/** Looks after a key that submits: its nonces, what no block has taken, what it has left for gas. */
export function createSettlerKeyMonitor(parts: SettlerKeyMonitorDeps) {
  const { chain, client, transactions, log, own } = parts
  const goOver = createNonceReconciler(parts)
  let ready: Promise<number> | null = null
  let healthy = false

  /** The lane's next nonce is never behind the chain's. */
  function reconciled(): Promise<number> {
    ready ??= readConfirmedNonce(client, own.address)
      .then((confirmed) => transactions.reconcile(own, confirmed))
      .catch((error: unknown) => {
        ready = null
        throw error
      })
    return ready
  }

  async function measure(): Promise<void> {
    const [left, { maxFeePerGas }] = await Promise.all([
      readNativeBalance(client, own.address),
      parts.fees(),
    ])
    const enough = left >= MIN_TRANSFERS_OF_GAS * TRANSFER_GAS * maxFeePerGas
    if (healthy && !enough)
      log(`the settler ${own.address} runs out of gas on ${chain}: ${left}`, null)
    healthy = enough
  }

  return {
    reconciled,
    async tend(): Promise<void> {
      try {
        await goOver()
        await measure()
      } catch (error) {
        healthy = false
        throw error
      }
    },
    /** The node answers and there is gas for a while. */
    healthy: () => healthy,
    /** A node has refused to take a transaction for want of it. */
    noGas(): void {
      healthy = false
    },
  }
}

import type { Eip1559Fees } from '../../chain/evm/evm-client.ts'
import { readConfirmedNonce, readNativeBalance } from '../../chain/evm/settler-evm-transactions.ts'
import { createNonceReconciler, type NonceReconcilerDeps } from './nonce-reconciler.ts'

/** Monitors a settler key: its nonces, its pending transactions and its gas balance. */

export interface SettlerKeyMonitorDeps extends NonceReconcilerDeps {
  readonly fees: () => Promise<Eip1559Fees>
}

/** With less gas than this many transfers, above one batch, calls wait for their settlement. */
const MIN_TRANSFERS_OF_GAS = 50n
const TRANSFER_GAS = 100_000n

/** Creates the monitor of a key. */
export function createSettlerKeyMonitor(parts: SettlerKeyMonitorDeps) {
  const { chain, client, transactions, log, own } = parts
  const goOver = createNonceReconciler(parts)
  let ready: Promise<number> | null = null
  let healthy = false

  /** Ensures that the stored next nonce is not behind the chain's. */
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
    /** The node answers and the gas lasts for a while. */
    healthy: () => healthy,
    /** A node has rejected a transaction for lack of gas. */
    noGas(): void {
      healthy = false
    },
  }
}

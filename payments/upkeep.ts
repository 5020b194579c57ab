import type { Fees } from '../chain/evm.ts'
import { confirmedCount, gasBalance } from '../chain/transactions.ts'
import { nonceWatch, type NonceWatchParts } from './nonce-watch.ts'

export interface UpkeepParts extends NonceWatchParts {
  readonly fees: () => Promise<Fees>
}

/** Below so many transfers of gas, more than one batch of them, nothing runs before it settles. */
const TRANSFERS_LEFT = 50n
const TRANSFER_GAS = 100_000n

/** Looks after a key that submits: its nonces, what no block has taken, what it has left for gas. */
export function upkeep(parts: UpkeepParts) {
  const { chain, client, lane, log, own } = parts
  const goOver = nonceWatch(parts)
  let ready: Promise<number> | null = null
  let healthy = false

  /** The lane's next nonce is never behind the chain's. */
  function reconciled(): Promise<number> {
    ready ??= confirmedCount(client, own.address)
      .then((confirmed) => lane.reconcile(own, confirmed))
      .catch((error: unknown) => {
        ready = null
        throw error
      })
    return ready
  }

  async function measure(): Promise<void> {
    const [left, { maxFeePerGas }] = await Promise.all([
      gasBalance(client, own.address),
      parts.fees(),
    ])
    const enough = left >= TRANSFERS_LEFT * TRANSFER_GAS * maxFeePerGas
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

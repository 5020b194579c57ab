import type { EvmClient } from '../chain/evm.ts'
import { confirmedCount, gasBalance, type Fees } from '../chain/transactions.ts'
import type { Clock } from '../core/clock.ts'
import type { Lane, SettlerLane, StoredTx } from '../persistence/settler-lane.ts'
import type { Verdicts } from './verdicts.ts'

export interface UpkeepParts {
  readonly chain: string
  readonly client: EvmClient
  readonly lane: SettlerLane
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
  /** The key that is looked after. */
  readonly own: Lane
  readonly fees: () => Promise<Fees>
  readonly outcomes: Pick<Verdicts, 'lookAt'>
  readonly send: (tx: StoredTx) => Promise<unknown>
  /** Sends it again at a higher fee, or nothing in its place. */
  readonly push: (tx: StoredTx) => Promise<void>
  readonly patienceMs: number
}

const BUMP_MS = 30_000
const UNCONFIRMED = 200
/** Below so many transfers of gas, more than one batch of them, nothing runs before it settles. */
const TRANSFERS_LEFT = 50n
const TRANSFER_GAS = 100_000n

/** Looks after a key that submits: its nonces, what no block has taken, what it has left for gas. */
export function upkeep(parts: UpkeepParts) {
  const { chain, client, lane, clock, log, own, patienceMs } = parts
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

  /** Everything that was stored and is in no block, in the order of the nonces. */
  async function goOver(): Promise<void> {
    const confirmed = await confirmedCount(client, own.address)
    await lane.reconcile(own, confirmed)
    for (const tx of await lane.unconfirmed(own, UNCONFIRMED)) {
      const age = clock.now() - tx.createdAt.getTime()
      if (tx.nonce < confirmed) await answered(tx, age)
      else if (age > BUMP_MS) await parts.push(tx)
      else if (age > patienceMs) await parts.send(tx)
    }
    await measure()
  }

  async function answered(tx: StoredTx, age: number): Promise<void> {
    const { state } = await parts.outcomes.lookAt(tx)
    if (state !== 'open' || age <= patienceMs) return
    await lane.mark(own, tx.nonce, 'void')
    log(`the nonce ${tx.nonce} of ${own.address} on ${chain} was used elsewhere`, null)
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

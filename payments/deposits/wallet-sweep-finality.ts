import { readLatestAndFinalBlocks } from '../../chain/evm/incoming-token-transfers.ts'
import type { EvmClient } from '../../chain/evm/evm-client.ts'
import {
  readEip3009Status,
  type Eip3009Authorization,
  type Eip3009Token,
} from '../../chain/evm/eip3009.ts'
import type { Clock } from '../../core/clock.ts'
import type {
  WalletSweepRecord,
  WalletSweepStore,
} from '../../persistence/payments/wallet-sweep-store.ts'
import { latestFinalBlock } from '../settlement/finality-watcher.ts'
import type { PaymentChainName } from '../ledger-accounts.ts'

/** Follows sweeps on the chain until their blocks are final. */

const MAX_SWEEPS_PER_ROUND = 20

interface SweepConfirmerDeps {
  readonly chain: PaymentChainName
  readonly client: EvmClient
  readonly token: Eip3009Token
  readonly store: WalletSweepStore
  readonly clock: Pick<Clock, 'now'>
  readonly log: (message: string, error: unknown) => void
}

/**
 * Confirms sweeps whose blocks are final. `push` resumes a sweep that is pending again; `late` is
 * called for a sweep that has to wait.
 */
export function createWalletSweepConfirmer(
  { chain, client, token, store, clock, log }: SweepConfirmerDeps,
  push: (sweep: WalletSweepRecord) => Promise<void>,
  late: (sweep: WalletSweepRecord) => (error: unknown) => void,
) {
  /**
   * Checks a sweep whose block should be final by now. If a reorganisation moved or dropped it, the
   * sweep is pending again.
   */
  async function confirm(sweep: WalletSweepRecord): Promise<void> {
    const { swept, terms } = sweep
    const sought = { ...toWalletSweepAuthorization(sweep), fromBlock: BigInt(terms.fromBlock) }
    const found = await readEip3009Status(client, token, sought)
    const stands =
      found.state === 'used' &&
      found.paid &&
      found.tx === swept?.tx &&
      found.block === swept.block &&
      found.logIndex === swept.logIndex
    if (stands) return store.final(sweep, new Date(clock.now()))
    // A node that lags behind proves nothing.
    if (found.state === 'unused' && found.head < (swept?.block ?? 0n)) return
    log(`sweep ${sweep.id} is not where it was, in block ${swept?.block}`, null)
    if (await store.reopen(chain, sweep)) await push(sweep)
  }

  /** Confirms final sweeps of one wallet or of all. */
  return async function confirmAll(address?: string): Promise<void> {
    if (!(await store.anyUnfinal(chain))) return
    const final = latestFinalBlock(await readLatestAndFinalBlocks(client))
    const passed = await store.unfinal(chain, final, MAX_SWEEPS_PER_ROUND, address)
    await Promise.all(passed.map((sweep) => confirm(sweep).catch(late(sweep))))
  }
}

/** The authorization that the wallet of a sweep signs. */
export const toWalletSweepAuthorization = ({
  address,
  amount,
  terms,
}: WalletSweepRecord): Eip3009Authorization => ({
  from: address,
  to: terms.to,
  value: amount,
  validAfter: 0n,
  validBefore: BigInt(terms.validBefore),
  nonce: terms.nonce,
})

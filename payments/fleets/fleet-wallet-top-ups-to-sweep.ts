import { readLatestAndFinalBlocks } from '../../chain/evm/incoming-token-transfers.ts'
import type { EvmClient } from '../../chain/evm/evm-client.ts'
import { fromAtomicUnits, PAYMENT_NETWORKS } from '../../chain/payment-networks.ts'
import type { HexString } from '../../chain/onchain-payment-types.ts'
import { readTransactionTransfers } from '../../chain/evm/token-transfers-in-transaction.ts'
import type { Eip3009Token } from '../../chain/evm/eip3009.ts'
import type { Clock } from '../../core/clock.ts'
import type {
  WalletSweepStore,
  FleetOnchainTopUpTransfer,
} from '../../persistence/payments/wallet-sweep-store.ts'
import type { PaymentChainName } from '../ledger-accounts.ts'

/** Finds out which fleet top-ups arrived in the fleet's own wallet and can be swept from there. */

interface LocateFleetTopUpsDeps {
  readonly chain: PaymentChainName
  readonly client: EvmClient
  readonly token: Eip3009Token
  readonly store: Pick<WalletSweepStore, 'unplaced' | 'place'>
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
}

const MAX_TOP_UPS_PER_ROUND = 20

/**
 * Looks up unplaced top-ups. Reads final blocks only, so that no sweep relies on a block that may
 * vanish.
 */
export async function locateFleetTopUpsOnChain(parts: LocateFleetTopUpsDeps): Promise<void> {
  const { chain, client, store, log } = parts
  const moves = await store.unplaced(chain, MAX_TOP_UPS_PER_ROUND)
  if (moves.length === 0) return
  const { latest, finalized } = await readLatestAndFinalBlocks(client)
  const deep = latest - finalized + 1n
  for (const move of moves)
    await locateTopUp(parts, move, deep).catch((error: unknown) =>
      log(`top-up ${move.tx} waits`, error),
    )
}

async function locateTopUp(
  parts: LocateFleetTopUpsDeps,
  move: FleetOnchainTopUpTransfer,
  deep: bigint,
): Promise<void> {
  const { chain, client, token, store, clock } = parts
  const found = await readTransactionTransfers(client, token.address, move.tx as HexString)
  if (found === null || found.confirmations < deep) return
  const arrived = found.transfers.find(({ logIndex }) => logIndex === move.logIndex)
  if (arrived === undefined) return
  const amount = fromAtomicUnits(arrived.value, PAYMENT_NETWORKS[chain].decimals)
  const into = arrived.to === move.address ? move.address : null
  await store.place(chain, move, { into, amount, at: new Date(clock.now()) })
}

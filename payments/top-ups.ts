import { heads } from '../chain/deposits.ts'
import type { EvmClient } from '../chain/evm.ts'
import { fromAtomic, NETWORKS } from '../chain/networks.ts'
import type { Hex } from '../chain/payment.ts'
import { transfersIn } from '../chain/transfers.ts'
import type { Token } from '../chain/usdc.ts'
import type { Clock } from '../core/clock.ts'
import type { SweepStore, TopUpMove } from '../persistence/sweeps.ts'
import type { ChainName } from './ledger.ts'

interface TopUpParts {
  readonly chain: ChainName
  readonly client: EvmClient
  readonly token: Token
  readonly store: Pick<SweepStore, 'unplaced' | 'place'>
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
}

const MOST_AT_ONCE = 20

/**
 * Looks up which top-ups of fleets went to the fleet's own wallet, where they can be swept from. Only
 * final blocks are asked, so that nothing is swept on the word of one that may vanish.
 */
export async function placeTopUps(parts: TopUpParts): Promise<void> {
  const { chain, client, store, log } = parts
  const moves = await store.unplaced(chain, MOST_AT_ONCE)
  if (moves.length === 0) return
  const { latest, finalized } = await heads(client)
  const deep = latest - finalized + 1n
  for (const move of moves)
    await place(parts, move, deep).catch((error: unknown) => log(`top-up ${move.tx} waits`, error))
}

async function place(parts: TopUpParts, move: TopUpMove, deep: bigint): Promise<void> {
  const { chain, client, token, store, clock } = parts
  const found = await transfersIn(client, token.address, move.tx as Hex)
  if (found === null || found.confirmations < deep) return
  const arrived = found.transfers.find(({ logIndex }) => logIndex === move.logIndex)
  if (arrived === undefined) return
  const amount = fromAtomic(arrived.value, NETWORKS[chain].decimals)
  const into = arrived.to === move.address ? move.address : null
  await store.place(chain, move, { into, amount, at: new Date(clock.now()) })
}

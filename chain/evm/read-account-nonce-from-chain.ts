import { findRpcError, type EvmClient } from './evm-client.ts'
import type { HexString } from '../onchain-payment-types.ts'

/** The transaction count of a key at a block, that block included. */
export interface AccountNonceAtBlock {
  readonly block: bigint
  readonly count: number
}

/**
 * The newest block and the transaction count up to it, from one view of the chain: behind a load
 * balancer two answers may come from nodes of different height. Null if the answering node does not
 * have the block yet. Throws if a node cannot be reached.
 */
export async function readAccountNonce(
  client: EvmClient,
  address: string,
): Promise<AccountNonceAtBlock | null> {
  const block = await client.getBlockNumber({ cacheTime: 0 })
  const count = await countAt(client, address, block)
  return count === null ? null : { block, count }
}

/** The same up to the newest final block; null if the node knows of none. */
export const readFinalizedNonce = (client: EvmClient, address: string): Promise<number | null> =>
  countAt(client, address, 'finalized')

async function countAt(client: EvmClient, address: string, at: bigint | 'finalized') {
  try {
    const up = at === 'finalized' ? { blockTag: at } : { blockNumber: at }
    return await client.getTransactionCount({ address: address as HexString, ...up })
  } catch (error) {
    if (findRpcError(error) === null) throw error
    return null
  }
}

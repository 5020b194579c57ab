import { getAddress, numberToHex, parseAbi, type Hex } from 'viem'
import { ServiceError } from '../../core/errors.ts'
import { isRpcUnavailable } from './evm-client.ts'
import type { EvmReadClient } from './evm-read-client.ts'

/** A block; null if there is none of that number yet. */
export async function findEvmBlock(client: EvmReadClient, number: bigint | 'latest') {
  const at = number === 'latest' ? number : numberToHex(number)
  const params = [at, false] as [Hex | 'latest', boolean]
  const found = await client.request({ method: 'eth_getBlockByNumber', params })
  if (found?.hash == null || found.number === null) return null
  return {
    number: BigInt(found.number),
    hash: found.hash,
    timestamp: BigInt(found.timestamp),
    transactions: found.transactions.length,
    miner: getAddress(found.miner),
  }
}

/** The base fee of the latest block, in wei per unit of gas; zero on a chain without one. */
export async function readBaseFee(client: EvmReadClient) {
  const params = ['latest', false] as ['latest', boolean]
  const found = await client.request({ method: 'eth_getBlockByNumber', params })
  if (found?.number == null) throw new ServiceError('upstream_error')
  return { baseFeeWei: BigInt(found.baseFeePerGas ?? 0), block: BigInt(found.number) }
}

/** A transaction; null if the node does not know it. */
export async function findEvmTransaction(client: EvmReadClient, hash: Hex) {
  const params = [hash] as [Hex]
  const [found, receipt] = await Promise.all([
    client.request({ method: 'eth_getTransactionByHash', params }),
    client.request({ method: 'eth_getTransactionReceipt', params }),
  ])
  if (found === null) return null
  return {
    from: getAddress(found.from),
    to: found.to === null ? null : getAddress(found.to),
    value: BigInt(found.value),
    block: found.blockNumber === null ? null : BigInt(found.blockNumber),
    success: receipt === null ? null : receipt.status === '0x1',
  }
}

const AGGREGATOR = parseAbi([
  'function latestRoundData() view returns (uint80 roundId, int256 answer, uint256 startedAt, uint256 updatedAt, uint80 answeredInRound)',
  'function decimals() view returns (uint8)',
])

/** The latest round of a Chainlink price oracle; null if the contract is not one. */
export async function findLatestChainlinkRound(client: EvmReadClient, address: Hex) {
  try {
    const feed = { address, abi: AGGREGATOR } as const
    const [[, answer, , updatedAt], decimals] = await Promise.all([
      client.readContract({ ...feed, functionName: 'latestRoundData' }),
      client.readContract({ ...feed, functionName: 'decimals' }),
    ])
    return { answer, decimals, updatedAt: Number(updatedAt) * 1_000 }
  } catch (error) {
    if (isRpcUnavailable(error)) throw error
    return null
  }
}

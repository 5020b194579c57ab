import { HttpRequestError, pad } from 'viem'
import type { EvmClient } from './evm.ts'
import type { Hex } from './payment.ts'

/** Of the event `Transfer(address indexed from, address indexed to, uint256 value)`. */
export const TRANSFER_TOPIC: Hex =
  '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

/** An address as an indexed argument of an event. */
export const addressTopic = (address: string): Hex => pad(address.toLowerCase() as Hex)

export const addressOf = (topic: Hex): string => `0x${topic.slice(-40)}`.toLowerCase()

export interface Log {
  readonly tx: Hex
  readonly logIndex: number
  readonly block: bigint
  readonly blockHash: Hex
  readonly topics: readonly Hex[]
  readonly data: Hex
}

export interface LogFilter {
  readonly address: string
  /** Null is any; a list is any of them. */
  readonly topics: readonly (Hex | readonly Hex[] | null)[]
  readonly fromBlock: bigint
  readonly toBlock: bigint
}

/** The logs of mined blocks in the order of the chain; those a reorganisation removed are left out. */
async function logsOf(client: EvmClient, filter: LogFilter): Promise<Log[]> {
  if (filter.fromBlock > filter.toBlock) return [] // a node that lags behind the one asked before
  const found = await client.request({
    method: 'eth_getLogs',
    params: [
      {
        address: filter.address as Hex,
        topics: filter.topics.map((topic) => (Array.isArray(topic) ? [...topic] : topic) as Hex),
        fromBlock: hex(filter.fromBlock),
        toBlock: hex(filter.toBlock),
      },
    ],
  })
  return found.flatMap((log) => {
    const { transactionHash, logIndex, blockNumber, blockHash, topics, data } = log
    if (log.removed || transactionHash === null || logIndex === null) return []
    if (blockNumber === null || blockHash === null) return []
    const [block, tx] = [BigInt(blockNumber), transactionHash]
    return [{ tx, logIndex: Number(logIndex), block, blockHash, topics, data }]
  })
}

/** What hosted nodes answer at once, as a rule; many take less. */
const MOST_BLOCKS = 5_000n

/**
 * The logs of a long range, part by part in the order of the chain: what a node refuses as too long is
 * asked for in halves. Throws when the node cannot be reached, or refuses a single block.
 */
export async function* logsInParts(client: EvmClient, filter: LogFilter): AsyncGenerator<Log[]> {
  let [fromBlock, length] = [filter.fromBlock, MOST_BLOCKS]
  while (fromBlock <= filter.toBlock) {
    const end = fromBlock + length - 1n
    const toBlock = end < filter.toBlock ? end : filter.toBlock
    try {
      yield await logsOf(client, { ...filter, fromBlock, toBlock })
      fromBlock = toBlock + 1n
    } catch (error) {
      if (fromBlock === toBlock || isUnreachable(error)) throw error
      length = (toBlock - fromBlock + 2n) / 2n
    }
  }
}

/** No connection: half the range would fail the same way. */
const isUnreachable = (error: unknown): boolean =>
  error instanceof HttpRequestError && error.status === undefined

const hex = (block: bigint): Hex => `0x${block.toString(16)}`

export interface Head {
  readonly head: bigint
  /** Seconds since the epoch, of that block. */
  readonly headTime: bigint
}

/** The latest block. */
export async function headOf(client: EvmClient): Promise<Head> {
  const block = await blockAt(client, 'latest')
  if (block === null) throw new Error('the node knows no latest block')
  return { head: block.number, headTime: block.time }
}

/** Number, hash and time of a block; null when the chain has none at that number. */
export async function blockAt(client: EvmClient, at: bigint | 'latest' | 'finalized') {
  const tag = typeof at === 'bigint' ? hex(at) : at
  const block = await client.request({ method: 'eth_getBlockByNumber', params: [tag, false] })
  if (block === null || block.number === null || block.hash === null) return null
  const fee = BigInt(block.baseFeePerGas ?? 0)
  return {
    number: BigInt(block.number),
    hash: block.hash,
    time: BigInt(block.timestamp),
    baseFee: fee,
  }
}

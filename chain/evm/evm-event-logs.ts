import { HttpRequestError, pad } from 'viem'
import type { EvmClient } from './evm-client.ts'
import type { HexString } from '../onchain-payment-types.ts'

/** Of the event `Transfer(address indexed from, address indexed to, uint256 value)`. */
export const ERC20_TRANSFER_TOPIC: HexString =
  '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

/** An address as an indexed argument of an event. */
export const toAddressTopic = (address: string): HexString =>
  pad(address.toLowerCase() as HexString)

export const topicToAddress = (topic: HexString): string => `0x${topic.slice(-40)}`.toLowerCase()

export interface EvmEventLog {
  readonly tx: HexString
  readonly logIndex: number
  readonly block: bigint
  readonly blockHash: HexString
  readonly topics: readonly HexString[]
  readonly data: HexString
}

export interface EventLogFilter {
  readonly address: string
  /** Null matches any topic; a list matches any of its topics. */
  readonly topics: readonly (HexString | readonly HexString[] | null)[]
  readonly fromBlock: bigint
  readonly toBlock: bigint
}

/** Logs of mined blocks in chain order, without those a reorganisation removed. */
async function readLogs(client: EvmClient, filter: EventLogFilter): Promise<EvmEventLog[]> {
  if (filter.fromBlock > filter.toBlock) return [] // this node lags behind the earlier one
  const found = await client.request({
    method: 'eth_getLogs',
    params: [
      {
        address: filter.address as HexString,
        topics: filter.topics.map(
          (topic) => (Array.isArray(topic) ? [...topic] : topic) as HexString,
        ),
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

/** The usual limit of hosted nodes; many allow less. */
const MAX_LOG_RANGE_BLOCKS = 5_000n

/**
 * Reads the logs of a long range in chain order; a range that a node rejects as too long is halved.
 * Throws if the node cannot be reached, or rejects a single block.
 */
export async function* readEvmLogsInChunks(
  client: EvmClient,
  filter: EventLogFilter,
): AsyncGenerator<EvmEventLog[]> {
  let [fromBlock, length] = [filter.fromBlock, MAX_LOG_RANGE_BLOCKS]
  while (fromBlock <= filter.toBlock) {
    const end = fromBlock + length - 1n
    const toBlock = end < filter.toBlock ? end : filter.toBlock
    try {
      yield await readLogs(client, { ...filter, fromBlock, toBlock })
      fromBlock = toBlock + 1n
    } catch (error) {
      if (fromBlock === toBlock || isUnreachable(error)) throw error
      length = (toBlock - fromBlock + 2n) / 2n
    }
  }
}

/** Without a connection half the range would fail, too. */
const isUnreachable = (error: unknown): boolean =>
  error instanceof HttpRequestError && error.status === undefined

const hex = (block: bigint): HexString => `0x${block.toString(16)}`

export interface ChainHead {
  readonly head: bigint
  /** Seconds since the epoch, of that block. */
  readonly headTime: bigint
}

/** The latest block. */
export async function readChainHead(client: EvmClient): Promise<ChainHead> {
  const block = await findBlockHeader(client, 'latest')
  if (block === null) throw new Error('the node knows no latest block')
  return { head: block.number, headTime: block.time }
}

/** Number, hash and time of a block; null if the chain has none at that number. */
export async function findBlockHeader(client: EvmClient, at: bigint | 'latest' | 'finalized') {
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

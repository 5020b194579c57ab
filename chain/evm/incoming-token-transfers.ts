import type { EvmClient } from './evm-client.ts'
import {
  topicToAddress,
  toAddressTopic,
  findBlockHeader,
  type EvmEventLog,
  type EventLogFilter,
  readEvmLogsInChunks,
  ERC20_TRANSFER_TOPIC,
} from './evm-event-logs.ts'
import { readMulticallAtBlock } from './multicall.ts'
import type { HexString } from '../onchain-payment-types.ts'
import { encodeErc20BalanceOfCall } from './eip3009.ts'

/** An incoming transfer; addresses in lower case, the value in atomic units. */
export interface IncomingTransferLog {
  readonly tx: HexString
  readonly logIndex: number
  readonly block: bigint
  readonly blockHash: HexString
  readonly from: string
  readonly to: string
  readonly value: bigint
}

/** A filter of this many addresses is a 68 KiB body, which hosted nodes still accept. */
const ADDRESSES_A_REQUEST = 1_000
/** Above this, reading all transfers of the token costs less than filtering by address. */
const MAX_FILTERED_ADDRESSES = 20_000

/**
 * The token's transfers to any of the addresses in a block range, both ends included, ordered by
 * (block, log index). Zero transfers are left out: they poison address books. A range the node
 * rejects is halved.
 */
export async function readIncomingTransfers(
  client: EvmClient,
  token: string,
  addresses: readonly string[],
  fromBlock: bigint,
  toBlock: bigint,
): Promise<IncomingTransferLog[]> {
  if (addresses.length === 0 || fromBlock > toBlock) return []
  const wanted = new Set(addresses.map((address) => address.toLowerCase()))
  const found: IncomingTransferLog[] = []
  for (const receivers of filtersOf([...wanted])) {
    const topics = [ERC20_TRANSFER_TOPIC, null, receivers]
    found.push(...(await inRange(client, { address: token, topics, fromBlock, toBlock })))
  }
  return found
    .filter(({ to, value }) => value > 0n && wanted.has(to))
    .sort((a, b) => (a.block === b.block ? a.logIndex - b.logIndex : Number(a.block - b.block)))
}

/** Recipient filters, one per request; null requests all transfers. */
function filtersOf(addresses: readonly string[]): (readonly HexString[] | null)[] {
  if (addresses.length > MAX_FILTERED_ADDRESSES) return [null]
  return slices(addresses.map(toAddressTopic), ADDRESSES_A_REQUEST)
}

function slices<T>(items: readonly T[], size: number): T[][] {
  const count = Math.ceil(items.length / size)
  return Array.from({ length: count }, (_, at) => items.slice(at * size, (at + 1) * size))
}

async function inRange(client: EvmClient, filter: EventLogFilter): Promise<IncomingTransferLog[]> {
  const found: IncomingTransferLog[] = []
  for await (const logs of readEvmLogsInChunks(client, filter)) found.push(...logs.map(transferOf))
  return found
}

const transferOf = (log: EvmEventLog): IncomingTransferLog => ({
  tx: log.tx,
  logIndex: log.logIndex,
  block: log.block,
  blockHash: log.blockHash,
  from: topicToAddress(log.topics[1] ?? '0x'),
  to: topicToAddress(log.topics[2] ?? '0x'),
  value: BigInt(log.data),
})

export interface LatestAndFinalBlocks {
  readonly latest: bigint
  readonly finalized: bigint
  /** Seconds since the epoch. */
  readonly latestTime: bigint
}

/** The latest and the final block of the chain. */
export async function readLatestAndFinalBlocks(client: EvmClient): Promise<LatestAndFinalBlocks> {
  const [latest, finalized] = await Promise.all([
    findBlockHeader(client, 'latest'),
    findBlockHeader(client, 'finalized'),
  ])
  if (latest === null) throw new Error('the node knows no latest block')
  return {
    latest: latest.number,
    finalized: finalized?.number ?? 0n,
    latestTime: latest.time,
  }
}

/** The hash of a block; null if the chain has none at that number (any more). */
export async function findBlockHash(client: EvmClient, block: bigint): Promise<HexString | null> {
  return (await findBlockHeader(client, block))?.hash ?? null
}

const BALANCES_A_CALL = 500

/** The token balance of each address, in atomic units, by address in lower case. */
export async function readTokenHoldings(
  client: EvmClient,
  token: string,
  addresses: readonly string[],
  block: bigint | 'latest' = 'latest',
): Promise<Map<string, bigint>> {
  const balances = new Map<string, bigint>()
  const owners = [...new Set(addresses.map((address) => address.toLowerCase()))]
  for (const some of slices(owners, BALANCES_A_CALL)) {
    const reads = some.map((owner) => encodeErc20BalanceOfCall(token, owner))
    const { results } = await readMulticallAtBlock(client, reads, block)
    some.forEach((owner, at) => balances.set(owner, BigInt(results[at] ?? 0)))
  }
  return balances
}

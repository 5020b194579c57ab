import type { EvmClient } from './evm.ts'
import {
  addressOf,
  addressTopic,
  blockAt,
  type Log,
  type LogFilter,
  logsInParts,
  TRANSFER_TOPIC,
} from './logs.ts'
import { readAtOnce } from './multicall.ts'
import type { Hex } from './payment.ts'
import { balanceRead } from './usdc.ts'

/** Money that came in; addresses in lower case, the value in atomic units. */
export interface TransferLog {
  readonly tx: Hex
  readonly logIndex: number
  readonly block: bigint
  readonly blockHash: Hex
  readonly from: string
  readonly to: string
  readonly value: bigint
}

/** A filter of so many addresses is a body of 68 KiB, which hosted nodes still take. */
const ADDRESSES_A_REQUEST = 1_000
/** Above it the whole feed of the token costs less than asking for each address. */
const MOST_FILTERED = 20_000

/**
 * The token's transfers to any of the addresses in a range of blocks, both ends included, ordered by
 * (block, log index). Transfers of nothing are left out: they only poison address books. A node that
 * refuses the range is asked for its halves.
 */
export async function transfersTo(
  client: EvmClient,
  token: string,
  addresses: readonly string[],
  fromBlock: bigint,
  toBlock: bigint,
): Promise<TransferLog[]> {
  if (addresses.length === 0 || fromBlock > toBlock) return []
  const wanted = new Set(addresses.map((address) => address.toLowerCase()))
  const found: TransferLog[] = []
  for (const receivers of filtersOf([...wanted])) {
    const topics = [TRANSFER_TOPIC, null, receivers]
    found.push(...(await inRange(client, { address: token, topics, fromBlock, toBlock })))
  }
  return found
    .filter(({ to, value }) => value > 0n && wanted.has(to))
    .sort((a, b) => (a.block === b.block ? a.logIndex - b.logIndex : Number(a.block - b.block)))
}

/** Lists of receivers to ask for; null asks for the whole feed. */
function filtersOf(addresses: readonly string[]): (readonly Hex[] | null)[] {
  if (addresses.length > MOST_FILTERED) return [null]
  return slices(addresses.map(addressTopic), ADDRESSES_A_REQUEST)
}

function slices<T>(items: readonly T[], size: number): T[][] {
  const count = Math.ceil(items.length / size)
  return Array.from({ length: count }, (_, at) => items.slice(at * size, (at + 1) * size))
}

async function inRange(client: EvmClient, filter: LogFilter): Promise<TransferLog[]> {
  const found: TransferLog[] = []
  for await (const logs of logsInParts(client, filter)) found.push(...logs.map(transferOf))
  return found
}

const transferOf = (log: Log): TransferLog => ({
  tx: log.tx,
  logIndex: log.logIndex,
  block: log.block,
  blockHash: log.blockHash,
  from: addressOf(log.topics[1] ?? '0x'),
  to: addressOf(log.topics[2] ?? '0x'),
  value: BigInt(log.data),
})

export interface Heads {
  readonly latest: bigint
  readonly finalized: bigint
  /** Seconds since the epoch. */
  readonly latestTime: bigint
}

/** How far the chain is, and up to where it cannot change any more. */
export async function heads(client: EvmClient): Promise<Heads> {
  const [latest, finalized] = await Promise.all([
    blockAt(client, 'latest'),
    blockAt(client, 'finalized'),
  ])
  if (latest === null) throw new Error('the node knows no latest block')
  return {
    latest: latest.number,
    finalized: finalized?.number ?? 0n,
    latestTime: latest.time,
  }
}

/** The hash of a block; null when the chain has none at that number (any more). */
export async function blockHash(client: EvmClient, block: bigint): Promise<Hex | null> {
  return (await blockAt(client, block))?.hash ?? null
}

const BALANCES_A_CALL = 500

/** What each address holds of the token, in atomic units, by its address in lower case. */
export async function balancesOf(
  client: EvmClient,
  token: string,
  addresses: readonly string[],
  block: bigint | 'latest' = 'latest',
): Promise<Map<string, bigint>> {
  const balances = new Map<string, bigint>()
  const owners = [...new Set(addresses.map((address) => address.toLowerCase()))]
  for (const some of slices(owners, BALANCES_A_CALL)) {
    const reads = some.map((owner) => balanceRead(token, owner))
    const { results } = await readAtOnce(client, reads, block)
    some.forEach((owner, at) => balances.set(owner, BigInt(results[at] ?? 0)))
  }
  return balances
}

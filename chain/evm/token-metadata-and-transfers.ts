import {
  decodeEventLog,
  encodeEventTopics,
  erc20Abi,
  getAddress,
  hexToString,
  numberToHex,
  pad,
  parseAbi,
  type Hex,
} from 'viem'
import { isRpcUnavailable } from './evm-client.ts'
import { nullIfEvmNodeRefuses, type EvmReadClient } from './evm-read-client.ts'

/** Reads the metadata and transfers of tokens. */

const OWNED = parseAbi(['function owner() view returns (address)'])
const BYTES = parseAbi([
  'function name() view returns (bytes32)',
  'function symbol() view returns (bytes32)',
])
/** EIP-1967: keccak256("eip1967.proxy.implementation") - 1. */
const IMPLEMENTATION = '0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc'
const EMPTY = /^0x0*$/
/** How many blocks back transfers are searched: what public nodes return in one reply. */
const LOG_BLOCKS = 500n

/** The metadata a token contract returns. */
export async function readTokenMetadata(client: EvmReadClient, address: Hex) {
  const code = await client.getCode({ address })
  const read = <T>(work: Promise<T>) => nullOnRevert(work)
  const [name, symbol, decimals, supply, owner, slot] = await Promise.all([
    textOf(client, address, 'name'),
    textOf(client, address, 'symbol'),
    read(client.readContract({ address, abi: erc20Abi, functionName: 'decimals' })),
    read(client.readContract({ address, abi: erc20Abi, functionName: 'totalSupply' })),
    read(client.readContract({ address, abi: OWNED, functionName: 'owner' })),
    client.getStorageAt({ address, slot: IMPLEMENTATION }),
  ])
  const implementation = slot === undefined || EMPTY.test(slot) ? null : slot
  return {
    hasCode: code !== undefined,
    name,
    symbol,
    decimals,
    supply,
    owner: owner === null ? null : getAddress(owner),
    implementation: implementation === null ? null : getAddress(`0x${implementation.slice(-40)}`),
  }
}

/** Old tokens return bytes32. */
async function textOf(
  client: EvmReadClient,
  address: Hex,
  functionName: 'name' | 'symbol',
): Promise<string | null> {
  const text = await nullOnRevert(client.readContract({ address, abi: erc20Abi, functionName }))
  if (text !== null) return clean(text)
  const bytes = await nullOnRevert(client.readContract({ address, abi: BYTES, functionName }))
  return bytes === null ? null : clean(hexToString(bytes, { size: 32 }))
}

/** Untrusted text: without control characters, and no longer than a name needs. */
const clean = (text: string): string => text.replace(/[\p{C}]/gu, '').slice(0, 64)

async function nullOnRevert<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work
  } catch (error) {
    if (isRpcUnavailable(error)) throw error
    return null // it reverts, or answers in an unknown form
  }
}

const [TRANSFER] = encodeEventTopics({ abi: erc20Abi, eventName: 'Transfer' })

/** Token transfers from or to an account in the latest blocks, newest first. */
export async function readRecentTransfers(
  client: EvmReadClient,
  account: Hex,
  tokens: readonly Hex[],
) {
  const topic = pad(account)
  const [sent, received] = await Promise.all([
    readTransferLogs(client, tokens, [TRANSFER, topic]),
    readTransferLogs(client, tokens, [TRANSFER, null, topic]),
  ])
  if (sent === null || received === null) return null
  return [...sent, ...received].sort((one, other) => Number(other.block - one.block))
}

/** Transfers of a token of at least `least` units in the latest blocks, largest first. */
export async function readLargeTransfers(client: EvmReadClient, token: Hex, least: bigint) {
  const found = await readTransferLogs(client, [token], [TRANSFER])
  if (found === null) return null
  return found
    .filter(({ amount }) => amount >= least)
    .sort((one, other) => (other.amount > one.amount ? 1 : -1))
}

interface Log {
  readonly address: Hex
  readonly topics: readonly Hex[]
  readonly data: Hex
  readonly transactionHash: Hex
  readonly blockNumber: Hex
}

async function readTransferLogs(
  client: EvmReadClient,
  tokens: readonly Hex[],
  topics: readonly (Hex | null | undefined)[],
) {
  const head = await client.getBlockNumber()
  const from = head > LOG_BLOCKS ? head - LOG_BLOCKS : 0n
  const filter = { address: tokens, topics, fromBlock: numberToHex(from), toBlock: 'latest' }
  const asked = client.request({ method: 'eth_getLogs', params: [filter] } as never)
  const logs = (await nullIfEvmNodeRefuses(asked)) as readonly Log[] | null
  return logs === null ? null : logs.flatMap(movementOf)
}

function movementOf({ address, topics, data, transactionHash, blockNumber }: Log) {
  try {
    const [signature, ...rest] = topics as [Hex, ...Hex[]]
    const { args } = decodeEventLog({
      abi: erc20Abi,
      eventName: 'Transfer',
      topics: [signature, ...rest],
      data,
    })
    return [
      {
        token: getAddress(address),
        from: args.from,
        to: args.to,
        amount: args.value,
        hash: transactionHash,
        block: BigInt(blockNumber),
      },
    ]
  } catch {
    return [] // an event of the same name and another form (ERC-721)
  }
}

import {
  domainSeparator,
  encodeFunctionData,
  keccak256,
  type LocalAccount,
  parseAbi,
  stringToHex,
  type TransactionReceipt,
} from 'viem'
import { type Call, ethCall, type EvmClient, revertReason } from './evm.ts'
import type { Inspector } from './inspection.ts'
import { addressTopic, headOf, type Log, logsInParts, TRANSFER_TOPIC } from './logs.ts'
import type { Hex } from './payment.ts'
import { isOfKey, splitSignature } from './signatures.ts'
import { receiptOf } from './transactions.ts'
import { callData, wordOf, wordOfHex } from './words.ts'

/** EIP-3009: money that moves on a signature; addresses in lower case, times in seconds. */
export interface Authorization {
  readonly from: string
  readonly to: string
  readonly value: bigint
  readonly validAfter: bigint
  readonly validBefore: bigint
  readonly nonce: Hex
}

/** A token with EIP-3009 and the EIP-712 domain it signs under. */
export interface Token {
  readonly address: string
  readonly name: string
  readonly version: string
  readonly chainId: number
}

const abi = parseAbi([
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)',
  'function DOMAIN_SEPARATOR() view returns (bytes32)',
  'function isValidSignature(bytes32 digest, bytes signature) view returns (bytes4)',
])
/** `transferWithAuthorization` with v, r and s, `authorizationState`, `balanceOf`. */
const SELECTORS = { transfer: '0xe3ee160e', state: '0xe94a0102', balance: '0x70a08231' } as const

const TYPES = {
  TransferWithAuthorization: [
    { name: 'from', type: 'address' },
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'validAfter', type: 'uint256' },
    { name: 'validBefore', type: 'uint256' },
    { name: 'nonce', type: 'bytes32' },
  ],
} as const

const domainOf = ({ address, name, version, chainId }: Token) => ({
  name,
  version,
  chainId,
  verifyingContract: address as Hex,
})

const typedData = (token: Token, authorization: Authorization) => ({
  domain: domainOf(token),
  types: TYPES,
  primaryType: 'TransferWithAuthorization' as const,
  message: { ...authorization, from: authorization.from as Hex, to: authorization.to as Hex },
})

/** `from`, `to`, `value`, `validAfter`, `validBefore`, `nonce`: the same words signed and sent. */
const wordsOf = ({ from, to, value, validAfter, validBefore, nonce }: Authorization): string[] => [
  wordOfHex(from),
  wordOfHex(to),
  wordOf(value),
  wordOf(validAfter),
  wordOf(validBefore),
  wordOfHex(nonce),
]

const TYPE_HASH = keccak256(
  stringToHex(
    `TransferWithAuthorization(${TYPES.TransferWithAuthorization.map(({ type, name }) => `${type} ${name}`).join(',')})`,
  ),
)

/** What the payer signs, of EIP-712: the hash of the domain, and that of the terms. */
export function authorizationDigest(token: Token, authorization: Authorization): Hex {
  const terms = keccak256(callData(TYPE_HASH, ...wordsOf(authorization)))
  return keccak256(`0x1901${domainHash(token).slice(2)}${terms.slice(2)}`)
}

/** Signs for one of our own accounts: a custodial wallet, or a payer of the demo. */
export const signAuthorization = (
  account: LocalAccount,
  token: Token,
  authorization: Authorization,
): Promise<Hex> => account.signTypedData(typedData(token, authorization))

/** The call that settles; anybody may send it. A signature of a contract needs the bytes overload. */
export function transferCall(
  { address }: Pick<Token, 'address'>,
  authorization: Authorization,
  signature: Hex,
): Call {
  if (isOfKey(signature)) {
    const { v, r, s } = splitSignature(signature)
    const words = [...wordsOf(authorization), wordOf(v), wordOfHex(r), wordOfHex(s)]
    return { to: address, data: callData(SELECTORS.transfer, ...words) }
  }
  const { from, to, value, validAfter, validBefore, nonce } = authorization
  const args = [from as Hex, to as Hex, value, validAfter, validBefore, nonce, signature] as const
  const functionName = 'transferWithAuthorization'
  return { to: address, data: encodeFunctionData({ abi, functionName, args }) }
}

/** Whether the token signs under the domain we compute; to be asked before the first payment. */
export async function domainMatches(client: EvmClient, token: Token): Promise<boolean> {
  const data = encodeFunctionData({ abi, functionName: 'DOMAIN_SEPARATOR' })
  return (await ethCall(client, { to: token.address, data })) === domainHash(token)
}

const domains = new WeakMap<Token, Hex>()

/** The hash of the token's EIP-712 domain. */
export function domainHash(token: Token): Hex {
  const known = domains.get(token)
  if (known !== undefined) return known
  const hash = domainSeparator({ domain: domainOf(token) })
  domains.set(token, hash)
  return hash
}

export const balanceRead = (token: string, owner: string): Call => ({
  to: token,
  data: callData(SELECTORS.balance, wordOfHex(owner)),
})

const usedRead = (
  { address }: Token,
  { from, nonce }: Pick<Authorization, 'from' | 'nonce'>,
): Call => ({ to: address, data: callData(SELECTORS.state, wordOfHex(from), wordOfHex(nonce)) })

export interface Inspection {
  /** The block `used` and `balance` are of. */
  readonly block: bigint
  /** The payer is a contract, or delegates to one (EIP-7702). */
  readonly hasCode: boolean
  /** Used or cancelled. */
  readonly used: boolean
  /** Atomic units. */
  readonly balance: bigint
  /** Null when the settlement would succeed now, else why it reverts. */
  readonly simulation: string | null
}

/** What the chain says about an authorization now; throws when it is down. */
export async function inspectAuthorization(
  inspect: Inspector,
  token: Token,
  authorization: Authorization,
  signature: Hex,
): Promise<Inspection> {
  const { from } = authorization
  const { results, ...seen } = await inspect({
    from,
    reads: [usedRead(token, authorization), balanceRead(token.address, from)],
    settlement: transferCall(token, authorization, signature),
  })
  const [used, balance] = results
  return { ...seen, used: BigInt(used ?? 0) !== 0n, balance: BigInt(balance ?? 0) }
}

const ERC1271_MAGIC = '0x1626ba7e'
/** ERC-6492 is for contracts that are not deployed yet: such an address could not settle. */
const ERC6492_TAIL = '6492'.repeat(16)

/** Whether the contract on an address accepts a signature (ERC-1271). ERC-6492 is refused. */
export async function isValidOnChain(
  client: EvmClient,
  address: string,
  digest: Hex,
  signature: Hex,
): Promise<boolean> {
  if (signature.toLowerCase().endsWith(ERC6492_TAIL)) return false
  const args = [digest, signature] as const
  const data = encodeFunctionData({ abi, functionName: 'isValidSignature', args })
  try {
    const answer = await ethCall(client, { to: address, data })
    return answer.length === 66 && answer.startsWith(ERC1271_MAGIC)
  } catch (error) {
    if (revertReason(error) === null) throw error
    return false
  }
}

const USED_TOPIC: Hex = '0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5'
const CANCELED_TOPIC: Hex = '0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81'

/** What became of a signed authorization. */
export type FoundAuthorization =
  | {
      readonly state: 'used'
      readonly tx: Hex
      readonly block: bigint
      /** Of our Transfer log; when not `paid`, of the log that shows the use. */
      readonly logIndex: number
      /** Whether the same transaction moved the money to us, whoever sent it. */
      readonly paid: boolean
    }
  | { readonly state: 'canceled'; readonly tx: Hex }
  | { readonly state: 'unused'; readonly headTime: bigint; readonly head: bigint }

/** What became of a signed payment; `spent`: it can be used no more, and nothing shows that it paid. */
export type Found = FoundAuthorization | { readonly state: 'spent'; readonly headTime: bigint }

/** Where to look for a payment: not before the block it was accepted at. */
export type Sought = Pick<Authorization, 'from' | 'to' | 'value' | 'nonce'> & {
  readonly fromBlock: bigint
}

/**
 * What became of an authorization, by its nonce: the token's own state at the latest block, then its
 * logs. Throws when the chain is down, or shows the nonce used but no log of it since `fromBlock`.
 */
export async function findAuthorization(
  client: EvmClient,
  token: Token,
  sought: Sought,
): Promise<FoundAuthorization> {
  const { from, nonce, fromBlock } = sought
  const { head, headTime } = await headOf(client)
  if (BigInt(await ethCall(client, usedRead(token, sought), head)) === 0n) {
    return { state: 'unused', headTime, head }
  }
  const topics = [[USED_TOPIC, CANCELED_TOPIC], addressTopic(from), nonce]
  const filter = { address: token.address, topics, fromBlock, toBlock: head }
  for await (const [log] of logsInParts(client, filter)) {
    if (log === undefined) continue
    if (log.topics[0] === CANCELED_TOPIC) return { state: 'canceled', tx: log.tx }
    return usedIn(client, token, sought, log)
  }
  throw new Error(`nonce ${nonce} is used, but no log since block ${fromBlock} shows by whom`)
}

async function usedIn(
  client: EvmClient,
  token: Token,
  { from, to, value, nonce }: Sought,
  log: Log,
): Promise<FoundAuthorization> {
  const receipt = await receiptOf(client, log.tx)
  if (receipt === null) throw new Error(`the node has a log of ${log.tx} but not its receipt`)
  const paid = paidIn(receipt, token.address, from, to, value, nonce)
  const { tx, block } = log
  return { state: 'used', tx, block, logIndex: paid ?? log.logIndex, paid: paid !== null }
}

/**
 * The log index of the token's Transfer of exactly this payment in a transaction; null when it did
 * not pay. With `nonce`, only the one that the use of the nonce made, which is the token's next log: a
 * transaction may carry several payments alike.
 */
export function paidIn(
  receipt: TransactionReceipt,
  token: string,
  from: string,
  to: string,
  value: bigint,
  nonce?: Hex,
): number | null {
  if (receipt.status !== 'success') return null
  const own = receipt.logs.filter((log) => log.address.toLowerCase() === token.toLowerCase())
  const [sender, receiver] = [addressTopic(from), addressTopic(to)]
  const starts = (log: EventLog | undefined, ...wanted: (Hex | undefined)[]) =>
    wanted.every((topic, at) => log?.topics[at] === topic?.toLowerCase())
  const transfer = own.find(
    (log, at) =>
      starts(log, TRANSFER_TOPIC, sender, receiver) &&
      BigInt(log.data) === value &&
      (nonce === undefined || starts(own[at - 1], USED_TOPIC, sender, nonce)),
  )
  return transfer?.logIndex ?? null
}

/** A log by its topics, however many there are. */
type EventLog = { readonly topics: readonly Hex[] }

import {
  domainSeparator,
  encodeFunctionData,
  keccak256,
  type LocalAccount,
  parseAbi,
  stringToHex,
  type TransactionReceipt,
} from 'viem'
import { type EvmCall, ethCall, type EvmClient, revertReasonFromError } from './evm-client.ts'
import type { PaymentPreflight } from './payment-preflight.ts'
import {
  toAddressTopic,
  readChainHead,
  type EvmEventLog,
  readEvmLogsInChunks,
  ERC20_TRANSFER_TOPIC,
} from './evm-event-logs.ts'
import type { HexString } from '../onchain-payment-types.ts'
import { isEcdsaSignature, splitSignature } from './ecdsa-signature-format.ts'
import { findTransactionReceipt } from './settler-evm-transactions.ts'
import { encodeCallData, encodeUintWord, encodeHexStringAsAbiWord } from './abi-words.ts'

/** A transfer by signature (EIP-3009); addresses in lower case, times in seconds. */
export interface Eip3009Authorization {
  readonly from: string
  readonly to: string
  readonly value: bigint
  readonly validAfter: bigint
  readonly validBefore: bigint
  readonly nonce: HexString
}

/** A token with EIP-3009 and its EIP-712 domain. */
export interface Eip3009Token {
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

const domainOf = ({ address, name, version, chainId }: Eip3009Token) => ({
  name,
  version,
  chainId,
  verifyingContract: address as HexString,
})

const typedData = (token: Eip3009Token, authorization: Eip3009Authorization) => ({
  domain: domainOf(token),
  types: TYPES,
  primaryType: 'TransferWithAuthorization' as const,
  message: {
    ...authorization,
    from: authorization.from as HexString,
    to: authorization.to as HexString,
  },
})

/**
 * `from`, `to`, `value`, `validAfter`, `validBefore`, `nonce`: the same words are signed and sent.
 */
const encodeAuthorizationWords = ({
  from,
  to,
  value,
  validAfter,
  validBefore,
  nonce,
}: Eip3009Authorization): string[] => [
  encodeHexStringAsAbiWord(from),
  encodeHexStringAsAbiWord(to),
  encodeUintWord(value),
  encodeUintWord(validAfter),
  encodeUintWord(validBefore),
  encodeHexStringAsAbiWord(nonce),
]

const TYPE_HASH = keccak256(
  stringToHex(
    `TransferWithAuthorization(${TYPES.TransferWithAuthorization.map(({ type, name }) => `${type} ${name}`).join(',')})`,
  ),
)

/** The EIP-712 digest the payer signs, from the hashes of domain and terms. */
export function eip3009Digest(token: Eip3009Token, authorization: Eip3009Authorization): HexString {
  const terms = keccak256(encodeCallData(TYPE_HASH, ...encodeAuthorizationWords(authorization)))
  return keccak256(`0x1901${tokenDomainHash(token).slice(2)}${terms.slice(2)}`)
}

/** Signs for one of our own accounts: a custodial wallet, or a payer of the demo. */
export const signEip3009Authorization = (
  account: LocalAccount,
  token: Eip3009Token,
  authorization: Eip3009Authorization,
): Promise<HexString> => account.signTypedData(typedData(token, authorization))

/** The settling call; anybody may send it. A contract's signature needs the bytes overload. */
export function eip3009TransferCall(
  { address }: Pick<Eip3009Token, 'address'>,
  authorization: Eip3009Authorization,
  signature: HexString,
): EvmCall {
  if (isEcdsaSignature(signature)) {
    const { v, r, s } = splitSignature(signature)
    const words = [
      ...encodeAuthorizationWords(authorization),
      encodeUintWord(v),
      encodeHexStringAsAbiWord(r),
      encodeHexStringAsAbiWord(s),
    ]
    return { to: address, data: encodeCallData(SELECTORS.transfer, ...words) }
  }
  const { from, to, value, validAfter, validBefore, nonce } = authorization
  const args = [
    from as HexString,
    to as HexString,
    value,
    validAfter,
    validBefore,
    nonce,
    signature,
  ] as const
  const functionName = 'transferWithAuthorization'
  return { to: address, data: encodeFunctionData({ abi, functionName, args }) }
}

/** Whether the token's domain equals the one we compute; check it before the first payment. */
export async function hasExpectedEip712Domain(
  client: EvmClient,
  token: Eip3009Token,
): Promise<boolean> {
  const data = encodeFunctionData({ abi, functionName: 'DOMAIN_SEPARATOR' })
  return (await ethCall(client, { to: token.address, data })) === tokenDomainHash(token)
}

const domains = new WeakMap<Eip3009Token, HexString>()

/** The hash of the token's EIP-712 domain. */
export function tokenDomainHash(token: Eip3009Token): HexString {
  const known = domains.get(token)
  if (known !== undefined) return known
  const hash = domainSeparator({ domain: domainOf(token) })
  domains.set(token, hash)
  return hash
}

export const encodeErc20BalanceOfCall = (token: string, owner: string): EvmCall => ({
  to: token,
  data: encodeCallData(SELECTORS.balance, encodeHexStringAsAbiWord(owner)),
})

const authorizationStateCall = (
  { address }: Eip3009Token,
  { from, nonce }: Pick<Eip3009Authorization, 'from' | 'nonce'>,
): EvmCall => ({
  to: address,
  data: encodeCallData(
    SELECTORS.state,
    encodeHexStringAsAbiWord(from),
    encodeHexStringAsAbiWord(nonce),
  ),
})

export interface Eip3009Preflight {
  /** The block of `used` and `balance`. */
  readonly block: bigint
  /** The payer is a contract, or delegates to one (EIP-7702). */
  readonly hasCode: boolean
  /** Used or cancelled. */
  readonly used: boolean
  /** Atomic units. */
  readonly balance: bigint
  /** Null if the settlement would succeed now, else why it reverts. */
  readonly simulation: string | null
}

/** Reads the state of an authorization on the chain; throws if the node is down. */
export async function preflightEip3009(
  inspect: PaymentPreflight,
  token: Eip3009Token,
  authorization: Eip3009Authorization,
  signature: HexString,
): Promise<Eip3009Preflight> {
  const { from } = authorization
  const { results, ...seen } = await inspect({
    from,
    reads: [
      authorizationStateCall(token, authorization),
      encodeErc20BalanceOfCall(token.address, from),
    ],
    settlement: eip3009TransferCall(token, authorization, signature),
  })
  const [used, balance] = results
  return { ...seen, used: BigInt(used ?? 0) !== 0n, balance: BigInt(balance ?? 0) }
}

const ERC1271_MAGIC = '0x1626ba7e'
/** ERC-6492 is for contracts that are not deployed yet, which could not settle. */
const ERC6492_TAIL = '6492'.repeat(16)

/** Whether the contract at an address accepts a signature (ERC-1271). ERC-6492 is rejected. */
export async function isValidErc1271Signature(
  client: EvmClient,
  address: string,
  digest: HexString,
  signature: HexString,
): Promise<boolean> {
  if (signature.toLowerCase().endsWith(ERC6492_TAIL)) return false
  const args = [digest, signature] as const
  const data = encodeFunctionData({ abi, functionName: 'isValidSignature', args })
  try {
    const answer = await ethCall(client, { to: address, data })
    return answer.length === 66 && answer.startsWith(ERC1271_MAGIC)
  } catch (error) {
    if (revertReasonFromError(error) === null) throw error
    return false
  }
}

const USED_TOPIC: HexString = '0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5'
const CANCELED_TOPIC: HexString =
  '0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81'

/** The outcome of a signed authorization. */
export type Eip3009Status =
  | {
      readonly state: 'used'
      readonly tx: HexString
      readonly block: bigint
      /** Of our Transfer log; if not `paid`, of the log that shows the use. */
      readonly logIndex: number
      /** Whether the same transaction paid us, by any sender. */
      readonly paid: boolean
    }
  | { readonly state: 'canceled'; readonly tx: HexString }
  | { readonly state: 'unused'; readonly headTime: bigint; readonly head: bigint }

/** The outcome of a signed payment; `spent`: it is used up, and nothing shows that it paid. */
export type SignedPaymentStatus =
  | Eip3009Status
  | { readonly state: 'spent'; readonly headTime: bigint }

/** The payment to search for, and the block it was accepted at, where the search starts. */
export type Eip3009StatusQuery = Pick<Eip3009Authorization, 'from' | 'to' | 'value' | 'nonce'> & {
  readonly fromBlock: bigint
}

/**
 * Reads the outcome of an authorization by its nonce: the token's state at the latest block, then
 * its logs. Throws if the node is down, or shows the nonce as used without a log since `fromBlock`.
 */
export async function readEip3009Status(
  client: EvmClient,
  token: Eip3009Token,
  sought: Eip3009StatusQuery,
): Promise<Eip3009Status> {
  const { from, nonce, fromBlock } = sought
  const { head, headTime } = await readChainHead(client)
  if (BigInt(await ethCall(client, authorizationStateCall(token, sought), head)) === 0n) {
    return { state: 'unused', headTime, head }
  }
  const topics = [[USED_TOPIC, CANCELED_TOPIC], toAddressTopic(from), nonce]
  const filter = { address: token.address, topics, fromBlock, toBlock: head }
  for await (const [log] of readEvmLogsInChunks(client, filter)) {
    if (log === undefined) continue
    if (log.topics[0] === CANCELED_TOPIC) return { state: 'canceled', tx: log.tx }
    return readUseStatus(client, token, sought, log)
  }
  throw new Error(`nonce ${nonce} is used, but no log since block ${fromBlock} shows by whom`)
}

async function readUseStatus(
  client: EvmClient,
  token: Eip3009Token,
  { from, to, value, nonce }: Eip3009StatusQuery,
  log: EvmEventLog,
): Promise<Eip3009Status> {
  const receipt = await findTransactionReceipt(client, log.tx)
  if (receipt === null) throw new Error(`the node has a log of ${log.tx} but not its receipt`)
  const paid = findPaymentLogIndex(receipt, token.address, from, to, value, nonce)
  const { tx, block } = log
  return { state: 'used', tx, block, logIndex: paid ?? log.logIndex, paid: paid !== null }
}

/**
 * The log index of the token's Transfer of exactly this payment in a transaction; null if it did
 * not pay. With `nonce`, only the Transfer caused by the use of the nonce, which is the token's
 * next log: a transaction may contain several equal payments.
 */
export function findPaymentLogIndex(
  receipt: TransactionReceipt,
  token: string,
  from: string,
  to: string,
  value: bigint,
  nonce?: HexString,
): number | null {
  if (receipt.status !== 'success') return null
  const own = receipt.logs.filter((log) => log.address.toLowerCase() === token.toLowerCase())
  const [sender, receiver] = [toAddressTopic(from), toAddressTopic(to)]
  const starts = (log: EventLog | undefined, ...wanted: (HexString | undefined)[]) =>
    wanted.every((topic, at) => log?.topics[at] === topic?.toLowerCase())
  const transfer = own.find(
    (log, at) =>
      starts(log, ERC20_TRANSFER_TOPIC, sender, receiver) &&
      BigInt(log.data) === value &&
      (nonce === undefined || starts(own[at - 1], USED_TOPIC, sender, nonce)),
  )
  return transfer?.logIndex ?? null
}

/** A log with any number of topics. */
type EventLog = { readonly topics: readonly HexString[] }

import {
  encodeAbiParameters,
  encodeFunctionData,
  hashTypedData,
  type LocalAccount,
  parseAbi,
  toEventSelector,
} from 'viem'
import { type Call, ethCall, type EvmClient, revertOf } from './evm.ts'
import { addressTopic, headOf, logsOf, TRANSFER_TOPIC } from './logs.ts'
import { readAtOnce } from './multicall.ts'
import type { Hex } from './payment.ts'
import { isOfKey, splitSignature } from './signatures.ts'
import { balanceRead, codeOn, type Found, type Inspection } from './usdc.ts'

/** One address on every chain. */
export const PERMIT2 = '0x000000000022d473030f116ddee9f6b43ac78ba3'

/** The contract that payers of x402 sign for: it can only pay the address the payer signed. */
export const X402_EXACT_PROXY = '0x402085c248eea27d92e8b30b2c58ed07f9e20001'

/** Money that moves on a signature for Permit2; addresses in lower case, times in seconds. */
export interface Permit {
  readonly from: string
  readonly token: string
  /** Atomic units. */
  readonly amount: bigint
  readonly spender: string
  readonly nonce: bigint
  readonly deadline: bigint
  readonly to: string
  readonly validAfter: bigint
}

const abi = parseAbi([
  'struct TokenPermissions { address token; uint256 amount; }',
  'struct PermitTransferFrom { TokenPermissions permitted; uint256 nonce; uint256 deadline; }',
  'struct Witness { address to; uint256 validAfter; }',
  'function settle(PermitTransferFrom permit, address owner, Witness witness, bytes signature)',
  'function nonceBitmap(address owner, uint256 word) view returns (uint256)',
  'function allowance(address owner, address spender) view returns (uint256)',
])

const TYPES = {
  PermitWitnessTransferFrom: [
    { name: 'permitted', type: 'TokenPermissions' },
    { name: 'spender', type: 'address' },
    { name: 'nonce', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
    { name: 'witness', type: 'Witness' },
  ],
  TokenPermissions: [
    { name: 'token', type: 'address' },
    { name: 'amount', type: 'uint256' },
  ],
  Witness: [
    { name: 'to', type: 'address' },
    { name: 'validAfter', type: 'uint256' },
  ],
} as const

// the domain of Permit2 has no version
const typedData = (chainId: number, permit: Permit) => ({
  domain: { name: 'Permit2', chainId, verifyingContract: PERMIT2 as Hex },
  types: TYPES,
  primaryType: 'PermitWitnessTransferFrom' as const,
  message: {
    permitted: { token: permit.token as Hex, amount: permit.amount },
    spender: permit.spender as Hex,
    nonce: permit.nonce,
    deadline: permit.deadline,
    witness: { to: permit.to as Hex, validAfter: permit.validAfter },
  },
})

/** What the payer signs. */
export const permit2Digest = (chainId: number, permit: Permit): Hex =>
  hashTypedData(typedData(chainId, permit))

/** Signs for one of our own accounts: a payer of the demo. */
export const signPermit2 = (account: LocalAccount, chainId: number, permit: Permit): Promise<Hex> =>
  account.signTypedData(typedData(chainId, permit))

/** The call of the spender that settles; anybody may send it. */
export function settleCall(permit: Permit, signature: Hex): Call {
  const { token, amount, nonce, deadline, from, to, validAfter } = permit
  const terms = { permitted: { token: token as Hex, amount }, nonce, deadline }
  const witness = { to: to as Hex, validAfter }
  const args = [terms, from as Hex, witness, normal(signature)] as const
  return { to: permit.spender, data: encodeFunctionData({ abi, functionName: 'settle', args }) }
}

/** Permit2 wants 27 or 28 where some keys write 0 or 1. */
function normal(signature: Hex): Hex {
  if (!isOfKey(signature)) return signature
  const { r, s, v } = splitSignature(signature)
  return `0x${r.slice(2)}${s.slice(2)}${v.toString(16).padStart(2, '0')}`
}

function usedRead({ from, nonce }: Pick<Permit, 'from' | 'nonce'>): Call {
  const args = [from as Hex, nonce >> 8n] as const
  return { to: PERMIT2, data: encodeFunctionData({ abi, functionName: 'nonceBitmap', args }) }
}

const isSpent = (bitmap: Hex | undefined, nonce: bigint): boolean =>
  ((BigInt(bitmap ?? 0) >> (nonce & 0xffn)) & 1n) === 1n

export interface PermitInspection extends Inspection {
  /** What Permit2 may move of the payer's tokens; below the amount the payer has to approve first. */
  readonly allowance: bigint
}

/** What the chain says about a permit now, in one JSON-RPC batch; throws when it is down. */
export async function inspectPermit2(
  client: EvmClient,
  permit: Permit,
  signature: Hex,
  settler: string,
): Promise<PermitInspection> {
  const { from, token, nonce } = permit
  const args = [from as Hex, PERMIT2] as const
  const allowanceRead: Call = {
    to: token,
    data: encodeFunctionData({ abi, functionName: 'allowance', args }),
  }
  const [hasCode, { block, results }, simulation] = await Promise.all([
    codeOn(client, from),
    readAtOnce(client, [usedRead(permit), balanceRead(token, from), allowanceRead]),
    revertOf(client, { ...settleCall(permit, signature), from: settler }),
  ])
  const [bitmap, balance, allowance] = results
  return {
    block,
    hasCode,
    used: isSpent(bitmap, nonce),
    balance: BigInt(balance ?? 0),
    allowance: BigInt(allowance ?? 0),
    simulation,
  }
}

const INVALIDATED_TOPIC = toEventSelector('UnorderedNonceInvalidation(address,uint256,uint256)')

/**
 * What became of a permit: its bit at the latest block, then the Transfer logs of transactions that
 * carry exactly its terms (Permit2 itself logs no use), then the owner's cancellations. Throws when
 * the chain is down, or shows the nonce spent and none of these since `fromBlock`.
 */
export async function findPermit2(
  client: EvmClient,
  permit: Permit,
  fromBlock: bigint,
): Promise<Found> {
  const { head, headTime } = await headOf(client)
  if (!isSpent(await ethCall(client, usedRead(permit), head), permit.nonce)) {
    return { state: 'unused', headTime, head }
  }
  const found =
    (await paymentOf(client, permit, fromBlock, head)) ??
    (await cancellationOf(client, permit, fromBlock, head))
  if (found !== null) return found
  throw new Error(`nonce ${permit.nonce} is spent, but nothing since block ${fromBlock} shows how`)
}

async function paymentOf(client: EvmClient, permit: Permit, fromBlock: bigint, toBlock: bigint) {
  const { token, from, to, amount } = permit
  const topics = [TRANSFER_TOPIC, addressTopic(from), addressTopic(to)]
  const terms = termsOf(permit)
  for (const log of await logsOf(client, { address: token, topics, fromBlock, toBlock })) {
    if (BigInt(log.data) !== amount) continue
    const { tx, block, logIndex } = log
    const transaction = await client.request({ method: 'eth_getTransactionByHash', params: [tx] })
    if (transaction?.input.includes(terms) !== true) continue
    return { state: 'used' as const, tx, block, logIndex, paid: true }
  }
  return null
}

/** The words of a settlement that say what is paid, as they stand in its call data. */
function termsOf({ token, amount, nonce, deadline, from, to, validAfter }: Permit): string {
  const words = ['address', 'uint256', 'uint256', 'uint256', 'address', 'address', 'uint256']
  const values = [token, amount, nonce, deadline, from, to, validAfter]
  const data = encodeAbiParameters(
    words.map((type) => ({ type })),
    values,
  )
  return data.slice(2)
}

async function cancellationOf(
  client: EvmClient,
  permit: Permit,
  fromBlock: bigint,
  toBlock: bigint,
) {
  const topics = [INVALIDATED_TOPIC, addressTopic(permit.from)]
  const logs = await logsOf(client, { address: PERMIT2, topics, fromBlock, toBlock })
  const cancels = logs.find(({ data }) => {
    const [word, mask] = [BigInt(data.slice(0, 66)), BigInt(`0x${data.slice(66)}`)]
    return word === permit.nonce >> 8n && ((mask >> (permit.nonce & 0xffn)) & 1n) === 1n
  })
  return cancels === undefined ? null : { state: 'canceled' as const, tx: cancels.tx }
}

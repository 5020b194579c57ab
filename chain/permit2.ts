import {
  encodeAbiParameters,
  encodeFunctionData,
  hashTypedData,
  type LocalAccount,
  parseAbi,
  toEventSelector,
} from 'viem'
import { type Call, ethCall, type EvmClient } from './evm.ts'
import type { Inspector } from './inspection.ts'
import { addressTopic, headOf, type LogFilter, logsInParts, TRANSFER_TOPIC } from './logs.ts'
import type { Hex } from './payment.ts'
import { isOfKey, splitSignature } from './signatures.ts'
import { balanceRead, type Found, type Inspection } from './usdc.ts'

/** One address on every chain, by Uniswap's deployments (checked in 2026-11). */
export const PERMIT2 = '0x000000000022d473030f116ddee9f6b43ac78ba3'

/** The contract that payers of x402 sign for, by its packages: it can only pay the address the payer signed. */
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

/** What the chain says about a permit now; throws when it is down. */
export async function inspectPermit2(
  inspect: Inspector,
  permit: Permit,
  signature: Hex,
): Promise<PermitInspection> {
  const { from, token, nonce } = permit
  const args = [from as Hex, PERMIT2] as const
  const allowanceRead: Call = {
    to: token,
    data: encodeFunctionData({ abi, functionName: 'allowance', args }),
  }
  const { results, ...seen } = await inspect({
    from,
    reads: [usedRead(permit), balanceRead(token, from), allowanceRead],
    settlement: settleCall(permit, signature),
  })
  const [bitmap, balance, allowance] = results
  return {
    ...seen,
    used: isSpent(bitmap, nonce),
    balance: BigInt(balance ?? 0),
    allowance: BigInt(allowance ?? 0),
  }
}

const INVALIDATED_TOPIC = toEventSelector('UnorderedNonceInvalidation(address,uint256,uint256)')

/** Whether a Transfer log is nobody else's: one log may fit the terms of several permits. */
export type IsFree = (tx: Hex, logIndex: number) => Promise<boolean>

/**
 * What became of a permit: its bit at the latest block, then the Transfer logs of transactions that
 * carry exactly its terms (Permit2 itself logs no use), then the owner's cancellations. `spent` when
 * none of these is there since `fromBlock`: the owner may have used the nonce for another permit.
 * Throws when the chain is down.
 */
export async function findPermit2(
  client: EvmClient,
  permit: Permit,
  fromBlock: bigint,
  isFree: IsFree = async () => true,
): Promise<Found> {
  const { head, headTime } = await headOf(client)
  if (!isSpent(await ethCall(client, usedRead(permit), head), permit.nonce)) {
    return { state: 'unused', headTime, head }
  }
  const blocks = { fromBlock, toBlock: head }
  const found =
    (await paymentOf(client, permit, blocks, isFree)) ??
    (await cancellationOf(client, permit, blocks))
  return found ?? { state: 'spent', headTime }
}

type Blocks = Pick<LogFilter, 'fromBlock' | 'toBlock'>

async function paymentOf(client: EvmClient, permit: Permit, blocks: Blocks, isFree: IsFree) {
  const { token, from, to, amount } = permit
  const topics = [TRANSFER_TOPIC, addressTopic(from), addressTopic(to)]
  const terms = termsOf(permit)
  for await (const logs of logsInParts(client, { address: token, topics, ...blocks })) {
    for (const { tx, block, logIndex, data } of logs) {
      if (BigInt(data) !== amount) continue
      const transaction = await client.request({ method: 'eth_getTransactionByHash', params: [tx] })
      if (transaction?.input.includes(terms) !== true || !(await isFree(tx, logIndex))) continue
      return { state: 'used' as const, tx, block, logIndex, paid: true }
    }
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

async function cancellationOf(client: EvmClient, permit: Permit, blocks: Blocks) {
  const topics = [INVALIDATED_TOPIC, addressTopic(permit.from)]
  for await (const logs of logsInParts(client, { address: PERMIT2, topics, ...blocks })) {
    const cancels = logs.find(({ data }) => {
      const [word, mask] = [BigInt(data.slice(0, 66)), BigInt(`0x${data.slice(66)}`)]
      return word === permit.nonce >> 8n && ((mask >> (permit.nonce & 0xffn)) & 1n) === 1n
    })
    if (cancels !== undefined) return { state: 'canceled' as const, tx: cancels.tx }
  }
  return null
}

import {
  encodeAbiParameters,
  encodeFunctionData,
  hashTypedData,
  type LocalAccount,
  parseAbi,
  toEventSelector,
} from 'viem'
import { type EvmCall, ethCall, type EvmClient } from './evm-client.ts'
import type { PaymentPreflight } from './payment-preflight.ts'
import {
  toAddressTopic,
  readChainHead,
  type EventLogFilter,
  readEvmLogsInChunks,
  ERC20_TRANSFER_TOPIC,
} from './evm-event-logs.ts'
import type { HexString } from '../onchain-payment-types.ts'
import { isEcdsaSignature, splitSignature } from './ecdsa-signature-format.ts'
import {
  encodeErc20BalanceOfCall,
  type SignedPaymentStatus,
  type Eip3009Preflight,
} from './eip3009.ts'

/** One address on every chain, from Uniswap's deployments (checked in 2026-11). */
export const PERMIT2_ADDRESS = '0x000000000022d473030f116ddee9f6b43ac78ba3'

/** The spender that x402 payers sign for, from its packages: it can only pay the signed address. */
export const X402_EXACT_PROXY_ADDRESS = '0x402085c248eea27d92e8b30b2c58ed07f9e20001'

/** A transfer by a Permit2 signature; addresses in lower case, times in seconds. */
export interface Permit2Transfer {
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
const typedData = (chainId: number, permit: Permit2Transfer) => ({
  domain: { name: 'Permit2', chainId, verifyingContract: PERMIT2_ADDRESS as HexString },
  types: TYPES,
  primaryType: 'PermitWitnessTransferFrom' as const,
  message: {
    permitted: { token: permit.token as HexString, amount: permit.amount },
    spender: permit.spender as HexString,
    nonce: permit.nonce,
    deadline: permit.deadline,
    witness: { to: permit.to as HexString, validAfter: permit.validAfter },
  },
})

/** The digest the payer signs. */
export const permit2Digest = (chainId: number, permit: Permit2Transfer): HexString =>
  hashTypedData(typedData(chainId, permit))

/** Signs for one of our own accounts: a payer of the demo. */
export const signPermit2 = (
  account: LocalAccount,
  chainId: number,
  permit: Permit2Transfer,
): Promise<HexString> => account.signTypedData(typedData(chainId, permit))

/** The settling call of the spender; anybody may send it. */
export function permit2SettleCall(permit: Permit2Transfer, signature: HexString): EvmCall {
  const { token, amount, nonce, deadline, from, to, validAfter } = permit
  const terms = { permitted: { token: token as HexString, amount }, nonce, deadline }
  const witness = { to: to as HexString, validAfter }
  const args = [terms, from as HexString, witness, normalizeRecoveryByte(signature)] as const
  return { to: permit.spender, data: encodeFunctionData({ abi, functionName: 'settle', args }) }
}

/** Permit2 requires 27 or 28; some keys write 0 or 1. */
function normalizeRecoveryByte(signature: HexString): HexString {
  if (!isEcdsaSignature(signature)) return signature
  const { r, s, v } = splitSignature(signature)
  return `0x${r.slice(2)}${s.slice(2)}${v.toString(16).padStart(2, '0')}`
}

function nonceBitmapCall({ from, nonce }: Pick<Permit2Transfer, 'from' | 'nonce'>): EvmCall {
  const args = [from as HexString, nonce >> 8n] as const
  return {
    to: PERMIT2_ADDRESS,
    data: encodeFunctionData({ abi, functionName: 'nonceBitmap', args }),
  }
}

const isSpent = (bitmap: HexString | undefined, nonce: bigint): boolean =>
  ((BigInt(bitmap ?? 0) >> (nonce & 0xffn)) & 1n) === 1n

export interface Permit2Preflight extends Eip3009Preflight {
  /**
   * What Permit2 may move of the payer's tokens; below the amount the payer has to approve first.
   */
  readonly allowance: bigint
}

/** Reads the state of a permit on the chain; throws if the node is down. */
export async function preflightPermit2(
  inspect: PaymentPreflight,
  permit: Permit2Transfer,
  signature: HexString,
): Promise<Permit2Preflight> {
  const { from, token, nonce } = permit
  const args = [from as HexString, PERMIT2_ADDRESS] as const
  const allowanceRead: EvmCall = {
    to: token,
    data: encodeFunctionData({ abi, functionName: 'allowance', args }),
  }
  const { results, ...seen } = await inspect({
    from,
    reads: [nonceBitmapCall(permit), encodeErc20BalanceOfCall(token, from), allowanceRead],
    settlement: permit2SettleCall(permit, signature),
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

/**
 * Whether no other payment has claimed a Transfer log: one log may fit the terms of several
 * permits.
 */
export type IsTransferLogUnclaimed = (tx: HexString, logIndex: number) => Promise<boolean>

/**
 * Reads the outcome of a permit: its bit at the latest block, then the Transfer logs of
 * transactions with exactly its terms (Permit2 logs no use), then the owner's cancellations.
 * `spent` if none of these is found since `fromBlock`: the owner may have used the nonce for
 * another permit. Throws if the node is down.
 */
export async function readPermit2PaymentOutcome(
  client: EvmClient,
  permit: Permit2Transfer,
  fromBlock: bigint,
  isFree: IsTransferLogUnclaimed = async () => true,
): Promise<SignedPaymentStatus> {
  const { head, headTime } = await readChainHead(client)
  if (!isSpent(await ethCall(client, nonceBitmapCall(permit), head), permit.nonce)) {
    return { state: 'unused', headTime, head }
  }
  const blocks = { fromBlock, toBlock: head }
  const found =
    (await findPermit2Payment(client, permit, blocks, isFree)) ??
    (await findPermit2Cancellation(client, permit, blocks))
  return found ?? { state: 'spent', headTime }
}

type Blocks = Pick<EventLogFilter, 'fromBlock' | 'toBlock'>

async function findPermit2Payment(
  client: EvmClient,
  permit: Permit2Transfer,
  blocks: Blocks,
  isFree: IsTransferLogUnclaimed,
) {
  const { token, from, to, amount } = permit
  const topics = [ERC20_TRANSFER_TOPIC, toAddressTopic(from), toAddressTopic(to)]
  const terms = encodePermit2Terms(permit)
  for await (const logs of readEvmLogsInChunks(client, { address: token, topics, ...blocks })) {
    for (const { tx, block, logIndex, data } of logs) {
      if (BigInt(data) !== amount) continue
      const transaction = await client.request({ method: 'eth_getTransactionByHash', params: [tx] })
      if (transaction?.input.includes(terms) !== true || !(await isFree(tx, logIndex))) continue
      return { state: 'used' as const, tx, block, logIndex, paid: true }
    }
  }
  return null
}

/** The words of a settlement's call data that contain the payment terms. */
function encodePermit2Terms({
  token,
  amount,
  nonce,
  deadline,
  from,
  to,
  validAfter,
}: Permit2Transfer): string {
  const words = ['address', 'uint256', 'uint256', 'uint256', 'address', 'address', 'uint256']
  const values = [token, amount, nonce, deadline, from, to, validAfter]
  const data = encodeAbiParameters(
    words.map((type) => ({ type })),
    values,
  )
  return data.slice(2)
}

async function findPermit2Cancellation(client: EvmClient, permit: Permit2Transfer, blocks: Blocks) {
  const topics = [INVALIDATED_TOPIC, toAddressTopic(permit.from)]
  for await (const logs of readEvmLogsInChunks(client, {
    address: PERMIT2_ADDRESS,
    topics,
    ...blocks,
  })) {
    const cancels = logs.find(({ data }) => {
      const [word, mask] = [BigInt(data.slice(0, 66)), BigInt(`0x${data.slice(66)}`)]
      return word === permit.nonce >> 8n && ((mask >> (permit.nonce & 0xffn)) & 1n) === 1n
    })
    if (cancels !== undefined) return { state: 'canceled' as const, tx: cancels.tx }
  }
  return null
}

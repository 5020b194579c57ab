import {
  keccak256,
  toHex,
  type PrivateKeyAccount,
  TransactionReceiptNotFoundError,
  type TransactionReceipt,
} from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { answerOf, isRpcDown, revertOf, revertReason } from './evm.ts'
import type { Call, EvmClient, Fees } from './evm.ts'
import { blockAt } from './logs.ts'
import type { Hex } from './payment.ts'

export interface SignedCall extends Fees {
  readonly raw: Hex
  /** Known before it is broadcast. */
  readonly hash: Hex
  readonly gas: bigint
}

/** A transaction that the chain would refuse or revert now; sending it would only cost its gas. */
export class WouldRevert extends Error {
  readonly reason: string
  constructor(reason: string) {
    super(`the transaction would revert: ${reason}`)
    this.name = 'WouldRevert'
    this.reason = reason
  }
}

/** A node that will not take a transaction: underpriced, no money for gas, malformed. */
export class BroadcastRefused extends Error {
  readonly reason: string
  constructor(reason: string, cause: unknown) {
    super(`the node refuses the transaction: ${reason}`, { cause })
    this.name = 'BroadcastRefused'
    this.reason = reason
  }
}

const accounts = new Map<string, PrivateKeyAccount>()

/** The account of a settler's key, made once a process; not for the many keys of the wallets. */
export function accountOf(privateKey: string): PrivateKeyAccount {
  const known = accounts.get(privateKey)
  if (known !== undefined) return known
  const account = privateKeyToAccount(privateKey as Hex)
  accounts.set(privateKey, account)
  return account
}

/** Signs a call with a nonce that was allocated before; asks the chain only for what is not given. */
export async function signCall(
  client: EvmClient,
  account: PrivateKeyAccount,
  call: Call & { readonly nonce: number },
): Promise<SignedCall> {
  const fees = call.fees ?? (await feesNow(client))
  const { maxFeePerGas, maxPriorityFeePerGas } = fees
  const gas = call.gas ?? (await estimate(client, account, { ...call, fees }))
  const raw = await account.signTransaction({
    type: 'eip1559',
    chainId: client.chain.id,
    to: call.to as Hex,
    data: call.data,
    nonce: call.nonce,
    gas,
    maxFeePerGas,
    maxPriorityFeePerGas,
  })
  return { raw, hash: keccak256(raw), gas, maxFeePerGas, maxPriorityFeePerGas }
}

/** The state may change between estimate and inclusion: a first transfer to an address costs more. */
const GAS_MARGIN = { times: 13n, over: 10n }
/** A wallet that is a contract checks signatures by code of its own: we pay for it, up to here. */
export const MOST_GAS = 500_000n

/**
 * Gas for a call at these fees, with a margin. Throws `WouldRevert` when the chain would not carry it
 * out: it is run once more exactly as it will be signed, since the code of a payer can tell by price
 * and gas that it is only being asked.
 */
export async function estimate(
  client: EvmClient,
  account: { readonly address: string },
  { to, data, fees }: Call & { readonly fees: Fees },
): Promise<bigint> {
  const from = account.address
  const gas = await leastGas(client, { to, data, from })
  const reason = await revertOf(client, { to, data, from, gas, fees })
  if (reason !== null) throw new WouldRevert(reason)
  return gas
}

async function leastGas(
  client: EvmClient,
  { to, data, from }: Call & { readonly from: string },
): Promise<bigint> {
  try {
    const call = { from: from as Hex, to: to as Hex, data, gas: toHex(MOST_GAS) }
    const gas = BigInt(await client.request({ method: 'eth_estimateGas', params: [call] }))
    return smaller((gas * GAS_MARGIN.times) / GAS_MARGIN.over, MOST_GAS)
  } catch (error) {
    const reason = revertReason(error)
    if (reason === null) throw error
    throw new WouldRevert(reason)
  }
}

const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b)

/** What gets a transaction into one of the next blocks: room for the base fee to double. */
export async function feesNow(client: EvmClient): Promise<Fees> {
  const [block, tip] = await Promise.all([
    blockAt(client, 'latest'),
    client.request({ method: 'eth_maxPriorityFeePerGas' }),
  ])
  const maxPriorityFeePerGas = BigInt(tip)
  return { maxFeePerGas: 2n * (block?.baseFee ?? 0n) + maxPriorityFeePerGas, maxPriorityFeePerGas }
}

/** The higher one of each fee. */
export const higher = (a: Fees, b: Fees): Fees => ({
  maxFeePerGas: larger(a.maxFeePerGas, b.maxFeePerGas),
  maxPriorityFeePerGas: larger(a.maxPriorityFeePerGas, b.maxPriorityFeePerGas),
})

const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b)

export const times = ({ maxFeePerGas, maxPriorityFeePerGas }: Fees, factor: bigint): Fees => ({
  maxFeePerGas: maxFeePerGas * factor,
  maxPriorityFeePerGas: maxPriorityFeePerGas * factor,
})

/** Fees that replace a transaction of the same nonce: nodes ask for 10 to 12.5 % more of both. */
export const bumped = ({ maxFeePerGas, maxPriorityFeePerGas }: Fees): Fees => ({
  maxFeePerGas: more(maxFeePerGas),
  maxPriorityFeePerGas: more(maxPriorityFeePerGas),
})

const more = (fee: bigint): bigint => (fee * 9n) / 8n + 1n

/**
 * Hands a signed transaction to the node. `known`: the node has this very one; `nonce_used`: one with
 * its nonce is mined, perhaps this one. Throws `BroadcastRefused`, or what says the node is down:
 * then it may be on its way all the same.
 */
export async function broadcast(
  client: EvmClient,
  raw: Hex,
): Promise<'sent' | 'known' | 'nonce_used'> {
  try {
    await client.request({ method: 'eth_sendRawTransaction', params: [raw] })
    return 'sent'
  } catch (error) {
    const answer = answerOf(error)
    if (answer === null) throw error
    if (/already known|known transaction|already imported|already exists/i.test(answer.details)) {
      return 'known'
    }
    if (/nonce (is )?too low|old nonce|invalid nonce/i.test(answer.details)) return 'nonce_used'
    if (isRpcDown(error)) throw error
    throw new BroadcastRefused(answer.details, error)
  }
}

/** The receipt of a mined transaction; null when there is none (yet, or any more). */
export async function receiptOf(client: EvmClient, hash: Hex): Promise<TransactionReceipt | null> {
  try {
    return await client.getTransactionReceipt({ hash })
  } catch (error) {
    if (error instanceof TransactionReceiptNotFoundError) return null
    throw error
  }
}

/** How many transactions of a key are mined: its pending ones are not counted. */
export const confirmedCount = (client: EvmClient, address: string): Promise<number> =>
  client.getTransactionCount({ address: address as Hex, blockTag: 'latest' })

/** Wei of the chain's own coin: what the settler has left for gas. */
export async function gasBalance(client: EvmClient, address: string): Promise<bigint> {
  const params = [address as Hex, 'latest'] as const
  return BigInt(await client.request({ method: 'eth_getBalance', params: [...params] }))
}

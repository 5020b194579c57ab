import {
  keccak256,
  toHex,
  type PrivateKeyAccount,
  TransactionReceiptNotFoundError,
  type TransactionReceipt,
} from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import {
  findRpcError,
  isRpcUnavailable,
  simulateCallForRevertReason,
  revertReasonFromError,
} from './evm-client.ts'
import type { EvmCall, EvmClient, Eip1559Fees } from './evm-client.ts'
import { findBlockHeader } from './evm-event-logs.ts'
import type { HexString } from '../onchain-payment-types.ts'

/** Builds, signs and broadcasts the transactions of settler keys. */

export interface SignedEvmCall extends Eip1559Fees {
  readonly raw: HexString
  /** Known before it is broadcast. */
  readonly hash: HexString
  readonly gas: bigint
}

/** A transaction that the chain would refuse or revert now; sending it would only cost its gas. */
export class WouldRevertError extends Error {
  readonly reason: string
  constructor(reason: string) {
    super(`the transaction would revert: ${reason}`)
    this.name = 'WouldRevertError'
    this.reason = reason
  }
}

/** A node rejects the transaction: underpriced, no funds for gas, malformed. */
export class BroadcastRejectedError extends Error {
  readonly reason: string
  constructor(reason: string, cause: unknown) {
    super(`the node refuses the transaction: ${reason}`, { cause })
    this.name = 'BroadcastRejectedError'
    this.reason = reason
  }
}

const accounts = new Map<string, PrivateKeyAccount>()

/** The account of a settler's key, created once per process; not for the many wallet keys. */
export function accountFromPrivateKey(privateKey: string): PrivateKeyAccount {
  const known = accounts.get(privateKey)
  if (known !== undefined) return known
  const account = privateKeyToAccount(privateKey as HexString)
  accounts.set(privateKey, account)
  return account
}

/** Signs a call with an allocated nonce; queries the chain only for missing values. */
export async function signEvmCall(
  client: EvmClient,
  account: PrivateKeyAccount,
  call: EvmCall & { readonly nonce: number },
): Promise<SignedEvmCall> {
  const fees = call.fees ?? (await readCurrentEip1559Fees(client))
  const { maxFeePerGas, maxPriorityFeePerGas } = fees
  const gas = call.gas ?? (await estimateGasOrThrow(client, account, { ...call, fees }))
  const raw = await account.signTransaction({
    type: 'eip1559',
    chainId: client.chain.id,
    to: call.to as HexString,
    data: call.data,
    nonce: call.nonce,
    gas,
    maxFeePerGas,
    maxPriorityFeePerGas,
  })
  return { raw, hash: keccak256(raw), gas, maxFeePerGas, maxPriorityFeePerGas }
}

/**
 * The state may change between estimate and inclusion: a first transfer to an address costs more.
 */
const GAS_MARGIN = { times: 13n, over: 10n }
/** A contract wallet checks signatures by its own code: we pay its gas up to this limit. */
export const MAX_TRANSACTION_GAS = 500_000n

/**
 * Estimates the gas of a call at these fees, with a margin. Throws `WouldRevertError` if the chain
 * would not carry it out: it is simulated again exactly as it will be signed, since a payer's code
 * can detect a simulation by price and gas.
 */
export async function estimateGasOrThrow(
  client: EvmClient,
  account: { readonly address: string },
  { to, data, fees }: EvmCall & { readonly fees: Eip1559Fees },
): Promise<bigint> {
  const from = account.address
  const gas = await estimateGasWithMargin(client, { to, data, from })
  const reason = await simulateCallForRevertReason(client, { to, data, from, gas, fees })
  if (reason !== null) throw new WouldRevertError(reason)
  return gas
}

async function estimateGasWithMargin(
  client: EvmClient,
  { to, data, from }: EvmCall & { readonly from: string },
): Promise<bigint> {
  try {
    const call = {
      from: from as HexString,
      to: to as HexString,
      data,
      gas: toHex(MAX_TRANSACTION_GAS),
    }
    const gas = BigInt(await client.request({ method: 'eth_estimateGas', params: [call] }))
    return smallerBigint((gas * GAS_MARGIN.times) / GAS_MARGIN.over, MAX_TRANSACTION_GAS)
  } catch (error) {
    const reason = revertReasonFromError(error)
    if (reason === null) throw error
    throw new WouldRevertError(reason)
  }
}

const smallerBigint = (a: bigint, b: bigint): bigint => (a < b ? a : b)

/** Fees for one of the next blocks: room for the base fee to double. */
export async function readCurrentEip1559Fees(client: EvmClient): Promise<Eip1559Fees> {
  const [block, tip] = await Promise.all([
    findBlockHeader(client, 'latest'),
    client.request({ method: 'eth_maxPriorityFeePerGas' }),
  ])
  const maxPriorityFeePerGas = BigInt(tip)
  return { maxFeePerGas: 2n * (block?.baseFee ?? 0n) + maxPriorityFeePerGas, maxPriorityFeePerGas }
}

/** The higher one of each fee. */
export const higherOfEachEip1559Fee = (a: Eip1559Fees, b: Eip1559Fees): Eip1559Fees => ({
  maxFeePerGas: largerBigint(a.maxFeePerGas, b.maxFeePerGas),
  maxPriorityFeePerGas: largerBigint(a.maxPriorityFeePerGas, b.maxPriorityFeePerGas),
})

const largerBigint = (a: bigint, b: bigint): bigint => (a > b ? a : b)

export const scaleEip1559Fees = (
  { maxFeePerGas, maxPriorityFeePerGas }: Eip1559Fees,
  factor: bigint,
): Eip1559Fees => ({
  maxFeePerGas: maxFeePerGas * factor,
  maxPriorityFeePerGas: maxPriorityFeePerGas * factor,
})

/** Fees that replace a transaction of the same nonce: nodes require 10 to 12.5 % more of both. */
export const toReplacementFees = ({
  maxFeePerGas,
  maxPriorityFeePerGas,
}: Eip1559Fees): Eip1559Fees => ({
  maxFeePerGas: bumpFee(maxFeePerGas),
  maxPriorityFeePerGas: bumpFee(maxPriorityFeePerGas),
})

const bumpFee = (fee: bigint): bigint => (fee * 9n) / 8n + 1n

/**
 * Sends a signed transaction to the node. `known`: the node has it already; `nonce_used`: a
 * transaction with its nonce is mined, perhaps this one. Throws `BroadcastRejectedError`, or the
 * error of an unavailable node: then it may have been sent all the same.
 */
export async function broadcastSignedTransaction(
  client: EvmClient,
  raw: HexString,
): Promise<'sent' | 'known' | 'nonce_used'> {
  try {
    await client.request({ method: 'eth_sendRawTransaction', params: [raw] })
    return 'sent'
  } catch (error) {
    const answer = findRpcError(error)
    if (answer === null) throw error
    if (/already known|known transaction|already imported|already exists/i.test(answer.details)) {
      return 'known'
    }
    if (/nonce (is )?too low|old nonce|invalid nonce/i.test(answer.details)) return 'nonce_used'
    if (isRpcUnavailable(error)) throw error
    throw new BroadcastRejectedError(answer.details, error)
  }
}

/** The receipt of a mined transaction; null if there is none (yet, or any more). */
export async function findTransactionReceipt(
  client: EvmClient,
  hash: HexString,
): Promise<TransactionReceipt | null> {
  try {
    return await client.getTransactionReceipt({ hash })
  } catch (error) {
    if (error instanceof TransactionReceiptNotFoundError) return null
    throw error
  }
}

/** The number of a key's mined transactions, without pending ones. */
export const readConfirmedNonce = (client: EvmClient, address: string): Promise<number> =>
  client.getTransactionCount({ address: address as HexString, blockTag: 'latest' })

/** Balance in wei of the chain's native coin: the settler's funds for gas. */
export async function readNativeBalance(client: EvmClient, address: string): Promise<bigint> {
  const params = [address as HexString, 'latest'] as const
  return BigInt(await client.request({ method: 'eth_getBalance', params: [...params] }))
}

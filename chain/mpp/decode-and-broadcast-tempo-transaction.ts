import { numberToHex, type Client, type RpcTransactionRequest, type TransactionReceipt } from 'viem'
import { getTransactionReceipt, sendRawTransactionSync } from 'viem/actions'
import type { HexString } from '../onchain-payment-types.ts'

/** The fields read from a Tempo transaction. */
export interface TempoTransaction {
  readonly chainId: number
  /** Recovered from the signature; lower case. */
  readonly from: string
  readonly calls: readonly { readonly to: string; readonly data: string }[]
  /** Seconds since the epoch. */
  readonly validAfter: number | null
  readonly validBefore: number | null
}

/** Loaded with the first payment: a station without MPP saves 284 ms and 32 MB. */
async function deserialize(raw: HexString) {
  const { Transaction } = await import('viem/tempo')
  return Transaction.deserialize(raw as `0x76${string}`)
}

/**
 * Decodes a signed transaction; null unless it is complete and signed by an ordinary key. Then
 * `from` is recovered from the signature. For other kinds (passkey, access key, sponsored fees)
 * `from` is a claim that only the chain can check and anybody could make.
 */
export async function decodeTempoTransaction(raw: HexString): Promise<TempoTransaction | null> {
  try {
    const transaction = await deserialize(raw)
    const { signature, feePayerSignature, from, calls, chainId } = transaction
    if (signature?.type !== 'secp256k1' || feePayerSignature === null || from === undefined) {
      return null
    }
    return {
      chainId,
      from: from.toLowerCase(),
      calls: calls.map(({ to, data }) => ({
        to: (to ?? '').toLowerCase(),
        data: (data ?? '0x').toLowerCase(),
      })),
      validAfter: transaction.validAfter ?? null,
      validBefore: transaction.validBefore ?? null,
    }
  } catch {
    // the library has a separate error for every kind of malformed bytes
    return null
  }
}

/**
 * Simulates a transaction as its payer, with fee and expiry; throws the node's error. A single call
 * is sent as an ordinary one: a local node ignores `calls`, and everything would seem to succeed.
 */
export async function simulateTempoTransaction(client: Client, raw: HexString): Promise<void> {
  const transaction = await deserialize(raw)
  const calls = transaction.calls.map(({ to, data = '0x', value = 0n }) => {
    return { to, data, value: numberToHex(value) }
  })
  const [only] = calls
  const fields = {
    gas: transaction.gas,
    maxFeePerGas: transaction.maxFeePerGas,
    maxPriorityFeePerGas: transaction.maxPriorityFeePerGas,
    nonce: transaction.nonce,
    nonceKey: transaction.nonceKey,
    validBefore: transaction.validBefore,
    validAfter: transaction.validAfter,
    chainId: transaction.chainId,
  }
  const numbers = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, numberToHex(value)] as const],
  )
  const { from, feeToken } = transaction
  const request = {
    ...Object.fromEntries(numbers),
    ...(feeToken === undefined ? {} : { feeToken }),
    ...(calls.length === 1 ? only : { calls }),
    from,
    type: '0x76',
  }
  await client.request({ method: 'eth_call', params: [request as RpcTransactionRequest, 'latest'] })
}

export interface TempoReceipt {
  readonly status: 'success' | 'reverted'
  readonly block: bigint
}

/**
 * Broadcasts a transaction and waits for its receipt, in one request without retries; the client's
 * timeout bounds it. The request's own timeout is left out: not every node accepts it.
 */
export async function broadcastTempoTransaction(
  client: Client,
  raw: HexString,
): Promise<TempoReceipt> {
  return toTempoReceipt(await sendRawTransactionSync(client, { serializedTransaction: raw }))
}

/** The receipt of a transaction; throws if there is none. */
export async function readTempoReceipt(client: Client, hash: HexString): Promise<TempoReceipt> {
  return toTempoReceipt(await getTransactionReceipt(client, { hash }))
}

const toTempoReceipt = ({ status, blockNumber }: TransactionReceipt): TempoReceipt => ({
  status,
  block: blockNumber,
})

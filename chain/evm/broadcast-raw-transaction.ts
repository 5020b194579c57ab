import {
  getAddress,
  keccak256,
  parseTransaction,
  recoverTransactionAddress,
  shouldThrow,
  type Hex,
  type TransactionSerialized,
} from 'viem'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { findRpcError } from './evm-client.ts'
import type { EvmReadClient } from './evm-read-client.ts'

/** Broadcasts raw transactions that callers have signed. */

const invalidRawTransaction = (detail: string) => invalidInputError('/raw_tx', detail)

/** Decodes a raw transaction; throws unless it is signed and names a chain. */
export async function decodeSignedTransaction(raw: Hex) {
  const parsed = parse(raw)
  if (parsed.type === 'eip4844')
    throw invalidRawTransaction('is a blob transaction, which is not sent here')
  if (parsed.r === undefined || parsed.s === undefined) throw invalidRawTransaction('is not signed')
  // Without a chain id anybody could repeat it on any other chain.
  if (parsed.chainId === undefined) throw invalidRawTransaction('names no chain id (EIP-155)')
  const from = await senderOf(raw)
  return {
    hash: keccak256(raw),
    chainId: parsed.chainId,
    from,
    to: parsed.to == null ? null : getAddress(parsed.to),
    nonce: parsed.nonce ?? 0,
    value: parsed.value ?? 0n,
  }
}

function parse(raw: Hex) {
  try {
    return parseTransaction(raw)
  } catch {
    throw invalidRawTransaction('is not a transaction')
  }
}

async function senderOf(raw: Hex): Promise<Hex> {
  try {
    return await recoverTransactionAddress({ serializedTransaction: raw as TransactionSerialized })
  } catch {
    throw invalidRawTransaction('has a signature that belongs to nobody')
  }
}

export interface RawTransactionBroadcastResult {
  readonly status: 'accepted' | 'already_known' | 'included'
  readonly block: bigint | null
}

/**
 * Sends a signed transaction. If a node knows it already, that is success; if a node rejects it or
 * times out, the chain is checked for it. Throws `transaction_rejected`, `outcome_unknown` if no
 * node knows, or the node's error if no connection was made.
 */
export async function broadcastRawTransaction(
  client: EvmReadClient,
  raw: Hex,
  hash: Hex,
): Promise<RawTransactionBroadcastResult> {
  const failures = await sendToFirstNode(client, raw)
  if (failures === null) return { status: 'accepted', block: null }
  const found = await findOnChain(client, hash)
  if (found !== null && found !== 'unreached') return found
  const error = failures.findLast((one) => !isNeverSent(one))
  if (error === undefined) throw failures.at(-1)
  const answer = findRpcError(error)
  if (answer !== null && KNOWN.test(answer.details)) return { status: 'already_known', block: null }
  if (answer !== null && !UNSURE.has(answer.code)) {
    throw new ServiceError('transaction_rejected', { tx_hash: hash, reason: answer.details }, error)
  }
  // No node has it: it was never received, or is still propagating.
  throw new ServiceError('outcome_unknown', { tx_hash: hash, retry_after: 30 }, error)
}

/** Offers it to the nodes in order until one accepts it: returns null, else the error of each. */
async function sendToFirstNode(client: EvmReadClient, raw: Hex): Promise<unknown[] | null> {
  const failures: unknown[] = []
  for (const { request } of client.transport.transports) {
    try {
      await request({ method: 'eth_sendRawTransaction', params: [raw] })
      return null
    } catch (error) {
      failures.push(error)
      if (shouldThrow(error as Error)) break
    }
  }
  return failures
}

/** System calls that fail before a connection exists. */
const BEFORE = new Set(['connect', 'getaddrinfo'])

/** No connection was made, so no node can have received the request. */
function isNeverSent(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (error instanceof AggregateError) return error.errors.every(isNeverSent)
  const { syscall, code } = error as NodeJS.ErrnoException
  if (BEFORE.has(syscall ?? '') || code === 'UND_ERR_CONNECT_TIMEOUT') return true
  return error.cause !== error && isNeverSent(error.cause)
}

/** Errors of nodes that already have the transaction. */
const KNOWN = /already known|already imported|known transaction|already exists|ALREADY_EXISTS/i
/** Errors of the node itself, which say nothing about the transaction. */
const UNSURE = new Set([-32005, -32016, 429])

async function findOnChain(
  client: EvmReadClient,
  hash: Hex,
): Promise<RawTransactionBroadcastResult | 'unreached' | null> {
  try {
    const params = [hash] as [Hex]
    const found = await client.request({ method: 'eth_getTransactionByHash', params })
    if (found === null) return null
    const { blockNumber } = found
    return blockNumber === null
      ? { status: 'already_known', block: null }
      : { status: 'included', block: BigInt(blockNumber) }
  } catch {
    return 'unreached'
  }
}

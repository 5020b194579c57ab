import {
  getAddress,
  keccak256,
  parseTransaction,
  recoverTransactionAddress,
  shouldThrow,
  type Hex,
  type TransactionSerialized,
} from 'viem'
import { invalid, ServiceError } from '../core/errors.ts'
import { answerOf } from './evm.ts'
import type { ReadClient } from './read-client.ts'

const bad = (detail: string) => invalid('/raw_tx', detail)

/** What a raw transaction says; refuses what is no signed transaction of a named chain. */
export async function decodeSigned(raw: Hex) {
  const parsed = parse(raw)
  if (parsed.type === 'eip4844') throw bad('is a blob transaction, which is not sent here')
  if (parsed.r === undefined || parsed.s === undefined) throw bad('is not signed')
  // Without a chain id anybody could repeat it on any other chain.
  if (parsed.chainId === undefined) throw bad('names no chain id (EIP-155)')
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
    throw bad('is not a transaction')
  }
}

async function senderOf(raw: Hex): Promise<Hex> {
  try {
    return await recoverTransactionAddress({ serializedTransaction: raw as TransactionSerialized })
  } catch {
    throw bad('has a signature that belongs to nobody')
  }
}

export interface BroadcastResult {
  readonly status: 'accepted' | 'already_known' | 'included'
  readonly block: bigint | null
}

/**
 * Sends a signed transaction. A node that knows it already has it; one that refuses it is asked whether
 * it is on the chain all the same, and so is one that did not answer in time. Rejects with
 * `transaction_rejected`, with `outcome_unknown` when nobody says, or as the node failed where no
 * connection was made to any.
 */
export async function broadcast(client: ReadClient, raw: Hex, hash: Hex): Promise<BroadcastResult> {
  const failures = await offer(client, raw)
  if (failures === null) return { status: 'accepted', block: null }
  const found = await look(client, hash)
  if (found !== null && found !== 'unreached') return found
  const error = failures.findLast((one) => !neverLeft(one))
  if (error === undefined) throw failures.at(-1)
  const answer = answerOf(error)
  if (answer !== null && KNOWN.test(answer.details)) return { status: 'already_known', block: null }
  if (answer !== null && !UNSURE.has(answer.code)) {
    throw new ServiceError('transaction_rejected', { tx_hash: hash, reason: answer.details }, error)
  }
  // Nobody has it: either it was never received, or it is still on its way through the nodes.
  throw new ServiceError('outcome_unknown', { tx_hash: hash, retry_after: 30 }, error)
}

/** Offers it to the nodes in their order until one takes it: null then, else why each did not. */
async function offer(client: ReadClient, raw: Hex): Promise<unknown[] | null> {
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

/** How far a request came that failed before there was a connection. */
const BEFORE = new Set(['connect', 'getaddrinfo'])

/** No connection was made, so nobody can have received the request. */
function neverLeft(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (error instanceof AggregateError) return error.errors.every(neverLeft)
  const { syscall, code } = error as NodeJS.ErrnoException
  if (BEFORE.has(syscall ?? '') || code === 'UND_ERR_CONNECT_TIMEOUT') return true
  return error.cause !== error && neverLeft(error.cause)
}

/** What nodes say of a transaction they have. */
const KNOWN = /already known|already imported|known transaction|already exists|ALREADY_EXISTS/i
/** The node's own trouble, which says nothing about the transaction. */
const UNSURE = new Set([-32005, -32016, 429])

async function look(client: ReadClient, hash: Hex): Promise<BroadcastResult | 'unreached' | null> {
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

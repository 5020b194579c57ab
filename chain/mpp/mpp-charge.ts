import { keccak256 } from 'viem'
import { isRpcUnavailable, type EvmClient } from '../evm/evm-client.ts'
import { PaymentProblem, type HexString } from '../onchain-payment-types.ts'
import {
  readTempoReceipt,
  broadcastTempoTransaction,
  simulateTempoTransaction,
  type TempoReceipt,
} from './decode-and-broadcast-tempo-transaction.ts'

/** Simulates, sends and looks up MPP charges on the node. */

/**
 * Simulates a charge on the node, fees included. Throws `PaymentProblem` if the chain would refuse
 * it, and the node's error if it does not answer.
 */
export async function simulateMppCharge(client: EvmClient, raw: HexString): Promise<void> {
  try {
    await simulateTempoTransaction(client, raw)
  } catch (error) {
    if (isRpcUnavailable(error)) throw error
    const detail = 'the chain would refuse the transaction'
    throw new PaymentProblem(402, 'verification-failed', detail)
  }
}

export interface MppChargeResult {
  /** `unknown` is not a failure: the transaction is searched by its hash until it expires. */
  readonly status: 'success' | 'reverted' | 'unknown'
  readonly block?: bigint
}

/**
 * Broadcasts a charge and waits for its result within the timeout of the client; never throws.
 * Sending it twice charges once.
 */
export async function broadcastMppCharge(
  client: EvmClient,
  raw: HexString,
): Promise<MppChargeResult> {
  const receipt = await broadcastTempoTransaction(client, raw).catch(() =>
    findMppChargeReceipt(client, keccak256(raw)),
  )
  return receipt ?? { status: 'unknown' }
}

/** The receipt of a charge by its hash; null if there is none, or no answer. */
export async function findMppChargeReceipt(
  client: EvmClient,
  hash: HexString,
): Promise<TempoReceipt | null> {
  return readTempoReceipt(client, hash).catch(() => null)
}

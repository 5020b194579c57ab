import { toReceiptText } from '../core/attestations/fee-attestations.ts'
import { inclusionPath } from '../core/attestations/merkle-tree.ts'
import { toUsdc } from '../core/money.ts'
import type { ReceiptableCall } from '../calls/call-receipts.ts'
import { callFingerprintKeyOf } from './http-idempotency-keys.ts'
import type { HttpServices } from './http-config-and-service-types.ts'

/** Signs the receipt of a call, with the places of its fees in the tree of fees. */

const REQUEST_HASH = /^[0-9a-f]{64}$/

export interface CallAttestationDeps {
  readonly attestations: HttpServices['attestations']
  readonly config: Pick<HttpServices['config'], 'fingerprintKey'>
}

/**
 * Only a key of the whole agent sees the hash of the request and its key: the key is the same for all calls of
 * the agent, and whoever holds it can guess requests from their hashes.
 */
export async function signCallAttestation(
  { attestations, config }: CallAttestationDeps,
  owner: string,
  call: ReceiptableCall,
  { showsRequest }: { showsRequest: boolean },
) {
  const { tree } = attestations
  const { callId, tool, rail, cost, at } = call
  const [origin, hashes, fees] = await Promise.all([
    attestations.origin(),
    tree.hashesOfCall(owner, callId),
    tree.feesOfCall(callId, at),
  ])
  // Read after the fees: a head of the same append covers them.
  const [head] = await tree.heads(1, null)
  const size = head?.size ?? 0
  const proven = await Promise.all(
    fees.openings
      .filter(({ index }) => index < size)
      .map(async ({ index, opening }) => {
        const [leaf, nodes] = await Promise.all([
          tree.leaf(index),
          tree.hashes(inclusionPath(index, size)),
        ])
        const inclusion = nodes.map((hash) => hash.toString('base64'))
        return { index, opening, leaf: leaf?.text ?? '', inclusion }
      }),
  )
  const request =
    showsRequest && hashes.requestHash !== null && REQUEST_HASH.test(hashes.requestHash)
      ? {
          hash: hashes.requestHash,
          key: callFingerprintKeyOf(config.fingerprintKey, owner).toString('hex'),
        }
      : null
  const answerHash = hashes.answerHash?.toString('hex') ?? null
  const statement = {
    origin,
    callId,
    tool: tool ?? '-',
    rail,
    costMicros: cost,
    at: at.toISOString(),
    request,
    answerHash,
    fees: proven,
  }
  return {
    note: await attestations.sign(toReceiptText(statement)),
    cost_usdc: toUsdc(cost),
    request_hash: request?.hash ?? null,
    request_key: request?.key ?? null,
    answer_hash: answerHash,
    pending: fees.isPending,
    fees: proven,
    head: proven.length === 0 ? null : (head?.note ?? null),
  }
}

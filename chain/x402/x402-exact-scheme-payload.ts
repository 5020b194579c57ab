import type {
  NormalizedPayment,
  PayerSignedAuthorization,
  PaymentRequirement,
  PresentedPayment,
} from '../onchain-payment-types.ts'
import { PaymentProblem } from '../onchain-payment-types.ts'
import type { DecodedPaymentHeader } from '../decoded-payment-header.ts'
import { parseSolanaTransfer } from '../solana/solana-transaction.ts'
import { decodeStrictBase64 } from '../untrusted-json.ts'
import { isEvmNetwork } from './x402-network-names.ts'

/**
 * Parses the payloads of the scheme `exact`: EIP-3009, Permit2 and Solana. `assertSignedTermsMatchRequirement`
 * checks their values.
 */

/** The terms of a signed payload, in normal form. */
export interface SignedPaymentTerms extends Pick<
  NormalizedPayment,
  'asset' | 'from' | 'to' | 'amount' | 'validAfter' | 'validBefore' | 'nonce'
> {
  readonly proof: Exclude<PayerSignedAuthorization, { kind: 'mpp' }>
}

/** Parses the signed terms of a payload; `now` in seconds. Throws 400 if one is malformed. */
export function parseSignedTerms(
  payload: DecodedPaymentHeader,
  requirement: PaymentRequirement,
  now: bigint,
): SignedPaymentTerms {
  if (requirement.extra['assetTransferMethod'] === 'permit2') return parsePermit2Terms(payload)
  return isEvmNetwork(requirement.network)
    ? parseEip3009Terms(payload, requirement)
    : parseSolanaTerms(payload, requirement, now)
}

/** An ERC-1271 signature may be longer than the 65 bytes of a plain key's. */
const SIGNATURE_BYTE_BOUNDS = { least: 65, most: 2_048 }
const WORD = 32

const signatureIn = (payload: DecodedPaymentHeader) =>
  payload.bytes('signature', SIGNATURE_BYTE_BOUNDS.least, SIGNATURE_BYTE_BOUNDS.most)

function parseEip3009Terms(
  payload: DecodedPaymentHeader,
  { asset }: PaymentRequirement,
): SignedPaymentTerms {
  const authorization = payload.nested('authorization')
  return {
    asset: asset.toLowerCase(),
    from: authorization.address('from'),
    to: authorization.address('to'),
    amount: authorization.uint('value'),
    validAfter: authorization.uint('validAfter'),
    validBefore: authorization.uint('validBefore'),
    nonce: authorization.bytes('nonce', WORD, WORD),
    proof: { kind: 'eip3009', signature: signatureIn(payload) },
  }
}

function parsePermit2Terms(payload: DecodedPaymentHeader): SignedPaymentTerms {
  const permit = payload.nested('permit2Authorization')
  const permitted = permit.nested('permitted')
  const witness = permit.nested('witness')
  const [spender, asset] = [permit.address('spender'), permitted.address('token')]
  const deadline = permit.uint('deadline')
  return {
    asset,
    from: permit.address('from'),
    to: witness.address('to'),
    amount: permitted.uint('amount'),
    validAfter: witness.uint('validAfter'),
    validBefore: deadline,
    nonce: permitNonceIn(permit),
    proof: { kind: 'permit2', signature: signatureIn(payload), spender, deadline },
  }
}

/** "7" and "007" are one nonce. */
const permitNonceIn = (permit: DecodedPaymentHeader) => permit.uint('nonce').toString()

/** Recipient and amount are ours: the facilitator checks them before the call runs. */
function parseSolanaTerms(
  payload: DecodedPaymentHeader,
  requirement: PaymentRequirement,
  now: bigint,
): SignedPaymentTerms {
  const presented = presentedSolanaTransfer(payload)
  if (presented === null) {
    throw new PaymentProblem(
      400,
      'invalid_payload',
      'payload.transaction must be base64 of a transaction that transfers tokens',
    )
  }
  const { from, nonce, proof } = presented
  return {
    asset: requirement.asset,
    from,
    to: requirement.payTo,
    amount: BigInt(requirement.amount),
    validAfter: 0n,
    // it ends with its blockhash, sooner than this
    validBefore: now + BigInt(requirement.maxTimeoutSeconds),
    nonce,
    proof: { ...proof, requirement },
  }
}

/** The part of a payload that identifies its payment. */
export type PresentedPayload = Pick<PresentedPayment, 'asset' | 'from' | 'nonce' | 'proof'>

/**
 * Parses only what identifies the payment of a payload; null if a Solana transaction transfers no
 * tokens. Throws 400 if a field is malformed.
 */
export function parsePresentedPayload(
  payload: DecodedPaymentHeader,
  chain: string,
  asset: string,
): PresentedPayload | null {
  if (isEvmNetwork(chain)) {
    return payload.value('permit2Authorization') === undefined
      ? { asset: asset.toLowerCase(), ...presentedAuthorization(payload) }
      : presentedPermit(payload)
  }
  const presented = presentedSolanaTransfer(payload)
  return presented === null ? null : { asset, ...presented }
}

function presentedAuthorization(payload: DecodedPaymentHeader) {
  const authorization = payload.nested('authorization')
  return {
    from: authorization.address('from'),
    nonce: authorization.bytes('nonce', WORD, WORD),
    proof: { kind: 'eip3009' as const, signature: signatureIn(payload) },
  }
}

function presentedPermit(payload: DecodedPaymentHeader): PresentedPayload {
  const permit = payload.nested('permit2Authorization')
  return {
    asset: permit.nested('permitted').address('token'),
    from: permit.address('from'),
    nonce: permitNonceIn(permit),
    proof: { kind: 'permit2', signature: signatureIn(payload) },
  }
}

function presentedSolanaTransfer(payload: DecodedPaymentHeader) {
  const bytes = decodeStrictBase64(payload.text('transaction'))
  const transfer = bytes === null ? null : parseSolanaTransfer(bytes)
  if (bytes === null || transfer === null) return null
  const proof = { kind: 'solana' as const, transaction: bytes.toString('base64') }
  return { from: transfer.payer, nonce: transfer.messageHash, proof }
}

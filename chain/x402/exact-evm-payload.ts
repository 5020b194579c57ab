import { LIMITS } from '../../core/limits.ts'
import { PaymentProblem, type OnchainPayment, type PaymentRequirement } from '../onchain-payment.ts'
import { X402_EXACT_PROXY_ADDRESS } from '../evm/permit2.ts'
import type { PaymentFieldReader } from '../untrusted-json.ts'

/** The terms of a signed payload, in normal form. */
export type SignedPaymentTerms = Pick<
  OnchainPayment,
  'from' | 'to' | 'amount' | 'validAfter' | 'validBefore' | 'nonce' | 'proof'
>

/** When a payment has to be valid, in seconds: at `now`, with an end between the other two. */
export interface PaymentValidityWindow {
  readonly now: bigint
  readonly earliest: bigint
  readonly latest: bigint
}

/** The window for a tool that may run for `deadlineMs`; `now` in milliseconds. */
export function toPaymentValidityWindow(now: number, deadlineMs: number): PaymentValidityWindow {
  const outlives = Math.ceil((now + deadlineMs) / 1000) + LIMITS.settleMarginSeconds
  const seconds = Math.floor(now / 1000)
  return {
    now: BigInt(seconds),
    earliest: BigInt(outlives),
    latest: BigInt(seconds + LIMITS.paymentMaxSeconds),
  }
}

const payloadRejection = (reason: string, detail: string) => new PaymentProblem(402, reason, detail)

/** An ERC-1271 signature may be longer than the 65 bytes of a plain key's. */
export const SIGNATURE_BYTE_BOUNDS = { least: 65, most: 2_048 }
const WORD = 32

/** Reads an EIP-3009 authorization; throws on another recipient or value, or invalid times. */
export function readEip3009Payload(
  payload: PaymentFieldReader,
  requirement: PaymentRequirement,
  window: PaymentValidityWindow,
): SignedPaymentTerms {
  const authorization = payload.nested('authorization')
  const signed: SignedPaymentTerms = {
    from: authorization.address('from'),
    to: authorization.address('to'),
    amount: authorization.uint('value'),
    validAfter: authorization.uint('validAfter'),
    validBefore: authorization.uint('validBefore'),
    nonce: authorization.bytes('nonce', WORD, WORD),
    proof: {
      kind: 'eip3009',
      signature: payload.bytes(
        'signature',
        SIGNATURE_BYTE_BOUNDS.least,
        SIGNATURE_BYTE_BOUNDS.most,
      ),
    },
  }
  const reason = (name: string) => `invalid_exact_evm_${name}`
  assertMatchesRequirement(signed, requirement, window, {
    to: reason('recipient_mismatch'),
    amount: reason('payload_authorization_value_mismatch'),
    validAfter: reason('payload_authorization_valid_after'),
    validBefore: reason('payload_authorization_valid_before'),
  })
  return signed
}

/**
 * Reads a Permit2 payload for the x402 exact proxy: the checks of EIP-3009, plus spender and token.
 */
export function readPermit2Payload(
  payload: PaymentFieldReader,
  requirement: PaymentRequirement,
  window: PaymentValidityWindow,
): SignedPaymentTerms {
  const permit = payload.nested('permit2Authorization')
  const permitted = permit.nested('permitted')
  const witness = permit.nested('witness')
  const [spender, token] = [permit.address('spender'), permitted.address('token')]
  const deadline = permit.uint('deadline')
  const signed: SignedPaymentTerms = {
    from: permit.address('from'),
    to: witness.address('to'),
    amount: permitted.uint('amount'),
    validAfter: witness.uint('validAfter'),
    validBefore: deadline,
    // "7" and "007" are one nonce
    nonce: permit.uint('nonce').toString(),
    proof: {
      kind: 'permit2',
      signature: payload.bytes(
        'signature',
        SIGNATURE_BYTE_BOUNDS.least,
        SIGNATURE_BYTE_BOUNDS.most,
      ),
      spender,
      deadline,
    },
  }
  if (spender !== X402_EXACT_PROXY_ADDRESS) {
    throw payloadRejection(
      'invalid_permit2_spender',
      `the spender must be ${X402_EXACT_PROXY_ADDRESS}`,
    )
  }
  if (token !== requirement.asset.toLowerCase()) {
    throw payloadRejection('permit2_token_mismatch', `the token must be ${requirement.asset}`)
  }
  assertMatchesRequirement(signed, requirement, window, {
    to: 'invalid_permit2_recipient_mismatch',
    amount: 'permit2_amount_mismatch',
    validAfter: 'permit2_not_yet_valid',
    validBefore: 'permit2_deadline_expired',
  })
  return signed
}

type Reasons = Readonly<Record<'to' | 'amount' | 'validAfter' | 'validBefore', string>>

function assertMatchesRequirement(
  signed: SignedPaymentTerms,
  requirement: PaymentRequirement,
  window: PaymentValidityWindow,
  reasons: Reasons,
): void {
  const { payTo, amount } = requirement
  const { now, earliest, latest } = window
  if (signed.to !== payTo.toLowerCase())
    throw payloadRejection(reasons.to, `the recipient must be ${payTo}`)
  if (signed.amount !== BigInt(amount)) {
    throw payloadRejection(reasons.amount, `the amount must be ${amount}, neither less nor more`)
  }
  if (signed.validAfter >= now) throw payloadRejection(reasons.validAfter, `it is ${now} now`)
  if (signed.validBefore < earliest || signed.validBefore > latest) {
    throw payloadRejection(reasons.validBefore, `it must end between ${earliest} and ${latest}`)
  }
}

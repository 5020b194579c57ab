import { LIMITS } from '../../core/limits.ts'
import { X402_EXACT_PROXY_ADDRESS } from '../evm/permit2.ts'
import { PaymentProblem, type PaymentRequirement } from '../onchain-payment-types.ts'
import type { SignedPaymentTerms } from './x402-exact-scheme-payload.ts'

/** Checks the signed terms of a payment against the requirement it refers to. */

/** When a payment has to be valid, in seconds: at `now`, with an end between the other two. */
export interface PaymentValidityWindow {
  readonly now: bigint
  readonly earliest: bigint
  readonly latest: bigint
}

/** The window for a tool that may run for `deadlineMs`; `now` in milliseconds. */
export function computePaymentValidityBounds(
  now: number,
  deadlineMs: number,
): PaymentValidityWindow {
  const outlives = Math.ceil((now + deadlineMs) / 1000) + LIMITS.settleMarginSeconds
  const seconds = Math.floor(now / 1000)
  return {
    now: BigInt(seconds),
    earliest: BigInt(outlives),
    latest: BigInt(seconds + LIMITS.paymentMaxSeconds),
  }
}

/**
 * Asserts recipient, amount and times, and for Permit2 spender and token. The facilitator checks a
 * Solana transaction. Throws `PaymentProblem` with status 402.
 */
export function assertSignedTermsMatchRequirement(
  signed: SignedPaymentTerms,
  requirement: PaymentRequirement,
  window: PaymentValidityWindow,
): void {
  const { kind } = signed.proof
  if (kind === 'solana') return
  if (kind === 'permit2') assertPermit2Terms(signed, requirement)
  assertTransferTerms(signed, requirement, window, REASONS[kind])
}

type Reasons = Readonly<Record<'to' | 'amount' | 'validAfter' | 'validBefore', string>>

const REASONS: Readonly<Record<'eip3009' | 'permit2', Reasons>> = {
  eip3009: {
    to: 'invalid_exact_evm_recipient_mismatch',
    amount: 'invalid_exact_evm_payload_authorization_value_mismatch',
    validAfter: 'invalid_exact_evm_payload_authorization_valid_after',
    validBefore: 'invalid_exact_evm_payload_authorization_valid_before',
  },
  permit2: {
    to: 'invalid_permit2_recipient_mismatch',
    amount: 'permit2_amount_mismatch',
    validAfter: 'permit2_not_yet_valid',
    validBefore: 'permit2_deadline_expired',
  },
}

const termsRejection = (reason: string, detail: string) => new PaymentProblem(402, reason, detail)

function assertPermit2Terms(
  { asset, proof }: SignedPaymentTerms,
  requirement: PaymentRequirement,
): void {
  if (proof.kind === 'permit2' && proof.spender !== X402_EXACT_PROXY_ADDRESS) {
    throw termsRejection(
      'invalid_permit2_spender',
      `the spender must be ${X402_EXACT_PROXY_ADDRESS}`,
    )
  }
  if (asset !== requirement.asset.toLowerCase()) {
    throw termsRejection('permit2_token_mismatch', `the token must be ${requirement.asset}`)
  }
}

function assertTransferTerms(
  signed: SignedPaymentTerms,
  { payTo, amount }: PaymentRequirement,
  { now, earliest, latest }: PaymentValidityWindow,
  reasons: Reasons,
): void {
  if (signed.to !== payTo.toLowerCase())
    throw termsRejection(reasons.to, `the recipient must be ${payTo}`)
  if (signed.amount !== BigInt(amount)) {
    throw termsRejection(reasons.amount, `the amount must be ${amount}, neither less nor more`)
  }
  if (signed.validAfter >= now) throw termsRejection(reasons.validAfter, `it is ${now} now`)
  if (signed.validBefore < earliest || signed.validBefore > latest) {
    throw termsRejection(reasons.validBefore, `it must end between ${earliest} and ${latest}`)
  }
}

import type {
  HexString,
  NormalizedPayment,
  PayerSignedAuthorization,
} from '../onchain-payment-types.ts'
import { PaymentProblem } from '../onchain-payment-types.ts'
import {
  eip3009Digest,
  isValidErc1271Signature,
  preflightEip3009,
  type Eip3009Authorization,
  type Eip3009Preflight,
  type Eip3009Token,
} from './eip3009.ts'
import type { EvmClient } from './evm-client.ts'
import { createPaymentPreflight } from './payment-preflight.ts'
import { permit2Digest, preflightPermit2, type Permit2Transfer } from './permit2.ts'
import type { SignerRecoveryPool } from './signer-recovery-pool.ts'

/** Verifies payments that our own key settles: signature, funds, and a simulated settlement. */

/** A payer's balance at a block; null if unknown. */
export interface PayerFunds {
  readonly balance: bigint | null
  readonly block: bigint
  /** A plain key: no contract code can revoke its signature. */
  readonly plainKey: boolean
}

export interface EvmPaymentVerifierDeps {
  readonly client: EvmClient
  /** The address that submits settlements. */
  readonly settler: string
  readonly recovery: SignerRecoveryPool
}

type ProofOf<Kind extends PayerSignedAuthorization['kind']> = Extract<
  PayerSignedAuthorization,
  { kind: Kind }
>

/**
 * Creates a verifier of EIP-3009 payments with a token. It checks the signature first, so that the
 * balance is as recent as possible at the claim: another payment of this payer may settle at any
 * time. Rejects with `PaymentProblem`, or with the node's error if it does not answer.
 */
export function createEip3009Verifier(
  { client, settler, recovery }: EvmPaymentVerifierDeps,
  token: Eip3009Token,
) {
  const preflight = createPaymentPreflight(client, settler)
  return async (
    payment: NormalizedPayment,
    { signature }: ProofOf<'eip3009'>,
  ): Promise<PayerFunds> => {
    const authorization = toAuthorization(payment)
    const digest = eip3009Digest(token, authorization)
    const signer = await recovery.recover(digest, signature)
    const seen = await preflightEip3009(preflight, token, authorization, signature)
    const prefix = 'invalid_exact_evm'
    const check = { hasCode: seen.hasCode, signer, digest, signature }
    await assertSigner(client, payment.from, check, `${prefix}_signature`)
    if (seen.used)
      throw rejection(`${prefix}_nonce_already_used`, 'the authorization was used or cancelled')
    assertFunds(seen, payment.amount, `${prefix}_insufficient_balance`)
    if (seen.simulation !== null)
      throw rejection(`${prefix}_transaction_simulation_failed`, seen.simulation)
    return toPayerFunds(seen)
  }
}

/** Creates a verifier of Permit2 payments; like `createEip3009Verifier`. */
export function createPermit2Verifier({ client, settler, recovery }: EvmPaymentVerifierDeps) {
  const preflight = createPaymentPreflight(client, settler)
  return async (payment: NormalizedPayment, proof: ProofOf<'permit2'>): Promise<PayerFunds> => {
    const { signature } = proof
    const permit = toPermit(payment, proof)
    const digest = permit2Digest(client.chain.id, permit)
    const signer = await recovery.recover(digest, signature)
    const seen = await preflightPermit2(preflight, permit, signature)
    const check = { hasCode: seen.hasCode, signer, digest, signature }
    await assertSigner(client, payment.from, check, 'invalid_permit2_signature')
    if (seen.used) throw rejection('permit2_invalid_nonce', 'the permit was used or cancelled')
    assertFunds(seen, payment.amount, 'permit2_insufficient_balance')
    assertAllowance(seen.allowance, payment)
    if (seen.simulation !== null) throw rejection('permit2_simulation_failed', seen.simulation)
    return toPayerFunds(seen)
  }
}

const rejection = (reason: string, detail: string) => new PaymentProblem(402, reason, detail)

interface SignatureCheck {
  readonly hasCode: boolean
  readonly signer: string | null
  readonly digest: HexString
  readonly signature: HexString
}

async function assertSigner(
  client: EvmClient,
  from: string,
  { hasCode, signer, digest, signature }: SignatureCheck,
  reason: string,
): Promise<void> {
  const good = hasCode
    ? await isValidErc1271Signature(client, from, digest, signature)
    : signer === from
  if (!good) throw rejection(reason, `the signature is not of ${from} for this token and chain`)
}

function assertFunds({ balance }: Eip3009Preflight, amount: bigint, reason: string): void {
  if (balance < amount)
    throw rejection(reason, `the payer has ${balance} of ${amount} atomic units`)
}

function assertAllowance(allowance: bigint, { amount, asset }: NormalizedPayment): void {
  if (allowance >= amount) return
  const detail = `approve Permit2 for at least ${amount} of ${asset}`
  throw new PaymentProblem(412, 'permit2_allowance_required', detail)
}

const toPayerFunds = ({ balance, block, hasCode }: Eip3009Preflight): PayerFunds => ({
  balance,
  block,
  plainKey: !hasCode,
})

const toAuthorization = (payment: NormalizedPayment): Eip3009Authorization => ({
  from: payment.from,
  to: payment.to,
  value: payment.amount,
  validAfter: payment.validAfter,
  validBefore: payment.validBefore,
  nonce: payment.nonce as HexString,
})

const toPermit = (
  payment: NormalizedPayment,
  { spender, deadline }: ProofOf<'permit2'>,
): Permit2Transfer => ({
  from: payment.from,
  token: payment.asset,
  amount: payment.amount,
  spender,
  nonce: BigInt(payment.nonce),
  deadline,
  to: payment.to,
  validAfter: payment.validAfter,
})

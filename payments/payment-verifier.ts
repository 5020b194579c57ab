import { isNodeFailure } from '../chain/evm/evm-client.ts'
import { createPaymentPreflight, type PaymentPreflight } from '../chain/evm/payment-preflight.ts'
import { simulateMppCharge } from '../chain/mpp/mpp-charge.ts'
import { PaymentProblem, type OnchainPayment } from '../chain/onchain-payment.ts'
import { preflightPermit2, permit2Digest, type Permit2Transfer } from '../chain/evm/permit2.ts'
import type { SignerRecoveryPool } from '../chain/evm/signer-recovery-pool.ts'
import {
  eip3009Digest,
  preflightEip3009,
  isValidErc1271Signature,
  type Eip3009Authorization,
  type Eip3009Preflight,
} from '../chain/evm/eip3009.ts'
import { FacilitatorUnavailableError } from '../chain/x402/facilitator-client.ts'
import type { EvmClient } from '../chain/evm/evm-client.ts'
import type { HexString } from '../chain/onchain-payment.ts'
import { ServiceError } from '../core/errors.ts'
import type { PaymentChains } from './payment-chains.ts'

/** A payer's balance at a block; null if unknown. */
export interface PayerFunds {
  readonly balance: bigint | null
  readonly block: bigint
  /** A plain key: no contract code can revoke its signature. */
  readonly plainKey: boolean
}

const paymentRejected = (reason: string, detail: string) => new PaymentProblem(402, reason, detail)

/** Verifies signature and funds, and simulates the settlement. */
export function createPaymentVerifier(
  chains: PaymentChains,
  recovery: SignerRecoveryPool,
  custodial: (address: string) => Promise<boolean>,
) {
  const checks: PaymentChecks = { chains, recovery, inspectors: createInspectors(chains) }

  return async (payment: OnchainPayment): Promise<PayerFunds> => {
    // Our own wallets also sign transfers to the treasury: sweeps of money that is already
    // credited.
    const seen = verified(payment)
    seen.catch(() => {}) // no unhandled rejection if the check below throws
    if (await custodial(payment.from))
      throw paymentRejected('payer_is_custodial', 'the wallet of an agent pays by its credits')
    return seen
  }

  async function verified(payment: OnchainPayment): Promise<PayerFunds> {
    const { proof } = payment
    try {
      switch (proof.kind) {
        case 'eip3009':
          return await verifyEip3009(checks, payment, proof.signature)
        case 'permit2':
          return await verifyPermit2(checks, payment, proof)
        case 'mpp':
          return await verifyMppCharge(chains, proof.raw)
        case 'solana':
          return await verifyWithFacilitator(chains, payment)
      }
    } catch (error) {
      if (!isNodeFailure(error) && !(error instanceof FacilitatorUnavailableError)) throw error
      throw new ServiceError('rail_unavailable', { retry_after: 2 }, error)
    }
  }
}

/**
 * The signature is checked first, so that the balance is as recent as possible at the claim:
 * another payment of this payer may settle at any time.
 */
interface PaymentChecks {
  readonly chains: PaymentChains
  readonly recovery: SignerRecoveryPool
  readonly inspectors: ReturnType<typeof createInspectors>
}

async function verifyEip3009(
  { chains, recovery, inspectors }: PaymentChecks,
  payment: OnchainPayment,
  signature: HexString,
): Promise<PayerFunds> {
  const { settings } = chains
  const token = assertRailEnabled(chains.token)
  const authorization = toAuthorization(payment)
  const digest = eip3009Digest(token, authorization)
  const signer = await recovery.recover(digest, signature)
  const inspect = assertRailEnabled(inspectors.base)
  const seen = await preflightEip3009(inspect, token, authorization, signature)
  const { client } = assertRailEnabled(settings.base)
  await assertSigner(client, payment.from, { seen, signer, digest, signature }, 'evm')
  const prefix = 'invalid_exact_evm'
  if (seen.used)
    throw paymentRejected(`${prefix}_nonce_already_used`, 'the authorization was used or cancelled')
  assertFunds(seen, payment.amount, `${prefix}_insufficient_balance`)
  if (seen.simulation !== null)
    throw paymentRejected(`${prefix}_transaction_simulation_failed`, seen.simulation)
  return toPayerFunds(seen)
}

async function verifyPermit2(
  { chains, recovery, inspectors }: PaymentChecks,
  payment: OnchainPayment,
  { signature, spender, deadline }: Extract<OnchainPayment['proof'], { kind: 'permit2' }>,
): Promise<PayerFunds> {
  const { client } = assertRailEnabled(chains.settings.bsc)
  const permit = toPermit(payment, spender, deadline)
  const digest = permit2Digest(client.chain.id, permit)
  const signer = await recovery.recover(digest, signature)
  const seen = await preflightPermit2(assertRailEnabled(inspectors.bsc), permit, signature)
  await assertSigner(client, payment.from, { seen, signer, digest, signature }, 'permit2')
  if (seen.used) throw paymentRejected('permit2_invalid_nonce', 'the permit was used or cancelled')
  assertFunds(seen, payment.amount, 'permit2_insufficient_balance')
  if (seen.allowance < payment.amount) {
    throw new PaymentProblem(
      412,
      'permit2_allowance_required',
      `approve Permit2 for at least ${payment.amount} of ${payment.asset}`,
    )
  }
  if (seen.simulation !== null) throw paymentRejected('permit2_simulation_failed', seen.simulation)
  return toPayerFunds(seen)
}

const UNKNOWN_FUNDS: PayerFunds = { balance: null, block: 0n, plainKey: false }

async function verifyMppCharge({ settings }: PaymentChains, raw: HexString): Promise<PayerFunds> {
  await simulateMppCharge(assertRailEnabled(settings.tempo).client, raw)
  return UNKNOWN_FUNDS
}

async function verifyWithFacilitator(
  { settings }: PaymentChains,
  payment: OnchainPayment,
): Promise<PayerFunds> {
  const answer = await assertRailEnabled(settings.solana).facilitator.verify(payment)
  if (!answer.isValid)
    throw paymentRejected(answer.invalidReason ?? 'invalid_payload', 'the facilitator refuses it')
  if (answer.payer !== null && answer.payer !== payment.from)
    throw paymentRejected('invalid_payload', `it is paid by solana account ${answer.payer}`)
  return UNKNOWN_FUNDS
}

/** One for each chain our own key settles on. */
function createInspectors({ settings }: PaymentChains): {
  base: PaymentPreflight | null
  bsc: PaymentPreflight | null
} {
  const of = (chain: { readonly client: EvmClient } | null) =>
    chain === null || settings.settler === null
      ? null
      : createPaymentPreflight(chain.client, settings.settler)
  return { base: of(settings.base), bsc: of(settings.bsc) }
}

interface SignatureCheck {
  readonly seen: Eip3009Preflight
  readonly signer: string | null
  readonly digest: HexString
  readonly signature: HexString
}

async function assertSigner(
  client: EvmClient,
  from: string,
  { seen, signer, digest, signature }: SignatureCheck,
  rail: 'evm' | 'permit2',
): Promise<void> {
  const good = seen.hasCode
    ? await isValidErc1271Signature(client, from, digest, signature)
    : signer === from
  if (good) return
  const reason = rail === 'evm' ? 'invalid_exact_evm_signature' : 'invalid_permit2_signature'
  throw paymentRejected(reason, `the signature is not of ${from} for this token and chain`)
}

function assertFunds({ balance }: Eip3009Preflight, amount: bigint, reason: string): void {
  if (balance < amount)
    throw paymentRejected(reason, `the payer has ${balance} of ${amount} atomic units`)
}

const toPayerFunds = ({ balance, block, hasCode }: Eip3009Preflight): PayerFunds => ({
  balance,
  block,
  plainKey: !hasCode,
})

const toAuthorization = (payment: OnchainPayment): Eip3009Authorization => ({
  from: payment.from,
  to: payment.to,
  value: payment.amount,
  validAfter: payment.validAfter,
  validBefore: payment.validBefore,
  nonce: payment.nonce as HexString,
})

const toPermit = (payment: OnchainPayment, spender: string, deadline: bigint): Permit2Transfer => ({
  from: payment.from,
  token: payment.asset,
  amount: payment.amount,
  spender,
  nonce: BigInt(payment.nonce),
  deadline,
  to: payment.to,
  validAfter: payment.validAfter,
})

/** Payments are only read for rails that are on. */
function assertRailEnabled<T>(part: T | null): T {
  if (part === null) throw new ServiceError('rail_disabled')
  return part
}

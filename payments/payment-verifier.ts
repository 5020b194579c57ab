import {
  createEip3009Verifier,
  createPermit2Verifier,
  type PayerFunds,
} from '../chain/evm/evm-payment-verifier.ts'
import { isEvmNodeOrConnectionFailure } from '../chain/evm/evm-client.ts'
import type { SignerRecoveryPool } from '../chain/evm/signer-recovery-pool.ts'
import { simulateMppCharge } from '../chain/mpp/mpp-charge.ts'
import { PaymentProblem, type NormalizedPayment } from '../chain/onchain-payment-types.ts'
import { FacilitatorUnavailableError } from '../chain/x402/facilitator-client.ts'
import type { FacilitatorClient } from '../chain/x402/facilitator-client.ts'
import { ServiceError } from '../core/errors.ts'
import type { PaymentChains } from './payment-chains.ts'

/** Verifies a payment by the rules of its rail. */

/**
 * Creates the verifier of payments. It rejects with `PaymentProblem` for an invalid payment, and
 * with `rail_unavailable` while the chain does not answer.
 */
export function createPaymentVerifier(
  chains: PaymentChains,
  recovery: SignerRecoveryPool,
  custodial: (address: string) => Promise<boolean>,
) {
  const verifyOnRail = createRailVerifier(chains, recovery)

  return async (payment: NormalizedPayment): Promise<PayerFunds> => {
    // Our own wallets also sign transfers to the treasury: sweeps of money that is already
    // credited.
    const seen = verifyOnRail(payment).catch(throwUnavailable)
    seen.catch(() => {}) // no unhandled rejection if the check below throws
    if (await custodial(payment.from))
      throw paymentRejected('payer_is_custodial', 'the wallet of an agent pays by its credits')
    return seen
  }
}

const paymentRejected = (reason: string, detail: string) => new PaymentProblem(402, reason, detail)

function throwUnavailable(error: unknown): never {
  if (!isEvmNodeOrConnectionFailure(error) && !(error instanceof FacilitatorUnavailableError))
    throw error
  throw new ServiceError('rail_unavailable', { retry_after: 2 }, error)
}

function createRailVerifier({ settings, token }: PaymentChains, recovery: SignerRecoveryPool) {
  const { base, bsc, tempo, solana, settler } = settings
  const onBase =
    base === null || token === null || settler === null
      ? null
      : createEip3009Verifier({ client: base.client, settler, recovery }, token)
  const onBsc =
    bsc === null || settler === null
      ? null
      : createPermit2Verifier({ client: bsc.client, settler, recovery })

  return async (payment: NormalizedPayment): Promise<PayerFunds> => {
    const { proof } = payment
    switch (proof.kind) {
      case 'eip3009':
        return (onBase ?? throwDisabled())(payment, proof)
      case 'permit2':
        return (onBsc ?? throwDisabled())(payment, proof)
      case 'mpp':
        await simulateMppCharge((tempo ?? throwDisabled()).client, proof.raw)
        return UNKNOWN_FUNDS
      case 'solana':
        await assertFacilitatorAccepts((solana ?? throwDisabled()).facilitator, payment)
        return UNKNOWN_FUNDS
    }
  }
}

/** Payments are only read for rails that are on. */
function throwDisabled(): never {
  throw new ServiceError('rail_disabled')
}

const UNKNOWN_FUNDS: PayerFunds = { balance: null, block: 0n, plainKey: false }

async function assertFacilitatorAccepts(
  facilitator: FacilitatorClient,
  payment: NormalizedPayment,
): Promise<void> {
  const answer = await facilitator.verify(payment)
  if (!answer.isValid)
    throw paymentRejected(answer.invalidReason ?? 'invalid_payload', 'the facilitator refuses it')
  if (answer.payer !== null && answer.payer !== payment.from)
    throw paymentRejected('invalid_payload', `it is paid by solana account ${answer.payer}`)
}

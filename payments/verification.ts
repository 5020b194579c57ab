import { isNodeFailure } from '../chain/evm.ts'
import { simulateCharge } from '../chain/mpp/charge.ts'
import { PaymentProblem, type Payment } from '../chain/payment.ts'
import { inspectPermit2, permit2Digest, type Permit } from '../chain/permit2.ts'
import type { RecoveryPool } from '../chain/recovery.ts'
import {
  authorizationDigest,
  inspectAuthorization,
  isValidOnChain,
  type Authorization,
  type Inspection,
} from '../chain/usdc.ts'
import { FacilitatorDown } from '../chain/x402/facilitator.ts'
import type { EvmClient } from '../chain/evm.ts'
import type { Hex } from '../chain/payment.ts'
import { ServiceError } from '../core/errors.ts'
import type { Chains } from './chains.ts'

/** What a payer has at a block; null where nobody can say. */
export interface Funds {
  readonly balance: bigint | null
  readonly block: bigint
  /** A key signs alone: what it signed cannot be undone by code. */
  readonly plainKey: boolean
}

const refused = (reason: string, detail: string) => new PaymentProblem(402, reason, detail)

/** Signature, funds and a run of the settlement itself: checks 7 and 8 of payments section 5. */
export function verification(
  chains: Chains,
  recovery: RecoveryPool,
  custodial: (address: string) => Promise<boolean>,
) {
  return async (payment: Payment): Promise<Funds> => {
    // What our own wallets sign goes to the treasury as well: a sweep, whose money is credited already.
    if (await custodial(payment.from))
      throw refused('payer_is_custodial', 'the wallet of an agent pays by its credits')
    try {
      switch (payment.proof.kind) {
        case 'eip3009':
          return await eip3009(payment, payment.proof.signature)
        case 'permit2':
          return await permit2(payment, payment.proof)
        case 'mpp':
          return await charge(payment.proof.raw)
        case 'solana':
          return await remote(payment, payment.proof)
      }
    } catch (error) {
      if (!isNodeFailure(error) && !(error instanceof FacilitatorDown)) throw error
      throw new ServiceError('rail_unavailable', { retry_after: 2 }, error)
    }
  }

  async function eip3009(payment: Payment, signature: Hex): Promise<Funds> {
    const { settings, token } = chains
    const client = demand(settings.base).client
    const authorization = authorizationOf(payment)
    const digest = authorizationDigest(demand(token), authorization)
    const [signer, seen] = await Promise.all([
      recovery.recover(digest, signature),
      inspectAuthorization(
        client,
        demand(token),
        authorization,
        signature,
        demand(settings.settler),
      ),
    ])
    await demandSigner(client, payment.from, { seen, signer, digest, signature }, 'evm')
    const prefix = 'invalid_exact_evm'
    if (seen.used)
      throw refused(`${prefix}_nonce_already_used`, 'the authorization was used or cancelled')
    demandFunds(seen, payment.amount, `${prefix}_insufficient_balance`)
    if (seen.simulation !== null)
      throw refused(`${prefix}_transaction_simulation_failed`, seen.simulation)
    return fundsOf(seen)
  }

  async function permit2(
    payment: Payment,
    { signature, spender, deadline }: { signature: Hex; spender: string; deadline: bigint },
  ): Promise<Funds> {
    const { settings } = chains
    const client = demand(settings.bsc).client
    const permit = permitOf(payment, spender, deadline)
    const digest = permit2Digest(client.chain.id, permit)
    const [signer, seen] = await Promise.all([
      recovery.recover(digest, signature),
      inspectPermit2(client, permit, signature, demand(settings.settler)),
    ])
    await demandSigner(client, payment.from, { seen, signer, digest, signature }, 'permit2')
    if (seen.used) throw refused('permit2_invalid_nonce', 'the permit was used or cancelled')
    demandFunds(seen, payment.amount, 'permit2_insufficient_balance')
    if (seen.allowance < payment.amount) {
      throw new PaymentProblem(
        412,
        'permit2_allowance_required',
        `approve Permit2 for at least ${payment.amount} of ${payment.asset}`,
      )
    }
    if (seen.simulation !== null) throw refused('permit2_simulation_failed', seen.simulation)
    return fundsOf(seen)
  }

  async function charge(raw: Hex): Promise<Funds> {
    await simulateCharge(demand(chains.settings.tempo).client, raw)
    return { balance: null, block: 0n, plainKey: false }
  }

  async function remote(
    payment: Payment,
    proof: Extract<Payment['proof'], { kind: 'solana' }>,
  ): Promise<Funds> {
    const answer = await demand(chains.settings.solana).facilitator.verify(payment)
    if (!answer.isValid)
      throw refused(answer.invalidReason ?? 'invalid_payload', 'the facilitator refuses it')
    if (answer.payer !== null && answer.payer !== payment.from)
      throw refused('invalid_payload', `it is paid by ${proof.kind} account ${answer.payer}`)
    return { balance: null, block: 0n, plainKey: false }
  }
}

interface Signing {
  readonly seen: Inspection
  readonly signer: string | null
  readonly digest: Hex
  readonly signature: Hex
}

async function demandSigner(
  client: EvmClient,
  from: string,
  { seen, signer, digest, signature }: Signing,
  rail: 'evm' | 'permit2',
): Promise<void> {
  const good = seen.hasCode
    ? await isValidOnChain(client, from, digest, signature)
    : signer === from
  if (good) return
  const reason = rail === 'evm' ? 'invalid_exact_evm_signature' : 'invalid_permit2_signature'
  throw refused(reason, `the signature is not of ${from} for this token and chain`)
}

function demandFunds({ balance }: Inspection, amount: bigint, reason: string): void {
  if (balance < amount) throw refused(reason, `the payer has ${balance} of ${amount} atomic units`)
}

const fundsOf = ({ balance, block, hasCode }: Inspection): Funds => ({
  balance,
  block,
  plainKey: !hasCode,
})

const authorizationOf = (payment: Payment): Authorization => ({
  from: payment.from,
  to: payment.to,
  value: payment.amount,
  validAfter: payment.validAfter,
  validBefore: payment.validBefore,
  nonce: payment.nonce as Hex,
})

const permitOf = (payment: Payment, spender: string, deadline: bigint): Permit => ({
  from: payment.from,
  token: payment.asset,
  amount: payment.amount,
  spender,
  nonce: BigInt(payment.nonce),
  deadline,
  to: payment.to,
  validAfter: payment.validAfter,
})

/** A payment is only read for a rail that is on. */
function demand<T>(part: T | null): T {
  if (part === null) throw new ServiceError('rail_disabled')
  return part
}

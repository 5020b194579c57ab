import { isNodeFailure } from '../chain/evm.ts'
import { inspector, type Inspector } from '../chain/inspection.ts'
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

/** Signature, funds and a run of the settlement itself. */
export function verification(
  chains: Chains,
  recovery: RecoveryPool,
  custodial: (address: string) => Promise<boolean>,
) {
  const checks: Checks = { chains, recovery, inspectors: inspectorsOf(chains) }

  return async (payment: Payment): Promise<Funds> => {
    // What our own wallets sign goes to the treasury as well: a sweep, whose money is credited already.
    const seen = verified(payment)
    seen.catch(() => {}) // whatever the chain says of it
    if (await custodial(payment.from))
      throw refused('payer_is_custodial', 'the wallet of an agent pays by its credits')
    return seen
  }

  async function verified(payment: Payment): Promise<Funds> {
    const { proof } = payment
    try {
      switch (proof.kind) {
        case 'eip3009':
          return await eip3009(checks, payment, proof.signature)
        case 'permit2':
          return await permit2(checks, payment, proof)
        case 'mpp':
          return await charge(chains, proof.raw)
        case 'solana':
          return await remote(chains, payment)
      }
    } catch (error) {
      if (!isNodeFailure(error) && !(error instanceof FacilitatorDown)) throw error
      throw new ServiceError('rail_unavailable', { retry_after: 2 }, error)
    }
  }
}

/**
 * The signature is looked at first, so that the balance is no older than it must be when the claim
 * counts on it: another payment of this payer may settle at any time.
 */
interface Checks {
  readonly chains: Chains
  readonly recovery: RecoveryPool
  readonly inspectors: ReturnType<typeof inspectorsOf>
}

async function eip3009(
  { chains, recovery, inspectors }: Checks,
  payment: Payment,
  signature: Hex,
): Promise<Funds> {
  const { settings } = chains
  const token = demand(chains.token)
  const authorization = authorizationOf(payment)
  const digest = authorizationDigest(token, authorization)
  const signer = await recovery.recover(digest, signature)
  const inspect = demand(inspectors.base)
  const seen = await inspectAuthorization(inspect, token, authorization, signature)
  const { client } = demand(settings.base)
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
  { chains, recovery, inspectors }: Checks,
  payment: Payment,
  { signature, spender, deadline }: Extract<Payment['proof'], { kind: 'permit2' }>,
): Promise<Funds> {
  const { client } = demand(chains.settings.bsc)
  const permit = permitOf(payment, spender, deadline)
  const digest = permit2Digest(client.chain.id, permit)
  const signer = await recovery.recover(digest, signature)
  const seen = await inspectPermit2(demand(inspectors.bsc), permit, signature)
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

const NOBODY_KNOWS: Funds = { balance: null, block: 0n, plainKey: false }

async function charge({ settings }: Chains, raw: Hex): Promise<Funds> {
  await simulateCharge(demand(settings.tempo).client, raw)
  return NOBODY_KNOWS
}

async function remote({ settings }: Chains, payment: Payment): Promise<Funds> {
  const answer = await demand(settings.solana).facilitator.verify(payment)
  if (!answer.isValid)
    throw refused(answer.invalidReason ?? 'invalid_payload', 'the facilitator refuses it')
  if (answer.payer !== null && answer.payer !== payment.from)
    throw refused('invalid_payload', `it is paid by solana account ${answer.payer}`)
  return NOBODY_KNOWS
}

/** One for each chain our own key settles on. */
function inspectorsOf({ settings }: Chains): { base: Inspector | null; bsc: Inspector | null } {
  const of = (chain: { readonly client: EvmClient } | null) =>
    chain === null || settings.settler === null ? null : inspector(chain.client, settings.settler)
  return { base: of(settings.base), bsc: of(settings.bsc) }
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

import { setTimeout as pause } from 'node:timers/promises'
import { hashPaymentCredential, PaymentProblem } from '../chain/onchain-payment-types.ts'
import type { PaymentOffer, NormalizedPayment } from '../chain/onchain-payment-types.ts'
import type { ActorSystem } from '../actors/aggregate-command-types.ts'
import { DAY, type Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { ZERO_MICROS, type Micros } from '../core/money.ts'
import { MAX_OPTIMISTIC_CALL_PRICE } from '../domain/pricing.ts'
import type { SettlementQueries } from '../persistence/payments/settlement-queries.ts'
import type { ExternalCallPaymentRef } from './agent-call-admission-request-types.ts'
import { claimPaymentCommand, settlementLoadOptions } from './commands/payment-claim-commands.ts'
import type {
  PaymentClaimInput,
  PaymentClaimResult as Answer,
  PaymentClaimMode,
  PaymentClaimPurpose,
} from './commands/payment-claim-commands.ts'
import {
  createUnpaidExposureLimit,
  type UnpaidExposureReservation,
} from './limits/unpaid-exposure-limit.ts'
import type { PaymentLookupResult } from './commands/payment-lookup-commands.ts'
import { fingerprintPaymentRequester } from './payment-requester-fingerprint.ts'
import type {
  PaymentBuyerAndCall,
  ClaimedPayment,
  PaymentRequestContext,
} from './payment-service-types.ts'
import {
  toPaymentRef,
  type EarlierPaymentUseLookup,
  type PresentedPaymentAndRequest,
} from './payment-lookup.ts'
import {
  PaymentRequiredError,
  settlementFailedForGoodError,
  settlementUnknownError,
  toPaymentRejectionError,
} from './payment-required-error.ts'
import type { PayerFunds } from '../chain/evm/evm-payment-verifier.ts'

/** Verifies and claims payments. */

export interface PaymentClaimsDeps {
  readonly clock: Clock
  readonly actors: ActorSystem
  readonly verify: (payment: NormalizedPayment) => Promise<PayerFunds>
  readonly lookup: EarlierPaymentUseLookup
  readonly settlements: Pick<SettlementQueries, 'view' | 'atStake'>
  readonly settler: {
    kick(settlement: string): void
    /** The end of a settlement; `pending` after the timeout. */
    settled(settlement: string, timeoutMs: number): Promise<'settled' | 'lost' | 'pending'>
    /** False while calls may only run after their payment. */
    optimistic(chain: ExternalCallPaymentRef['chain']): boolean
  }
  /** The limit over all payers on what is unpaid and what was lost in the last 24 hours (decision 473). */
  readonly exposure: Micros
}

/** A payment and the request that brought it. */
export interface PaymentClaimRequest {
  readonly payment: NormalizedPayment
  readonly request: PaymentRequestContext
  readonly buyer: PaymentBuyerAndCall
  readonly purpose: PaymentClaimPurpose
  readonly offer: PaymentOffer | null
}

/** `again`: the credits were bought with it before, perhaps a moment ago on another node. */
interface PaymentClaimOutcome extends ClaimedPayment {
  readonly again: boolean
}

const toLookup = ({
  payment,
  request,
  buyer,
}: PaymentClaimRequest): PresentedPaymentAndRequest => ({
  payment,
  request,
  agentId: buyer.agentId,
})

const toRepeatedTopUp = (
  { payment }: PaymentClaimRequest,
  ref: ExternalCallPaymentRef,
  { txHash }: Pick<PaymentLookupResult, 'txHash'>,
): PaymentClaimOutcome => ({
  payment,
  ref,
  settled: true,
  tx: txHash,
  again: true,
})

/** How often a balance is read for one claim. */
const MAX_BALANCE_READS = 4
/**
 * How long, and how often, pending settlements are awaited before a payer counts as short of funds.
 */
const SETTLING_POLL_MS = 300
const MAX_SETTLING_WAITS = 8

/** The funds of a payment that was verified at its first claim. */
const VERIFIED_BEFORE: PayerFunds = { balance: null, block: 0n, plainKey: false }

/** Claims payments: earlier claims first, then signatures, then the claim. */
export function createPaymentClaims(parts: PaymentClaimsDeps) {
  const { actors, lookup, settlements, settler } = parts
  const meter = createUnpaidExposureLimit(
    () => settlements.atStake(new Date(parts.clock.now() - DAY)),
    parts.clock,
  )

  /** Claims the payment; if it has to settle first, resolves after settlement. */
  async function claim(use: PaymentClaimRequest): Promise<PaymentClaimOutcome> {
    const { payment, offer } = use
    const ref = toPaymentRef(payment)
    const seen = await lookup.find(toLookup(use))
    if (seen !== null && hasBoughtTopUp(use, seen)) return toRepeatedTopUp(use, ref, seen)
    if (seen !== null) await lookup.repeatReply(payment, seen, offer)
    const claimed = await claimOnce(use, ref, seen).catch(unlessClaimed(use))
    const paid = { payment, ref, again: false }
    if (claimed.claim === 'prepaid') return { ...paid, settled: true, tx: claimed.txHash }
    if (claimed.claim === 'known' && hasBoughtTopUp(use, claimed))
      return toRepeatedTopUp(use, ref, claimed)
    if (claimed.claim === 'known')
      throw new ServiceError('payment_in_progress', { ...lookup.detailsOf(ref), retry_after: 1 })
    const isFirst = claimed.mode === 'first'
    return { ...paid, settled: isFirst, tx: isFirst ? await settled(ref, offer) : null }
  }

  /**
   * Of two concurrent copies, the slower one fails on the chain or the reservation because of the
   * faster one. Only an unclaimed payment is answered with a new 402.
   */
  const unlessClaimed =
    (use: PaymentClaimRequest) =>
    async (error: unknown): Promise<{ claim: 'known' } & PaymentLookupResult> => {
      const seen = error instanceof PaymentRequiredError ? await lookup.find(toLookup(use)) : null
      if (seen === null) throw error
      return { claim: 'known', ...seen }
    }

  /**
   * A payment of the same payer that is in a block but not yet booked also counts twice: it is
   * awaited. If it was really spent, the next reading shows it.
   *
   * A balance from before the payer's last settled block counts the same money twice: it is read
   * again. If the payer's payments settle faster than that, the failure is ours, not the payer's.
   */
  async function claimOnce(
    use: PaymentClaimRequest,
    ref: ExternalCallPaymentRef,
    seen: PaymentLookupResult | null,
    tries = MAX_BALANCE_READS,
    waits = MAX_SETTLING_WAITS,
  ): Promise<Answer> {
    const { payment, offer } = use
    const funds = seen === null ? await verifyPayment(parts, payment, offer) : VERIFIED_BEFORE
    const { place, ...room } = await chooseClaimMode(parts, meter, use, funds)
    const claim = toPaymentClaim(parts.clock, use, funds, { ...room, isFirst: seen === null })
    try {
      return await actors.ask(
        ref.payer,
        claimPaymentCommand,
        claim,
        settlementLoadOptions(ref.settlement),
      )
    } catch (error) {
      if (waits > 0 && isFundsReserved(error, payment, funds)) {
        await pause(SETTLING_POLL_MS)
        return claimOnce(use, ref, seen, tries, waits - 1)
      }
      if (!isStaleBalanceError(error)) throw withPaymentOffer(error, offer)
      if (tries > 1) return claimOnce(use, ref, seen, tries - 1, waits)
      throw new ServiceError('rail_unavailable', { retry_after: 1 })
    } finally {
      place?.release()
    }
  }

  /** Waits for the chain. Unknown is not failed: a payer asked to pay again would pay twice (decision 33). */
  async function settled(
    ref: ExternalCallPaymentRef,
    offer: PaymentOffer | null,
  ): Promise<string | null> {
    settler.kick(ref.settlement)
    const outcome = await settler.settled(ref.settlement, LIMITS.settleWaitMs)
    if (outcome === 'lost') throw settlementFailedForGoodError(lookup.detailsOf(ref), offer)
    if (outcome === 'pending') throw settlementUnknownError(lookup.detailsOf(ref))
    return (await settlements.view(ref.settlement))?.txHash ?? null
  }

  return { claim, settled }
}

interface ExposureDecision {
  readonly mode: PaymentClaimMode
  readonly globalRoom: boolean
}

/** A small payment of a plain key may settle after the call while the exposure is low; a withheld answer risks nothing. */
async function chooseClaimMode(
  { settler, exposure }: PaymentClaimsDeps,
  meter: ReturnType<typeof createUnpaidExposureLimit>,
  { payment, buyer }: Pick<PaymentClaimRequest, 'payment' | 'buyer'>,
  { plainKey }: PayerFunds,
): Promise<ExposureDecision & { place: UnpaidExposureReservation | null }> {
  if (buyer.withholdsAnswer === true) return { mode: 'withheld', globalRoom: false, place: null }
  const { chain } = toPaymentRef(payment)
  const small = payment.price <= MAX_OPTIMISTIC_CALL_PRICE && buyer.sharesPrice !== true
  const may = plainKey && small && settler.optimistic(chain)
  const asks = may && exposure !== ZERO_MICROS
  const place = asks ? await meter.room(payment.price, exposure) : null
  const globalRoom = place !== null
  return { mode: globalRoom ? 'optimistic' : 'first', globalRoom, place }
}

const toPaymentClaim = (
  clock: Clock,
  { payment, request, buyer, purpose }: PaymentClaimRequest,
  funds: PayerFunds,
  { isFirst, ...room }: ExposureDecision & { isFirst: boolean },
): PaymentClaimInput => ({
  payment,
  chain: toPaymentRef(payment).chain,
  fingerprint: request.fingerprint,
  credential: hashPaymentCredential(payment),
  marks: fingerprintPaymentRequester(
    request,
    hashPaymentCredential(payment),
    isFirst ? clock.now() : null,
  ),
  callId: buyer.callId,
  agentId: buyer.agentId,
  purpose,
  balance: funds.balance,
  balanceBlock: funds.block,
  expiresAt: Math.floor(clock.now()) + buyer.patienceMs,
  claimBy: buyer.claimBy ?? null,
  ...room,
})

async function verifyPayment(
  { verify }: PaymentClaimsDeps,
  payment: NormalizedPayment,
  offer: PaymentOffer | null,
): Promise<PayerFunds> {
  try {
    return await verify(payment)
  } catch (error) {
    throw error instanceof PaymentProblem ? toPaymentRejectionError(error, offer) : error
  }
}

/** Credits are delivered with the settlement itself: there is no call to look up. */
const hasBoughtTopUp = (
  { purpose }: PaymentClaimRequest,
  { money, sameRequest }: Pick<PaymentLookupResult, 'money' | 'sameRequest'>,
): boolean => purpose.kind === 'topup' && money === 'settled' && sameRequest

/** The chain has the money for this payment, but other payments of the payer have reserved it. */
const isFundsReserved = (
  error: unknown,
  { amount }: NormalizedPayment,
  { balance }: PayerFunds,
): boolean =>
  error instanceof ServiceError &&
  error.details['reason'] === 'insufficient_balance' &&
  error.details['stale_balance'] !== true &&
  balance !== null &&
  balance >= amount

const isStaleBalanceError = (error: unknown): boolean =>
  error instanceof ServiceError && error.details['stale_balance'] === true

/** The machine rejects a payer without funds, but knows no offers. */
function withPaymentOffer(error: unknown, offer: PaymentOffer | null): unknown {
  const refused = error instanceof ServiceError && error.code === 'payment_invalid'
  return refused ? new PaymentRequiredError('payment_invalid', error.details, offer) : error
}

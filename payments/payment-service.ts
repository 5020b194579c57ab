import { newUuidV7 } from '../core/ids-and-api-keys.ts'
import { LIMITS } from '../core/limits.ts'
import { toUsdc, type Micros } from '../core/money.ts'
import { ServiceError } from '../core/errors.ts'
import type { PublicSettlementRecord as Stored } from '../persistence/payments/settlement-queries.ts'
import type { ExternalCallPaymentRef } from './agent-call-admission-request-types.ts'
import { createPaymentClaims, type PaymentClaimsDeps } from './payment-claims.ts'
import {
  deliverPaidCallsCommand,
  releaseFailedCallPaymentCommand,
  settlementLoadOptions,
} from './commands/payment-claim-commands.ts'
import {
  createEarlierPaymentUseLookup,
  toPaymentRef,
  type EarlierPaymentUseLookupDeps,
} from './payment-lookup.ts'
import { createPaymentOfferRenderer, type PaymentOfferRendererDeps } from './payment-offers.ts'
import { createRequestPaymentReader, type RequestPaymentReaderDeps } from './payment-reader.ts'
import type {
  FinishedCallsOfPayment,
  PaymentRequestContext,
  PaymentService,
  PublicSettlement,
  CreditTopUpResult,
} from './payment-service-types.ts'
import { PaymentRequiredError } from './payment-required-error.ts'

/** The payment service over the payers' aggregates and the settler. */

export type PaymentServiceDeps = PaymentOfferRendererDeps &
  Omit<EarlierPaymentUseLookupDeps, 'settlementUrl'> &
  Omit<RequestPaymentReaderDeps, 'lookup'> &
  Omit<PaymentClaimsDeps, 'lookup'> & {
    readonly actors: { wake(id: string, kind: 'payer'): Promise<void> }
    readonly log: (message: string, error: unknown) => void
  }

/** Creates the payment service. */
export function createPaymentService(parts: PaymentServiceDeps): PaymentService {
  const { settlements, publicUrl } = parts
  const offers = createPaymentOfferRenderer(parts)
  const lookup = createEarlierPaymentUseLookup({ ...parts, settlementUrl: offers.settlementUrl })
  const { read, findUsedPayment } = createRequestPaymentReader({ ...parts, lookup })
  const claims = createPaymentClaims({ ...parts, lookup })
  const notifications = createPayerNotifications(parts)

  async function topUp(
    request: PaymentRequestContext,
    agentId: string,
    amount: Micros,
  ): Promise<CreditTopUpResult> {
    const item = { description: `${toUsdc(amount)} USDC of credits`, price: amount, deadlineMs: 0 }
    const offer = offers.offer(request.path, item)
    const fund = { agent_id: agentId, fund_url: `${publicUrl}/fund/${agentId}` }
    const brings = request.paymentHeader !== null
    if (offer === null && !brings) throw new ServiceError('rail_disabled', fund)
    if (!brings)
      throw new PaymentRequiredError(
        'payment_required',
        { price_usdc: toUsdc(amount), ...fund },
        offer,
      )
    const payment = await read(request, offer)
    const ref = toPaymentRef(payment)
    const buyer = { agentId, callId: newUuidV7(parts.clock.now()), patienceMs: LIMITS.settleWaitMs }
    const use = { payment, request, buyer, offer, purpose: { kind: 'topup', agentId } as const }
    const { tx, again } = await claims.claim(use)
    // The credit is in the agent's inbox: the next balance request absorbs it.
    return {
      settlementId: ref.settlement,
      tx: tx ?? '',
      replayed: again,
      headers: offers.replyHeaders(payment, ref, tx),
    }
  }

  return {
    ...offers,
    read,
    findUsedPayment,
    refOf: toPaymentRef,
    findEarlierReply: (payment, request, agentId, offer) =>
      lookup.findEarlierReply({ payment, request, agentId }, offer),
    claim: (payment, request, buyer, offer) =>
      claims.claim({ payment, request, buyer, offer, purpose: { kind: 'call' } }),
    ...notifications,
    async deliverAfterSettlement(delivery, offer) {
      await notifications.deliver(delivery)
      return claims.settled(delivery.ref, offer)
    },
    topUp,
    settlement: async (id) => toPublicSettlement(await settlements.view(id)),
  }
}

type PayerNotifications = Pick<PaymentService, 'deliver' | 'release' | 'notifyPayer' | 'abandon'>

/** Commands to the payer's aggregate about its calls. */
function createPayerNotifications({
  actors,
  settler,
  log,
}: PaymentServiceDeps): PayerNotifications {
  /** For a keyless caller the payment's own commit stores the call or releases the payment. */
  async function deliver({ ref, callId, calls, ...staged }: FinishedCallsOfPayment): Promise<void> {
    const made = calls.map(
      (row) =>
        ({ at }: { at: number }) =>
          row(at),
    )
    const input = { settlement: ref.settlement, callId, calls: made, ...staged }
    await actors.ask(
      ref.payer,
      deliverPaidCallsCommand,
      input,
      settlementLoadOptions(ref.settlement),
    )
    settler.kick(ref.settlement)
  }

  async function release(
    ref: ExternalCallPaymentRef,
    callId: string,
    row: FinishedCallsOfPayment['calls'][number] | null,
  ) {
    const kept = row === null ? null : ({ at }: { at: number }) => row(at)
    const input = { settlement: ref.settlement, callId, row: kept }
    const { money } = await actors.ask(
      ref.payer,
      releaseFailedCallPaymentCommand,
      input,
      settlementLoadOptions(ref.settlement),
    )
    return money === 'released' ? 'free' : 'kept'
  }

  /** Absorbs the payer's inbox now; otherwise a sweep does. */
  async function notifyPayer(ref: ExternalCallPaymentRef): Promise<void> {
    try {
      await actors.wake(ref.payer, 'payer')
      settler.kick(ref.settlement)
    } catch (error) {
      log('payer not woken', error)
    }
  }

  /** The inbox with the messages of the agent's commits is absorbed first. */
  async function abandon(ref: ExternalCallPaymentRef, callId: string): Promise<void> {
    await actors.wake(ref.payer, 'payer')
    const input = { settlement: ref.settlement, callId, row: null }
    try {
      await actors.ask(
        ref.payer,
        releaseFailedCallPaymentCommand,
        input,
        settlementLoadOptions(ref.settlement),
      )
    } catch (error) {
      if (!(error instanceof ServiceError && error.code === 'call_settled')) throw error
    }
  }

  return { deliver, release, notifyPayer, abandon }
}

function toPublicSettlement(stored: Stored | null): PublicSettlement | null {
  if (stored === null) return null
  const { id, money, delivery, chain, asset, payer, amount, price, txHash, claimedAt } = stored
  return {
    id,
    state: money,
    delivery,
    chain,
    asset,
    payer,
    amount,
    price,
    tx: txHash,
    createdAt: new Date(claimedAt),
  }
}

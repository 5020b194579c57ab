import type { AggregateCommand } from '../../actors/aggregate-command-types.ts'
import {
  isSamePaymentRequest,
  type PaymentRequestIdentity,
} from '../../domain/repeated-payment-request-check.ts'
import type { SettlementDeliveryState, SettlementMoneyState } from './payment-claim-commands.ts'

/** Looks up an earlier claim of a payment before the payment is verified. */

export interface PaymentLookupInput extends PaymentRequestIdentity {
  readonly settlement: string
}

/** The state of an earlier claim, and whether the same request made it. */
export interface PaymentLookupResult {
  readonly money: SettlementMoneyState
  readonly delivery: SettlementDeliveryState
  readonly callId: string
  readonly agentId: string | null
  readonly txHash: string | null
  readonly sameRequest: boolean
}

/** Finds the claim of a payment before any cost of verification; null if unclaimed. */
export const lookUpPaymentClaimCommand: AggregateCommand<
  PaymentLookupInput,
  PaymentLookupResult | null
> = {
  name: 'payment.look',
  kind: 'payer',
  creates: true,
  apply(ctx, { settlement, ...asking }) {
    if (!ctx.has('settlement', settlement)) return null
    const { value, context } = ctx.snapshotOf('settlement', settlement)
    if (value.money === 'released') return null
    const { callId, agentId, txHash } = context
    const sameRequest = isSamePaymentRequest(context, asking)
    return { ...value, callId, agentId, txHash, sameRequest }
  },
}

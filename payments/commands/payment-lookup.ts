import type { Command } from '../../actors/command.ts'
import {
  isRepeatedPaymentRequest,
  type PaymentRequestIdentity,
} from '../../domain/requester-identity.ts'
import type { SettlementDeliveryState, SettlementMoneyState } from './payment.ts'

export interface PaymentLookupInput extends PaymentRequestIdentity {
  readonly settlement: string
}

/** How a payment stands that was claimed before, and whether this request is the one it was for. */
export interface PaymentLookupResult {
  readonly money: SettlementMoneyState
  readonly delivery: SettlementDeliveryState
  readonly callId: string
  readonly agentId: string | null
  readonly txHash: string | null
  readonly sameRequest: boolean
}

/** Looks at a payment before anything is spent on verifying it; null when it is free to be used. */
export const lookUpPaymentCommand: Command<PaymentLookupInput, PaymentLookupResult | null> = {
  name: 'payment.look',
  kind: 'payer',
  creates: true,
  apply(ctx, { settlement, ...asking }) {
    if (!ctx.has('settlement', settlement)) return null
    const { value, context } = ctx.snapshotOf('settlement', settlement)
    if (value.money === 'released') return null
    const { callId, agentId, txHash } = context
    const sameRequest = isRepeatedPaymentRequest(context, asking)
    return { ...value, callId, agentId, txHash, sameRequest }
  },
}

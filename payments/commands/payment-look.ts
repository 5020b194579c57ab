import type { Command } from '../../actors/command.ts'
import { isRepetition, type Asking } from '../../core/marks.ts'
import type { Delivery, Money } from './payment.ts'

export interface Look extends Asking {
  readonly settlement: string
}

/** How a payment stands that was claimed before, and whether this request is the one it was for. */
export interface Seen {
  readonly money: Money
  readonly delivery: Delivery
  readonly callId: string
  readonly agentId: string | null
  readonly txHash: string | null
  readonly sameRequest: boolean
}

/** Looks at a payment before anything is spent on verifying it; null when it is free to be used. */
export const paymentLook: Command<Look, Seen | null> = {
  name: 'payment.look',
  kind: 'payer',
  creates: true,
  apply(turn, { settlement, ...asking }) {
    if (!turn.has('settlement', settlement)) return null
    const { value, context } = turn.peek('settlement', settlement)
    if (value.money === 'released') return null
    const { callId, agentId, txHash } = context
    const sameRequest = isRepetition(context, asking)
    return { ...value, callId, agentId, txHash, sameRequest }
  },
}

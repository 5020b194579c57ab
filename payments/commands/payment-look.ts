import type { Command } from '../../actors/command.ts'
import type { Delivery, Money } from './payment.ts'

export interface Look {
  readonly settlement: string
  readonly fingerprint: string
  readonly credential: string
  readonly agentId: string | null
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
  apply(turn, { settlement, fingerprint, credential, agentId }) {
    if (!turn.has('settlement', settlement)) return null
    const { value, context } = turn.peek('settlement', settlement)
    if (value.money === 'released') return null
    const sameRequest =
      context.fingerprint === fingerprint &&
      context.credential === credential &&
      context.agentId === agentId
    const { callId, txHash } = context
    return { ...value, callId, agentId: context.agentId, txHash, sameRequest }
  },
}

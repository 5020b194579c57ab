import { least, ZERO, type Micros } from '../../core/money.ts'
import type { Turn } from '../../actors/command.ts'
import type { PaymentRef } from '../admission.ts'
import { cashOf, fleetOf } from '../ledger.ts'

/** The payment's own aggregate learns what became of the call, in the commit that decided it. */
export function tellPayer(
  turn: Turn,
  callId: string,
  { payer, settlement }: PaymentRef,
  type: 'DELIVERED' | 'RELEASED',
): void {
  const event = { type, settlement, callId, at: turn.now }
  turn.inbox({ receiver: payer, receiverKind: 'payer', id: `${type}:${callId}`, event })
}

/** What a fleet lent for a call and the call did not use, as far as it is still there. */
export function returnDrawn(turn: Turn, callId: string, amount: Micros): void {
  const { fleetId, cash } = turn.peek('agent', turn.aggregateId).context
  const back = least(amount, cash)
  if (fleetId === null || back === ZERO) return
  turn.step('agent', turn.aggregateId, { type: 'TAKE_BACK', amount: back, from: 'cash' })
  turn.transfer({
    debit: cashOf(turn.aggregateId),
    credit: fleetOf(fleetId),
    amount: back,
    kind: 'draw_back',
    callId,
  })
  turn.inbox({
    receiver: fleetId,
    receiverKind: 'fleet',
    id: `draw_back:${callId}`,
    event: { type: 'CREDIT', amount: back },
  })
}

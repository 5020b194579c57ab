import { LIMITS } from '../../core/limits.ts'
import type { Micros } from '../../core/money.ts'
import type { Turn } from '../../actors/command.ts'
import { holdExpire } from './call.ts'
import { heldFor, timerOf } from './call-ends.ts'

/** What a fleet's pool lends for one call: held for it from the start, and given back if nothing comes of it. */
export interface Loan {
  readonly type: 'LEND'
  readonly id: string
  readonly callId: string
  readonly held: Micros
  readonly bonus: Micros
}

export function absorbLoan(turn: Turn, { type, id, callId: wanted, held, bonus }: Loan): void {
  const hold = heldFor(turn, wanted)
  // It came too late for its call: it waits beside it, and goes back.
  const callId = hold === undefined || hold.tool === null ? wanted : id
  turn.step('agent', turn.aggregateId, { type, callId, held, bonus, at: turn.now })
  const [dueAt, input] = [turn.now + LIMITS.holdGraceMs, { callId, lent: true, touch: [] }]
  turn.timer({ id: timerOf(callId), dueAt, command: holdExpire.name, input })
}

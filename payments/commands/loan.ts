import { LIMITS } from '../../core/limits.ts'
import type { Micros } from '../../core/money.ts'
import type { Turn } from '../../actors/command.ts'
import { holdExpire } from './call.ts'
import { heldFor, timerOf } from './call-ends.ts'

/** What a fleet's pool lends for one call: held for it from the start, and given back if nothing comes of it. */
export interface Loan {
  readonly type: 'LEND'
  /** Whose pool; absent in what was sent while no agent could leave its fleet. */
  readonly fleetId?: string
  readonly id: string
  readonly callId: string
  readonly held: Micros
  readonly bonus: Micros
}

export function absorbLoan(turn: Turn, loan: Loan): void {
  const { type, id, callId: wanted, held, bonus } = loan
  const fleetId = loan.fleetId ?? turn.peek('agent', turn.aggregateId).context.fleetId
  if (fleetId === null) throw new Error(`loan ${id} comes from no fleet`)
  const hold = heldFor(turn, wanted)
  // It came too late for its call: it waits beside it, and goes back.
  const callId = hold === undefined || hold.tool === null ? wanted : id
  turn.step('agent', turn.aggregateId, { type, fleetId, callId, held, bonus, at: turn.now })
  const [dueAt, input] = [turn.now + LIMITS.holdGraceMs, { callId, lent: true, touch: [] }]
  turn.timer({ id: timerOf(callId), dueAt, command: holdExpire.name, input })
}

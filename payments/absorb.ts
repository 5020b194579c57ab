import type { AnyEventObject } from 'xstate'
import type { Absorb } from '../actors/inbox.ts'
import type { Turn } from '../actors/command.ts'
import { awaitPools, resumeSchedules } from '../actors/commands/schedules.ts'
import { absorbDeposit, absorbUndo, type Deposit, type UndoneDeposit } from './commands/deposit.ts'
import { absorbLoan, type Loan } from './commands/loan.ts'
import { absorbDelivered, absorbReleased, type Told } from './commands/payment.ts'

/** What messages from other aggregates do here: money that arrived, and events of the own actor. */
export const absorb: Absorb = (turn, event) => {
  take(turn, event)
  if (CREDITING.has(event.type)) resumeSchedules(turn)
  if (event.type === 'JOIN_FLEET') awaitPools(turn)
}

/** What may let a schedule go on that had stopped for want of credits. */
const CREDITING: ReadonlySet<string> = new Set(['CREDIT', 'DEPOSIT'])

function take(turn: Turn, event: AnyEventObject): void {
  switch (event.type) {
    case 'DEPOSIT':
      return absorbDeposit(turn, event as unknown as Deposit)
    case 'UNDO_DEPOSIT':
      return absorbUndo(turn, event as unknown as UndoneDeposit)
    case 'LEND':
      return absorbLoan(turn, event as unknown as Loan)
    case 'DELIVERED':
      return absorbDelivered(turn, event as unknown as Told)
    case 'RELEASED':
      return absorbReleased(turn, event as unknown as Told)
    default:
      stepOwn(turn, event)
  }
}

/** The actor that gives the aggregate its name takes the event itself. */
function stepOwn(turn: Turn, event: AnyEventObject): void {
  const kind = turn.has('fleet', turn.aggregateId) ? 'fleet' : 'agent'
  turn.step(kind, turn.aggregateId, event as never)
}

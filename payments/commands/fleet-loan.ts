import { LIMITS } from '../../core/limits.ts'
import type { Micros } from '../../core/money.ts'
import type { CommandContext } from '../../actors/command.ts'
import { expireCallHoldCommand } from './call.ts'
import { findCallHold, callHoldTimerId } from './call-holds.ts'

/** What a fleet's pool lends for one call: held for it from the start, and given back if nothing comes of it. */
export interface FleetLoanMessage {
  readonly type: 'LEND'
  /** Whose pool; absent in what was sent while no agent could leave its fleet. */
  readonly fleetId?: string
  readonly id: string
  readonly callId: string
  readonly held: Micros
  readonly bonus: Micros
}

export function applyFleetLoanMessage(ctx: CommandContext, loan: FleetLoanMessage): void {
  const { type, id, callId: wanted, held, bonus } = loan
  const fleetId = loan.fleetId ?? ctx.snapshotOf('agent', ctx.aggregateId).context.fleetId
  if (fleetId === null) throw new Error(`loan ${id} comes from no fleet`)
  const hold = findCallHold(ctx, wanted)
  // It came too late for its call: it waits beside it, and goes back.
  const callId = hold === undefined || hold.tool === null ? wanted : id
  ctx.send('agent', ctx.aggregateId, { type, fleetId, callId, held, bonus, at: ctx.now })
  const [dueAt, input] = [ctx.now + LIMITS.holdGraceMs, { callId, lent: true, touch: [] }]
  ctx.timer({ id: callHoldTimerId(callId), dueAt, command: expireCallHoldCommand.name, input })
}

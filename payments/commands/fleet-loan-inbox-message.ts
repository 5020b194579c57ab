import { LIMITS } from '../../core/limits.ts'
import type { Micros } from '../../core/money.ts'
import type { CommandContext } from '../../actors/aggregate-command-types.ts'
import { expireCallHoldCommand } from './call-commands.ts'
import { findCallHold, callHoldTimerId } from './call-holds.ts'

/** Credits a fleet's pool lends for one call, held for it and returned if unused. */
export interface FleetLoanMessage {
  readonly type: 'LEND'
  /** The lending fleet; absent in messages from before agents could leave a fleet. */
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
  // The loan arrived after its call started: it is held separately and returned.
  const callId = hold === undefined || hold.tool === null ? wanted : id
  ctx.send('agent', ctx.aggregateId, { type, fleetId, callId, held, bonus, at: ctx.now })
  const [dueAt, input] = [ctx.now + LIMITS.holdGraceMs, { callId, lent: true, touch: [] }]
  ctx.timer({ id: callHoldTimerId(callId), dueAt, command: expireCallHoldCommand.name, input })
}

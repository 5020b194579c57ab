import type { AnyEventObject } from 'xstate'
import type { InboxMessageHandler } from '../actors/absorb-aggregate-inbox-command.ts'
import type { CommandContext } from '../actors/aggregate-command-types.ts'
import {
  makeSchedulesWaitForFleetPool,
  resumeFundedSchedules,
} from '../actors/commands/schedule-aggregate-commands.ts'
import {
  applyDepositMessage,
  applyReversedDepositMessage,
  type DepositMessage,
  type ReversedDepositMessage,
} from './commands/agent-deposit-inbox-messages.ts'
import {
  applyFleetLoanMessage,
  type FleetLoanMessage,
} from './commands/fleet-loan-inbox-message.ts'
import {
  applyPaidCallDeliveredToSettlement,
  applyPaidCallReleasedToSettlement,
  type PayerCallMessage,
} from './commands/payment-claim-commands.ts'

/** Applies messages of other aggregates: arrived money, and events of the own actor. */
export const applyAggregateInboxMessage: InboxMessageHandler = (ctx, event) => {
  dispatchInboxMessage(ctx, event)
  if (CREDITING_EVENT_TYPES.has(event.type)) resumeFundedSchedules(ctx)
  if (event.type === 'JOIN_FLEET') makeSchedulesWaitForFleetPool(ctx)
}

/** Events that may resume a schedule stopped for lack of credits. */
const CREDITING_EVENT_TYPES: ReadonlySet<string> = new Set(['CREDIT', 'DEPOSIT'])

function dispatchInboxMessage(ctx: CommandContext, event: AnyEventObject): void {
  switch (event.type) {
    case 'DEPOSIT':
      return applyDepositMessage(ctx, event as unknown as DepositMessage)
    case 'UNDO_DEPOSIT':
      return applyReversedDepositMessage(ctx, event as unknown as ReversedDepositMessage)
    case 'LEND':
      return applyFleetLoanMessage(ctx, event as unknown as FleetLoanMessage)
    case 'DELIVERED':
      return applyPaidCallDeliveredToSettlement(ctx, event as unknown as PayerCallMessage)
    case 'RELEASED':
      return applyPaidCallReleasedToSettlement(ctx, event as unknown as PayerCallMessage)
    default:
      sendToMainActor(ctx, event)
  }
}

/** Sends the event to the actor that names the aggregate. */
function sendToMainActor(ctx: CommandContext, event: AnyEventObject): void {
  const id = ctx.aggregateId
  const kind = (['fleet', 'listing'] as const).find((one) => ctx.has(one, id)) ?? 'agent'
  ctx.send(kind, id, event as never)
}

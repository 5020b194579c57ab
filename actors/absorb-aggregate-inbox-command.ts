import type { AnyEventObject } from 'xstate'
import { parseWithBigints } from '../core/json/bigint.ts'
import type { AggregateKind } from '../core/aggregate-commit-row-types.ts'
import type { AggregateCommand, CommandContext } from './aggregate-command-types.ts'
import type { CommandContextWithEffects } from './command-context.ts'

/** Applies one inbox message to the aggregate that receives it. Must not reject. */
export type InboxMessageHandler = (ctx: CommandContext, event: AnyEventObject) => void

export type AbsorbInboxCommand = AggregateCommand<readonly { id: string; event: unknown }[], void>

/** Applies all messages of the inbox in order, each once. */
export const createAbsorbInboxCommand = (absorb: InboxMessageHandler): AbsorbInboxCommand => ({
  name: 'inbox.absorb',
  kind: 'agent',
  // A payer that rejected a claim was never created, and still gets a message about the claim.
  creates: true,
  apply(ctx, messages) {
    for (const { id, event } of messages) {
      absorb(ctx, parseWithBigints<AnyEventObject>(event))
      ;(ctx as CommandContextWithEffects).markAbsorbed(id)
    }
  },
  note: (messages) => ({ messages: messages.map(({ id }) => id) }),
})

/** A command without effects. Its answer means that the inbox has been absorbed. */
export const createNoopInboxAbsorptionCommand = (
  kind: AggregateKind,
): AggregateCommand<undefined, void> => ({
  name: 'aggregate.wake',
  kind,
  creates: true,
  needsInbox: true,
  apply() {},
})

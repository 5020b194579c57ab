import type { AnyEventObject } from 'xstate'
import { parseWithBigints } from '../core/bigint-json.ts'
import type { Command, CommandContext } from './command.ts'
import type { RecordingCommandContext } from './command-context.ts'

/** What an inbox message does to the aggregate that receives it; it may not refuse. */
export type InboxMessageHandler = (ctx: CommandContext, event: AnyEventObject) => void

export type AbsorbInboxCommand = Command<readonly { id: string; event: unknown }[], void>

/** Takes everything that waits in the inbox, in order, each message once. */
export const createAbsorbInboxCommand = (absorb: InboxMessageHandler): AbsorbInboxCommand => ({
  name: 'inbox.absorb',
  kind: 'agent',
  // A payer may be told of a claim that it refused, and so never came to be.
  creates: true,
  apply(ctx, messages) {
    for (const { id, event } of messages) {
      absorb(ctx, parseWithBigints<AnyEventObject>(event))
      ;(ctx as RecordingCommandContext).markAbsorbed(id)
    }
  },
  note: (messages) => ({ messages: messages.map(({ id }) => id) }),
})

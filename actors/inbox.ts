import type { AnyEventObject } from 'xstate'
import { decode } from '../core/codec.ts'
import type { Command } from './command.ts'
import type { OpenTurn } from './turn.ts'

/** Takes everything that waits in the inbox: each message is one event of the agent itself. */
export const absorbInbox: Command<readonly { id: string; event: unknown }[], void> = {
  name: 'inbox.absorb',
  kind: 'agent',
  apply(turn, messages) {
    for (const { id, event } of messages) {
      turn.step('agent', turn.aggregateId, decode<AnyEventObject>(event) as never)
      ;(turn as OpenTurn).absorb(id)
    }
  },
  note: (messages) => ({ messages: messages.map(({ id }) => id) }),
}

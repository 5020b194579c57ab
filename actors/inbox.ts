import type { AnyEventObject } from 'xstate'
import { decode } from '../core/codec.ts'
import type { Command, Turn } from './command.ts'
import type { OpenTurn } from './turn.ts'

/** What an inbox message does to the aggregate that receives it; it may not refuse. */
export type Absorb = (turn: Turn, event: AnyEventObject) => void

export type InboxCommand = Command<readonly { id: string; event: unknown }[], void>

/** Takes everything that waits in the inbox, in order, each message once. */
export const absorbInbox = (absorb: Absorb): InboxCommand => ({
  name: 'inbox.absorb',
  kind: 'agent',
  // A payer may be told of a claim that it refused, and so never came to be.
  creates: true,
  apply(turn, messages) {
    for (const { id, event } of messages) {
      absorb(turn, decode<AnyEventObject>(event))
      ;(turn as OpenTurn).absorb(id)
    }
  },
  note: (messages) => ({ messages: messages.map(({ id }) => id) }),
})

import { assertEvent, assign, setup } from 'xstate'
import type { ErrorCode } from '../core/errors.ts'

/** The Hive watches of one agent. */

export interface HiveWatchListInput {
  readonly agentId: string
  /** Maximum number of concurrent watches. */
  readonly most: number
}

export interface HiveWatchListContext extends HiveWatchListInput {
  /** Active watches, oldest first. */
  readonly watches: readonly string[]
}

export interface HiveWatchListEvent {
  readonly type: 'BEGIN' | 'END'
  readonly watchId: string
}

/** The watches of one agent: at most `most` at once; each ends once. */
export const hiveWatchListMachine = setup({
  types: {} as {
    context: HiveWatchListContext
    events: HiveWatchListEvent
    input: HiveWatchListInput
  },
  guards: {
    hasRoom: ({ context: { watches, most } }) => watches.length < most,
    isWatching: ({ context, event }) => {
      assertEvent(event, 'END')
      return context.watches.includes(event.watchId)
    },
  },
  actions: {
    /** Does nothing. Its presence among the actions of a step means rejection. */
    refuse: (_, _params: { code: ErrorCode }) => {},
    begin: assign(({ context, event }) => {
      assertEvent(event, 'BEGIN')
      return { watches: [...context.watches, event.watchId] }
    }),
    end: assign(({ context, event }) => {
      assertEvent(event, 'END')
      return { watches: context.watches.filter((id) => id !== event.watchId) }
    }),
  },
}).createMachine({
  id: 'watchList',
  context: ({ input }) => ({ ...input, watches: [] }),
  initial: 'watching',
  on: {
    BEGIN: [
      { guard: 'hasRoom', actions: 'begin' },
      { actions: { type: 'refuse', params: { code: 'limit_reached' } } },
    ],
    END: [
      { guard: 'isWatching', actions: 'end' },
      { actions: { type: 'refuse', params: { code: 'watch_not_found' } } },
    ],
    '*': { actions: { type: 'refuse', params: { code: 'internal' } } },
  },
  states: { watching: {} },
})

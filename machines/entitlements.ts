import { assertEvent, assign, setup } from 'xstate'
import type { ErrorCode } from '../core/errors.ts'

export interface EntitlementsInput {
  readonly agentId: string
}

export interface EntitlementsContext extends EntitlementsInput {
  /** How often each thing of which there is a number for life was used. */
  readonly used: Readonly<Record<string, number>>
  /** What it has bought for good. */
  readonly owned: readonly string[]
  /** How often its memories were put in order. */
  readonly orders: number
}

export type EntitlementsEvent =
  | { readonly type: 'USE'; readonly name: string; readonly most: number }
  | { readonly type: 'OWN'; readonly names: readonly string[] }
  /** `seen`: the number of orders that this one has known of. */
  | { readonly type: 'ORDER'; readonly seen: number }

/**
 * What an agent has for life: free uses that run out, things it owns once, and the order of its
 * memories, of which each stands on the one before.
 */
export const entitlementsMachine = setup({
  types: {} as {
    context: EntitlementsContext
    events: EntitlementsEvent
    input: EntitlementsInput
  },
  guards: {
    hasLeft: ({ context, event }) => {
      assertEvent(event, 'USE')
      return (context.used[event.name] ?? 0) < event.most
    },
    ownsNone: ({ context, event }) => {
      assertEvent(event, 'OWN')
      return event.names.every((name) => !context.owned.includes(name))
    },
    isNext: ({ context, event }) => {
      assertEvent(event, 'ORDER')
      return event.seen === context.orders
    },
  },
  actions: {
    /** Does nothing: its presence among the actions of a step is the refusal. */
    refuse: (_, _params: { code: ErrorCode }) => {},
    use: assign(({ context: { used }, event }) => {
      assertEvent(event, 'USE')
      return { used: { ...used, [event.name]: (used[event.name] ?? 0) + 1 } }
    }),
    own: assign(({ context, event }) => {
      assertEvent(event, 'OWN')
      return { owned: [...context.owned, ...event.names] }
    }),
    order: assign(({ context }) => ({ orders: context.orders + 1 })),
  },
}).createMachine({
  id: 'tally',
  context: ({ input }) => ({ ...input, used: {}, owned: [], orders: 0 }),
  initial: 'counting',
  on: {
    USE: [
      { guard: 'hasLeft', actions: 'use' },
      { actions: { type: 'refuse', params: { code: 'allowance_used' } } },
    ],
    OWN: [
      { guard: 'ownsNone', actions: 'own' },
      { actions: { type: 'refuse', params: { code: 'already_owned' } } },
    ],
    ORDER: [
      { guard: 'isNext', actions: 'order' },
      { actions: { type: 'refuse', params: { code: 'vault_changed' } } },
    ],
    '*': { actions: { type: 'refuse', params: { code: 'internal' } } },
  },
  states: { counting: {} },
})

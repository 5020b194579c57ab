import { assertEvent, assign, setup } from 'xstate'
import type { ErrorCode } from '../core/errors.ts'

/** Lifetime entitlements of an agent: free uses, owned items, memory reorganizations. */

export interface EntitlementsInput {
  readonly agentId: string
}

export interface EntitlementsContext extends EntitlementsInput {
  /** Uses of each lifetime allowance. */
  readonly used: Readonly<Record<string, number>>
  /** Items bought permanently. */
  readonly owned: readonly string[]
  /** Number of memory reorganizations. */
  readonly orders: number
}

export type EntitlementsEvent =
  | { readonly type: 'USE'; readonly name: string; readonly most: number }
  | { readonly type: 'OWN'; readonly names: readonly string[] }
  /** `seen`: the number of reorganizations that this one is based on. */
  | { readonly type: 'ORDER'; readonly seen: number }

/**
 * Lifetime entitlements of an agent: free uses, items it owns once, and reorganizations of its
 * memories, each of which must be based on the previous one.
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
    /** Does nothing. Its presence among the actions of a step means rejection. */
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

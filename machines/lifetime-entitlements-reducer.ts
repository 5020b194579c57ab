import { createReducerRejection, type Reducer } from './aggregate-reducer.ts'

/** Lifetime entitlements of an agent: free uses, owned items, memory reorganizations. */

export interface EntitlementsReducerInput {
  readonly agentId: string
}

export interface EntitlementsReducerContext extends EntitlementsReducerInput {
  /** Uses of each lifetime allowance. */
  readonly used: Readonly<Record<string, number>>
  /** Items bought permanently. */
  readonly owned: readonly string[]
  /** Number of memory reorganizations. */
  readonly orders: number
}

export type EntitlementsReducerEvent =
  | { readonly type: 'USE'; readonly name: string; readonly most: number }
  | { readonly type: 'OWN'; readonly names: readonly string[] }
  /** `seen`: the number of reorganizations that this one is based on. */
  | { readonly type: 'ORDER'; readonly seen: number }

/**
 * Lifetime entitlements of an agent: free uses, items it owns once, and reorganizations of its
 * memories, each of which must be based on the previous one. A reducer: it has no states.
 */
export const entitlementsReducer: Reducer<
  EntitlementsReducerContext,
  EntitlementsReducerEvent,
  EntitlementsReducerInput
> = {
  id: 'tally',
  initial: (input) => ({ ...input, used: {}, owned: [], orders: 0 }),
  on: {
    USE(context, { name, most }) {
      const before = context.used[name] ?? 0
      return before < most
        ? { ...context, used: { ...context.used, [name]: before + 1 } }
        : createReducerRejection('allowance_used')
    },
    OWN: (context, { names }) =>
      names.every((name) => !context.owned.includes(name))
        ? { ...context, owned: [...context.owned, ...names] }
        : createReducerRejection('already_owned'),
    ORDER: (context, { seen }) =>
      seen === context.orders
        ? { ...context, orders: context.orders + 1 }
        : createReducerRejection('vault_changed'),
  },
}

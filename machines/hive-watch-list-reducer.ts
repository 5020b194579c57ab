import { createReducerRejection, type Reducer } from './aggregate-reducer.ts'

/** The Hive watches of one agent. */

export interface HiveWatchListReducerInput {
  readonly agentId: string
  /** Maximum number of concurrent watches. */
  readonly most: number
}

export interface HiveWatchListReducerContext extends HiveWatchListReducerInput {
  /** Active watches, oldest first. */
  readonly watches: readonly string[]
}

export type HiveWatchListReducerEvent =
  | { readonly type: 'BEGIN'; readonly watchId: string }
  | { readonly type: 'END'; readonly watchId: string }

/**
 * The watches of one agent: at most `most` at once; each ends once. A reducer: it has no states.
 */
export const hiveWatchListReducer: Reducer<
  HiveWatchListReducerContext,
  HiveWatchListReducerEvent,
  HiveWatchListReducerInput
> = {
  id: 'watchList',
  initial: (input) => ({ ...input, watches: [] }),
  on: {
    BEGIN: (context, { watchId }) =>
      context.watches.length < context.most
        ? { ...context, watches: [...context.watches, watchId] }
        : createReducerRejection('limit_reached'),
    END: (context, { watchId }) =>
      context.watches.includes(watchId)
        ? { ...context, watches: context.watches.filter((id) => id !== watchId) }
        : createReducerRejection('watch_not_found'),
  },
}

import { LIMITS } from '../core/limits.ts'
import {
  addMicros,
  asMicros,
  smallerOfTwoMicros,
  subtractMicros,
  type Micros,
} from '../core/money.ts'
import {
  isTaskPassExpired,
  type OpenTaskPass,
  type TaskPassKind,
} from '../domain/prepaid-task-passes.ts'
import {
  createReducerRejection,
  type Reducer,
  type RejectedByReducer,
} from './aggregate-reducer.ts'

/** The task passes of an agent. */

export interface TaskPassesReducerInput {
  readonly agentId: string
}

export interface TaskPassesReducerContext extends TaskPassesReducerInput {
  readonly passes: Readonly<Record<string, OpenTaskPass>>
}

export type TaskPassesReducerEvent =
  | {
      readonly type: 'BUY'
      readonly passId: string
      readonly pass: TaskPassKind
      readonly price: Micros
      readonly calls: number
      readonly promo: Micros
      readonly cash: Micros
      readonly at: number
      readonly expiresAt: number | null
    }
  /** A call holds a slot while it runs. */
  | { readonly type: 'HOLD'; readonly passId: string }
  /** The call that held a slot has used it. */
  | { readonly type: 'CAPTURE'; readonly passId: string }
  /** The call that held a slot has failed. */
  | { readonly type: 'RELEASE'; readonly passId: string }
  /** A call without a hold uses a slot. */
  | { readonly type: 'USE'; readonly passId: string }
  /** The price of one slot leaves an expired pass: its call has failed. */
  | { readonly type: 'GIVE_BACK'; readonly passId: string; readonly at: number }
  /** What nobody holds of an expired pass leaves it. */
  | { readonly type: 'EXPIRE'; readonly passId: string; readonly at: number }

/** Takes money out, promotional credits first. */
function withoutMoney(pass: OpenTaskPass, amount: Micros): OpenTaskPass {
  const promo = smallerOfTwoMicros(pass.promo, amount)
  return {
    ...pass,
    promo: subtractMicros(pass.promo, promo),
    cash: subtractMicros(pass.cash, subtractMicros(amount, promo)),
  }
}

/** Replaces a pass; one without slots ends. */
function replacePass(
  context: TaskPassesReducerContext,
  passId: string,
  next: OpenTaskPass,
): TaskPassesReducerContext {
  if (next.left + next.held > 0)
    return { ...context, passes: { ...context.passes, [passId]: next } }
  const rest = Object.entries(context.passes).filter(([id]) => id !== passId)
  return { ...context, passes: Object.fromEntries(rest) }
}

function changePass(
  context: TaskPassesReducerContext,
  passId: string,
  isAllowed: (pass: OpenTaskPass) => boolean,
  change: (pass: OpenTaskPass) => OpenTaskPass,
): TaskPassesReducerContext | RejectedByReducer {
  const pass = context.passes[passId]
  if (pass === undefined || !isAllowed(pass)) return createReducerRejection('internal')
  return replacePass(context, passId, change(pass))
}

const hasLeft = ({ left }: OpenTaskPass): boolean => left > 0
const hasHeld = ({ held }: OpenTaskPass): boolean => held > 0
const useLeft = (pass: OpenTaskPass): OpenTaskPass => ({
  ...withoutMoney(pass, pass.price),
  left: pass.left - 1,
})

function buyPass(
  context: TaskPassesReducerContext,
  {
    passId,
    pass,
    price,
    calls,
    promo,
    cash,
    at,
    expiresAt,
  }: TaskPassesReducerEvent & { type: 'BUY' },
): TaskPassesReducerContext | RejectedByReducer {
  const limit = LIMITS.openTaskPasses
  if (Object.keys(context.passes).length >= limit)
    return createReducerRejection('limit_reached', { of: 'open passes', limit })
  const isKnown = Object.hasOwn(context.passes, passId)
  if (isKnown || addMicros(promo, cash) !== price * BigInt(calls))
    return createReducerRejection('internal')
  const bought = { pass, price, calls, left: calls, held: 0, promo, cash, boughtAt: at, expiresAt }
  return { ...context, passes: { ...context.passes, [passId]: bought } }
}

/**
 * The passes of an agent. A slot is used once, whatever its call has cost. Slots leave with their
 * price, promotional credits first; a pass without slots is gone. A reducer: it has no states.
 */
export const taskPassesReducer: Reducer<
  TaskPassesReducerContext,
  TaskPassesReducerEvent,
  TaskPassesReducerInput
> = {
  id: 'taskPasses',
  initial: ({ agentId }) => ({ agentId, passes: {} }),
  on: {
    BUY: buyPass,
    HOLD: (context, { passId }) =>
      changePass(context, passId, hasLeft, (pass) => ({
        ...pass,
        left: pass.left - 1,
        held: pass.held + 1,
      })),
    CAPTURE: (context, { passId }) =>
      changePass(context, passId, hasHeld, (pass) => ({
        ...withoutMoney(pass, pass.price),
        held: pass.held - 1,
      })),
    RELEASE: (context, { passId }) =>
      changePass(context, passId, hasHeld, (pass) => ({
        ...pass,
        left: pass.left + 1,
        held: pass.held - 1,
      })),
    USE: (context, { passId }) => changePass(context, passId, hasLeft, useLeft),
    GIVE_BACK: (context, { passId, at }) =>
      changePass(context, passId, (pass) => hasLeft(pass) && isTaskPassExpired(pass, at), useLeft),
    EXPIRE(context, { passId, at }) {
      const pass = context.passes[passId]
      if (pass === undefined || !isTaskPassExpired(pass, at)) return context
      const unused = asMicros(pass.price * BigInt(pass.left))
      return replacePass(context, passId, { ...withoutMoney(pass, unused), left: 0 })
    },
  },
}

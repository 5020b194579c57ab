import { DAY, HOUR } from '../core/clock.ts'
import { fromUsdc, toUsdc, type Micros } from '../core/money.ts'

/** Task passes: calls that an agent buys in advance (docs/task-passes.md). */

export const TASK_PASS_KINDS = ['micro', 'hour', 'day'] as const
export type TaskPassKind = (typeof TASK_PASS_KINDS)[number]

export interface TaskPassTerms {
  readonly name: string
  readonly price: Micros
  readonly calls: number
  /** The price divided by the calls. A pass pays only calls that cost at least this. */
  readonly pricePerCall: Micros
  /** Null for a pass that does not expire. */
  readonly lifetimeMs: number | null
}

export const TASK_PASSES: Readonly<Record<TaskPassKind, TaskPassTerms>> = {
  micro: {
    name: 'Micro',
    price: fromUsdc(1.5),
    calls: 50,
    pricePerCall: fromUsdc(0.03),
    lifetimeMs: null,
  },
  hour: {
    name: 'Hour',
    price: fromUsdc(2.5),
    calls: 100,
    pricePerCall: fromUsdc(0.025),
    lifetimeMs: HOUR,
  },
  day: {
    name: 'Day',
    price: fromUsdc(8),
    calls: 500,
    pricePerCall: fromUsdc(0.016),
    lifetimeMs: DAY,
  },
}

/** The highest list price that a pass pays (decision 235). */
export const MAX_PASS_CALL_PRICE = fromUsdc(0.05)

/** Whether a pass of this price per call pays a call of this list price. */
export const taskPassCoversListPrice = (pricePerCall: Micros, listPrice: Micros): boolean =>
  pricePerCall <= listPrice && listPrice <= MAX_PASS_CALL_PRICE

/** An open pass. `promo` and `cash` together are always `left` and `held` times the price. */
export interface OpenTaskPass {
  readonly pass: TaskPassKind
  /** Of one call. */
  readonly price: Micros
  /** Calls bought. */
  readonly calls: number
  /** Calls that it still pays. */
  readonly left: number
  /** Calls that run and hold their slot in the ledger's commits. */
  readonly held: number
  readonly promo: Micros
  readonly cash: Micros
  readonly boughtAt: number
  /** Null for a pass that does not expire. */
  readonly expiresAt: number | null
}

export const isTaskPassExpired = ({ expiresAt }: OpenTaskPass, at: number): boolean =>
  expiresAt !== null && at >= expiresAt

/** A pass as its owner sees it. */
export interface TaskPassView {
  readonly passId: string
  readonly pass: TaskPassKind
  readonly calls: number
  /** Calls that it still pays, without those that running calls hold. */
  readonly callsLeft: number
  readonly pricePerCall: Micros
  readonly expiresAt: number | null
}

/** The JSON form of a pass in balances, quotes and the `_meta` of calls. */
export interface TaskPassJson {
  readonly pass_id: string
  readonly pass: TaskPassKind
  readonly calls: number
  readonly calls_left: number
  readonly price_per_call_usdc: number
  readonly expires_at: string | null
}

export const toTaskPassJson = (view: TaskPassView): TaskPassJson => ({
  pass_id: view.passId,
  pass: view.pass,
  calls: view.calls,
  calls_left: view.callsLeft,
  price_per_call_usdc: toUsdc(view.pricePerCall),
  expires_at: view.expiresAt === null ? null : new Date(view.expiresAt).toISOString(),
})

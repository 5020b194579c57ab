import type { CommandContext, InMemoryHold } from '../actors/aggregate-command-types.ts'
import { ZERO_MICROS, type Micros } from '../core/money.ts'
import {
  isTaskPassExpired,
  taskPassCoversListPrice,
  type OpenTaskPass,
  type TaskPassView,
} from '../domain/prepaid-task-passes.ts'
import type { CallAdmissionRequest } from './agent-call-admission-request-types.ts'
import {
  agentCashAccount,
  agentPromoAccount,
  computeFreeCreditsTaken,
  taskPassAccount,
  taskPassPromoAccount,
  type DebitSource,
  type PromoCashAmounts,
} from './ledger-accounts.ts'

/** How a task pass pays a call: its slot, its price, and what leaves its account (decision 235). */

/** What a pass has paid for a call: the payers of its price, and the pass afterwards. */
export interface TaskPassPayment {
  readonly price: Micros
  readonly payers: readonly DebitSource[]
  readonly view: TaskPassView
}

const NO_PASSES: Readonly<Record<string, OpenTaskPass>> = {}

/** The open passes of the agent, by id. */
export const readOpenTaskPassesById = (
  ctx: CommandContext,
): Readonly<Record<string, OpenTaskPass>> =>
  ctx.has('taskPasses', ctx.aggregateId)
    ? ctx.snapshotOf('taskPasses', ctx.aggregateId).context.passes
    : NO_PASSES

/** Slots of a pass that running calls hold in the memory of this node. */
const slotsHeldInMemory = (ctx: CommandContext, passId: string): number =>
  ctx.inMemoryHolds.count((hold) => hold.passId === passId)

/** The soonest to expire first. */
const byExpiry = ([oneId, one]: [string, OpenTaskPass], [otherId, other]: [string, OpenTaskPass]) =>
  (one.expiresAt ?? Infinity) - (other.expiresAt ?? Infinity) || (oneId < otherId ? -1 : 1)

/** The pass with a free slot that pays a call of this price; null without one. */
function findPassFor(ctx: CommandContext, listPrice: Micros, admittedAt: number): string | null {
  const open = Object.entries(readOpenTaskPassesById(ctx)).filter(
    ([passId, pass]) =>
      !isTaskPassExpired(pass, admittedAt) &&
      taskPassCoversListPrice(pass.price, listPrice) &&
      pass.left > slotsHeldInMemory(ctx, passId),
  )
  return open.toSorted(byExpiry)[0]?.[0] ?? null
}

/**
 * The pass that pays a call to admit. Null for calls that passes do not pay, and for a call that a
 * pool has lent for.
 */
export function findTaskPassForNewCall(
  ctx: CommandContext,
  asked: CallAdmissionRequest,
): string | null {
  const { passable = false, amount, payment, lent = ZERO_MICROS, callId } = asked
  if (!passable || amount === ZERO_MICROS || payment !== null || lent > ZERO_MICROS) return null
  const { holds } = ctx.snapshotOf('agent', ctx.aggregateId).context
  return holds[callId] === undefined ? findPassFor(ctx, amount, ctx.now) : null
}

/**
 * The pass that pays a call held in memory: the one it was admitted with, else another one. Null if
 * other nodes have used every slot: then the credits pay.
 */
export function findTaskPassOfInMemoryHold(
  ctx: CommandContext,
  { passId, at, amount }: InMemoryHold,
): string | null {
  if (passId === null) return null
  const pass = readOpenTaskPassesById(ctx)[passId]
  return pass !== undefined && pass.left > 0 ? passId : findPassFor(ctx, amount, at)
}

/** Uses a slot for a call. Returns its price, which the caller books. */
export function useTaskPassCallSlot(
  ctx: CommandContext,
  passId: string,
  type: 'USE' | 'CAPTURE',
): TaskPassPayment {
  const { pass, taken } = takeMoneyFromTaskPass(ctx, passId, { type, passId })
  const payers = [
    { account: taskPassPromoAccount(passId), amount: taken.promo },
    { account: taskPassAccount(passId), amount: taken.cash },
  ]
  return { price: pass.price, payers, view: viewTaskPass(ctx, passId, pass) }
}

/** Ends the hold of a failed call. The slot is free again; of an expired pass its price is returned. */
export function releaseTaskPassCallSlot(ctx: CommandContext, passId: string, callId: string): void {
  ctx.send('taskPasses', ctx.aggregateId, { type: 'RELEASE', passId })
  refundSlotPriceOfExpiredTaskPass(ctx, passId, callId)
}

/** The price of a slot whose call has failed returns to the credits if its pass has expired. */
export function refundSlotPriceOfExpiredTaskPass(
  ctx: CommandContext,
  passId: string,
  callId: string,
): void {
  const pass = readOpenTaskPassesById(ctx)[passId]
  if (pass === undefined || pass.left === 0 || !isTaskPassExpired(pass, ctx.now)) return
  const { taken } = takeMoneyFromTaskPass(ctx, passId, { type: 'GIVE_BACK', passId, at: ctx.now })
  const agentId = ctx.aggregateId
  const ways = [
    [taskPassPromoAccount(passId), agentPromoAccount(agentId), taken.promo],
    [taskPassAccount(passId), agentCashAccount(agentId), taken.cash],
  ] as const
  for (const [debit, credit, amount] of ways)
    if (amount > ZERO_MICROS) ctx.transfer({ debit, credit, amount, kind: 'pass_back', callId })
  ctx.send('agent', agentId, { type: 'CREDIT', ...taken })
}

/** Sends an event that takes money out of a pass. */
export function takeMoneyFromTaskPass(
  ctx: CommandContext,
  passId: string,
  event: Parameters<typeof ctx.send<'taskPasses'>>[2],
): { readonly pass: OpenTaskPass; readonly taken: PromoCashAmounts } {
  const before = readOpenTaskPassesById(ctx)[passId]
  if (before === undefined) throw new Error(`no open pass ${passId}`)
  const { passes } = ctx.send('taskPasses', ctx.aggregateId, event).context
  const after = passes[passId] ?? {
    ...before,
    left: 0,
    held: 0,
    promo: ZERO_MICROS,
    cash: ZERO_MICROS,
  }
  return { pass: after, taken: computeFreeCreditsTaken(before, after) }
}

/** The passes that can still pay a call. */
export const listUsableTaskPasses = (ctx: CommandContext): TaskPassView[] =>
  Object.entries(readOpenTaskPassesById(ctx))
    .filter(([, pass]) => !isTaskPassExpired(pass, ctx.now) && pass.left > 0)
    .toSorted(byExpiry)
    .map(([passId, pass]) => viewTaskPass(ctx, passId, pass))

/** The pass as its owner sees it. */
export const viewTaskPass = (
  ctx: CommandContext,
  passId: string,
  { pass, calls, left, price, expiresAt }: OpenTaskPass,
): TaskPassView => ({
  passId,
  pass,
  calls,
  callsLeft: Math.max(0, left - slotsHeldInMemory(ctx, passId)),
  pricePerCall: price,
  expiresAt,
})

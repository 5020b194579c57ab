import type { CommandContext, InMemoryHold } from '../actors/aggregate-command-types.ts'
import { ZERO, type Micros } from '../core/money.ts'
import {
  isTaskPassExpired,
  passPaysPrice,
  type OpenTaskPass,
  type TaskPassView,
} from '../domain/task-passes.ts'
import type { CallAdmissionRequest } from './agent-call-admission-request-types.ts'
import {
  agentCashAccount,
  agentPromoAccount,
  creditsTaken,
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
export const openTaskPasses = (ctx: CommandContext): Readonly<Record<string, OpenTaskPass>> =>
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
  const open = Object.entries(openTaskPasses(ctx)).filter(
    ([passId, pass]) =>
      !isTaskPassExpired(pass, admittedAt) &&
      passPaysPrice(pass.price, listPrice) &&
      pass.left > slotsHeldInMemory(ctx, passId),
  )
  return open.toSorted(byExpiry)[0]?.[0] ?? null
}

/**
 * The pass that pays a call to admit. Null for calls that passes do not pay, and for a call that a
 * pool has lent for.
 */
export function findPayingPass(ctx: CommandContext, asked: CallAdmissionRequest): string | null {
  const { passable = false, amount, payment, lent = ZERO, callId } = asked
  if (!passable || amount === ZERO || payment !== null || lent > ZERO) return null
  const { holds } = ctx.snapshotOf('agent', ctx.aggregateId).context
  return holds[callId] === undefined ? findPassFor(ctx, amount, ctx.now) : null
}

/**
 * The pass that pays a call held in memory: the one it was admitted with, else another one. Null if
 * other nodes have used every slot: then the credits pay.
 */
export function findPassOfInMemoryHold(
  ctx: CommandContext,
  { passId, at, amount }: InMemoryHold,
): string | null {
  if (passId === null) return null
  const pass = openTaskPasses(ctx)[passId]
  return pass !== undefined && pass.left > 0 ? passId : findPassFor(ctx, amount, at)
}

/** Uses a slot for a call. Returns its price, which the caller books. */
export function usePassSlot(
  ctx: CommandContext,
  passId: string,
  type: 'USE' | 'CAPTURE',
): TaskPassPayment {
  const { pass, taken } = takePassMoney(ctx, passId, { type, passId })
  const payers = [
    { account: taskPassPromoAccount(passId), amount: taken.promo },
    { account: taskPassAccount(passId), amount: taken.cash },
  ]
  return { price: pass.price, payers, view: viewTaskPass(ctx, passId, pass) }
}

/** Ends the hold of a failed call. The slot is free again; of an expired pass its price is returned. */
export function releasePassSlot(ctx: CommandContext, passId: string, callId: string): void {
  ctx.send('taskPasses', ctx.aggregateId, { type: 'RELEASE', passId })
  returnSlotOfExpiredPass(ctx, passId, callId)
}

/** The price of a slot whose call has failed returns to the credits if its pass has expired. */
export function returnSlotOfExpiredPass(ctx: CommandContext, passId: string, callId: string): void {
  const pass = openTaskPasses(ctx)[passId]
  if (pass === undefined || pass.left === 0 || !isTaskPassExpired(pass, ctx.now)) return
  const { taken } = takePassMoney(ctx, passId, { type: 'GIVE_BACK', passId, at: ctx.now })
  const agentId = ctx.aggregateId
  const ways = [
    [taskPassPromoAccount(passId), agentPromoAccount(agentId), taken.promo],
    [taskPassAccount(passId), agentCashAccount(agentId), taken.cash],
  ] as const
  for (const [debit, credit, amount] of ways)
    if (amount > ZERO) ctx.transfer({ debit, credit, amount, kind: 'pass_back', callId })
  ctx.send('agent', agentId, { type: 'CREDIT', ...taken })
}

/** Sends an event that takes money out of a pass. */
export function takePassMoney(
  ctx: CommandContext,
  passId: string,
  event: Parameters<typeof ctx.send<'taskPasses'>>[2],
): { readonly pass: OpenTaskPass; readonly taken: PromoCashAmounts } {
  const before = openTaskPasses(ctx)[passId]
  if (before === undefined) throw new Error(`no open pass ${passId}`)
  const { passes } = ctx.send('taskPasses', ctx.aggregateId, event).context
  const after = passes[passId] ?? { ...before, left: 0, held: 0, promo: ZERO, cash: ZERO }
  return { pass: after, taken: creditsTaken(before, after) }
}

/** The passes that can still pay a call. */
export const listUsablePasses = (ctx: CommandContext): TaskPassView[] =>
  Object.entries(openTaskPasses(ctx))
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

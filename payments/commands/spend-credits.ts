import type { SpendingPermission } from '../../domain/backpack-permissions.ts'
import { ServiceError } from '../../core/errors.ts'
import type { Micros } from '../../core/money.ts'
import type { CallRow } from '../../core/commit-rows.ts'
import type { CommandContext } from '../../actors/command.ts'
import type { CallAdmission, ReservedAmounts, Spender } from '../call-admission.ts'
import { creditsTaken, type PromoCashAmounts } from '../ledger-accounts.ts'
import {
  toKeyLimits,
  toKeyReservedSpend,
  reservedByOtherCalls,
} from '../limits/reserved-amounts.ts'
import { explainRejection } from '../limits/explain-rejection.ts'
import { emitToolCallEvent } from './call-holds.ts'

/** Credits that leave the agent for somebody else: a send, a tip, the reward of a bounty. */
export interface CreditSpend {
  /** Of the transfer or the bounty; its row in the log of calls has the same. */
  readonly id: string
  /** What a Backpack has to name. */
  readonly permission: SpendingPermission
  /** At face value, a fee within it included. */
  readonly amount: Micros
  /** `cash` leaves promotional credits untouched; `any` takes them first. */
  readonly from: 'cash' | 'any'
}

/**
 * Takes an outlay from the free credits, within every limit of its spender: the Backpack it acts in
 * (list, expiry, fuse), the caps of its key, the balance. All of them count it in this commit, beside
 * what running calls hold. Returns what was promotional and what was cash. A refusal changes nothing.
 */
export function spendCredits(
  ctx: CommandContext,
  spender: Spender,
  outlay: CreditSpend,
): PromoCashAmounts {
  const { amount, from, permission } = outlay
  const under = { ...spender, taskId: null }
  const reserved = reservedByOtherCalls(ctx, under)
  const { agentId, before } = { agentId: ctx.aggregateId, before: agentCredits(ctx) }
  const limits = { ...toKeyLimits(spender.key), ...toKeyReservedSpend(reserved) }
  try {
    if (spender.backpackId !== null)
      chargeBackpack(ctx, spender.backpackId, { tool: permission, amount, reserved })
    const event = { type: 'DEBIT', amount, reserved: reserved.agent, from, at: ctx.now } as const
    ctx.send('agent', agentId, { ...event, ...limits })
  } catch (error) {
    throw explainRejection(error, ctx, toSpendAdmission(under, outlay), reserved)
  }
  if (spender.backpackId !== null) recordBackpackSpend(ctx, spender, outlay)
  return creditsTaken(before, agentCredits(ctx))
}

/** What a Backpack is asked of an amount that is spent at once, without a hold. */
export interface ImmediateBackpackCharge {
  readonly tool: string
  readonly amount: Micros
  readonly reserved: ReservedAmounts
}

/** Asks a Backpack beside what running calls hold of it, and charges it. */
export function chargeBackpack(
  ctx: CommandContext,
  backpackId: string,
  { tool, amount, reserved }: ImmediateBackpackCharge,
): void {
  if (!ctx.has('backpack', backpackId))
    throw new ServiceError('NOT_FOUND', { backpack_id: backpackId })
  ctx.notifyPagerOf(backpackId)
  const wanted = { tool, amount, at: ctx.now }
  const [reservedDay, reservedMonth] = [reserved.day, reserved.month]
  ctx.send('backpack', backpackId, { type: 'ASK', ...wanted, reservedDay, reservedMonth })
  ctx.send('backpack', backpackId, { type: 'CHARGE', ...wanted, heldAt: ctx.now })
}

const agentCredits = (ctx: CommandContext): PromoCashAmounts =>
  ctx.snapshotOf('agent', ctx.aggregateId).context

/** As a refusal explains it. */
const toSpendAdmission = (
  under: Pick<CallAdmission, 'key' | 'taskId' | 'backpackId'>,
  { id, permission, amount }: CreditSpend,
): CallAdmission => ({
  ...under,
  callId: id,
  tool: permission,
  amount,
  idempotencyKey: null,
  expiresAt: null,
  payment: null,
})

/** The spend log of a Backpack lists it and its pager hears of it; the log of tools does not know it. */
function recordBackpackSpend(
  ctx: CommandContext,
  spender: Spender,
  { id, permission, amount }: CreditSpend,
): void {
  const row = toCreditsCallRow(ctx, spender, {
    callId: id,
    operation: permission,
    tool: null,
    cost: amount,
  })
  ctx.call(row)
  emitToolCallEvent(ctx, row)
}

/** The row of something that is paid at once from the credits, and whose answer is kept elsewhere. */
export const toCreditsCallRow = (
  ctx: CommandContext,
  { key, backpackId }: Spender,
  of: Pick<CallRow, 'callId' | 'operation' | 'tool' | 'cost'>,
): CallRow => ({
  ...of,
  agentId: ctx.aggregateId,
  keyId: key?.id ?? null,
  rail: 'credits',
  status: 'ok',
  errorCode: null,
  ms: 0,
  taskId: null,
  backpackId,
  ghost: false,
  idempotencyKey: null,
  requestHash: null,
  response: null,
  at: ctx.now,
})

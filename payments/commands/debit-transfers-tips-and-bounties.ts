import type { BackpackSpendingPermissionName } from '../../domain/backpack-spending-permissions.ts'
import { ServiceError } from '../../core/errors.ts'
import type { Micros } from '../../core/money.ts'
import type { CallRow } from '../../core/aggregate-commit-row-types.ts'
import type { CommandContext } from '../../actors/aggregate-command-types.ts'
import { requireTaskInScope } from '../../actors/commands/task-session-actor-commands.ts'
import type {
  CallAdmissionRequest,
  CreditsHeldByOtherCalls,
  Spender,
} from '../agent-call-admission-request-types.ts'
import { computeFreeCreditsTaken, type PromoCashAmounts } from '../ledger-accounts.ts'
import {
  toApiKeySpendCaps,
  toKeySpendReservedInMemory,
  sumCreditsHeldByOtherCalls,
} from '../limits/credits-held-by-other-calls.ts'
import { explainSpendLimitRejection } from '../limits/explain-spend-limit-rejection.ts'
import { isAgentFrozen } from '../../actors/commands/agent-freeze-commands.ts'
import { emitToolCallEvent } from './call-holds.ts'

/** Credits an agent spends outside a tool: a transfer, a tip, a bounty reward or a purchase. */
export interface NonToolCreditSpend {
  /** Of the transfer, bounty or purchase; its row in the call log has the same id. */
  readonly id: string
  /** The permission a Backpack must list. */
  readonly permission: BackpackSpendingPermissionName
  /** The full amount, including a fee. */
  readonly amount: Micros
  /** `cash` leaves promotional credits untouched; `any` takes them first. */
  readonly from: 'cash' | 'any'
}

/**
 * Debits the free credits within every limit of the spender: the Backpack (list, expiry, fuse), the
 * task, the caps of its key and the balance, counting what running calls hold. Returns the
 * promotional and the cash part. A rejection changes nothing. A frozen agent refuses before its
 * Backpack and its task do.
 */
export function spendCredits(
  ctx: CommandContext,
  spender: Spender,
  outlay: NonToolCreditSpend,
): PromoCashAmounts {
  const { amount, from, permission } = outlay
  const reserved = sumCreditsHeldByOtherCalls(ctx, spender)
  const { agentId, before } = { agentId: ctx.aggregateId, before: agentCredits(ctx) }
  const limits = { ...toApiKeySpendCaps(spender.key), ...toKeySpendReservedInMemory(reserved) }
  try {
    if (spender.backpackId !== null && !isAgentFrozen(ctx))
      chargeBackpack(ctx, spender.backpackId, { tool: permission, amount, reserved })
    chargeTask(ctx, spender, { amount, reserved: reserved.task })
    const event = { type: 'DEBIT', amount, reserved: reserved.agent, from, at: ctx.now } as const
    ctx.send('agent', agentId, { ...event, ...limits })
  } catch (error) {
    throw explainSpendLimitRejection(error, ctx, toSpendAdmission(spender, outlay), reserved)
  }
  // The call log is where the spend of Backpacks, tasks and capped keys is counted.
  const { backpackId, taskId } = spender
  if (backpackId !== null || taskId !== null || permission === 'purchase')
    recordSpend(ctx, spender, outlay)
  return computeFreeCreditsTaken(before, agentCredits(ctx))
}

/** A Backpack charge without a prior hold. */
export interface ImmediateBackpackCharge {
  readonly tool: string
  readonly amount: Micros
  readonly reserved: CreditsHeldByOtherCalls
}

/** Charges a Backpack, counting what running calls hold of it. */
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

/** Charges the task of the spender without a prior hold, if it has one; a frozen agent refuses before it. */
export function chargeTask(
  ctx: CommandContext,
  { key, taskId }: Spender,
  cost: { readonly amount: Micros; readonly reserved: Micros },
): void {
  if (taskId === null || isAgentFrozen(ctx)) return
  requireTaskInScope(ctx, taskId, key?.backpackId)
  ctx.send('taskSession', taskId, { type: 'SPEND', ...cost })
}

const agentCredits = (ctx: CommandContext): PromoCashAmounts =>
  ctx.snapshotOf('agent', ctx.aggregateId).context

const toSpendAdmission = (
  spender: Spender,
  { id, permission, amount }: NonToolCreditSpend,
): CallAdmissionRequest => ({
  ...spender,
  callId: id,
  tool: permission,
  amount,
  idempotencyKey: null,
  expiresAt: null,
  payment: null,
})

/**
 * Records the spend in the call log, and notifies the pager of its Backpack; the tool log does not
 * list it.
 */
function recordSpend(
  ctx: CommandContext,
  spender: Spender,
  { id, permission, amount }: NonToolCreditSpend,
): void {
  const row = toImmediateChargeCallRow(ctx, spender, {
    callId: id,
    operation: permission,
    tool: null,
    cost: amount,
  })
  ctx.call(row)
  if (spender.backpackId !== null) emitToolCallEvent(ctx, row)
}

/** The call row of an immediate charge whose reply is stored elsewhere. */
export const toImmediateChargeCallRow = (
  ctx: CommandContext,
  { key, backpackId, taskId }: Spender,
  of: Pick<CallRow, 'callId' | 'operation' | 'tool' | 'cost'>,
): CallRow => ({
  ...of,
  agentId: ctx.aggregateId,
  keyId: key?.id ?? null,
  rail: 'credits',
  status: 'ok',
  errorCode: null,
  ms: 0,
  taskId,
  backpackId,
  ghost: false,
  idempotencyKey: null,
  requestHash: null,
  response: null,
  at: ctx.now,
})

import type { AggregateCommand, CommandContext } from '../../actors/aggregate-command-types.ts'
import { addMicros, type Micros } from '../../core/money.ts'
import { isAgentFrozen } from '../../actors/commands/agent-freeze-commands.ts'
import type { Spender } from '../agent-call-admission-request-types.ts'
import { agentCashAccount, agentPromoAccount, computeFreeCreditsTaken } from '../ledger-accounts.ts'
import {
  toApiKeySpendCaps,
  toKeySpendReservedInMemory,
  sumCreditsHeldByOtherCalls,
} from '../limits/credits-held-by-other-calls.ts'
import { explainSpendLimitRejection } from '../limits/explain-spend-limit-rejection.ts'
import { referrerAfterFirstDeposit, bookCallPrice } from '../price-split.ts'
import { emitToolCallEvent } from './call-holds.ts'
import {
  chargeBackpack,
  chargeTask,
  toImmediateChargeCallRow,
} from './debit-transfers-tips-and-bounties.ts'

/** A paid write that is not a tool: its price and the rows it writes. */
export interface FixedFeeWriteInput {
  readonly callId: string
  /** Its name in the call log and in the agent's spend. */
  readonly name: string
  readonly operation: string
  readonly amount: Micros
  readonly spender: Spender
  /** Whether promotional credits may reach the referrer (decision 152). */
  readonly promoTransferable: boolean
  rows(at: number): readonly { table: string; row: Record<string, unknown> }[]
}

export interface FixedFeeResult {
  readonly balance: Micros
  readonly at: number
}

/**
 * Charges a fixed price to the agent's own credits and writes the rows, in one commit. Credits that
 * running calls hold in memory are not available to it. The Backpack and the task of the request and the caps of
 * its key count it.
 */
export const chargeFixedFeeCommand: AggregateCommand<FixedFeeWriteInput, FixedFeeResult> = {
  name: 'fee.take',
  kind: 'agent',
  apply(ctx, fee) {
    const { callId, name, operation, amount, spender, promoTransferable } = fee
    const agentId = ctx.aggregateId
    const { before, after } = chargeSpender(ctx, fee)
    const { promo, cash } = computeFreeCreditsTaken(before, after)
    const payers = [
      { account: agentPromoAccount(agentId), amount: promo },
      { account: agentCashAccount(agentId), amount: cash },
    ]
    const sharing = { referrer: referrerAfterFirstDeposit(after), shares: [], promoTransferable }
    bookCallPrice(ctx, { payers, cost: amount, callId, ...sharing })
    for (const { table, row } of fee.rows(ctx.now)) ctx.row(table, row)
    const row = toImmediateChargeCallRow(ctx, spender, {
      callId,
      operation,
      tool: name,
      cost: amount,
    })
    ctx.call(row)
    if (spender.backpackId !== null) emitToolCallEvent(ctx, row)
    return { balance: addMicros(after.promo, after.cash), at: ctx.now }
  },
  note: ({ callId, name, amount }) => ({ callId, name, amount }),
}

/** Checks and charges every limit of the spender, counting what running calls hold. */
function chargeSpender(ctx: CommandContext, { callId, name, amount, spender }: FixedFeeWriteInput) {
  const agentId = ctx.aggregateId
  const { key, backpackId } = spender
  const before = ctx.snapshotOf('agent', agentId).context
  const reserved = sumCreditsHeldByOtherCalls(ctx, spender)
  const wanted = { amount, ...toApiKeySpendCaps(key), at: ctx.now }
  try {
    if (backpackId !== null && !isAgentFrozen(ctx))
      chargeBackpack(ctx, backpackId, { tool: name, amount, reserved })
    chargeTask(ctx, spender, { amount, reserved: reserved.task })
    const beside = { reserved: reserved.agent, ...toKeySpendReservedInMemory(reserved) }
    ctx.send('agent', agentId, { type: 'ASK', ...wanted, ...beside })
    const event = { type: 'CHARGE', ...wanted, heldAt: ctx.now } as const
    return { before, after: ctx.send('agent', agentId, event).context }
  } catch (error) {
    const nothing = { idempotencyKey: null, expiresAt: null, payment: null }
    throw explainSpendLimitRejection(
      error,
      ctx,
      { callId, tool: name, amount, ...spender, ...nothing },
      reserved,
    )
  }
}

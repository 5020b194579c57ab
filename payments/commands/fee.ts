import type { Command, Turn } from '../../actors/command.ts'
import { add, type Micros } from '../../core/money.ts'
import type { Spender } from '../admission.ts'
import { cashOf, promoOf, taken } from '../ledger.ts'
import { keyLimitsOf, keyReservedOf, reservedBeside } from '../limits.ts'
import { explain } from '../refusals.ts'
import { referrerOf, takePrice } from '../shares.ts'
import { tellCall } from './call-ends.ts'
import { chargeBackpack, paidRow } from './outlay.ts'

/** A paid write that is no tool: what it costs, and what it writes in the same commit. */
export interface Fee {
  readonly callId: string
  /** How it stands in the log of calls and in the spend of the agent. */
  readonly name: string
  readonly operation: string
  readonly amount: Micros
  readonly spender: Spender
  /** Whether promotional credits may reach who brought the agent (decision 152). */
  readonly promoTransferable: boolean
  rows(at: number): readonly { table: string; row: Record<string, unknown> }[]
}

export interface FeePaid {
  readonly balance: Micros
  readonly at: number
}

/**
 * Takes a fixed price from the agent's own credits and writes its rows, in one commit: never one
 * without the other. What running calls hold in memory is left to them. The Backpack the request acts
 * in and the caps of its key count it.
 */
export const feeTake: Command<Fee, FeePaid> = {
  name: 'fee.take',
  kind: 'agent',
  apply(turn, fee) {
    const { callId, name, operation, amount, spender, promoTransferable } = fee
    const agentId = turn.aggregateId
    const { before, after } = charge(turn, fee)
    const { promo, cash } = taken(before, after)
    const payers = [
      { account: promoOf(agentId), amount: promo },
      { account: cashOf(agentId), amount: cash },
    ]
    const sharing = { referrer: referrerOf(after), shares: [], promoTransferable }
    takePrice(turn, { payers, cost: amount, callId, ...sharing })
    for (const { table, row } of fee.rows(turn.now)) turn.row(table, row)
    const row = paidRow(turn, spender, { callId, operation, tool: name, cost: amount })
    turn.call(row)
    if (spender.backpackId !== null) tellCall(turn, row)
    return { balance: add(after.promo, after.cash), at: turn.now }
  },
  note: ({ callId, name, amount }) => ({ callId, name, amount }),
}

/** Asks every limit of who pays beside what running calls hold, and charges it. */
function charge(turn: Turn, { callId, name, amount, spender }: Fee) {
  const agentId = turn.aggregateId
  const { key, backpackId } = spender
  const under = { key, backpackId, taskId: null }
  const before = turn.peek('agent', agentId).context
  const reserved = reservedBeside(turn, under)
  const wanted = { amount, ...keyLimitsOf(key), at: turn.now }
  try {
    if (backpackId !== null) chargeBackpack(turn, backpackId, { tool: name, amount, reserved })
    const beside = { reserved: reserved.agent, ...keyReservedOf(reserved) }
    turn.step('agent', agentId, { type: 'ASK', ...wanted, ...beside })
    const event = { type: 'CHARGE', ...wanted, heldAt: turn.now } as const
    return { before, after: turn.step('agent', agentId, event).context }
  } catch (error) {
    const nothing = { idempotencyKey: null, expiresAt: null, payment: null }
    throw explain(error, turn, { callId, tool: name, amount, ...under, ...nothing }, reserved)
  }
}

import type { Command } from '../../actors/command.ts'
import { add, ZERO, type Micros } from '../../core/money.ts'
import type { Admission } from '../admission.ts'
import { cashOf, chargeOf, promoOf, taken } from '../ledger.ts'
import { explain } from '../refusals.ts'

/** A paid write that is no tool: what it costs, and what it writes in the same commit. */
export interface Fee {
  readonly callId: string
  /** How it stands in the log of calls and in the spend of the agent. */
  readonly name: string
  readonly operation: string
  readonly amount: Micros
  readonly key: Admission['key']
  rows(at: number): readonly { table: string; row: Record<string, unknown> }[]
}

export interface FeePaid {
  readonly balance: Micros
  readonly at: number
}

/**
 * Takes a fixed price from the agent's own credits and writes its rows, in one commit: never one
 * without the other. What running calls hold in memory is left to them.
 */
export const feeTake: Command<Fee, FeePaid> = {
  name: 'fee.take',
  kind: 'agent',
  apply(turn, fee) {
    const { callId, name, operation, amount, key } = fee
    const agentId = turn.aggregateId
    const { before, after } = charge(turn, fee)
    const { promo, cash } = taken(before, after)
    const sources = [
      { account: promoOf(agentId), amount: promo },
      { account: cashOf(agentId), amount: cash },
    ]
    for (const transfer of chargeOf(sources, amount, callId, after.referrer))
      turn.transfer(transfer)
    for (const { table, row } of fee.rows(turn.now)) turn.row(table, row)
    turn.call({
      callId,
      agentId,
      keyId: key?.id ?? null,
      operation,
      tool: name,
      rail: 'credits',
      cost: amount,
      status: 'ok',
      errorCode: null,
      ms: 0,
      taskId: null,
      backpackId: null,
      ghost: false,
      idempotencyKey: null,
      requestHash: null,
      response: null,
      at: turn.now,
    })
    return { balance: add(after.promo, after.cash), at: turn.now }
  },
  note: ({ callId, name, amount }) => ({ callId, name, amount }),
}

function charge(turn: Parameters<typeof feeTake.apply>[0], { callId, name, amount, key }: Fee) {
  const agentId = turn.aggregateId
  const before = turn.peek('agent', agentId).context
  const ofKey = key?.cap == null ? ZERO : turn.soft.sum((hold) => hold.keyId === key.id)
  const reserved = { agent: turn.soft.total, key: ofKey, task: ZERO, day: ZERO, month: ZERO }
  const limits = { amount, keyId: key?.id ?? null, keyCap: key?.cap ?? null }
  try {
    turn.step('agent', agentId, {
      type: 'ASK',
      ...limits,
      reserved: reserved.agent,
      keyReserved: reserved.key,
      at: turn.now,
    })
    const after = turn.step('agent', agentId, { type: 'CHARGE', ...limits }).context
    return { before, after }
  } catch (error) {
    const nothing = { taskId: null, backpackId: null, idempotencyKey: null, expiresAt: null }
    const asked = { callId, tool: name, amount, key, ...nothing, payment: null }
    throw explain(error, turn, asked, reserved)
  }
}

import type { AggregateCommand } from '../../../actors/aggregate-command-types.ts'
import { ServiceError } from '../../../core/errors.ts'
import { asMicros, ZERO_MICROS } from '../../../core/money.ts'
import { MIN_DEPOSIT } from '../../../domain/pricing.ts'
import {
  applyDepositMessage,
  applyReversedDepositMessage,
} from '../../../payments/commands/agent-deposit-inbox-messages.ts'
import {
  agentCashAccount,
  agentSubMinimumDepositsAccount,
  agentPromoAccount,
  externalChainAccount,
  taskPassAccount,
  taskPassPromoAccount,
} from '../../../payments/ledger-accounts.ts'
import { spendCredits } from '../../../payments/commands/debit-transfers-tips-and-bounties.ts'
import { readOpenTaskPassesById } from '../../../payments/task-pass-payment.ts'

/** Credits cash to an agent, because the model has no deposits. */
export const creditTestCash: AggregateCommand<bigint, void> = {
  name: 'test.deposit',
  kind: 'agent',
  apply(turn, amount) {
    const cash = asMicros(amount)
    turn.send('agent', turn.aggregateId, { type: 'CREDIT', promo: ZERO_MICROS, cash })
    const pending = agentSubMinimumDepositsAccount(turn.aggregateId)
    turn.transfer({ debit: 'world:test', credit: pending, amount: cash, kind: 'deposit' })
    const credit = agentCashAccount(turn.aggregateId)
    turn.transfer({ debit: pending, credit, amount: cash, kind: 'topup' })
  },
}

export const LEDGER_MODEL_TASK_PASS = { price: 30n, calls: 1 } as const

/** Buys a pass of one call, small enough for the amounts of the model. One at a time. */
export const buyLedgerModelTaskPass: AggregateCommand<object, void> = {
  name: 'test.pass',
  kind: 'agent',
  apply(turn) {
    const [agentId, passId] = [turn.aggregateId, turn.newId()]
    if (Object.keys(readOpenTaskPassesById(turn)).length > 0)
      throw new ServiceError('limit_reached')
    const { calls } = LEDGER_MODEL_TASK_PASS
    const [price, amount] = [
      LEDGER_MODEL_TASK_PASS.price,
      LEDGER_MODEL_TASK_PASS.price * BigInt(calls),
    ].map(asMicros)
    if (price === undefined || amount === undefined) return
    const outlay = { id: passId, permission: 'purchase', amount, from: 'any' } as const
    const { promo, cash } = spendCredits(
      turn,
      { key: null, backpackId: null, taskId: null },
      outlay,
    )
    if (!turn.has('taskPasses', agentId)) turn.create('taskPasses', agentId, { agentId })
    const terms = { passId, pass: 'micro', price, calls, at: turn.now, expiresAt: null } as const
    turn.send('taskPasses', agentId, { type: 'BUY', ...terms, promo, cash })
    const ways = [
      [agentPromoAccount(agentId), taskPassPromoAccount(passId), promo],
      [agentCashAccount(agentId), taskPassAccount(passId), cash],
    ] as const
    for (const [debit, credit, part] of ways)
      if (part > ZERO_MICROS)
        turn.transfer({ debit, credit, amount: part, kind: 'pass', callId: passId })
    turn.row('task_passes', {
      ...{ pass_id: passId, agent_id: agentId, pass: 'micro', calls, expires_at: null },
      ...{ price_micros: String(price), promo_micros: String(promo), cash_micros: String(cash) },
      bought_at: new Date(turn.now).toISOString(),
    })
  },
}

/** A first deposit reverted at once: no money remains, and the agent is activated. */
export const activateTestAgentByReversedDeposit: AggregateCommand<object, void> = {
  name: 'test.activate',
  kind: 'agent',
  apply(turn) {
    const [id, amount, chain] = [turn.newId(), MIN_DEPOSIT, 'base'] as const
    const pending = agentSubMinimumDepositsAccount(turn.aggregateId)
    turn.transfer({ debit: externalChainAccount(chain), credit: pending, amount, kind: 'deposit' })
    const where = { id, chain, tx: null, source: 'deposit' } as const
    applyDepositMessage(turn, {
      ...{ type: 'DEPOSIT', pending: amount, bonusLeft: ZERO_MICROS },
      ...where,
    })
    applyReversedDepositMessage(turn, { type: 'UNDO_DEPOSIT', amount, ...where })
  },
}

import type { AggregateCommand } from '../../../actors/aggregate-command-types.ts'
import { micros, ZERO } from '../../../core/money.ts'
import { MIN_DEPOSIT } from '../../../domain/pricing.ts'
import {
  applyDepositMessage,
  applyReversedDepositMessage,
} from '../../../payments/commands/agent-deposit-messages.ts'
import {
  agentCashAccount,
  agentPendingAccount,
  externalChainAccount,
} from '../../../payments/ledger-accounts.ts'

/** Credits cash to an agent, because the model has no deposits. */
export const creditTestCash: AggregateCommand<bigint, void> = {
  name: 'test.deposit',
  kind: 'agent',
  apply(turn, amount) {
    const cash = micros(amount)
    turn.send('agent', turn.aggregateId, { type: 'CREDIT', promo: ZERO, cash })
    const pending = agentPendingAccount(turn.aggregateId)
    turn.transfer({ debit: 'world:test', credit: pending, amount: cash, kind: 'deposit' })
    const credit = agentCashAccount(turn.aggregateId)
    turn.transfer({ debit: pending, credit, amount: cash, kind: 'topup' })
  },
}

/** A first deposit reverted at once: no money remains, and the agent is activated. */
export const activateByReversedDeposit: AggregateCommand<object, void> = {
  name: 'test.activate',
  kind: 'agent',
  apply(turn) {
    const [id, amount, chain] = [turn.newId(), MIN_DEPOSIT, 'base'] as const
    const pending = agentPendingAccount(turn.aggregateId)
    turn.transfer({ debit: externalChainAccount(chain), credit: pending, amount, kind: 'deposit' })
    const where = { id, chain, tx: null, source: 'deposit' } as const
    applyDepositMessage(turn, { type: 'DEPOSIT', pending: amount, ...where })
    applyReversedDepositMessage(turn, { type: 'UNDO_DEPOSIT', amount, ...where })
  },
}

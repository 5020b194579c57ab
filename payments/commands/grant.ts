import { resumeSchedules } from '../../actors/commands/schedules.ts'
import type { Command } from '../../actors/command.ts'
import { add, toUsdc, ZERO, type Micros } from '../../core/money.ts'
import { stagedGrant, type Grant } from '../../persistence/grants.ts'
import { GRANTS, promoOf } from '../ledger.ts'

/** Promotional credits that the operator gives an agent; `at` is the commit's to say. */
export type NewGrant = Omit<Grant, 'agentId' | 'at'>

/**
 * Credits a grant and writes it down, with its note, in one commit. A grant id counts once: the commit
 * of a second one is refused by its row (`isTaken(error, 'operator_grants')`).
 */
export const grantGive: Command<NewGrant, { balance: Micros }> = {
  name: 'grant.give',
  kind: 'agent',
  apply(turn, { grantId, amount, note, grantedBy }) {
    const agentId = turn.aggregateId
    const { context } = turn.step('agent', agentId, { type: 'CREDIT', promo: amount, cash: ZERO })
    turn.transfer({
      debit: GRANTS,
      credit: promoOf(agentId),
      amount,
      kind: 'grant',
      callId: grantId,
      memo: note,
    })
    const at = new Date(turn.now)
    turn.row('operator_grants', stagedGrant({ grantId, agentId, amount, note, grantedBy, at }))
    const told = { source: 'grant', amount_usdc: toUsdc(amount), grant_id: grantId, note }
    turn.event({ type: 'topup', to: agentId, data: told })
    resumeSchedules(turn)
    return { balance: add(context.promo, context.cash) }
  },
  note: ({ grantId, amount, grantedBy }) => ({ grantId, amount, grantedBy }),
}

import { HOUR } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import { toUsdc, ZERO, type Micros } from '../../core/money.ts'
import { DROP_CREDIT } from '../../core/prices.ts'
import type { Command, Turn } from '../../actors/command.ts'
import { stagedDrop } from '../../persistence/drops.ts'
import { GRANTS, promoOf } from '../ledger.ts'

/** A radio drop as anybody may see it. */
export interface DropView {
  readonly code: string
  readonly slots: number
  readonly left: number
  readonly credit: Micros
  readonly open: boolean
  readonly expiresAt: number
}

/** A new drop; its aggregate is named by its code. */
export const dropOpen: Command<Record<string, never>, DropView> = {
  name: 'drop.open',
  kind: 'drop',
  creates: true,
  apply(turn) {
    const [code, slots, credit] = [turn.aggregateId, LIMITS.dropSlots, DROP_CREDIT]
    const expiresAt = turn.now + LIMITS.dropHours * HOUR
    turn.create('drop', code, { code, slots, credit, at: turn.now, expiresAt })
    turn.row('drops', stagedDrop({ code, openedAt: turn.now, expiresAt }))
    return view(turn)
  },
}

/** Takes a slot for an agent, and leaves the credits in its inbox in the same commit. */
export const dropRedeem: Command<{ agentId: string }, { credit: Micros }> = {
  name: 'drop.redeem',
  kind: 'drop',
  apply(turn, { agentId }) {
    const code = turn.aggregateId
    const { context } = turn.step('drop', code, { type: 'REDEEM', agentId, at: turn.now })
    const { credit } = context
    turn.transfer({
      debit: GRANTS,
      credit: promoOf(agentId),
      amount: credit,
      kind: 'drop',
      memo: code,
    })
    turn.inbox({
      receiver: agentId,
      receiverKind: 'agent',
      id: `drop:${code}`,
      event: { type: 'CREDIT', promo: credit, cash: ZERO },
    })
    turn.event({
      type: 'topup',
      to: agentId,
      data: { source: 'drop', amount_usdc: toUsdc(credit), code },
    })
    return { credit }
  },
  note: ({ agentId }) => ({ agentId }),
}

export const dropGet: Command<Record<string, never>, DropView> = {
  name: 'drop.get',
  kind: 'drop',
  apply: view,
}

function view(turn: Turn): DropView {
  const { value, context } = turn.peek('drop', turn.aggregateId)
  const { code, slots, credit, expiresAt, redeemers } = context
  const open = value === 'open' && turn.now < expiresAt
  return { code, slots, left: slots - redeemers.length, credit, open, expiresAt }
}

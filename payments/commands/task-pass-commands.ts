import type { AggregateCommand } from '../../actors/aggregate-command-types.ts'
import { LIMITS } from '../../core/limits.ts'
import { addMicros, ZERO_MICROS, type Micros } from '../../core/money.ts'
import {
  TASK_PASSES,
  type TaskPassKind,
  type TaskPassView,
} from '../../domain/prepaid-task-passes.ts'
import type { Spender } from '../agent-call-admission-request-types.ts'
import {
  agentCashAccount,
  agentPromoAccount,
  PLATFORM_TOOLS_ACCOUNT,
  taskPassAccount,
  taskPassPromoAccount,
  type PromoCashAmounts,
} from '../ledger-accounts.ts'
import {
  readOpenTaskPassesById,
  takeMoneyFromTaskPass,
  viewTaskPass,
} from '../task-pass-payment.ts'
import { spendCredits } from './debit-transfers-tips-and-bounties.ts'

/** Commands that sell a task pass and end it (decisions 235 to 238). */

/** Calls admitted before the expiry may run this long after it. */
const EXPIRY_GRACE_MS = LIMITS.toolDeadlineMs + LIMITS.settleWaitMs + LIMITS.holdGraceMs

export interface BoughtTaskPass extends PromoCashAmounts {
  readonly view: TaskPassView
  readonly price: Micros
  readonly boughtAt: number
  /** The agent's remaining credits. */
  readonly balance: Micros
}

/**
 * Moves the price of a pass from the free credits, promotional ones first, to the account of the
 * pass. The limits of the spender count the price. Throws `payment_required`, or `limit_reached` if
 * the agent has too many open passes.
 */
export const buyTaskPassCommand: AggregateCommand<
  { readonly pass: TaskPassKind; readonly spender: Spender },
  BoughtTaskPass
> = {
  name: 'pass.buy',
  kind: 'agent',
  apply(ctx, { pass, spender }) {
    const [agentId, passId] = [ctx.aggregateId, ctx.newId()]
    const { price, calls, pricePerCall, lifetimeMs } = TASK_PASSES[pass]
    const outlay = { id: passId, permission: 'purchase', amount: price } as const
    const { promo, cash } = spendCredits(ctx, spender, { ...outlay, from: 'any' })
    const expiresAt = lifetimeMs === null ? null : ctx.now + lifetimeMs
    if (!ctx.has('taskPasses', agentId)) ctx.create('taskPasses', agentId, { agentId })
    const terms = { passId, pass, price: pricePerCall, calls, expiresAt, at: ctx.now }
    ctx.send('taskPasses', agentId, { type: 'BUY', ...terms, promo, cash })
    const ways = [
      [agentPromoAccount(agentId), taskPassPromoAccount(passId), promo],
      [agentCashAccount(agentId), taskPassAccount(passId), cash],
    ] as const
    for (const [debit, credit, amount] of ways)
      if (amount > ZERO_MICROS)
        ctx.transfer({ debit, credit, amount, kind: 'pass', callId: passId })
    ctx.row('task_passes', {
      pass_id: passId,
      agent_id: agentId,
      pass,
      calls,
      price_micros: String(pricePerCall),
      promo_micros: String(promo),
      cash_micros: String(cash),
      bought_at: new Date(ctx.now).toISOString(),
      expires_at: expiresAt === null ? null : new Date(expiresAt).toISOString(),
    })
    if (expiresAt !== null) {
      ctx.timer({
        id: passTimerId(passId),
        dueAt: expiresAt + EXPIRY_GRACE_MS,
        command: expireTaskPassCommand.name,
        input: { passId },
      })
    }
    const bought = readOpenTaskPassesById(ctx)[passId]
    if (bought === undefined) throw new Error('the pass was not bought')
    const left = ctx.snapshotOf('agent', agentId).context
    return {
      view: viewTaskPass(ctx, passId, bought),
      ...{ promo, cash, price, boughtAt: ctx.now },
      balance: addMicros(left.promo, left.cash),
    }
  },
  note: ({ pass }) => ({ pass }),
}

const passTimerId = (passId: string) => `pass:${passId}`

/**
 * Ends an expired pass once no call that it was admitted for can run: what is left belongs to the
 * platform. A slot that is held nevertheless keeps its price.
 */
export const expireTaskPassCommand: AggregateCommand<{ readonly passId: string }, void> = {
  name: 'pass.expire',
  kind: 'agent',
  apply(ctx, { passId }) {
    const pass = readOpenTaskPassesById(ctx)[passId]
    // By this node's clock it may be too early: the timer stays.
    if (pass?.expiresAt !== undefined && ctx.now < (pass.expiresAt ?? Infinity)) return
    ctx.cancelTimer(passTimerId(passId))
    if (pass === undefined) return
    const { taken } = takeMoneyFromTaskPass(ctx, passId, { type: 'EXPIRE', passId, at: ctx.now })
    const ways = [
      [taskPassPromoAccount(passId), taken.promo],
      [taskPassAccount(passId), taken.cash],
    ] as const
    for (const [debit, amount] of ways) {
      if (amount === ZERO_MICROS) continue
      const moved = { debit, credit: PLATFORM_TOOLS_ACCOUNT, amount }
      ctx.transfer({ ...moved, kind: 'breakage' })
    }
  },
  note: ({ passId }) => ({ passId }),
}

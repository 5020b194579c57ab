import type { CommandContext } from '../../actors/aggregate-command-types.ts'
import { ServiceError, type ErrorCode } from '../../core/errors.ts'
import { smallerOfTwoMicros, subtractMicros, toUsdc } from '../../core/money.ts'
import type { Spender } from '../agent-call-admission-request-types.ts'
import type { PromoCashAmounts } from '../ledger-accounts.ts'
import { spendCredits, type NonToolCreditSpend } from './debit-transfers-tips-and-bounties.ts'

/** Spending that reaches another agent: bounties and listings. */

/** A spend, and the sentence for a caller whose promotional credits do not count. */
export interface CreditsOrCashSpend extends NonToolCreditSpend {
  readonly cashOnly: string
}

/**
 * Debits the credits. If only cash counts and is short, more money helps: throws a 402 with the
 * missing amount, `cash_required` for an agent whose promotional credits would have sufficed.
 */
export function spendCreditsOrCash(
  ctx: CommandContext,
  spender: Spender,
  { cashOnly, ...outlay }: CreditsOrCashSpend,
): PromoCashAmounts {
  const { promo, cash } = ctx.snapshotOf('agent', ctx.aggregateId).context
  const reserved = subtractMicros(
    ctx.inMemoryHolds.total,
    smallerOfTwoMicros(ctx.inMemoryHolds.total, promo),
  )
  const usable = subtractMicros(cash, smallerOfTwoMicros(cash, reserved))
  try {
    return spendCredits(ctx, spender, outlay)
  } catch (error) {
    const code = error instanceof ServiceError ? SHORTAGES.get(error.code) : undefined
    if (outlay.from === 'any' || code === undefined || !(error instanceof ServiceError)) throw error
    throw new ServiceError(code, {
      ...error.details,
      limit_source: 'balance',
      needed_usdc: toUsdc(outlay.amount),
      detail: cashOnly,
      promo_not_transferable: true,
      cash_usdc: toUsdc(cash),
      promo_usdc: toUsdc(promo),
      missing_usdc: toUsdc(
        subtractMicros(outlay.amount, smallerOfTwoMicros(usable, outlay.amount)),
      ),
    })
  }
}

/** Rejections for too few credits; others are spending limits. */
const SHORTAGES: ReadonlyMap<ErrorCode, ErrorCode> = new Map([
  ['payment_required', 'payment_required'],
  ['promo_not_transferable', 'cash_required'],
])

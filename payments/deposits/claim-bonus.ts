import type { CommandContext } from '../../actors/aggregate-command-types.ts'
import { ZERO_MICROS, type Micros } from '../../core/money.ts'
import { DAILY_BONUS_LIMIT, OWNER_BONUS_LIMIT } from '../../domain/pricing.ts'

/**
 * Stages that the owner of this agent or fleet has its bonus. The commit is refused if it has had one, or if the day
 * has no more (decision 385).
 */
export function claimDepositBonus(ctx: CommandContext, bonus: Micros): void {
  if (bonus === ZERO_MICROS) return
  ctx.row('deposit_bonuses', {
    receiver: ctx.aggregateId,
    amount_micros: bonus.toString(),
    owner_limit_micros: OWNER_BONUS_LIMIT.toString(),
    day_limit_micros: DAILY_BONUS_LIMIT.toString(),
    at: new Date(ctx.now).toISOString(),
  })
}

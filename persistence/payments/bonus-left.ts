import { asMicros } from '../../core/money.ts'
import { DAILY_BONUS_LIMIT, OWNER_BONUS_LIMIT, type BonusLeft } from '../../domain/pricing.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** What the owner of an agent or a fleet and the day leave for the bonus of a first deposit (decision 385). */
export async function readBonusLeft(sql: Sql, receiver: string): Promise<BonusLeft> {
  const [row] = await sql<{ left: bigint | null }[]>`
    select deposit_bonus_left(${receiver}, ${OWNER_BONUS_LIMIT}, ${DAILY_BONUS_LIMIT}) as left`
  const left = row?.left ?? null
  return left === null ? null : asMicros(left)
}

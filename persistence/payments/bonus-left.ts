import { asMicros, type Micros } from '../../core/money.ts'
import { DAILY_BONUS_LIMIT } from '../../domain/pricing.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** What the owner of an agent or a fleet and the day leave for the bonus of a first deposit (decision 385). */
export async function readBonusLeft(sql: Sql, receiver: string): Promise<Micros> {
  const [row] = await sql<{ left: bigint }[]>`
    select deposit_bonus_left(${receiver}, ${DAILY_BONUS_LIMIT}) as left`
  return asMicros(row?.left ?? 0n)
}

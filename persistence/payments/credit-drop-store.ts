import type { Sql } from '../start-postgres-and-redis.ts'

/** Radio drops. */

export interface CreditDropListing {
  readonly code: string
  readonly openedAt: Date
  readonly expiresAt: Date
}

/** Row of a new drop, as a command stages it with `ctx.row`; times in milliseconds. */
export const toCreditDropRow = (drop: { code: string; openedAt: number; expiresAt: number }) => ({
  code: drop.code,
  opened_at: new Date(drop.openedAt).toISOString(),
  expires_at: new Date(drop.expiresAt).toISOString(),
})

/** Reads drops; a drop's aggregate holds its remaining slots. */
export function createCreditDropStore(sql: Sql) {
  return {
    async has(code: string): Promise<boolean> {
      const [row] = await sql`select from drops where code = ${code}`
      return row !== undefined
    },

    /** Newest first. */
    async latest(limit: number): Promise<CreditDropListing[]> {
      const rows = await sql<DropRow[]>`
        select code, opened_at, expires_at from drops order by opened_at desc, code limit ${limit}`
      return rows.map(fromRow)
    },
  }
}
export type CreditDropStore = ReturnType<typeof createCreditDropStore>

interface DropRow {
  code: string
  opened_at: Date
  expires_at: Date
}

const fromRow = (row: DropRow): CreditDropListing => ({
  code: row.code,
  openedAt: row.opened_at,
  expiresAt: row.expires_at,
})

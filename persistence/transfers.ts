import { micros, type Micros } from '../core/money.ts'
import type { Sql } from './plane.ts'

export interface Movement {
  readonly id: string
  readonly direction: 'sent' | 'received'
  readonly kind: string
  /** The other agent, or null when a platform account is on the other side. */
  readonly otherAgentId: string | null
  readonly amount: Micros
  readonly memo: string | null
  readonly at: Date
}

/** Reads over the ledger. Writes are the commit's. */
export function transferStore(sql: Sql) {
  return {
    /**
     * Sends and tips of an agent, newest first; `after` is the position of the last one seen. The
     * fee of a tip is a movement of its own under the same id.
     */
    async movementsOf(agentId: string, limit: number, after: string | null): Promise<Movement[]> {
      const mine = accountsOf(agentId)
      const [id = null, kind = null] = after?.split(' ') ?? []
      const next = sql`(${id}::uuid is null or call_id < ${id}::uuid
        or (call_id = ${id}::uuid and kind > ${kind}::text))`
      // A payment may take promotional credits and cash: two rows of one call_id, one movement.
      const rows = await sql<MovementRow[]>`
        select call_id as id, min(debit) as debit, min(credit) as credit, kind,
               sum(amount_micros)::bigint as amount_micros, min(memo) as memo, min(at) as at from (
          (select * from transfers where debit = any(${mine}) and kind in ('send', 'tip', 'tip_fee')
              and ${next} order by call_id desc, kind limit ${2 * limit})
          union all
          (select * from transfers where credit = any(${mine}) and kind in ('send', 'tip')
              and ${next} order by call_id desc, kind limit ${2 * limit})
        ) both_ways group by call_id, kind order by call_id desc, kind limit ${limit}`
      return rows.map((row) => fromRow(row, mine))
    },

    /** What an agent sent (fees included) and received by transfers and tips, in all. */
    async totalsOf(agentId: string): Promise<{ sent: Micros; received: Micros }> {
      const mine = accountsOf(agentId)
      const [row] = await sql<{ sent: bigint; received: bigint }[]>`
        select (select coalesce(sum(amount_micros), 0)::bigint from transfers
                 where debit = any(${mine}) and kind in ('send', 'tip', 'tip_fee')) as sent,
               (select coalesce(sum(amount_micros), 0)::bigint from transfers
                 where credit = any(${mine}) and kind in ('send', 'tip')) as received`
      return { sent: micros(row?.sent ?? 0n), received: micros(row?.received ?? 0n) }
    },
  }
}
/** Where a movement stands in the list. */
export const positionOf = ({ id, kind }: Movement): string => `${id} ${kind}`

export type TransferStore = ReturnType<typeof transferStore>

const accountsOf = (agentId: string) => [`agent:${agentId}:promo`, `agent:${agentId}:cash`]

interface MovementRow {
  id: string
  debit: string
  credit: string
  kind: string
  amount_micros: bigint
  memo: string | null
  at: Date
}

function fromRow(row: MovementRow, mine: string[]): Movement {
  const sent = mine.includes(row.debit)
  const other = /^agent:(.+):\w+$/.exec(sent ? row.credit : row.debit)?.[1] ?? null
  return {
    id: row.id,
    direction: sent ? 'sent' : 'received',
    kind: row.kind,
    otherAgentId: other,
    amount: micros(row.amount_micros),
    memo: row.memo,
    at: row.at,
  }
}

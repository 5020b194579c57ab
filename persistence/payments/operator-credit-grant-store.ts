import { asMicros, type Micros } from '../../core/money.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Promotional credits that the operator gave an agent: the audit record of `gas grant`. */
export interface OperatorCreditGrantRecord {
  readonly grantId: string
  readonly agentId: string
  readonly amount: Micros
  readonly note: string
  /** The command and the operating system user who ran it. */
  readonly grantedBy: string
  readonly at: Date
}

/** Row of a grant, as a command stages it with `ctx.row`. */
export const toOperatorCreditGrantRow = (grant: OperatorCreditGrantRecord) => ({
  grant_id: grant.grantId,
  agent_id: grant.agentId,
  amount_micros: grant.amount.toString(),
  note: grant.note,
  granted_by: grant.grantedBy,
  at: grant.at.toISOString(),
})

export function createOperatorCreditGrantStore(sql: Sql) {
  return {
    async find(grantId: string): Promise<OperatorCreditGrantRecord | null> {
      const [row] = await sql<GrantRow[]>`select * from operator_grants where grant_id = ${grantId}`
      return row === undefined ? null : fromRow(row)
    },
  }
}

interface GrantRow {
  grant_id: string
  agent_id: string
  amount_micros: bigint
  note: string
  granted_by: string
  at: Date
}

const fromRow = (row: GrantRow): OperatorCreditGrantRecord => ({
  grantId: row.grant_id,
  agentId: row.agent_id,
  amount: asMicros(row.amount_micros),
  note: row.note,
  grantedBy: row.granted_by,
  at: row.at,
})

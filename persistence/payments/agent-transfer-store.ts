import { minUuidV7At, uuidV7Timestamp } from '../../core/ids-and-api-keys.ts'
import { addMicros, asMicros, ZERO_MICROS, type Micros } from '../../core/money.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** A transfer or a tip between two agents, from the view of one of them. */
export interface AgentTransferRecord {
  readonly id: string
  readonly direction: 'sent' | 'received'
  readonly kind: 'send' | 'tip'
  /** The agent on the other side. */
  readonly otherAgentId: string | null
  /** The amount the payer paid. */
  readonly amount: Micros
  /** The part that went to the treasury. */
  readonly fee: Micros
  /** The part that the recipient got. */
  readonly received: Micros
  readonly memo: string | null
  readonly at: Date
}

/** A transfer has a row for each part of an account, and so has its fee. */
const MAX_ROWS_PER_TRANSFER = 4
/**
 * Ids that other nodes drew within the same milliseconds may be between the rows of one transfer.
 */
const INTERLEAVED_ROW_MARGIN = 32
/** The ids of one transfer are drawn within one turn, much faster than this. */
export const MAX_TRANSFER_ID_SPREAD_MS = 5

/** The agent, or one of its Backpacks, whose transfers are read. */
export interface AgentOrBackpackTransferScope {
  readonly agentId: string
  readonly backpackId: string | null
}

/** Reads transfers from the ledger. Commits write them. */
export function createAgentTransferStore(sql: Sql) {
  /** What an agent paid in a Backpack has a row of the same id in the call log. */
  const within = (agentId: string, backpackId: string | null) =>
    backpackId === null
      ? sql`true`
      : sql`call_id in (select c.call_id from calls c
                         where c.backpack_id = ${backpackId} and c.owner = ${agentId})`

  return {
    /**
     * Transfers and tips of an agent, newest first, each once; `before` is the id of the last one
     * seen. For a Backpack: what was sent in it.
     */
    async movementsOf(
      { agentId, backpackId }: AgentOrBackpackTransferScope,
      limit: number,
      before: string | null,
    ): Promise<AgentTransferRecord[]> {
      const mine = creditAccounts(agentId)
      const ours = within(agentId, backpackId)
      const [end, most] = [
        before ?? MAX_UUID,
        MAX_ROWS_PER_TRANSFER * limit + INTERLEAVED_ROW_MARGIN,
      ]
      const bound =
        before === null
          ? MAX_UUID
          : minUuidV7At(uuidV7Timestamp(before) + MAX_TRANSFER_ID_SPREAD_MS)
      const rows = await sql<AgentTransferRow[]>`
        with seen as (
          (select call_id, owner from ledger where debit = any(${mine})
              and kind in ('send', 'tip', 'tip_fee') and id < ${bound}::uuid and call_id < ${end}::uuid
              and ${ours}
            order by id desc limit ${most})
          union all
          (select call_id, owner from ledger where credit = any(${mine})
              and credit like 'agent:%' and split_part(credit, ':', 2) <> owner
              and kind in ('send', 'tip') and id < ${bound}::uuid and call_id < ${end}::uuid
              and ${ours}
            order by id desc limit ${most})),
        chosen as (select distinct call_id, owner from seen order by call_id desc limit ${limit})
        select c.call_id as id, c.owner, t.debit, t.credit, t.kind, t.amount_micros, t.memo, t.at
          from chosen c join ledger t on t.owner = c.owner and t.call_id = c.call_id
           and t.id > c.call_id and t.kind in ('send', 'tip', 'tip_fee')
           and t.id < (lpad(to_hex(('x' || left(replace(c.call_id::text, '-', ''), 12))::bit(48)::bigint
             + ${MAX_TRANSFER_ID_SPREAD_MS}), 12, '0') || repeat('0', 20))::uuid
         order by c.call_id desc, t.id`
      return groupTransferRows(rows, agentId)
    },

    /** An agent's total sent (fees included) and received by transfers and tips. */
    async totalsOf({
      agentId,
      backpackId,
    }: AgentOrBackpackTransferScope): Promise<{ sent: Micros; received: Micros }> {
      const mine = creditAccounts(agentId)
      const ours = within(agentId, backpackId)
      const [row] = await sql<{ sent: bigint; received: bigint }[]>`
        select (select coalesce(sum(amount_micros), 0)::bigint from ledger
                 where debit = any(${mine}) and kind in ('send', 'tip', 'tip_fee') and ${ours}) as sent,
               (select coalesce(sum(amount_micros), 0)::bigint from ledger
                 where credit = any(${mine}) and kind in ('send', 'tip')
                   and credit like 'agent:%' and split_part(credit, ':', 2) <> owner and ${ours}) as received`
      return { sent: asMicros(row?.sent ?? 0n), received: asMicros(row?.received ?? 0n) }
    },
  }
}
export type AgentTransferStore = ReturnType<typeof createAgentTransferStore>

/** Greater than all ids. */
export const MAX_UUID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

const creditAccounts = (agentId: string) => [`agent:${agentId}:promo`, `agent:${agentId}:cash`]

interface AgentTransferRow {
  id: string
  owner: string
  debit: string
  credit: string
  kind: 'send' | 'tip' | 'tip_fee'
  amount_micros: bigint
  memo: string | null
  at: Date
}

/** Combines the rows of each transfer; they are adjacent. */
function groupTransferRows(
  rows: readonly AgentTransferRow[],
  agentId: string,
): AgentTransferRecord[] {
  const movements = new Map<string, AgentTransferRecord>()
  for (const row of rows) {
    const before = movements.get(row.id) ?? toEmptyTransfer(row, agentId)
    const amount = asMicros(row.amount_micros)
    const isFee = row.kind === 'tip_fee'
    movements.set(row.id, {
      ...before,
      amount: addMicros(before.amount, amount),
      fee: isFee ? addMicros(before.fee, amount) : before.fee,
      received: isFee ? before.received : addMicros(before.received, amount),
      otherAgentId: isFee ? before.otherAgentId : findOtherAgent(row, agentId),
    })
  }
  return [...movements.values()]
}

const toEmptyTransfer = (row: AgentTransferRow, agentId: string): AgentTransferRecord => ({
  id: row.id,
  direction: row.owner === agentId ? 'sent' : 'received',
  kind: row.kind === 'send' ? 'send' : 'tip',
  otherAgentId: null,
  amount: ZERO_MICROS,
  fee: ZERO_MICROS,
  received: ZERO_MICROS,
  memo: row.memo,
  at: row.at,
})

const findOtherAgent = (
  { owner, debit, credit }: AgentTransferRow,
  agentId: string,
): string | null => /^agent:(.+):\w+$/.exec(owner === agentId ? credit : debit)?.[1] ?? null

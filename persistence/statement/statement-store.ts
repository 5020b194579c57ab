import { minUuidV7At, uuidV7Timestamp } from '../../core/ids.ts'
import { micros, type Micros } from '../../core/money.ts'
import { toTextArrayLiteral } from '../postgres/array-literal.ts'
import type { Sql } from '../data-plane.ts'
import {
  subtractBalances,
  toStatementMovements,
  type CreditBalances,
  type AgentLedgerRow,
  type StatementMovement,
} from './statement-movements.ts'
import { MAX_UUID, MAX_TRANSFER_ID_SPREAD_MS } from '../payments/agent-transfer-store.ts'

/** A movement and the balances after it. */
export interface StatementLine extends StatementMovement {
  readonly after: CreditBalances
}

/**
 * Where a walk through a statement stands. Every page of it sees the ledger as it was when the walk
 * began: what is committed meanwhile, also in between, belongs to the next walk.
 */
export interface StatementReadPosition {
  /** The snapshot of the database it began in. */
  readonly snapshot: string
  /** The last movement seen; null at the beginning. */
  readonly before: string | null
  /** The balances after the next movement. */
  readonly balances: CreditBalances
}

/** A span of time: `from` is included, `to` is excluded. */
export interface StatementPeriod {
  readonly from?: Date | undefined
  readonly to?: Date | undefined
}

export interface StatementPage {
  readonly lines: readonly StatementLine[]
  /** Where the next page begins; null behind the last one. */
  readonly next: StatementReadPosition | null
}

/** What a call did, beside its movement. */
export interface StatementCallDetails {
  readonly tool: string | null
  readonly operation: string
  readonly rail: string
  readonly taskId: string | null
  readonly backpackId: string | null
  readonly ghost: boolean
}

/** Rows of a movement, by and large; where they are more, more are read. */
const ROWS_PER_MOVEMENT = 4
const EXTRA_ROWS = 32

/** The movements of an agent's credits in the order of the ledger, the latest first. */
export function createStatementStore(sql: Sql) {
  /** The latest rows of an agent below a place, at most `most`, as the snapshot of the walk saw them. */
  async function rowsOf(
    agentId: string,
    { from, to }: StatementPeriod,
    { snapshot, before }: StatementReadPosition,
    most: number,
  ): Promise<AgentLedgerRow[]> {
    const accounts = toTextArrayLiteral(agentCreditAccounts(agentId))
    // The rows of the last movement seen may lie around its place: they are read again with it.
    const bound =
      before === null ? MAX_UUID : minUuidV7At(uuidV7Timestamp(before) + MAX_TRANSFER_ID_SPREAD_MS)
    const since = from === undefined ? sql`` : sql`and at >= ${from}`
    const until = to === undefined ? sql`` : sql`and at < ${to}`
    const seen = sql`id < ${bound}::uuid and was_visible(xmin, ${snapshot}::text::pg_snapshot)
      ${since} ${until}`
    const rows = await sql<LedgerTransferRow[]>`
      select * from (
        (select ${transferColumns(sql)} from transfers where owner = ${agentId}
            and (debit = any(${accounts}::text[]) or credit = any(${accounts}::text[])) and ${seen}
          order by id desc limit ${most})
        union all
        (select r.* from unnest(${accounts}::text[]) a(account) cross join lateral (
           select ${transferColumns(sql)} from transfers
            where credit = a.account and ${creditedByOthersSql(sql)} and ${seen}
            order by id desc limit ${most}) r)) mine
       order by id desc limit ${most}`
    return rows.map(fromRow)
  }

  return {
    /**
     * Begins a walk: the balances after the last movement of the span, and the snapshot that all of its
     * pages see. Balances are those of the agent's actor with what waits in its inbox, which is what the
     * ledger comes to (invariant I3 of `gas verify`); from there they are counted back to `to`.
     */
    async begin(agentId: string, { to }: StatementPeriod): Promise<StatementReadPosition> {
      const later =
        to === undefined
          ? sql`0`
          : sql`(select coalesce(sum(amount), 0) from (
              select amount_micros * ((credit = any(m.accounts))::int - (debit = any(m.accounts))::int) as amount
                from transfers where owner = ${agentId} and at >= ${to}
                 and (debit = any(m.accounts) or credit = any(m.accounts))
              union all
              select amount_micros from transfers
               where credit = any(m.accounts) and ${creditedByOthersSql(sql)} and at >= ${to}) t)`
      const rows = await sql<{ snapshot: string; part: keyof CreditBalances; amount: bigint }[]>`
        with mine as (
          select part, array_agg('agent:' || ${agentId}::text || ':' || suffix) as accounts
            from (values ('promo', 'promo'), ('cash', 'cash'), ('held', 'held'), ('held', 'held:promo')) p(part, suffix)
           group by part)
        select pg_current_snapshot()::text as snapshot, m.part, (
                 coalesce((select (a.state->'context'->m.part->>'$n')::bigint from actors a
                    where a.aggregate_id = ${agentId} and a.kind = 'agent' and a.id = ${agentId}), 0)
               + coalesce((select sum((i.event->m.part->>'$n')::bigint) from inbox i
                    where i.receiver = ${agentId} and i.absorbed_at is null), 0)
               - ${later})::bigint as amount
          from mine m`
      const amountOf = (part: keyof CreditBalances): Micros =>
        micros(rows.find((row) => row.part === part)?.amount ?? 0n)
      const balances = { promo: amountOf('promo'), cash: amountOf('cash'), held: amountOf('held') }
      return { snapshot: rows[0]?.snapshot ?? '', before: null, balances }
    },

    /** The next movements of a walk, at most `limit`, each whole and once. */
    async page(
      agentId: string,
      span: StatementPeriod,
      walk: StatementReadPosition,
      limit: number,
    ): Promise<StatementPage> {
      for (let most = ROWS_PER_MOVEMENT * limit + EXTRA_ROWS; ; most *= 2) {
        const rows = await rowsOf(agentId, span, walk, most)
        const found = completeMovements(rows, agentId, walk, rows.length === most)
        if (rows.length === most && found.length <= limit) continue
        return toStatementPage(found, walk, limit)
      }
    },

    /** What the calls of movements were, by their ids. */
    async callsOf(
      owner: string,
      callIds: readonly string[],
    ): Promise<Map<string, StatementCallDetails>> {
      if (callIds.length === 0) return new Map()
      const rows = await sql<CallDetailsRow[]>`
        select call_id, tool, operation, rail, task_id, backpack_id, ghost from calls
         where owner = ${owner} and call_id = any(${toTextArrayLiteral(callIds)}::uuid[])`
      return new Map(rows.map((row) => [row.call_id, toCallDetails(row)]))
    },
  }
}
export type StatementStore = ReturnType<typeof createStatementStore>

const agentCreditAccounts = (agentId: string) =>
  ['promo', 'cash', 'held', 'held:promo'].map((part) => `agent:${agentId}:${part}`)

const transferColumns = (sql: Sql) =>
  sql`id, owner, debit, credit, amount_micros, kind, call_id, memo, at`

/** Credited by the commit of another aggregate: the condition of the index `transfers_received`. */
const creditedByOthersSql = (sql: Sql) =>
  sql`credit like 'agent:%' and split_part(credit, ':', 2) <> owner`

/** The movements behind a place of which every row was read. */
function completeMovements(
  rows: readonly AgentLedgerRow[],
  agentId: string,
  { before }: StatementReadPosition,
  isCut: boolean,
): StatementMovement[] {
  const end = rows.at(-1)
  const floor =
    isCut && end !== undefined
      ? minUuidV7At(uuidV7Timestamp(end.id) + MAX_TRANSFER_ID_SPREAD_MS)
      : ''
  return toStatementMovements(rows, agentId).filter(
    ({ id }) => id >= floor && (before === null || id < before),
  )
}

function toStatementPage(
  found: readonly StatementMovement[],
  walk: StatementReadPosition,
  limit: number,
): StatementPage {
  let { balances } = walk
  const lines = found.slice(0, limit).map((movement) => {
    const after = balances
    balances = subtractBalances(balances, movement.change)
    return { ...movement, after }
  })
  const last = lines.at(-1)
  if (found.length <= limit || last === undefined) return { lines, next: null }
  return { lines, next: { snapshot: walk.snapshot, before: last.id, balances } }
}

interface LedgerTransferRow {
  id: string
  owner: string
  debit: string
  credit: string
  amount_micros: bigint
  kind: string
  call_id: string | null
  memo: string | null
  at: Date
}

const fromRow = (row: LedgerTransferRow): AgentLedgerRow => ({
  id: row.id,
  owner: row.owner,
  debit: row.debit,
  credit: row.credit,
  amount: micros(row.amount_micros),
  kind: row.kind,
  callId: row.call_id,
  memo: row.memo,
  at: row.at,
})

interface CallDetailsRow {
  call_id: string
  tool: string | null
  operation: string
  rail: string
  task_id: string | null
  backpack_id: string | null
  ghost: boolean
}

const toCallDetails = (row: CallDetailsRow): StatementCallDetails => ({
  tool: row.tool,
  operation: row.operation,
  rail: row.rail,
  taskId: row.task_id,
  backpackId: row.backpack_id,
  ghost: row.ghost,
})

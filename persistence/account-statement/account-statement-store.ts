import { minUuidV7At, uuidV7Timestamp } from '../../core/ids-and-api-keys.ts'
import type { CallPriceSource, LedgerTransferKind } from '../../core/aggregate-commit-row-types.ts'
import { asMicros, type Micros } from '../../core/money.ts'
import { toCallPriceMovements } from '../../domain/call-price-ledger-movements.ts'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import {
  subtractMovementsFromBalances,
  toAccountStatementMovements,
  type CreditBalances,
  type AgentLedgerRow,
  type AccountStatementMovement,
} from './account-statement-movements.ts'
import { MAX_UUID, MAX_TRANSFER_ID_SPREAD_MS } from '../payments/agent-transfer-store.ts'

/** A movement and the balances after it. */
export interface AccountStatementLine extends AccountStatementMovement {
  readonly after: CreditBalances
}

/**
 * The position of a paged read of a statement. All pages see the ledger as of the first one: later
 * commits belong to the next read.
 */
export interface AccountStatementPosition {
  /** The database snapshot of the first page. */
  readonly snapshot: string
  /** The last movement seen; null at the beginning. */
  readonly before: string | null
  /** The balances after the next movement. */
  readonly balances: CreditBalances
}

/** A period: `from` is inclusive, `to` exclusive. */
export interface AccountStatementPeriod {
  readonly from?: Date | undefined
  readonly to?: Date | undefined
}

export interface AccountStatementPage {
  readonly lines: readonly AccountStatementLine[]
  /** Where the next page begins; null after the last one. */
  readonly next: AccountStatementPosition | null
}

/** Details of a call besides its movement. */
export interface AccountStatementCallDetails {
  readonly tool: string | null
  readonly operation: string
  readonly rail: string
  readonly taskId: string | null
  readonly backpackId: string | null
  readonly ghost: boolean
}

/** The usual number of rows per movement; if there are more, more are read. */
const ROWS_PER_MOVEMENT = 4
const EXTRA_ROWS = 32

/** Reads the movements of an agent's credits in ledger order, latest first. */
export function createAccountStatementStore(sql: Sql) {
  /** The latest rows of an agent below a position, at most `most`, in the read's snapshot. */
  async function rowsOf(
    agentId: string,
    { from, to }: AccountStatementPeriod,
    { snapshot, before }: AccountStatementPosition,
    most: number,
  ): Promise<LedgerRow[]> {
    const accounts = toTextArrayLiteral(agentCreditAccounts(agentId))
    // The rows of the last movement seen may be around its position: they are read again with it.
    const bound =
      before === null ? MAX_UUID : minUuidV7At(uuidV7Timestamp(before) + MAX_TRANSFER_ID_SPREAD_MS)
    const since = from === undefined ? sql`` : sql`and at >= ${from}`
    const until = to === undefined ? sql`` : sql`and at < ${to}`
    const seen = sql`id < ${bound}::uuid and was_visible(xmin, ${snapshot}::text::pg_snapshot)
      ${since} ${until}`
    return sql<LedgerRow[]>`
      select * from (
        (select ${ledgerColumns(sql)} from ledger where owner = ${agentId}
            and (source in ('free', 'held') or debit = any(${accounts}::text[]) or credit = any(${accounts}::text[])
              or debit like 'pass:%')
            and ${seen}
          order by id desc limit ${most})
        union all
        (select r.* from unnest(${accounts}::text[]) a(account) cross join lateral (
           select ${ledgerColumns(sql)} from ledger
            where credit = a.account and ${creditedByOthersSql(sql)} and ${seen}
            order by id desc limit ${most}) r)) mine
       order by id desc limit ${most}`
  }

  return {
    /**
     * Begins a read: the balances after the last movement of the period, and the snapshot of all
     * its pages. Starts from the balances of the agent's actor and its open inbox, which equal the
     * ledger's sums (invariant I3 of `gas verify`), and subtracts later movements back to `to`.
     */
    async begin(
      agentId: string,
      { to }: AccountStatementPeriod,
    ): Promise<AccountStatementPosition> {
      const later =
        to === undefined
          ? sql`0`
          : sql`(select coalesce(sum(amount), 0) from (
              select amount_micros * ((credit = any(m.accounts))::int - (debit = any(m.accounts))::int) as amount
                from transfers where owner = ${agentId} and at >= ${to}
                 and (debit = any(m.accounts) or credit = any(m.accounts))
              union all
              select amount_micros from ledger
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
        asMicros(rows.find((row) => row.part === part)?.amount ?? 0n)
      const balances = { promo: amountOf('promo'), cash: amountOf('cash'), held: amountOf('held') }
      return { snapshot: rows[0]?.snapshot ?? '', before: null, balances }
    },

    /** The next movements of a read, at most `limit`, each complete and once. */
    async page(
      agentId: string,
      span: AccountStatementPeriod,
      walk: AccountStatementPosition,
      limit: number,
    ): Promise<AccountStatementPage> {
      for (let most = ROWS_PER_MOVEMENT * limit + EXTRA_ROWS; ; most *= 2) {
        const rows = await rowsOf(agentId, span, walk, most)
        const found = completeMovements(rows, agentId, walk, rows.length === most)
        if (rows.length === most && found.length <= limit) continue
        return toStatementPage(found, walk, limit)
      }
    },

    /** The calls of movements, by their ids. */
    async callsOf(
      owner: string,
      callIds: readonly string[],
    ): Promise<Map<string, AccountStatementCallDetails>> {
      if (callIds.length === 0) return new Map()
      const rows = await sql<CallDetailsRow[]>`
        select call_id, tool, operation, rail, task_id, backpack_id, ghost from calls
         where owner = ${owner} and call_id = any(${toTextArrayLiteral(callIds)}::uuid[])`
      return new Map(rows.map((row) => [row.call_id, toCallDetails(row)]))
    },
  }
}
export type AccountStatementStore = ReturnType<typeof createAccountStatementStore>

const agentCreditAccounts = (agentId: string) =>
  ['promo', 'cash', 'held', 'held:promo'].map((part) => `agent:${agentId}:${part}`)

const ledgerColumns = (sql: Sql) =>
  sql`id, owner, debit, credit, amount_micros, fee_micros, promo_micros, source, kind, call_id, memo, at`

/** Credited by the commit of another aggregate: the condition of the index `ledger_received`. */
const creditedByOthersSql = (sql: Sql) =>
  sql`credit like 'agent:%' and split_part(credit, ':', 2) <> owner`

/** The movements after a position whose rows were all read. */
function completeMovements(
  rows: readonly LedgerRow[],
  agentId: string,
  { before }: AccountStatementPosition,
  isCut: boolean,
): AccountStatementMovement[] {
  const end = rows.at(-1)
  const floor =
    isCut && end !== undefined
      ? minUuidV7At(uuidV7Timestamp(end.id) + MAX_TRANSFER_ID_SPREAD_MS)
      : ''
  return toAccountStatementMovements(rows.flatMap(toMovements), agentId).filter(
    ({ id }) => id >= floor && (before === null || id < before),
  )
}

function toStatementPage(
  found: readonly AccountStatementMovement[],
  walk: AccountStatementPosition,
  limit: number,
): AccountStatementPage {
  let { balances } = walk
  const lines = found.slice(0, limit).map((movement) => {
    const after = balances
    balances = subtractMovementsFromBalances(balances, movement.change)
    return { ...movement, after }
  })
  const last = lines.at(-1)
  if (found.length <= limit || last === undefined) return { lines, next: null }
  return { lines, next: { snapshot: walk.snapshot, before: last.id, balances } }
}

interface CommonLedgerColumns {
  id: string
  owner: string
  amount_micros: bigint
  memo: string | null
  at: Date
}
interface PriceRow extends CommonLedgerColumns {
  kind: 'price'
  source: CallPriceSource
  fee_micros: bigint
  promo_micros: bigint
  call_id: string
}
interface MovementRow extends CommonLedgerColumns {
  kind: LedgerTransferKind
  debit: string
  credit: string
  call_id: string | null
}
type LedgerRow = PriceRow | MovementRow

/** The movements of a row. Those of a price share its id. */
function toMovements(row: LedgerRow): AgentLedgerRow[] {
  const { id, owner, memo, at, call_id: callId } = row
  const amount = asMicros(row.amount_micros)
  if (row.kind !== 'price') {
    const { debit, credit, kind } = row
    return [{ id, owner, debit, credit, amount, kind, callId, memo, at }]
  }
  const { source, call_id, fee_micros, promo_micros } = row
  const parts = { fee: asMicros(fee_micros), promo: asMicros(promo_micros) }
  return toCallPriceMovements(owner, { callId: call_id, source, amount, ...parts }).map(
    (movement) => ({ ...movement, id, owner, callId, memo, at }),
  )
}

interface CallDetailsRow {
  call_id: string
  tool: string | null
  operation: string
  rail: string
  task_id: string | null
  backpack_id: string | null
  ghost: boolean
}

const toCallDetails = (row: CallDetailsRow): AccountStatementCallDetails => ({
  tool: row.tool,
  operation: row.operation,
  rail: row.rail,
  taskId: row.task_id,
  backpackId: row.backpack_id,
  ghost: row.ghost,
})

import { stringifyWithBigints } from '../../core/json/bigint.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { asMicros, toUsdc, ZERO_MICROS, type Micros } from '../../core/money.ts'
import {
  assertLedgerMovementPermitted,
  movesPromoBetweenAgents,
} from '../../domain/ledger-movements.ts'
import { HIVE_READ_ROYALTY } from '../../domain/pricing.ts'
import type { LedgerTransferKind } from '../../core/aggregate-commit-row-types.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** The royalties of an author's entries (decision 24). */
export interface RoyaltyBalance {
  readonly earned: Micros
  /** The part that the pool could not pay yet. */
  readonly pending: Micros
}

/** The pool's share of the fees, in basis points. */
const POOL_SHARE_BPS = 2_500n
/** After this delay all commits of an instant are visible. */
const COMMIT_VISIBILITY_DELAY_MS = 30_000
const MAX_ROYALTIES_PER_PAYOUT = 1_000
/** Changes added up by one statement. */
const MAX_SUMMED_CHANGES = 5_000
const NIL_AGENT_ID = '00000000-0000-0000-0000-000000000000'

/** Pays royalties; a trigger in the commit of the read records them as owed. */
export function createRoyaltyStore(sql: Sql) {
  return {
    /** The sum and the changes appended since, at one instant. */
    async of(agentId: string): Promise<RoyaltyBalance> {
      const [row] = await sql<{ earned: bigint; paid: bigint }[]>`
        select coalesce(sum(earned_micros), 0)::bigint as earned, coalesce(sum(paid_micros), 0)::bigint as paid
          from (select earned_micros, paid_micros from royalty_sums where author = ${agentId}
            union all
            select earned_micros, paid_micros from royalty_changes where author = ${agentId}) s`
      const { earned, paid } = row ?? { earned: 0n, paid: 0n }
      return { earned: asMicros(earned), pending: asMicros(earned - paid) }
    },

    /**
     * Adds appended changes to the sums, each once, on any number of nodes at a time. Resolves to
     * whether more may be left.
     */
    async addUp(): Promise<boolean> {
      const [row] = await sql<{ taken: number }[]>`
        with next as materialized (
          select id from royalty_changes order by id limit ${MAX_SUMMED_CHANGES} for update skip locked),
        taken as (
          delete from royalty_changes c using next where c.id = next.id
          returning c.author, c.earned_micros, c.paid_micros),
        added as (
          insert into royalty_sums as s (author, earned_micros, paid_micros)
          select author, sum(earned_micros), sum(paid_micros) from taken group by author order by author
          on conflict (author) do update set earned_micros = s.earned_micros + excluded.earned_micros,
            paid_micros = s.paid_micros + excluded.paid_micros)
        select count(*)::int as taken from taken`
      return row?.taken === MAX_SUMMED_CHANGES
    },

    /**
     * Feeds the pool with its share of the fees since the last round, and pays whole royalties from
     * it, never more than it holds, to each waiting author at most an equal part. A lock serializes
     * nodes. Resolves to the number of payments; after none, no more are possible. If promotional
     * credits may not reach other agents, the share of promotional fees returns to the grants
     * (decision 105).
     */
    pay: (at: Date, promoTransferable: boolean): Promise<number> =>
      sql.begin(async (tx) => {
        const [pool] = await tx<PoolRow[]>`
          select fed_until, promo_micros as promo, cash_micros as cash, promo_after, cash_after
            from royalty_pool for update`
        if (pool === undefined) return 0
        const fed = await feedPool(tx, pool, at, promoTransferable)
        const promo = await payOut(tx, fed, { part: 'promo', after: pool.promo_after, at })
        const cash = await payOut(tx, fed, { part: 'cash', after: pool.cash_after, at })
        await tx`update royalty_pool set promo_micros = ${fed.promo}, cash_micros = ${fed.cash}`
        return promo + cash
      }),
  }
}
export type RoyaltyStore = ReturnType<typeof createRoyaltyStore>

interface PoolRow {
  fed_until: Date | null
  promo: bigint
  cash: bigint
  promo_after: string
  cash_after: string
}
interface RoyaltyPoolBalances {
  promo: Micros
  cash: Micros
}

// The account names of payments/ledger-accounts.ts, which this layer cannot import.
const POOL_ACCOUNTS: Readonly<Record<keyof RoyaltyPoolBalances, string>> = {
  promo: 'royalty:pool:promo',
  cash: 'royalty:pool',
}
const TREASURY_ACCOUNT = 'treasury:fees'
const GRANTS_ACCOUNT = 'grants:promo'
const CREDIT_PARTS = ['promo', 'cash'] as const
const agentAccount = (agentId: string, part: keyof RoyaltyPoolBalances) =>
  `agent:${agentId}:${part}`

/**
 * Promotional fees feed a separate part of the pool, which is paid out as promotional credits: they
 * never become cash.
 */
async function feedPool(
  tx: DatabaseTransaction,
  before: PoolRow,
  at: Date,
  promoTransferable: boolean,
): Promise<RoyaltyPoolBalances> {
  const pool = { promo: asMicros(before.promo), cash: asMicros(before.cash) }
  const until = new Date(at.getTime() - COMMIT_VISIBILITY_DELAY_MS)
  if (before.fed_until !== null && until <= before.fed_until) return pool
  await tx`update royalty_pool set fed_until = ${until}`
  // The first round shares nothing: earlier fees belong to the treasury.
  if (before.fed_until === null) return pool
  const [fees] = await tx<{ promo: bigint; cash: bigint }[]>`
    select coalesce(sum(amount_micros) filter (where promo), 0)::bigint as promo,
           coalesce(sum(amount_micros) filter (where not promo), 0)::bigint as cash
      from (select amount_micros, debit like '%:promo' as promo
              from transfers where kind = 'fee' and credit = ${TREASURY_ACCOUNT}
               and at >= ${before.fed_until} and at < ${until}) f`
  for (const part of CREDIT_PARTS) {
    const share = asMicros(((fees?.[part] ?? 0n) * POOL_SHARE_BPS) / 10_000n)
    if (share === ZERO_MICROS) continue
    const fed = { from: TREASURY_ACCOUNT, amount: share, kind: 'royalty_feed', at } as const
    if (part === 'promo' && !promoTransferable) {
      await insertTransfer(tx, { ...fed, to: GRANTS_ACCOUNT })
      continue
    }
    await insertTransfer(tx, { ...fed, to: POOL_ACCOUNTS[part], promoAllowed: promoTransferable })
    pool[part] = asMicros(pool[part] + share)
  }
  return pool
}

interface OwedRoyalty {
  entry_id: string
  reader: string
  day: string
  author: string
  amount: bigint
}

interface PayoutRound {
  readonly part: keyof RoyaltyPoolBalances
  /** The last author of the previous round. */
  readonly after: string
  readonly at: Date
}

/** The indivisible rest goes to the next round, which continues after the last author. */
async function payOut(
  tx: DatabaseTransaction,
  pool: RoyaltyPoolBalances,
  { part, after, at }: PayoutRound,
): Promise<number> {
  if (pool[part] === ZERO_MICROS) return 0
  // Each of them can be paid the largest royalty; a smaller pool is one author's.
  const largest = Number(pool[part] / HIVE_READ_ROYALTY)
  const most = Math.min(Math.max(1, largest), MAX_ROYALTIES_PER_PAYOUT)
  const authors = await listWaitingAuthors(tx, part, after, most)
  const last = authors.at(-1)
  if (last === undefined) return 0
  // The largest royalty comes in whole parts, and each author has the same number of them.
  const partOf = Math.max(1, Math.floor(most / authors.length))
  const each = largest === 0 ? pool[part] : asMicros(BigInt(partOf) * HIVE_READ_ROYALTY)
  const rows = Math.floor(MAX_ROYALTIES_PER_PAYOUT / authors.length)
  const owed = await tx<OwedRoyalty[]>`
    select r.* from unnest(${toTextArrayLiteral(authors)}::uuid[]) a(author) cross join lateral (
      select * from (
        select o.entry_id, o.reader, o.day::text as day, o.author, o.amount_micros as amount,
               sum(o.amount_micros) over (order by o.at, o.entry_id, o.reader) as so_far
          from (select * from royalties w where w.paid_by is null and w.promo = ${part === 'promo'}
                   and w.author = a.author order by w.at, w.entry_id, w.reader limit ${rows}) o) x
       where x.so_far <= ${each}) r`
  if (owed.length === 0) return 0
  for (const [author, ones] of groupByAuthor(owed))
    await payAuthor(tx, pool, { part, author, ones, at })
  await tx`update royalty_pool set ${tx(`${part}_after`)} = ${last}`
  return owed.length
}

/** Waiting authors in turn: those after the last one, then from the first. */
async function listWaitingAuthors(
  tx: DatabaseTransaction,
  part: keyof RoyaltyPoolBalances,
  after: string,
  most: number,
): Promise<string[]> {
  const behind = async (id: string, limit: number) => {
    const rows = await tx<{ author: string }[]>`
      with recursive authors as (
        select ${id}::uuid as author
        union all
        select (select r.author from royalties r where r.paid_by is null and r.promo = ${part === 'promo'}
                   and r.author > a.author order by r.author limit 1)
          from authors a where a.author is not null)
      select author from authors where author is not null offset 1 limit ${limit}`
    return rows.map(({ author }) => author)
  }
  const first = await behind(after, most)
  if (first.length === most) return first
  const again = await behind(NIL_AGENT_ID, most)
  return [...first, ...again.filter((author) => !first.includes(author))].slice(0, most)
}

function groupByAuthor(owed: readonly OwedRoyalty[]): Map<string, OwedRoyalty[]> {
  const authors = new Map<string, OwedRoyalty[]>()
  for (const one of owed) authors.set(one.author, [...(authors.get(one.author) ?? []), one])
  return authors
}

interface AuthorPayment {
  readonly part: keyof RoyaltyPoolBalances
  readonly author: string
  readonly ones: readonly OwedRoyalty[]
  readonly at: Date
}

/** One payment for all of an author's royalties; its id is the memo of its transfer. */
async function payAuthor(
  tx: DatabaseTransaction,
  pool: RoyaltyPoolBalances,
  { part, author, ones, at }: AuthorPayment,
): Promise<void> {
  const id = newUuidV7(at.getTime())
  const amount = asMicros(ones.reduce((sum, one) => sum + one.amount, 0n))
  const parts: RoyaltyPoolBalances = { promo: ZERO_MICROS, cash: ZERO_MICROS, [part]: amount }
  pool[part] = asMicros(pool[part] - amount)
  const accounts = { from: POOL_ACCOUNTS[part], to: agentAccount(author, part) }
  await insertTransfer(tx, { ...accounts, amount, kind: 'royalty', at, memo: id })
  const column = (get: (one: OwedRoyalty) => string) => toTextArrayLiteral(ones.map(get))
  await tx`
    update royalties r set paid_by = ${id}
      from unnest(${column((one) => one.entry_id)}::uuid[], ${column((one) => one.reader)}::uuid[],
                  ${column((one) => one.day)}::date[]) x(entry_id, reader, day)
     where r.entry_id = x.entry_id and r.reader = x.reader and r.day = x.day`
  await tx`
    insert into inbox (receiver, receiver_kind, id, event, at)
    values (${author}, 'agent', ${`royalty:${id}`},
            ${stringifyWithBigints({ type: 'CREDIT', ...parts })}::text::jsonb, ${at})`
  const told = { source: 'hive_royalty', amount_usdc: toUsdc(amount), reads: ones.length }
  await tx`
    insert into outbox (agent_id, type, data, at)
    values (${author}, 'topup', ${JSON.stringify(told)}::text::jsonb, ${at})`
}

interface RoyaltyTransfer {
  readonly from: string
  readonly to: string
  readonly amount: Micros
  readonly kind: LedgerTransferKind
  readonly at: Date
  readonly memo?: string
  readonly promoAllowed?: boolean
}

async function insertTransfer(
  tx: DatabaseTransaction,
  { from, to, amount, kind, at, memo, promoAllowed }: RoyaltyTransfer,
) {
  const id = newUuidV7(at.getTime())
  const transfer = { debit: from, credit: to, amount, kind, promoAllowed: promoAllowed ?? false }
  assertLedgerMovementPermitted(transfer)
  await tx`
    insert into ledger (id, owner, debit, credit, amount_micros, kind, memo, at)
    values (${id}, 'royalty:pool', ${from}, ${to}, ${amount}, ${kind}, ${memo ?? null}, ${at})`
  if (movesPromoBetweenAgents(transfer))
    await tx`insert into promo_transfers (transfer_id, at) values (${id}, ${at})`
}

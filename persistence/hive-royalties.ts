import { encode } from '../core/codec.ts'
import { newId } from '../core/ids.ts'
import { micros, toUsdc, ZERO, type Micros } from '../core/money.ts'
import { assertMovement, crossesPromo } from '../core/movements.ts'
import { HIVE_ROYALTY } from '../core/prices.ts'
import type { TransferKind } from '../core/rows.ts'
import type { Tx } from './once.ts'
import { textArray } from './pg-array.ts'
import type { Sql } from './plane.ts'

/** What an author's entries have earned by being read (decision 24). */
export interface Royalties {
  readonly earned: Micros
  /** Of it, what the pool could not pay yet. */
  readonly pending: Micros
}

/** What goes from the fees into the pool, of ten thousand. */
const POOL_SHARE_BPS = 2_500n
/** Commits of an instant are all there so long after it. */
const LATE_MS = 30_000
const MOST_AT_ONCE = 1_000
/** Changes that one statement adds up. */
const MOST_ADDED = 5_000
const NOBODY = '00000000-0000-0000-0000-000000000000'

/** Royalties are owed by a trigger in the commit of the read; here they are paid. */
export function royaltyStore(sql: Sql) {
  return {
    /** The sum, and what was appended to it since, as of one instant. */
    async of(agentId: string): Promise<Royalties> {
      const [row] = await sql<{ earned: bigint; paid: bigint }[]>`
        select coalesce(sum(earned_micros), 0)::bigint as earned, coalesce(sum(paid_micros), 0)::bigint as paid
          from (select earned_micros, paid_micros from royalty_sums where author = ${agentId}
            union all
            select earned_micros, paid_micros from royalty_changes where author = ${agentId}) s`
      const { earned, paid } = row ?? { earned: 0n, paid: 0n }
      return { earned: micros(earned), pending: micros(earned - paid) }
    },

    /**
     * Adds up what commits have appended, each of it once, on any number of nodes at a time. Resolves
     * to whether more may be left.
     */
    async addUp(): Promise<boolean> {
      const [row] = await sql<{ taken: number }[]>`
        with next as materialized (
          select id from royalty_changes order by id limit ${MOST_ADDED} for update skip locked),
        taken as (
          delete from royalty_changes c using next where c.id = next.id
          returning c.author, c.earned_micros, c.paid_micros),
        added as (
          insert into royalty_sums as s (author, earned_micros, paid_micros)
          select author, sum(earned_micros), sum(paid_micros) from taken group by author order by author
          on conflict (author) do update set earned_micros = s.earned_micros + excluded.earned_micros,
            paid_micros = s.paid_micros + excluded.paid_micros)
        select count(*)::int as taken from taken`
      return row?.taken === MOST_ADDED
    },

    /**
     * Feeds the pool with its share of the fees since the last time, and pays what it can: whole
     * royalties only, never more than is in it, and to each author who waits an equal part at most.
     * One at a time on any number of nodes. Resolves to how many were paid; once it is none, no more
     * can be. Where promotional credits may not reach other agents, the share of the fees that were
     * paid with them returns to the grants (decision 105).
     */
    pay: (at: Date, promoTransferable: boolean): Promise<number> =>
      sql.begin(async (tx) => {
        const [pool] = await tx<PoolRow[]>`
          select fed_until, promo_micros as promo, cash_micros as cash, promo_after, cash_after
            from royalty_pool for update`
        if (pool === undefined) return 0
        const fed = await feed(tx, pool, at, promoTransferable)
        const promo = await payOut(tx, fed, { part: 'promo', after: pool.promo_after, at })
        const cash = await payOut(tx, fed, { part: 'cash', after: pool.cash_after, at })
        await tx`update royalty_pool set promo_micros = ${fed.promo}, cash_micros = ${fed.cash}`
        return promo + cash
      }),
  }
}
export type RoyaltyStore = ReturnType<typeof royaltyStore>

interface PoolRow {
  fed_until: Date | null
  promo: bigint
  cash: bigint
  promo_after: string
  cash_after: string
}
interface Pool {
  promo: Micros
  cash: Micros
}

// The names of payments/ledger.ts, which lies above.
const POOL: Readonly<Record<keyof Pool, string>> = {
  promo: 'royalty:pool:promo',
  cash: 'royalty:pool',
}
const TREASURY = 'treasury:fees'
const GRANTS = 'grants:promo'
const PARTS = ['promo', 'cash'] as const
const accountOf = (agentId: string, part: keyof Pool) => `agent:${agentId}:${part}`

/**
 * Fees that were paid with promotional credits feed a part of their own, which is paid out as such: so
 * they never become cash.
 */
async function feed(tx: Tx, before: PoolRow, at: Date, promoTransferable: boolean): Promise<Pool> {
  const pool = { promo: micros(before.promo), cash: micros(before.cash) }
  const until = new Date(at.getTime() - LATE_MS)
  if (before.fed_until !== null && until <= before.fed_until) return pool
  await tx`update royalty_pool set fed_until = ${until}`
  // The first time there is nothing to share: what was taken before is the treasury's.
  if (before.fed_until === null) return pool
  const [fees] = await tx<{ promo: bigint; cash: bigint }[]>`
    select coalesce(sum(amount_micros) filter (where promo), 0)::bigint as promo,
           coalesce(sum(amount_micros) filter (where not promo), 0)::bigint as cash
      from (select amount_micros, debit like '%:promo' as promo
              from transfers where kind = 'fee' and credit = ${TREASURY}
               and at >= ${before.fed_until} and at < ${until}) f`
  for (const part of PARTS) {
    const share = micros(((fees?.[part] ?? 0n) * POOL_SHARE_BPS) / 10_000n)
    if (share === ZERO) continue
    const fed = { from: TREASURY, amount: share, kind: 'royalty_feed', at } as const
    if (part === 'promo' && !promoTransferable) {
      await move(tx, { ...fed, to: GRANTS })
      continue
    }
    await move(tx, { ...fed, to: POOL[part], promoAllowed: promoTransferable })
    pool[part] = micros(pool[part] + share)
  }
  return pool
}

interface Owed {
  entry_id: string
  reader: string
  day: string
  author: string
  amount: bigint
}

interface Round {
  readonly part: keyof Pool
  /** The author whom the last round ended with. */
  readonly after: string
  readonly at: Date
}

/** What is left over because it does not divide is the next round's, which goes on behind the last author. */
async function payOut(tx: Tx, pool: Pool, { part, after, at }: Round): Promise<number> {
  const most = Math.min(Number(pool[part] / HIVE_ROYALTY), MOST_AT_ONCE)
  if (most === 0) return 0
  const authors = await waiting(tx, part, after, most)
  const last = authors.at(-1)
  if (last === undefined) return 0
  const owed = await tx<Owed[]>`
    select r.* from unnest(${textArray(authors)}::uuid[]) a(author) cross join lateral (
      select o.entry_id, o.reader, o.day::text as day, o.author, o.amount_micros as amount
        from royalties o where o.paid_by is null and o.promo = ${part === 'promo'} and o.author = a.author
       order by o.at, o.entry_id, o.reader limit ${Math.floor(most / authors.length)}) r`
  for (const [author, ones] of byAuthor(owed)) await payAuthor(tx, pool, { part, author, ones, at })
  await tx`update royalty_pool set ${tx(`${part}_after`)} = ${last}`
  return owed.length
}

/** Authors who wait for a part, in their turn: those behind the last one, then from the first on. */
async function waiting(tx: Tx, part: keyof Pool, after: string, most: number): Promise<string[]> {
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
  const again = await behind(NOBODY, most)
  return [...first, ...again.filter((author) => !first.includes(author))].slice(0, most)
}

function byAuthor(owed: readonly Owed[]): Map<string, Owed[]> {
  const authors = new Map<string, Owed[]>()
  for (const one of owed) authors.set(one.author, [...(authors.get(one.author) ?? []), one])
  return authors
}

interface Payment {
  readonly part: keyof Pool
  readonly author: string
  readonly ones: readonly Owed[]
  readonly at: Date
}

/** One payment for all of an author's royalties at once; its id is the memo of its transfer. */
async function payAuthor(tx: Tx, pool: Pool, { part, author, ones, at }: Payment): Promise<void> {
  const id = newId(at.getTime())
  const amount = micros(ones.reduce((sum, one) => sum + one.amount, 0n))
  const parts: Pool = { promo: ZERO, cash: ZERO, [part]: amount }
  pool[part] = micros(pool[part] - amount)
  const accounts = { from: POOL[part], to: accountOf(author, part) }
  await move(tx, { ...accounts, amount, kind: 'royalty', at, memo: id })
  const column = (get: (one: Owed) => string) => textArray(ones.map(get))
  await tx`
    update royalties r set paid_by = ${id}
      from unnest(${column((one) => one.entry_id)}::uuid[], ${column((one) => one.reader)}::uuid[],
                  ${column((one) => one.day)}::date[]) x(entry_id, reader, day)
     where r.entry_id = x.entry_id and r.reader = x.reader and r.day = x.day`
  await tx`
    insert into inbox (receiver, receiver_kind, id, event, at)
    values (${author}, 'agent', ${`royalty:${id}`},
            ${encode({ type: 'CREDIT', ...parts })}::text::jsonb, ${at})`
  const told = { source: 'hive_royalty', amount_usdc: toUsdc(amount), reads: ones.length }
  await tx`
    insert into outbox (agent_id, type, data, at)
    values (${author}, 'topup', ${JSON.stringify(told)}::text::jsonb, ${at})`
}

interface Move {
  readonly from: string
  readonly to: string
  readonly amount: Micros
  readonly kind: TransferKind
  readonly at: Date
  readonly memo?: string
  readonly promoAllowed?: boolean
}

async function move(tx: Tx, { from, to, amount, kind, at, memo, promoAllowed }: Move) {
  const id = newId(at.getTime())
  const transfer = { debit: from, credit: to, amount, kind, promoAllowed: promoAllowed ?? false }
  assertMovement(transfer)
  await tx`
    insert into transfers (id, owner, debit, credit, amount_micros, kind, memo, at)
    values (${id}, 'royalty:pool', ${from}, ${to}, ${amount}, ${kind}, ${memo ?? null}, ${at})`
  if (crossesPromo(transfer))
    await tx`insert into promo_crossings (transfer_id, at) values (${id}, ${at})`
}

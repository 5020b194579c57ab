import type { Sql } from '../persistence/postgres/postgres-connection-pool.ts'
import type { LocalChain } from '../test/support/chain/local-chain.ts'
import type { X402Purchase } from './chaos-proof-x402-purchases.ts'

/** Settled payments compared with the database and the chain. */
export interface PaymentAuditResult {
  /** Headers with a final reply. */
  readonly ended: number
  /**
   * Answered 200 or credited, without exactly one call row or credit and one settled settlement.
   */
  readonly unpaid: number
  /** Headers that ran a call or were credited more than once, or got two different replies. */
  readonly twice: number
  /** Answered 402 although the money moved. */
  readonly told402: number
  /** Rejected without a cause. */
  readonly wronglyRejected: number
  /** Headers whose money moved on the chain but not in the ledger, or the reverse. */
  readonly adrift: number
  /** Treasury balance on the chain minus the ledger's balance of that chain, in micros. */
  readonly drift: bigint
}

interface SettlementRow {
  readonly id: string
  readonly money: string
  readonly delivery: string
  readonly call_id: string
  readonly refunds: number
  readonly deposited: number
  readonly rows: number
}

/** All settlements with their money, calls and credits. */
const listSettlementRows = (sql: Sql) => sql<SettlementRow[]>`
  select a.id, a.state->'value'->>'money' as money, a.state->'value'->>'delivery' as delivery,
         a.state->'context'->>'callId' as call_id,
         (select count(*)::int from transfers t
           where t.kind = 'refund' and t.memo = a.id) as refunds,
         (select count(*)::int from transfers t where t.debit = 'world:base'
             and t.kind = 'deposit' and t.memo = a.id) as deposited,
         (select count(*)::int from calls c where c.status = 'ok'
             and c.call_id = (a.state->'context'->>'callId')::uuid) as rows
    from actors a where a.kind = 'settlement'`

/** Counts calls with a payment that are not the call of a settlement. */
async function countStrayCalls(sql: Sql): Promise<number> {
  const [row] = await sql<{ n: number }[]>`
    select count(*)::int as n from calls c where c.rail = 'eip3009' and c.status = 'ok'
      and c.tool is not null and not exists (select from actors a where a.kind = 'settlement'
        and a.state->'value'->>'delivery' = 'delivered'
        and a.state->'context'->>'callId' = c.call_id::text)`
  return row?.n ?? 0
}

async function bookedMicros(sql: Sql): Promise<bigint> {
  const [row] = await sql<{ sum: bigint }[]>`
    select coalesce(sum(case when debit = 'world:base' then amount_micros else -amount_micros end), 0)::bigint
      as sum from transfers where debit = 'world:base' or credit = 'world:base'`
  return row?.sum ?? 0n
}

const count = (
  purchases: readonly X402Purchase[],
  is: (purchase: X402Purchase) => boolean,
): number => purchases.filter(is).length

/** Counts broken guarantees. The chain state of each purchase must have been read before. */
export async function countBrokenPaymentGuarantees(
  sql: Sql,
  chain: LocalChain,
  treasury: string,
  purchases: readonly X402Purchase[],
): Promise<PaymentAuditResult> {
  const rows = new Map((await listSettlementRows(sql)).map((row) => [row.id, row]))
  const isPaid = (purchase: X402Purchase): boolean => {
    const row = rows.get(purchase.settlement)
    if (row?.money !== 'settled' || !purchase.authorizationUsed) return false
    if (purchase.result === 'credited') return row.delivery === 'failed' && row.refunds === 1
    if (purchase.kind === 'topup') return row.deposited === 1
    return row.delivery === 'delivered' && row.rows === 1 && purchase.ids.has(row.call_id)
  }
  const isTwice = ({ ids, settlement }: X402Purchase): boolean => {
    const { rows: ran = 0, deposited = 0, refunds = 0 } = rows.get(settlement) ?? {}
    return ids.size > 1 || ran + deposited + refunds > 1
  }
  const isAdrift = ({ authorizationUsed, settlement }: X402Purchase): boolean =>
    authorizationUsed !== (rows.get(settlement)?.money === 'settled')
  return {
    ended: count(purchases, ({ result }) => result !== null),
    unpaid: count(purchases, (one) => isGood(one) && !isPaid(one)),
    twice: count(purchases, isTwice) + (await countStrayCalls(sql)),
    told402: count(
      purchases,
      ({ refusals, authorizationUsed }) =>
        authorizationUsed && refusals.some((refusal) => refusal.startsWith('402')),
    ),
    wronglyRejected: count(purchases, ({ refusals }) => refusals.length > 0),
    adrift: count(purchases, isAdrift),
    drift: (await chain.balanceOf(treasury)) - (await bookedMicros(sql)),
  }
}

const isGood = ({ result }: X402Purchase): boolean => result === 'answered' || result === 'credited'

import { LIMITS } from '../../core/limits.ts'
import { asMicros, type Micros } from '../../core/money.ts'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** A settlement in progress, or a lost one with a final check ahead. */
export interface OpenSettlement {
  readonly id: string
  readonly payer: string
  readonly money: string
  readonly delivery: string
  readonly chain: string
  readonly txHash: string | null
  /** How many of our transactions for it were mined without paying. */
  readonly attempts: number
  /** When to check an abandoned settlement once more, in milliseconds; or null. */
  readonly lookAt: number | null
}

/** A settlement and its newest claim. */
export interface SettlementWithPaymentProof extends OpenSettlement {
  /** As `encodePaymentForStorage` wrote it. */
  readonly proof: string
  /** The payment was not used on its chain before this block. */
  readonly fromBlock: bigint
}

/** The public fields of a settlement: no bodies, no signatures. */
export interface PublicSettlementRecord extends Omit<OpenSettlement, 'lookAt' | 'attempts'> {
  readonly asset: string
  /** Atomic units, decimal. */
  readonly amount: string
  readonly price: Micros
  readonly purpose: string
  readonly callId: string
  readonly agentId: string | null
  readonly claimedAt: number
  readonly settledAt: number | null
}

export interface SettlementCounts {
  /** Claimed and neither settled, released nor lost. */
  readonly open: number
  /** Open for a long time with an unknown outcome. */
  readonly stuck: number
  readonly lost: number
  /** The value of delivered calls that were never paid. */
  readonly lostValue: Micros
  /** The price of calls running before their payment, right now. */
  readonly exposure: Micros
}

const MONEY_STATE_SQL = `a.state->'value'->>'money'`
const CONTEXT_SQL = `a.state->'context'`
const IS_OPEN_SQL = `a.kind = 'settlement' and not a.archived`
const IS_STUCK_SQL = `${MONEY_STATE_SQL} = 'unknown' and (${CONTEXT_SQL}->>'claimedAt')::float8
  < extract(epoch from now()) * 1000 - ${LIMITS.settleStuckMs}`

/** Reads the settlements of all payers; the payers' commits write them. */
export function createSettlementQueries(sql: Sql) {
  const [money, context] = [sql.unsafe(MONEY_STATE_SQL), sql.unsafe(CONTEXT_SQL)]
  const open = sql.unsafe(IS_OPEN_SQL)
  const shown = sql`a.id, a.aggregate_id as payer, ${money} as money,
    a.state->'value'->>'delivery' as delivery, ${context}->>'chain' as chain,
    ${context}->>'txHash' as tx_hash, (${context}->>'lookAt')::float8 as look_at,
    (${context}->>'attempts')::int as attempts`
  return {
    /** Settlements of a chain that need work now, without the paused ones. */
    async toWorkOn(
      chain: string,
      now: number,
      limit: number,
      except: readonly string[] = [],
    ): Promise<OpenSettlement[]> {
      const rows = await sql<OpenSettlementRow[]>`
        select ${shown} from actors a where ${open} and ${context}->>'chain' = ${chain}
           and a.id <> all(${toTextArrayLiteral(except)}::text[])
           and (${money} in ('due', 'submitted', 'unknown')
             or (${money} = 'lost' and (${context}->>'lookAt')::float8 <= ${now}))
         order by a.aggregate_id, a.id limit ${limit}`
      return rows.map(toOpenSettlement)
    },

    /** One settlement in any state, as the settler sees it. */
    async find(id: string): Promise<OpenSettlement | null> {
      const [row] = await sql<OpenSettlementRow[]>`
        select ${shown} from actors a where a.kind = 'settlement' and a.id = ${id}
           and a.aggregate_id = (select payer from settlements where id = ${id} limit 1)`
      return row === undefined ? null : toOpenSettlement(row)
    },

    /** For `GET /api/x402/settlements/{id}`. */
    async view(id: string): Promise<PublicSettlementRecord | null> {
      const [row] = await sql<PublicSettlementRow[]>`
        select ${shown}, ${context}->>'asset' as asset,
               ${context}->'amount'->>'$n' as amount, ${context}->'price'->>'$n' as price,
               ${context}->'purpose'->>'kind' as purpose, ${context}->>'callId' as call_id,
               ${context}->>'agentId' as agent_id, (${context}->>'claimedAt')::float8 as claimed_at,
               (${context}->>'settledAt')::float8 as settled_at
          from actors a where a.kind = 'settlement' and a.id = ${id}
           and a.aggregate_id = (select payer from settlements where id = ${id} limit 1)`
      return row === undefined ? null : toPublicSettlementRecord(row)
    },

    /** The newest claim: the payment as `encodePaymentForStorage` wrote it, and the block to search from. */
    async proof(id: string): Promise<{ payment: string; fromBlock: bigint } | null> {
      const [row] = await sql<{ payment: string; from_block: bigint }[]>`
        select payment, from_block from settlements where id = ${id} order by claim desc limit 1`
      return row === undefined ? null : { payment: row.payment, fromBlock: row.from_block }
    },

    /** Settlements in any state with their claims, in the order of the ids. */
    async proven(ids: readonly string[]): Promise<(SettlementWithPaymentProof | null)[]> {
      const rows = await sql<(OpenSettlementRow & { payment: string; from_block: bigint })[]>`
        select distinct on (s.id) ${shown}, s.payment, s.from_block
          from settlements s join actors a
            on a.kind = 'settlement' and a.id = s.id and a.aggregate_id = s.payer
         where s.id = any(${toTextArrayLiteral(ids)}::text[]) order by s.id, s.claim desc`
      const found = new Map(
        rows.map((row) => [
          row.id,
          { ...toOpenSettlement(row), proof: row.payment, fromBlock: row.from_block },
        ]),
      )
      return ids.map((id) => found.get(id) ?? null)
    },

    /** The answer that waits for this payment, as its delivery stored it; else null. */
    async withheldAnswer(id: string): Promise<string | null> {
      const [row] = await sql<{ answer: string }[]>`
        select answer from withheld_answers where settlement = ${id}`
      return row?.answer ?? null
    },

    /** Payments with a long unknown outcome, oldest first. */
    async stuck(limit: number): Promise<OpenSettlement[]> {
      const rows = await sql<OpenSettlementRow[]>`
        select ${shown} from actors a where ${open} and ${sql.unsafe(IS_STUCK_SQL)}
         order by ${context}->>'claimedAt' limit ${limit}`
      return rows.map(toOpenSettlement)
    },

    /** The settlement or deposit a transfer on a chain is booked for, or null. */
    async bookedFor(chain: string, tx: string, logIndex: number): Promise<string | null> {
      const [row] = await sql<{ ref: string }[]>`select ref from chain_transfers
        where chain = ${chain} and tx = ${tx} and log_index = ${logIndex}`
      return row?.ref ?? null
    },

    /** Payers with messages they have not absorbed yet. */
    async payersToNotify(limit: number): Promise<string[]> {
      const rows = await sql<{ receiver: string }[]>`
        select distinct i.receiver from inbox i join aggregates g on g.id = i.receiver
         where i.absorbed_at is null and i.receiver_kind = 'payer' limit ${limit}`
      return rows.map(({ receiver }) => receiver)
    },

    ...settlementTotals(sql),
  }
}
export type SettlementQueries = ReturnType<typeof createSettlementQueries>

/** Sums over the settlements of all payers. */
function settlementTotals(sql: Sql) {
  const [money, context] = [sql.unsafe(MONEY_STATE_SQL), sql.unsafe(CONTEXT_SQL)]
  const open = sql.unsafe(IS_OPEN_SQL)
  const unpaid = sql`${open} and ${context}->>'mode' = 'optimistic'
    and ${money} in ('claimed', 'due', 'submitted', 'unknown')`
  return {
    /** The price of calls running before their payment, right now. */
    async exposure(): Promise<Micros> {
      const [row] = await sql<{ exposure: bigint }[]>`
        select coalesce(sum((${context}->'price'->>'$n')::bigint), 0)::bigint as exposure
          from actors a where ${unpaid}`
      return asMicros(row?.exposure ?? 0n)
    },

    /** The exposure, and what the treasury has lost to payments that failed since a time, in one reading. */
    async atStake(since: Date): Promise<Micros> {
      const [row] = await sql<{ exposure: bigint; lost: bigint }[]>`
        select (select coalesce(sum((${context}->'price'->>'$n')::bigint), 0)::bigint
                  from actors a where ${unpaid}) as exposure,
               (select greatest(0, coalesce(sum(case when debit = 'treasury:fees'
                         then amount_micros else -amount_micros end), 0))::bigint
                  from ledger where kind = 'loss' and at > ${since}) as lost`
      return asMicros((row?.exposure ?? 0n) + (row?.lost ?? 0n))
    },

    /** For metrics and health. */
    async counts(): Promise<SettlementCounts> {
      const [row] = await sql<{ open: bigint; stuck: bigint; lost: bigint; worth: bigint }[]>`
        select (select count(*) from actors a where ${open} and ${sql.unsafe(IS_STUCK_SQL)}) as stuck,
               (select count(*) from actors a where ${open}
                   and ${money} in ('claimed', 'due', 'submitted', 'unknown')) as open,
               (select count(*) from actors a where a.kind = 'settlement' and ${money} = 'lost') as lost,
               (select coalesce(sum((${context}->'losses'->>'$n')::bigint), 0)::bigint
                  from actors a where a.kind = 'payer') as worth`
      return {
        open: Number(row?.open ?? 0n),
        stuck: Number(row?.stuck ?? 0n),
        lost: Number(row?.lost ?? 0n),
        lostValue: asMicros(row?.worth ?? 0n),
        exposure: await this.exposure(),
      }
    },
  }
}

interface OpenSettlementRow {
  id: string
  payer: string
  money: string
  delivery: string
  chain: string
  tx_hash: string | null
  look_at: number | null
  attempts: number
}
interface PublicSettlementRow extends OpenSettlementRow {
  asset: string
  amount: string
  price: string
  purpose: string
  call_id: string
  agent_id: string | null
  claimed_at: number
  settled_at: number | null
}

const toOpenSettlement = (row: OpenSettlementRow): OpenSettlement => ({
  id: row.id,
  payer: row.payer,
  money: row.money,
  delivery: row.delivery,
  chain: row.chain,
  txHash: row.tx_hash,
  attempts: row.attempts,
  lookAt: row.look_at,
})

const toPublicSettlementRecord = (row: PublicSettlementRow): PublicSettlementRecord => ({
  ...toOpenSettlement(row),
  asset: row.asset,
  amount: row.amount,
  price: asMicros(BigInt(row.price)),
  purpose: row.purpose,
  callId: row.call_id,
  agentId: row.agent_id,
  claimedAt: row.claimed_at,
  settledAt: row.settled_at,
})

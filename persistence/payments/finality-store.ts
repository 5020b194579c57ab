import { asMicros, type Micros } from '../../core/money.ts'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** A booked transfer whose block may still be replaced. */
export interface UnfinalizedTransfer {
  readonly id: string
  readonly chain: string
  readonly tx: string
  readonly logIndex: number
  readonly kind: string
  /** The settlement or the fleet. */
  readonly ref: string
  /** The aggregate that reverses it. */
  readonly receiver: string
  readonly asset: string | null
  /** In lower case; null if irrelevant. */
  readonly sender: string | null
  /** Atomic units. */
  readonly amount: bigint
  readonly bonus: Micros
  readonly block: bigint | null
  /** Null until its transaction has been looked up. */
  readonly blockHash: string | null
  readonly at: Date
}

/** A block as it was when its transfers were looked up. */
export interface ObservedBlock {
  readonly number: bigint
  readonly hash: string
}

/** Stores transfers that wait for their block to become final; commits write them. */
export function createFinalityStore(sql: Sql) {
  return {
    /** Transfers without a looked-up transaction, oldest first. */
    async fresh(chain: string, limit: number): Promise<UnfinalizedTransfer[]> {
      const rows = await sql<UnfinalizedTransferRow[]>`
        select * from unfinalized_transfers where chain = ${chain} and block_hash is null
         order by at, id limit ${limit}`
      return rows.map(fromRow)
    },

    /** Assigns transfers to a block. */
    async anchor(ids: readonly string[], { number, hash }: ObservedBlock): Promise<void> {
      await sql`update unfinalized_transfers set block = ${number}, block_hash = ${hash}
        where id = any(${toTextArrayLiteral(ids)}::text[]::uuid[])`
    },

    /**
     * The newest blocks, where a reorganisation shows first, and the oldest up to the final one.
     */
    async blocks(chain: string, final: bigint, limit: number): Promise<ObservedBlock[]> {
      const rows = await sql<{ block: bigint; block_hash: string }[]>`
        (select distinct block, block_hash from unfinalized_transfers
          where chain = ${chain} and block_hash is not null order by block desc limit ${limit})
        union
        (select distinct block, block_hash from unfinalized_transfers
          where chain = ${chain} and block_hash is not null and block <= ${final}
          order by block limit ${limit})`
      return rows.map(({ block, block_hash: hash }) => ({ number: block, hash }))
    },

    async movesIn(chain: string, { number, hash }: ObservedBlock): Promise<UnfinalizedTransfer[]> {
      const rows = await sql<UnfinalizedTransferRow[]>`
        select * from unfinalized_transfers where chain = ${chain} and block = ${number} and block_hash = ${hash}`
      return rows.map(fromRow)
    },

    /** Marks a block's transfers as final. */
    async final(chain: string, { number, hash }: ObservedBlock): Promise<void> {
      await sql`delete from unfinalized_transfers
        where chain = ${chain} and block = ${number} and block_hash = ${hash}`
    },

    /**
     * Reopens the transactions of a key from this nonce on, which are in no block any more: they
     * are sent again in nonce order. For failed ones, the nonce reconciler cancels the nonce.
     */
    async reopen(chain: string, settler: string, nonce: number): Promise<number> {
      const rows = await sql`update settler_txs set state = 'signed'
        where chain = ${chain} and settler = ${settler} and nonce >= ${nonce}
          and state = 'mined' and replaced_by is null`
      return rows.count
    },
  }
}
export type FinalityStore = ReturnType<typeof createFinalityStore>

interface UnfinalizedTransferRow {
  id: string
  chain: string
  tx: string
  log_index: number
  kind: string
  ref: string
  receiver: string
  asset: string | null
  sender: string | null
  amount: string
  bonus_micros: bigint
  block: bigint | null
  block_hash: string | null
  at: Date
}

const fromRow = (row: UnfinalizedTransferRow): UnfinalizedTransfer => ({
  id: row.id,
  chain: row.chain,
  tx: row.tx,
  logIndex: row.log_index,
  kind: row.kind,
  ref: row.ref,
  receiver: row.receiver,
  asset: row.asset,
  sender: row.sender,
  amount: BigInt(row.amount),
  bonus: asMicros(row.bonus_micros),
  block: row.block,
  blockHash: row.block_hash,
  at: row.at,
})

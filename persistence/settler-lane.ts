import type { Tx } from './once.ts'
import type { Sql } from './plane.ts'

/** A key on a chain: what it sends goes out in the order of its nonces. */
export interface Lane {
  readonly chain: string
  /** Lower case. */
  readonly address: string
}

/** A transaction as its signer made it; fees in wei for each unit of gas. */
export interface Signed {
  readonly raw: string
  readonly hash: string
  readonly maxFee: bigint
  readonly priorityFee: bigint
}

/** `void`: the chain used its nonce for another transaction. */
export type TxState = 'signed' | 'mined' | 'reverted' | 'void'

export interface StoredTx extends Signed {
  readonly id: string
  readonly nonce: number
  /** What it is for: a settlement, a sweep. */
  readonly purpose: string
  readonly attempt: number
  readonly state: TxState
  readonly createdAt: Date
}

/** Signs for a nonce. It runs inside a transaction: nothing of it may wait for a network. */
export type Sign = (nonce: number) => Promise<Signed>

/** The nonces of the keys that submit, and their transactions, stored before they are sent. */
export function settlerLane(sql: Sql) {
  return {
    /**
     * Makes the nonce what the chain says at least: at the start, and when a key was used elsewhere.
     * `confirmed` is the number of its mined transactions, never of pending ones.
     */
    async reconcile({ chain, address }: Lane, confirmed: number): Promise<number> {
      const [row] = await sql<{ next_nonce: bigint }[]>`
        insert into settlers as s values (${chain}, ${address}, ${confirmed})
        on conflict (chain, address) do update
          set next_nonce = greatest(s.next_nonce, excluded.next_nonce) returning next_nonce`
      return Number(row?.next_nonce ?? confirmed)
    },

    /**
     * The transaction for a purpose: the one under way, if any node has made it already, else a new
     * one with the next nonce. Nonce and signed transaction are stored together, or neither.
     */
    take(lane: Lane, purpose: string, id: string, sign: Sign): Promise<StoredTx> {
      return sql.begin(async (tx) => {
        const nonce = await lock(tx, lane)
        const before = await latest(tx, lane.chain, purpose)
        if (before?.state === 'signed') return before
        const attempt = (before?.attempt ?? 0) + 1
        const signed = await sign(nonce)
        const stored = await store(tx, lane, { id, nonce, purpose, attempt }, signed)
        await tx`update settlers set next_nonce = next_nonce + 1
          where chain = ${lane.chain} and address = ${lane.address}`
        return stored
      })
    },

    /** Another transaction in its place, with the same nonce: at a higher fee, or to itself. */
    replace(lane: Lane, old: StoredTx, id: string, sign: Sign): Promise<StoredTx | null> {
      return sql.begin(async (tx) => {
        await lock(tx, lane)
        const [gone] = await tx<{ id: string }[]>`update settler_txs set replaced_by = ${id}
          where id = ${old.id} and replaced_by is null and state = 'signed' returning id`
        if (gone === undefined) return null
        const { nonce, purpose, attempt } = old
        return store(tx, lane, { id, nonce, purpose, attempt }, await sign(nonce))
      })
    },

    /** The newest transaction for a purpose that nothing has replaced. */
    async newest(chain: string, purpose: string): Promise<StoredTx | null> {
      return latest(sql, chain, purpose)
    },

    /** All that were ever signed for a purpose, those replaced too: any of them may be mined. */
    async all(chain: string, purpose: string): Promise<StoredTx[]> {
      const rows = await sql<TxRow[]>`select * from settler_txs
        where chain = ${chain} and purpose = ${purpose} order by attempt desc, created_at desc`
      return rows.map(fromRow)
    },

    /** Transactions of a key that no block has answered yet, in the order of their nonces. */
    async unconfirmed({ chain, address }: Lane, limit: number): Promise<StoredTx[]> {
      const rows = await sql<TxRow[]>`select * from settler_txs
        where chain = ${chain} and settler = ${address} and replaced_by is null
          and state = 'signed' order by nonce limit ${limit}`
      return rows.map(fromRow)
    },

    /** What a block, or the nonces of the chain, said about a transaction. */
    async mark(id: string, state: TxState): Promise<void> {
      await sql`update settler_txs set state = ${state} where id = ${id} and state = 'signed'`
    },
  }
}
export type SettlerLane = ReturnType<typeof settlerLane>

/** Locks the lane of a key and tells its next nonce. */
async function lock(tx: Tx, { chain, address }: Lane): Promise<number> {
  const [row] = await tx<{ next_nonce: bigint }[]>`select next_nonce from settlers
    where chain = ${chain} and address = ${address} for update`
  if (row === undefined) throw new Error(`the settler ${address} was never reconciled on ${chain}`)
  return Number(row.next_nonce)
}

async function latest(sql: Sql | Tx, chain: string, purpose: string): Promise<StoredTx | null> {
  const [row] = await sql<TxRow[]>`select * from settler_txs
    where chain = ${chain} and purpose = ${purpose} and replaced_by is null
    order by attempt desc limit 1`
  return row === undefined ? null : fromRow(row)
}

interface Place {
  readonly id: string
  readonly nonce: number
  readonly purpose: string
  readonly attempt: number
}

async function store(tx: Tx, lane: Lane, place: Place, signed: Signed): Promise<StoredTx> {
  const { id, nonce, purpose, attempt } = place
  const { raw, hash, maxFee, priorityFee } = signed
  const [row] = await tx<TxRow[]>`insert into settler_txs
    values (${id}, ${lane.chain}, ${lane.address}, ${nonce}, ${purpose}, ${attempt}, ${raw}, ${hash},
      ${maxFee.toString()}, ${priorityFee.toString()}, 'signed', clock_timestamp(), null)
    returning *`
  if (row === undefined) throw new Error('a stored transaction came back as nothing')
  return fromRow(row)
}

interface TxRow {
  id: string
  nonce: bigint
  purpose: string
  attempt: number
  raw: string
  hash: string
  max_fee: string
  priority_fee: string
  state: TxState
  created_at: Date
}

const fromRow = (row: TxRow): StoredTx => ({
  id: row.id,
  nonce: Number(row.nonce),
  purpose: row.purpose,
  attempt: row.attempt,
  raw: row.raw,
  hash: row.hash,
  maxFee: BigInt(row.max_fee),
  priorityFee: BigInt(row.priority_fee),
  state: row.state,
  createdAt: row.created_at,
})

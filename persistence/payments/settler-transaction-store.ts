import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** A key on a chain: its transactions are sent in nonce order. */
export interface SettlerAddress {
  readonly chain: string
  /** Lower case. */
  readonly address: string
}

/** A signed transaction; fees in wei per unit of gas. */
export interface SignedSettlerTransaction {
  readonly raw: string
  readonly hash: string
  readonly maxFee: bigint
  readonly priorityFee: bigint
}

/**
 * `void`: the chain used the nonce for another transaction. Any state may change until its block is
 * final.
 */
export type SettlerTransactionState = 'signed' | 'mined' | 'reverted' | 'void'

export interface StoredSettlerTransaction extends SignedSettlerTransaction {
  readonly id: string
  /** The address of the key, in lower case. */
  readonly settler: string
  readonly nonce: number
  readonly state: SettlerTransactionState
  readonly createdAt: Date
}

/**
 * Signs one transaction for a nonce and all these purposes. Runs inside a database transaction: it
 * must not wait for a network.
 */
export type SettlerTransactionSigner = (
  nonce: number,
  purposes: readonly string[],
) => Promise<SignedSettlerTransaction>

/** Stores the nonces of submitting keys, and their transactions before they are sent. */
export function createSettlerTransactionStore(sql: Sql) {
  return {
    /**
     * Raises the next nonce to at least the chain's: at the start, and after the key was used
     * elsewhere. `confirmed` is the number of its mined transactions, without pending ones.
     */
    async reconcile({ chain, address }: SettlerAddress, confirmed: number): Promise<number> {
      const [row] = await sql<{ next_nonce: bigint }[]>`
        insert into settlers as s values (${chain}, ${address}, ${confirmed})
        on conflict (chain, address) do update
          set next_nonce = greatest(s.next_nonce, excluded.next_nonce) returning next_nonce`
      return Number(row?.next_nonce ?? confirmed)
    },

    /**
     * Returns the transaction of each purpose: the one any node has made, else one new transaction
     * for all others with the next nonce. Stores nonce, transaction and purposes together. `seen`
     * is the newest transaction of each purpose the caller knew when it decided that another is
     * needed; a newer one is returned in any state.
     */
    take(
      settler: SettlerAddress,
      seen: ReadonlyMap<string, StoredSettlerTransaction | null>,
      id: string,
      sign: SettlerTransactionSigner,
    ): Promise<ReadonlyMap<string, StoredSettlerTransaction>> {
      return sql.begin(async (tx) => {
        const nonce = await lockSettler(tx, settler)
        const purposes = [...seen.keys()]
        const before = await readNewestByPurpose(tx, settler.chain, purposes)
        const made = before.filter(
          ({ purpose, stored }) => stored.state === 'signed' || stored.id !== seen.get(purpose)?.id,
        )
        const found = new Map(made.map(({ purpose, stored }) => [purpose, stored]))
        const free = purposes.filter((purpose) => !found.has(purpose))
        if (free.length === 0) return found
        const stored = await insertTransaction(tx, settler, { id, nonce }, await sign(nonce, free))
        await assignPurposes(tx, settler, nonce, free, before)
        for (const purpose of free) found.set(purpose, stored)
        return found
      })
    },

    /**
     * Replaces a transaction under the same nonce: at a higher fee, or by a transfer to itself.
     * Null if it has changed meanwhile.
     */
    replace(
      settler: SettlerAddress,
      old: StoredSettlerTransaction,
      id: string,
      sign: SettlerTransactionSigner,
    ): Promise<StoredSettlerTransaction | null> {
      return sql.begin(async (tx) => {
        await lockSettler(tx, settler)
        const [gone] = await tx<{ id: string }[]>`update settler_txs set replaced_by = ${id}
          where id = ${old.id} and replaced_by is null and state = ${old.state} returning id`
        if (gone === undefined) return null
        return insertTransaction(tx, settler, { id, nonce: old.nonce }, await sign(old.nonce, []))
      })
    },

    /** The newest, unreplaced transaction of each purpose that has one. */
    async newest(
      chain: string,
      purposes: readonly string[],
    ): Promise<ReadonlyMap<string, StoredSettlerTransaction>> {
      const found = await readNewestByPurpose(sql, chain, purposes)
      return new Map(found.map(({ purpose, stored }) => [purpose, stored]))
    },

    /**
     * All transactions signed for the newest attempt of a purpose, newest first: any may be mined.
     * A new attempt starts only if the one before cannot succeed any more.
     */
    async all(chain: string, purpose: string): Promise<StoredSettlerTransaction[]> {
      const rows = await sql<TxRow[]>`select t.* from settler_txs t
        where (t.chain, t.settler, t.nonce) = (select c.chain, c.settler, c.nonce
          from settler_tx_settlements c where c.chain = ${chain} and c.purpose = ${purpose}
          order by c.attempt desc limit 1) order by t.created_at desc`
      return rows.map(fromRow)
    },

    ...settlerNonceQueries(sql),
  }
}
export type SettlerTransactionStore = ReturnType<typeof createSettlerTransactionStore>

/** Queries the results of used nonces. */
function settlerNonceQueries(sql: Sql) {
  return {
    /** All transactions signed for one nonce, newest first. */
    async ofNonce(
      { chain, address }: SettlerAddress,
      nonce: number,
    ): Promise<StoredSettlerTransaction[]> {
      const rows = await sql<TxRow[]>`select * from settler_txs
        where chain = ${chain} and settler = ${address} and nonce = ${nonce}
        order by created_at desc`
      return rows.map(fromRow)
    },

    /** Transactions of a key without a result from a block, in nonce order. */
    async unconfirmed(
      { chain, address }: SettlerAddress,
      limit: number,
    ): Promise<StoredSettlerTransaction[]> {
      const rows = await sql<TxRow[]>`select * from settler_txs
        where chain = ${chain} and settler = ${address} and replaced_by is null
          and state = 'signed' order by nonce limit ${limit}`
      return rows.map(fromRow)
    },

    /** Nonces with a result, from this one on, in order. */
    async answered(
      { chain, address }: SettlerAddress,
      from: number,
      limit: number,
    ): Promise<StoredSettlerTransaction[]> {
      const rows = await sql<TxRow[]>`select * from settler_txs
        where chain = ${chain} and settler = ${address} and nonce >= ${from}
          and replaced_by is null and state <> 'signed' order by nonce limit ${limit}`
      return rows.map(fromRow)
    },

    /** Void nonces from this one on, newest first. */
    async voided(
      { chain, address }: SettlerAddress,
      from: number,
      limit: number,
    ): Promise<StoredSettlerTransaction[]> {
      const rows = await sql<TxRow[]>`select * from settler_txs
        where chain = ${chain} and settler = ${address} and nonce >= ${from}
          and replaced_by is null and state = 'void' order by nonce desc limit ${limit}`
      return rows.map(fromRow)
    },

    /**
     * Records the result of a nonce on its row. A result from a block always counts; `void`, which
     * follows from the nonces, only without one.
     */
    async mark(
      { chain, address }: SettlerAddress,
      nonce: number,
      state: SettlerTransactionState,
    ): Promise<void> {
      const from = state === 'void' ? sql`state = 'signed'` : sql`state <> ${state}`
      await sql`update settler_txs set state = ${state} where chain = ${chain}
        and settler = ${address} and nonce = ${nonce} and replaced_by is null and ${from}`
    },

    /** Reopens a nonce whose block is gone. */
    async reopen({ chain, address }: SettlerAddress, nonce: number): Promise<void> {
      await sql`update settler_txs set state = 'signed' where chain = ${chain}
        and settler = ${address} and nonce = ${nonce} and replaced_by is null and state = 'mined'`
    },
  }
}

/** Locks the row of a key and returns its next nonce. */
async function lockSettler(
  tx: DatabaseTransaction,
  { chain, address }: SettlerAddress,
): Promise<number> {
  const [row] = await tx<{ next_nonce: bigint }[]>`select next_nonce from settlers
    where chain = ${chain} and address = ${address} for update`
  if (row === undefined) throw new Error(`the settler ${address} was never reconciled on ${chain}`)
  return Number(row.next_nonce)
}

interface PurposeTransaction {
  readonly purpose: string
  readonly attempt: number
  readonly stored: StoredSettlerTransaction
}

async function readNewestByPurpose(
  sql: Sql | DatabaseTransaction,
  chain: string,
  purposes: readonly string[],
): Promise<PurposeTransaction[]> {
  const rows = await sql<(TxRow & { purpose: string; attempt: number })[]>`
    select distinct on (c.purpose) c.purpose, c.attempt, t.* from settler_tx_settlements c
      join settler_txs t on t.chain = c.chain and t.settler = c.settler and t.nonce = c.nonce
        and t.replaced_by is null
     where c.chain = ${chain} and c.purpose = any(${toTextArrayLiteral(purposes)}::text[])
     order by c.purpose, c.attempt desc`
  return rows.map((row) => {
    return { purpose: row.purpose, attempt: row.attempt, stored: fromRow(row) }
  })
}

async function insertTransaction(
  tx: DatabaseTransaction,
  { chain, address }: SettlerAddress,
  { id, nonce }: { readonly id: string; readonly nonce: number },
  { raw, hash, maxFee, priorityFee }: SignedSettlerTransaction,
): Promise<StoredSettlerTransaction> {
  const [row] = await tx<TxRow[]>`insert into settler_txs
      (id, chain, settler, nonce, raw, hash, max_fee, priority_fee, state, created_at)
    values (${id}, ${chain}, ${address}, ${nonce}, ${raw}, ${hash}, ${maxFee.toString()},
      ${priorityFee.toString()}, 'signed', clock_timestamp()) returning *`
  if (row === undefined) throw new Error('a stored transaction came back as nothing')
  return fromRow(row)
}

/** Stores the purposes of a nonce, and the next nonce. */
async function assignPurposes(
  tx: DatabaseTransaction,
  { chain, address }: SettlerAddress,
  nonce: number,
  purposes: readonly string[],
  before: readonly PurposeTransaction[],
): Promise<void> {
  const last = new Map(before.map(({ purpose, attempt }) => [purpose, attempt]))
  const attempts = purposes.map((purpose) => String((last.get(purpose) ?? 0) + 1))
  await tx`with given as (update settlers set next_nonce = next_nonce + 1
      where chain = ${chain} and address = ${address})
    insert into settler_tx_settlements (chain, purpose, attempt, settler, nonce)
    select ${chain}, p, a, ${address}, ${nonce} from unnest(
      ${toTextArrayLiteral(purposes)}::text[], ${toTextArrayLiteral(attempts)}::int[]) as carried (p, a)`
}

interface TxRow {
  id: string
  settler: string
  nonce: bigint
  raw: string
  hash: string
  max_fee: string
  priority_fee: string
  state: SettlerTransactionState
  created_at: Date
}

const fromRow = (row: TxRow): StoredSettlerTransaction => ({
  id: row.id,
  settler: row.settler,
  nonce: Number(row.nonce),
  raw: row.raw,
  hash: row.hash,
  maxFee: BigInt(row.max_fee),
  priorityFee: BigInt(row.priority_fee),
  state: row.state,
  createdAt: row.created_at,
})

import { asMicros, type Micros } from '../../core/money.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** The signed terms of a sweep besides its address and amount. */
export interface WalletSweepAuthorizationTerms {
  readonly to: string
  readonly nonce: `0x${string}`
  /** Seconds since the epoch. */
  readonly validBefore: number
  /** It cannot be used before this block. */
  readonly fromBlock: number
}

/** A sweep of credited money from a wallet to the treasury. */
export interface WalletSweepRecord {
  readonly id: string
  /** The agent or the fleet that owns the wallet. */
  readonly agentId: string
  /** Lower case. */
  readonly address: string
  readonly amount: Micros
  readonly terms: WalletSweepAuthorizationTerms
  readonly startedAt: Date
  /** Its position on the chain; null while it is pending. */
  readonly swept: WalletSweepTransfer | null
}

export interface WalletSweepTransfer {
  readonly tx: string
  readonly logIndex: number
  readonly block: bigint
}

/** A log entry that was credited to a fleet, and the fleet's wallet in lower case. */
export interface FleetOnchainTopUpTransfer {
  readonly tx: string
  readonly logIndex: number
  readonly fleetId: string
  readonly address: string
}

/** A wallet with credited money in it. */
export interface SweepableWallet {
  readonly agentId: string
  readonly address: string
  readonly amount: Micros
}

/** Credited money that has not left a wallet; `final` counts final deposits only. */
type SweepBasis = 'final' | 'credited'

/**
 * Stores the sweeps of all wallets: one at a time per wallet, never more than was credited to it.
 */
export function createWalletSweepStore(sql: Sql) {
  return {
    /** The credited money of an address that was not swept yet. */
    owed: (chain: string, address: string): Promise<Micros> =>
      readUnsweptAmount(sql, chain, address, 'credited'),

    /**
     * The credited money that could still be at an address: only final sweeps have left it for
     * good.
     */
    unsure: (chain: string, address: string): Promise<Micros> =>
      readPossiblyHeldAmount(sql, chain, address),

    /** The same, within a transaction that stops the crediting. */
    unsureIn: (tx: DatabaseTransaction, chain: string, address: string): Promise<Micros> =>
      readPossiblyHeldAmount(tx, chain, address),

    /**
     * Deposit wallets of agents and fleet wallets with final money: at least the threshold, or some
     * from before `older`.
     */
    async full(
      chain: string,
      least: Micros,
      older: Date,
      limit: number,
    ): Promise<SweepableWallet[]> {
      const rows = await sql<{ agent_id: string; address: string; amount: bigint }[]>`
        with held as (
          select i.agent_id, i.address, max(i.at) as newest,
                 (sum(i.amount_micros) - coalesce((select sum(s.amount_micros) from sweeps s
                    where s.chain = ${chain} and s.address = i.address and s.state <> 'failed'), 0))::bigint as amount
            from (select d.agent_id, d.address, d.amount_micros, d.booked_at as at
                    from deposits d join wallets w on lower(w.address) = d.address and w.status = 'active'
                   where d.chain = ${chain} and d.state = 'final'
                  union all select fleet_id, address, amount_micros, at
                    from fleet_topups where chain = ${chain} and address is not null) i
           group by i.agent_id, i.address)
        select agent_id, address, amount from held
         where amount >= ${least} or (amount > 0 and newest < ${older}) order by amount desc limit ${limit}`
      return rows.map((row) => ({
        agentId: row.agent_id,
        address: row.address,
        amount: asMicros(row.amount),
      }))
    },

    /** Fleet top-ups whose destination is not looked up yet, oldest first. */
    async unplaced(chain: string, limit: number): Promise<FleetOnchainTopUpTransfer[]> {
      const rows = await sql<
        { tx: string; log_index: number; fleet_id: string; address: string }[]
      >`
        select m.tx, m.log_index, m.ref as fleet_id, lower(w.address) as address
          from chain_transfers m join fleet_wallets w on w.fleet_id = m.ref::uuid
         where m.chain = ${chain} and m.kind = 'fleet_topup' and not exists (select from fleet_topups a
               where a.chain = m.chain and a.tx = m.tx and a.log_index = m.log_index)
         order by m.at limit ${limit}`
      return rows.map((row) => ({
        tx: row.tx,
        logIndex: row.log_index,
        fleetId: row.fleet_id,
        address: row.address,
      }))
    },

    /**
     * Records the destination of a top-up in a final block; `into` is the fleet's wallet, or null
     * if it went elsewhere.
     */
    async place(
      chain: string,
      { tx, logIndex, fleetId }: FleetOnchainTopUpTransfer,
      arrived: { into: string | null; amount: Micros; at: Date },
    ): Promise<void> {
      const { into, amount, at } = arrived
      await sql`
        insert into fleet_topups (chain, tx, log_index, fleet_id, address, amount_micros, at)
        values (${chain}, ${tx}, ${logIndex}, ${fleetId}, ${into}, ${amount}, ${at})
        on conflict do nothing`
    },

    /** Starts a sweep of a wallet, or returns the pending one; null if the wallet is empty. */
    async start(
      chain: string,
      wallet: { agentId: string; address: string },
      sweep: { id: string; terms: WalletSweepAuthorizationTerms; basis: SweepBasis; at: Date },
    ): Promise<WalletSweepRecord | null> {
      const { agentId, address } = wallet
      return sql.begin(async (tx) => {
        await tx`select from wallets where lower(address) = ${address} for update`
        await tx`select from fleet_wallets where lower(address) = ${address} for update`
        const [open] = await tx<SweepRow[]>`
          select * from sweeps where chain = ${chain} and address = ${address} and state = 'open'`
        if (open !== undefined) return fromRow(open)
        const amount = await readUnsweptAmount(tx, chain, address, sweep.basis)
        if (amount <= 0n) return null
        const [row] = await tx<SweepRow[]>`
          insert into sweeps (id, chain, agent_id, address, amount_micros, state, authorization_terms, started_at)
          values (${sweep.id}, ${chain}, ${agentId}, ${address}, ${amount}, 'open',
                  ${JSON.stringify(sweep.terms)}::text::jsonb, ${sweep.at}) returning *`
        return row === undefined ? null : fromRow(row)
      })
    },

    /** Sweeps without a result from the chain, oldest first. */
    async open(chain: string, limit: number): Promise<WalletSweepRecord[]> {
      const rows = await sql<SweepRow[]>`
        select * from sweeps where chain = ${chain} and state = 'open' order by id limit ${limit}`
      return rows.map(fromRow)
    },

    /** Sweeps in blocks up to this one that are not final yet; of one wallet or of all. */
    async unfinal(
      chain: string,
      block: bigint,
      limit: number,
      address: string | null = null,
    ): Promise<WalletSweepRecord[]> {
      const rows = await sql<SweepRow[]>`
        select * from sweeps where chain = ${chain} and state = 'done' and final_at is null
           and block <= ${block} and (${address}::text is null or address = ${address})
         order by block, id limit ${limit}`
      return rows.map(fromRow)
    },

    /** Whether any sweep waits for its block to become final. */
    async anyUnfinal(chain: string): Promise<boolean> {
      const [row] = await sql`
        select from sweeps where chain = ${chain} and state = 'done' and final_at is null limit 1`
      return row !== undefined
    },

    /** Marks a sweep's block as final. */
    async final({ id }: WalletSweepRecord, at: Date): Promise<void> {
      await sql`update sweeps set final_at = ${at} where id = ${id} and state = 'done'`
    },

    /** Marks a sweep as pending again after a reorganisation. False if another node was faster. */
    async reopen(chain: string, { id, swept }: WalletSweepRecord): Promise<boolean> {
      if (swept === null) return false
      return sql.begin(async (tx) => {
        const reopened = await tx`
          update sweeps set state = 'open', tx = null, log_index = null, block = null, ended_at = null
           where id = ${id} and state = 'done' and final_at is null and tx = ${swept.tx}
             and block = ${swept.block}`
        if (reopened.count === 0) return false
        await tx`delete from chain_transfers where chain = ${chain} and tx = ${swept.tx}
          and log_index = ${swept.logIndex} and kind = 'sweep' and ref = ${id}`
        return true
      })
    },

    /** Marks a sweep as done and claims its log, so that it is not credited as a deposit. */
    async done(
      chain: string,
      { id }: WalletSweepRecord,
      { tx: hash, logIndex, block }: WalletSweepTransfer,
      at: Date,
    ) {
      await sql.begin(async (tx) => {
        const ended = await tx`
          update sweeps set state = 'done', tx = ${hash}, log_index = ${logIndex}, block = ${block},
                 ended_at = ${at} where id = ${id} and state = 'open'`
        if (ended.count === 0) return
        await tx`insert into chain_transfers (chain, tx, log_index, kind, ref, at)
          values (${chain}, ${hash}, ${logIndex}, 'sweep', ${id}, clock_timestamp())`
      })
    },

    /** Marks a sweep as failed: its amount may be swept anew. */
    async failed({ id }: WalletSweepRecord, at: Date): Promise<void> {
      await sql`update sweeps set state = 'failed', ended_at = ${at} where id = ${id} and state = 'open'`
    },
  }
}
export type WalletSweepStore = ReturnType<typeof createWalletSweepStore>

/** A pending sweep may still fail: its amount counts as being in the wallet. */
const readUnsweptAmount = (
  db: Sql | DatabaseTransaction,
  chain: string,
  address: string,
  basis: SweepBasis,
): Promise<Micros> => readRemainingAmount(db, chain, address, { basis, gone: 'done' })

/** One statement: a sweep undone between two reads would be missing in both. */
const readPossiblyHeldAmount = (
  db: Sql | DatabaseTransaction,
  chain: string,
  address: string,
): Promise<Micros> => readRemainingAmount(db, chain, address, { basis: 'credited', gone: 'final' })

/** Credited money of an address, minus sweeps that are done, or only final ones. */
async function readRemainingAmount(
  db: Sql | DatabaseTransaction,
  chain: string,
  address: string,
  { basis, gone }: { basis: SweepBasis; gone: 'done' | 'final' },
): Promise<Micros> {
  const [row] = await db<{ left: bigint }[]>`
    select (coalesce((select sum(amount_micros) from deposits where chain = ${chain}
               and address = ${address} and state <> 'reorged'
               and (state = 'final' or ${basis === 'credited'})), 0)
          + coalesce((select sum(amount_micros) from fleet_topups where chain = ${chain}
               and address = ${address}), 0)
          - coalesce((select sum(amount_micros) from sweeps where chain = ${chain}
               and address = ${address} and state = 'done'
               and (final_at is not null or ${gone === 'done'})), 0))::bigint as left`
  return asMicros(row?.left ?? 0n)
}

interface SweepRow {
  id: string
  agent_id: string
  address: string
  amount_micros: bigint
  authorization_terms: WalletSweepAuthorizationTerms
  started_at: Date
  tx: string | null
  log_index: number | null
  block: bigint | null
}

const fromRow = (row: SweepRow): WalletSweepRecord => ({
  id: row.id,
  agentId: row.agent_id,
  address: row.address,
  amount: asMicros(row.amount_micros),
  terms: row.authorization_terms,
  startedAt: row.started_at,
  swept: toSweepTransfer(row),
})

const toSweepTransfer = ({
  tx,
  log_index: logIndex,
  block,
}: SweepRow): WalletSweepTransfer | null =>
  tx === null || logIndex === null || block === null ? null : { tx, logIndex, block }

import type { DomainEventType } from '../../core/domain-events.ts'
import { asMicros, ZERO_MICROS, type Micros } from '../../core/money.ts'
import type { BonusLeft } from '../../domain/pricing.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import { readBonusLeft } from './bonus-left.ts'

/** Custodial deposit wallets. */

export type WalletStatus = 'active' | 'exporting' | 'exported'

/**
 * A custodial wallet; its key is stored only in the envelope of
 * `chain/custody/custodial-wallets.ts`.
 */
export interface CustodialWalletRecord {
  readonly agentId: string
  /** EIP-55 spelling: the envelope is bound to it. */
  readonly address: string
  readonly sealed: Buffer
  readonly status: WalletStatus
  readonly createdAt: Date
}

/** A new wallet from `createCustodialWallet`. */
export interface NewWalletRecord {
  readonly address: string
  readonly sealed: Buffer
  readonly keyId: string
}

/** One export of a wallet's key. */
export interface WalletExportRecord {
  readonly id: string
  readonly address: string
  readonly state: 'started' | 'done'
  readonly newAddress: string | null
  readonly swept: Micros
}

export interface WalletExportRequest {
  /** Id of a new export. */
  readonly id: string
  readonly agentId: string
  readonly keyId: string
  /** Identifies a repeated request. */
  readonly name: string
  readonly most: number
  readonly at: Date
}

/** The export limit is reached; seconds until the next one is allowed. */
export interface WalletExportLimitReached {
  readonly retryAfter: number
}

/** Stores the wallets of agents, their state, and their exports. */
export function createWalletStore(sql: Sql) {
  return {
    /** The agent's wallet that takes deposits, else its newest one that is not exported. */
    async current(agentId: string): Promise<CustodialWalletRecord | null> {
      const [row] = await sql<WalletRow[]>`
        select * from wallets where agent_id = ${agentId} and status <> 'exported'
         order by status = 'active' desc, created_at desc limit 1`
      return row === undefined ? null : fromRow(row)
    },

    /** A wallet by its owner (an agent or a fleet) and its address, in any state. */
    async find(owner: string, address: string): Promise<CustodialWalletRecord | null> {
      const [row] = await sql<WalletRow[]>`
        select agent_id, address, sealed, created_at, status from wallets
         where agent_id = ${owner} and lower(address) = ${address.toLowerCase()}
        union all select fleet_id, address, sealed, created_at, 'active' from fleet_wallets
         where fleet_id = ${owner} and lower(address) = ${address.toLowerCase()}`
      return row === undefined ? null : fromRow(row)
    },

    /** Whether only we hold the key of an address (lower case). */
    async custodial(address: string): Promise<boolean> {
      const [row] = await sql`
        select from wallets where lower(address) = ${address} and status <> 'exported'
        union all select from fleet_wallets where lower(address) = ${address} limit 1`
      return row !== undefined
    },

    /** All deposit addresses, in lower case. */
    async watched(): Promise<string[]> {
      const rows = await sql<{ address: string }[]>`
        select lower(address) as address from wallets where status = 'active'`
      return rows.map(({ address }) => address)
    },

    /**
     * Starts an export: from this commit on nothing is credited to the wallet. Resumes an earlier
     * one, and returns the one this request has completed already; returns the wait time after
     * `most` within the hour. If `approve` throws, nothing has happened.
     */
    async startExport(
      request: WalletExportRequest,
      approve: (tx: DatabaseTransaction, address: string) => Promise<void>,
    ): Promise<WalletExportRecord | WalletExportLimitReached | null> {
      const { id, agentId, keyId, name, most, at } = request
      return sql.begin(async (tx) => {
        await lockAgentWallets(tx, agentId)
        const [known] = await tx<ExportRow[]>`
          select * from wallet_exports where agent_id = ${agentId} and forgotten_at is null
             and (state = 'started' or (state = 'done' and ${name} = any(requests)))
           order by state = 'started', requested_at desc limit 1`
        if (known !== undefined) {
          await tx`update wallet_exports set requests = requests || ${[name]}::text[]
            where id = ${known.id} and ${name} <> all(requests)`
          return toWalletExport(known)
        }
        const late = await findExportLimit(tx, agentId, most, at)
        if (late !== null) return late
        const [wallet] = await tx<WalletRow[]>`
          update wallets set status = 'exporting' where agent_id = ${agentId} and status = 'active'
          returning *`
        if (wallet === undefined) return null
        await approve(tx, wallet.address.toLowerCase())
        const [row] = await tx<ExportRow[]>`
          insert into wallet_exports (id, agent_id, address, key_id, state, requested_at, requests)
          values (${id}, ${agentId}, ${wallet.address}, ${keyId}, 'started', ${at}, ${[name]}::text[])
          returning *`
        return row === undefined ? null : toWalletExport(row)
      })
    },

    /** Whether an export of this agent has ended since then. */
    async hasExported(tx: DatabaseTransaction, agentId: string, since: Date): Promise<boolean> {
      const rows = await tx`
        select from wallet_exports where agent_id = ${agentId} and state = 'done'
           and requested_at >= ${since} limit 1`
      return rows.length > 0
    },

    /** Hands the wallet over, gives the agent a new one and publishes the event. Idempotent. */
    async finishExport(
      exported: { id: string; agentId: string; at: Date },
      wallet: NewWalletRecord,
    ): Promise<WalletExportRecord | null> {
      const { id, agentId, at } = exported
      return sql.begin(async (tx) => {
        await lockAgentWallets(tx, agentId)
        const [open] = await tx<ExportRow[]>`
          select * from wallet_exports where id = ${id} and agent_id = ${agentId}`
        if (open === undefined || open.state === 'done') {
          return open === undefined ? null : toWalletExport(open)
        }
        await tx`update wallets set status = 'exported'
          where agent_id = ${agentId} and address = ${open.address} and status = 'exporting'`
        await tx`insert into wallets (agent_id, address, sealed, key_id, created_at, status)
          values (${agentId}, ${wallet.address}, ${wallet.sealed}, ${wallet.keyId}, ${at}, 'active')`
        const told = { wallet_address: open.address, new_wallet_address: wallet.address }
        await tx`insert into outbox (agent_id, type, data, at)
          values (${agentId}, ${WALLET_EXPORTED_EVENT}, ${JSON.stringify(told)}::text::jsonb, ${at})`
        const [row] = await tx<ExportRow[]>`
          update wallet_exports e set state = 'done', new_address = ${wallet.address}, done_at = ${at},
                 swept_micros = coalesce((select sum(amount_micros)::bigint from sweeps s
                   where s.address = lower(e.address) and s.state = 'done'), 0)
           where id = ${id} returning *`
        return row === undefined ? null : toWalletExport(row)
      })
    },

    /**
     * Deletes the key of an exported wallet, since the owner has it. False for any other wallet.
     */
    async forget(agentId: string, address: string, at: Date): Promise<boolean> {
      return sql.begin(async (tx) => {
        await lockAgentWallets(tx, agentId)
        const [handed] = await tx`select from wallets where agent_id = ${agentId}
          and lower(address) = ${address.toLowerCase()} and status = 'exported'`
        if (handed === undefined) return false
        await tx`update wallet_exports set forgotten_at = ${at} where agent_id = ${agentId}
          and lower(address) = ${address.toLowerCase()} and state = 'done' and forgotten_at is null`
        await tx`update wallets set sealed = '', key_id = '' where agent_id = ${agentId}
          and lower(address) = ${address.toLowerCase()}`
        return true
      })
    },

    /** Records when the key of an exported wallet was first given to its owner. */
    async noteRead(agentId: string, address: string, at: Date): Promise<void> {
      await sql`update wallet_exports set read_at = ${at} where agent_id = ${agentId}
        and lower(address) = ${address.toLowerCase()} and state = 'done' and read_at is null`
    },

    /** Deletes keys first read before `older`; unread ones are kept. */
    async forgetOld(older: Date, at: Date): Promise<void> {
      await sql`
        with late as (update wallet_exports set forgotten_at = ${at} where state = 'done'
            and forgotten_at is null and read_at < ${older} returning agent_id, address)
        update wallets w set sealed = '', key_id = '' from late
         where w.agent_id = late.agent_id and w.address = late.address and w.status = 'exported'`
    },

    /** What its owner and the day leave for a bonus of the first deposit. */
    bonusLeft: (agentId: string): Promise<BonusLeft> => readBonusLeft(sql, agentId),

    /**
     * An agent's data for the funding page, without loading the agent; null if it does not exist.
     */
    async shown(agentId: string): Promise<FundingPageAgent | null> {
      const [row] = await sql<{ name: string; tier: string | null; pending: string | null }[]>`
        select g.name, coalesce(a.state#>>'{context,frozen,tier}', a.state->>'value') as tier, a.state#>>'{context,pending,$n}' as pending
          from agents g
          left join actors a on a.aggregate_id = g.agent_id::text and a.kind = 'agent'
                            and a.id = g.agent_id::text
         where g.agent_id = ${agentId}`
      if (row === undefined) return null
      const { name, tier, pending } = row
      return {
        name,
        tier: tier ?? 'empty',
        pending: asMicros(BigInt(pending ?? 0)),
      }
    },
  }
}
export type WalletStore = ReturnType<typeof createWalletStore>

/** The public data of an agent that takes deposits. */
export interface FundingPageAgent {
  readonly name: string
  /** The alert level of its balance. */
  readonly tier: string
  /** The sum of deposits below the minimum. */
  readonly pending: Micros
}

const WALLET_EXPORTED_EVENT: DomainEventType = 'wallet.exported'

/** Serializes wallet changes of an agent over all nodes. */
async function lockAgentWallets(tx: DatabaseTransaction, agentId: string): Promise<void> {
  await tx`select pg_advisory_xact_lock(hashtextextended(${`wallet:${agentId}`}, 0))`
}

async function findExportLimit(tx: DatabaseTransaction, agentId: string, most: number, at: Date) {
  const [row] = await tx<{ n: number; wait: number | null }[]>`
    select count(*)::int as n,
           extract(epoch from min(requested_at) + interval '1 hour' - ${at}::timestamptz)::float8 as wait
      from wallet_exports
     where agent_id = ${agentId} and requested_at > ${at}::timestamptz - interval '1 hour'`
  if (row === undefined || row.n < most) return null
  return { retryAfter: Math.max(1, Math.ceil(row.wait ?? 1)) }
}

interface WalletRow {
  agent_id: string
  address: string
  sealed: Buffer
  created_at: Date
  status: WalletStatus
}
interface ExportRow {
  id: string
  address: string
  state: 'started' | 'done'
  new_address: string | null
  swept_micros: bigint | null
}

const fromRow = (row: WalletRow): CustodialWalletRecord => ({
  agentId: row.agent_id,
  address: row.address,
  sealed: row.sealed,
  status: row.status,
  createdAt: row.created_at,
})

const toWalletExport = (row: ExportRow): WalletExportRecord => ({
  id: row.id,
  address: row.address,
  state: row.state,
  newAddress: row.new_address,
  swept: row.swept_micros === null ? ZERO_MICROS : asMicros(row.swept_micros),
})

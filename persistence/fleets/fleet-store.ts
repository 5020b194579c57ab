import type { BonusLeft } from '../../domain/pricing.ts'
import { readBonusLeft } from '../payments/bonus-left.ts'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** The data of a fleet apart from its pool. */
export interface FleetRecord {
  readonly fleetId: string
  readonly ownerId: string
  readonly name: string
  /** Its USDC address on Base, in EIP-55 spelling. */
  readonly address: string
  readonly members: number
  readonly createdAt: Date
}

export interface FleetMemberRecord {
  readonly agentId: string
  readonly joinedAt: Date
}

/** The cursor that continues a list of members after this one. */
export const toFleetMemberCursor = ({ agentId, joinedAt }: FleetMemberRecord): string =>
  `${+joinedAt} ${agentId}`

export interface NewFleet {
  readonly fleetId: string
  readonly ownerId: string
  /** The number of the fleet among its owner's, from 1; unique per owner. */
  readonly ordinal: number
  readonly name: string
  readonly createdAt: Date
}

/** Rows of a new fleet, as a command stages them with `ctx.row`. */
export function toFleetRows(
  { fleetId, ownerId, ordinal, name, createdAt }: NewFleet,
  wallet: { readonly address: string; readonly sealed: Buffer; readonly keyId: string },
) {
  const at = createdAt.toISOString()
  const sealed = `\\x${wallet.sealed.toString('hex')}`
  const { address, keyId } = wallet
  return [
    {
      table: 'fleets',
      row: { fleet_id: fleetId, owner_id: ownerId, ordinal, name, created_at: at },
    },
    {
      table: 'fleet_wallets',
      row: { fleet_id: fleetId, address, sealed, key_id: keyId, created_at: at },
    },
  ]
}

/** Row of a member; the commit of an agent's second membership is rejected. */
export const toFleetMemberRow = (agentId: string, fleetId: string, at: number) => ({
  agent_id: agentId,
  fleet_id: fleetId,
  joined_at: new Date(at).toISOString(),
})

/** Row that ends a membership and removes the member's row. */
export const toFleetLeaveRow = (
  agentId: string,
  fleetId: string,
  removedBy: string | null,
  at: number,
) => ({
  agent_id: agentId,
  fleet_id: fleetId,
  left_at: new Date(at).toISOString(),
  removed_by: removedBy,
})

const REQUIRED_TABLES = [
  'fleets',
  'fleet_members',
  'fleet_departures',
  'fleet_wallets',
  'chain_transfers',
]

/** Reads fleets and their members; the fleet's aggregate holds the pool. */
export function createFleetStore(sql: Sql) {
  return {
    /** Fleet tables missing in the database; fleet routes then answer 503. */
    async missing(): Promise<string[]> {
      const rows = await sql<{ name: string }[]>`
        select name from unnest(${toTextArrayLiteral(REQUIRED_TABLES)}::text[]) name where to_regclass(name) is null`
      return rows.map((row) => row.name)
    },

    async find(fleetId: string): Promise<FleetRecord | null> {
      const [row] = await sql<FleetRow[]>`${selectFleets(sql)} where f.fleet_id = ${fleetId}`
      return row === undefined ? null : fromRow(row)
    },

    /** The fleets an agent owns or belongs to, newest first. */
    async listOf(agentId: string, limit: number): Promise<FleetRecord[]> {
      const rows = await sql<FleetRow[]>`
        ${selectFleets(sql)} where f.owner_id = ${agentId}
            or f.fleet_id = (select fleet_id from fleet_members where agent_id = ${agentId})
         order by f.fleet_id desc limit ${limit}`
      return rows.map(fromRow)
    },

    async ownedBy(agentId: string): Promise<number> {
      const [row] = await sql<{ n: bigint }[]>`
        select count(*) as n from fleets where owner_id = ${agentId}`
      return Number(row?.n ?? 0n)
    },

    /** The agent's fleet, or null. */
    async membershipOf(agentId: string): Promise<string | null> {
      const [row] = await sql<{ fleet_id: string }[]>`
        select fleet_id from fleet_members where agent_id = ${agentId}`
      return row?.fleet_id ?? null
    },

    /** Members of a fleet, in the order they joined; `after` is the cursor of the last one seen. */
    async membersOf(
      fleetId: string,
      limit: number,
      after: string | null,
    ): Promise<FleetMemberRecord[]> {
      const [at = null, id = null] = after?.split(' ') ?? []
      return sql<FleetMemberRecord[]>`
        select agent_id as "agentId", joined_at as "joinedAt" from fleet_members
         where fleet_id = ${fleetId} and (${at}::bigint is null
            or (joined_at, agent_id) > (to_timestamp(${at}::bigint / 1000.0), ${id}::uuid))
         order by joined_at, agent_id limit ${limit}`
    },

    /** An agent's wallet addresses in lower case, present and earlier ones. */
    async walletsOf(agentId: string): Promise<string[]> {
      const rows = await sql<{ address: string }[]>`
        select lower(address) as address from wallets where agent_id = ${agentId}`
      return rows.map((row) => row.address)
    },

    /** What its owner and the day leave for a bonus of a top-up. */
    bonusLeft: (fleetId: string): Promise<BonusLeft> => readBonusLeft(sql, fleetId),

    /** Log indexes of a transaction that are already booked. */
    async booked(chain: string, tx: string): Promise<Set<number>> {
      const rows = await sql<{ log_index: number }[]>`
        select log_index from chain_transfers where chain = ${chain} and tx = ${tx}`
      return new Set(rows.map((row) => row.log_index))
    },
  }
}
export type FleetStore = ReturnType<typeof createFleetStore>

const UNIQUE_VIOLATION = '23505'
/** Tables whose unique rows decide which of several commits comes first. */
const CONTESTED_TABLES = [
  'fleets',
  'fleet_members',
  'chain_transfers',
  'deposit_bonuses',
  'operator_grants',
  'community_tool_places',
  'community_tools',
] as const

/** Whether a commit was rejected because a row of this table existed before. */
export const isUniqueViolation = (
  error: unknown,
  table: (typeof CONTESTED_TABLES)[number],
): boolean =>
  error instanceof Error &&
  (error as Error & { code?: string }).code === UNIQUE_VIOLATION &&
  (error as Error & { table_name?: string }).table_name === table

/** Whether a commit was rejected because another one came first; its command handles that. */
export const isConcurrentCommitConflict = (error: unknown): boolean =>
  CONTESTED_TABLES.some((table) => isUniqueViolation(error, table))

const selectFleets = (sql: Sql) => sql`
  select f.*, w.address,
         (select count(*) from fleet_members m where m.fleet_id = f.fleet_id) as members
    from fleets f join fleet_wallets w on w.fleet_id = f.fleet_id`

interface FleetRow {
  fleet_id: string
  owner_id: string
  name: string
  created_at: Date
  address: string
  members: bigint
}

const fromRow = (row: FleetRow): FleetRecord => ({
  fleetId: row.fleet_id,
  ownerId: row.owner_id,
  name: row.name,
  address: row.address,
  members: Number(row.members),
  createdAt: row.created_at,
})

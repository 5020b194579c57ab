import { hmacSha256, hmacSha256AsEncodedText } from '../../core/key-derivation-and-encryption.ts'
import {
  keyFamilyIdForSchedules,
  spendingCountIdOfApiKey,
  type ApiKeySpendingLimits,
} from '../../domain/api-key-spending-limits.ts'
import { isUuid } from '../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../core/limits.ts'
import { asMicros, type Micros } from '../../core/money.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** The scopes of a key; `*` is all of them. */
export const API_KEY_SCOPES = ['tools', 'read', 'tasks', 'backpacks', 'funds', 'keys'] as const
export type ApiKeyScope = (typeof API_KEY_SCOPES)[number]
export const WILDCARD_SCOPE = '*'
/** The largest scopes of a key bound to a Backpack: it manages no keys. */
export const SCOPES_ALLOWED_FOR_BACKPACK_KEYS: readonly ApiKeyScope[] = API_KEY_SCOPES.filter(
  (scope) => scope !== 'keys',
)

export interface ApiKeyRecord extends ApiKeySpendingLimits {
  readonly agentId: string
  /** The first characters of the key, by which its owner recognises it. */
  readonly prefix: string
  readonly name: string
  readonly scopes: readonly string[]
  readonly expiresAt: Date | null
  readonly revokedAt: Date | null
  readonly createdAt: Date
}

/** A key about to be stored; of `secret` only the hash is stored. */
export interface NewApiKey extends ApiKeySpendingLimits {
  readonly agentId: string
  readonly secret: string
  readonly name: string
  readonly scopes: readonly string[]
  readonly expiresAt: Date | null
  readonly createdAt: Date
}

/** A key, and how it ended if it has. */
export interface LatestApiKeyInRotation {
  readonly terms: ApiKeySpendingLimits
  readonly endReason: 'key_revoked' | 'key_expired' | null
}

/** The bus topic for changed keys; messages contain the key id. */
export const API_KEY_CHANGES_TOPIC = 'keys'

/** Picks the terms of a key, which is all a call carries of it. */
export const toApiKeySpendingLimits = (key: ApiKeySpendingLimits): ApiKeySpendingLimits => ({
  id: key.id,
  spendingId: spendingCountIdOfApiKey(key),
  familyId: keyFamilyIdForSchedules(key),
  cap: key.cap,
  capPerDay: key.capPerDay,
  capPerMonth: key.capPerMonth,
  backpackId: key.backpackId,
})

const DISPLAY_PREFIX_CHARS = 8
export const apiKeyDisplayPrefix = (secret: string): string => secret.slice(0, DISPLAY_PREFIX_CHARS)

/** Row of a new key, as a command stages it with `ctx.row`. */
export function toApiKeyRow(pepper: Buffer, key: NewApiKey): Record<string, unknown> {
  return {
    id: key.id,
    agent_id: key.agentId,
    hash: `\\x${hmacSha256AsEncodedText(pepper, key.secret, 'hex')}`,
    prefix: apiKeyDisplayPrefix(key.secret),
    name: key.name,
    scopes: key.scopes,
    cap_micros: key.cap?.toString() ?? null,
    cap_per_day_micros: key.capPerDay?.toString() ?? null,
    cap_per_month_micros: key.capPerMonth?.toString() ?? null,
    backpack_id: key.backpackId,
    spending_id: key.spendingId ?? null,
    family_id: key.familyId ?? null,
    expires_at: key.expiresAt?.toISOString() ?? null,
    revoked_at: null,
    created_at: key.createdAt.toISOString(),
  }
}

/** Stores API keys by HMAC: a stolen table grants no access (decision 40). */
export function createApiKeyStore(sql: Sql, pepper: Buffer) {
  return {
    /** The hash that identifies a key in the table and in caches. */
    hash: (secret: string): string => hmacSha256AsEncodedText(pepper, secret, 'hex'),

    /** The key with this hash, including revoked and expired keys. */
    async find(hash: string): Promise<ApiKeyRecord | null> {
      const [row] = await sql<KeyRow[]>`select * from api_keys where hash = decode(${hash}, 'hex')`
      return row === undefined ? null : fromRow(row)
    },

    /** The working key that a session of an owner acts as for this agent (`owner-session-store.ts`). */
    async findForSession(sessionHash: string, agentId: string): Promise<ApiKeyRecord | null> {
      if (!isUuid(agentId)) return null
      const [row] = await sql<KeyRow[]>`
        select k.* from owner_sessions s join owner_session_agents m using (hash)
          join api_keys k on k.id = m.key_id
         where s.hash = ${sessionHash} and s.expires_at > now() and m.agent_id = ${agentId}
           and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())`
      return row === undefined ? null : fromRow(row)
    },

    /**
     * The current key of a family: the latest rotation, also if it has ended. `ended` says how, by
     * the database's clock. Null if there is no such key.
     */
    async successorOf(familyId: string): Promise<LatestApiKeyInRotation | null> {
      const [row] = await sql<(KeyRow & { over: boolean })[]>`
        select *, coalesce(expires_at <= clock_timestamp(), false) as over from api_keys
         where coalesce(family_id, spending_id, id) = ${familyId} order by id desc limit 1`
      if (row === undefined) return null
      const endReason = row.revoked_at !== null ? 'key_revoked' : row.over ? 'key_expired' : null
      return { terms: toApiKeySpendingLimits(fromRow(row)), endReason }
    },

    /** An agent's keys that are not revoked, oldest first. */
    async listOf(agentId: string): Promise<ApiKeyRecord[]> {
      const rows = await sql<KeyRow[]>`
        select * from api_keys where agent_id = ${agentId} and revoked_at is null order by id`
      return rows.map(fromRow)
    },

    /** Adds a key; false if the agent already has `most` working keys. */
    async add(tx: DatabaseTransaction, key: NewApiKey, most: number): Promise<boolean> {
      await lockAgentKeys(tx, key.agentId)
      const added = await tx`
        insert into api_keys (id, agent_id, hash, prefix, name, scopes, cap_micros, cap_per_day_micros,
                              cap_per_month_micros, backpack_id, spending_id, family_id,
                              expires_at, created_at)
        select ${key.id}::uuid, ${key.agentId}::uuid, ${hmacSha256(pepper, key.secret)}::bytea,
               ${apiKeyDisplayPrefix(key.secret)}, ${key.name}, ${[...key.scopes]}::text[],
               ${key.cap}::bigint, ${key.capPerDay}::bigint, ${key.capPerMonth}::bigint,
               ${key.backpackId}, ${key.spendingId ?? null}::uuid, ${key.familyId ?? null}::uuid,
               ${key.expiresAt}::timestamptz, ${key.createdAt}::timestamptz
         where (select count(*) from api_keys where agent_id = ${key.agentId} and revoked_at is null
                   and (expires_at is null or expires_at > ${key.createdAt}::timestamptz)) < ${most}`
      return added.count === 1
    },

    /**
     * The working keys of an agent at an instant. Locks them: adding, rotating or revoking keys of
     * this agent waits until the transaction ends.
     */
    async holdAll(tx: DatabaseTransaction, agentId: string, at: Date): Promise<ApiKeyRecord[]> {
      await lockAgentKeys(tx, agentId)
      const rows = await tx<KeyRow[]>`
        select * from api_keys where agent_id = ${agentId} and revoked_at is null
           and (expires_at is null or expires_at > ${at}) order by id`
      return rows.map(fromRow)
    },

    /** A key of an agent that is not revoked, locked until the transaction ends. */
    async lock(tx: DatabaseTransaction, agentId: string, id: string): Promise<ApiKeyRecord | null> {
      const [row] = await tx<KeyRow[]>`
        select * from api_keys where id = ${id} and agent_id = ${agentId} and revoked_at is null
           for update`
      return row === undefined ? null : fromRow(row)
    },

    /** Shortens the life of a key to `at`. */
    async expire(tx: DatabaseTransaction, id: string, at: Date): Promise<void> {
      await tx`update api_keys set expires_at = least(expires_at, ${at}::timestamptz) where id = ${id}`
      await notifyKeyChange(tx, id)
    },

    /** Deletes the secrets stored for repeated requests made with a key. */
    async forgetSecrets(tx: DatabaseTransaction, agentId: string, id: string): Promise<void> {
      await tx`
        update calls set response = null, idempotency_key = null
         where owner = ${agentId} and key_id = ${id} and rail = 'none' and response is not null
           and at > now() - make_interval(hours => ${LIMITS.idempotencyHours})
           and response::jsonb ->> 'sealed' is not null`
    },

    /**
     * Moves the working keys of a family into another one, which stops the family's streams and
     * calls.
     */
    async leaveFamily(
      tx: DatabaseTransaction,
      agentId: string,
      familyId: string,
      newId: string,
    ): Promise<void> {
      const moved = await tx<{ id: string }[]>`
        update api_keys set family_id = ${newId}
         where agent_id = ${agentId} and revoked_at is null
           and coalesce(family_id, spending_id, id) = ${familyId} returning id`
      for (const { id } of moved) await notifyKeyChange(tx, id)
    },

    async revoke(tx: DatabaseTransaction, id: string, at: Date): Promise<void> {
      await tx`update api_keys set revoked_at = ${at} where id = ${id}`
      await notifyKeyChange(tx, id)
    },
  }
}
export type ApiKeyStore = ReturnType<typeof createApiKeyStore>

const lockAgentKeys = (tx: DatabaseTransaction, agentId: string) =>
  tx`select pg_advisory_xact_lock(hashtextextended(${`keys:${agentId}`}, 0))`

/** Notifies every node on commit, and only then. */
async function notifyKeyChange(tx: DatabaseTransaction, id: string): Promise<void> {
  const message = JSON.stringify({ topic: API_KEY_CHANGES_TOPIC, message: id })
  await tx`select pg_notify('gas_bus', ${message})`
}

interface KeyRow {
  id: string
  agent_id: string
  prefix: string
  name: string
  scopes: string[]
  cap_micros: bigint | null
  cap_per_day_micros: bigint | null
  cap_per_month_micros: bigint | null
  backpack_id: string | null
  spending_id: string | null
  family_id: string | null
  expires_at: Date | null
  revoked_at: Date | null
  created_at: Date
}

const toOptionalMicros = (value: bigint | null): Micros | null =>
  value === null ? null : asMicros(value)

const fromRow = (row: KeyRow): ApiKeyRecord => ({
  id: row.id,
  spendingId: row.spending_id ?? row.id,
  familyId: row.family_id ?? row.spending_id ?? row.id,
  agentId: row.agent_id,
  prefix: row.prefix,
  name: row.name,
  scopes: row.scopes,
  cap: toOptionalMicros(row.cap_micros),
  capPerDay: toOptionalMicros(row.cap_per_day_micros),
  capPerMonth: toOptionalMicros(row.cap_per_month_micros),
  backpackId: row.backpack_id,
  expiresAt: row.expires_at,
  revokedAt: row.revoked_at,
  createdAt: row.created_at,
})

import { reserveDailyStoredBytes } from '../daily-stored-byte-quotas.ts'
import {
  decryptEnvelope,
  encryptEnvelope,
  type EncryptionKeys,
} from '../../core/key-derivation-and-encryption.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Third-party secrets of a Backpack. */

export interface KeyringEntry {
  readonly name: string
  /** The only hosts this secret may be sent to. */
  readonly hosts: readonly string[]
  readonly createdAt: Date
}

/**
 * The owner of the secret: part of the envelope, so that a row moved elsewhere cannot be decrypted.
 */
export interface KeyringSecretOwnerAndName {
  readonly agentId: string
  readonly backpackId: string
  readonly name: string
}

const keyringSecretAad = (place: KeyringSecretOwnerAndName) => [
  place.agentId,
  place.backpackId,
  place.name,
]

/** Stores secrets encrypted; lists never contain their values (decision 39). */
export function createKeyringStore(sql: Sql, key: EncryptionKeys) {
  return {
    async listOf(backpackId: string): Promise<KeyringEntry[]> {
      const rows = await sql<EntryRow[]>`
        select name, hosts, created_at from keyring where backpack_id = ${backpackId} order by name`
      return rows.map(fromRow)
    },

    /** Adds or replaces a secret; null if the Backpack already holds `most` others. */
    async put(
      tx: DatabaseTransaction,
      place: KeyringSecretOwnerAndName,
      secret: string,
      hosts: readonly string[],
      at: Date,
      most: number,
    ): Promise<KeyringEntry | null> {
      await tx`select pg_advisory_xact_lock(hashtextextended(${`keyring:${place.backpackId}`}, 0))`
      const sealed = encryptEnvelope(key, secret, keyringSecretAad(place))
      await reserveDailyStoredBytes(tx, place.agentId, sealed.length, at)
      const [row] = await tx<EntryRow[]>`
        insert into keyring (backpack_id, agent_id, name, sealed, hosts, created_at)
        select ${place.backpackId}, ${place.agentId}, ${place.name}, ${sealed}::bytea, ${[...hosts]}::text[], ${at}::timestamptz
         where (select count(*) from keyring
                 where backpack_id = ${place.backpackId} and name <> ${place.name}) < ${most}
        on conflict (backpack_id, name) do update
          set agent_id = excluded.agent_id, sealed = excluded.sealed, hosts = excluded.hosts,
              created_at = excluded.created_at
        returning name, hosts, created_at`
      return row === undefined ? null : fromRow(row)
    },

    /** False if there was no such secret. */
    async remove(tx: DatabaseTransaction, backpackId: string, name: string): Promise<boolean> {
      const gone = await tx`
        delete from keyring where backpack_id = ${backpackId} and name = ${name}`
      return gone.count === 1
    },

    /** Decrypts one of the agent's own secrets for a tool, with the hosts it may be sent to. */
    async reveal(
      place: KeyringSecretOwnerAndName,
    ): Promise<{ secret: string; hosts: readonly string[] } | null> {
      const [row] = await sql<{ sealed: Buffer; hosts: string[] }[]>`
        select sealed, hosts from keyring
         where backpack_id = ${place.backpackId} and name = ${place.name}
           and agent_id = ${place.agentId}`
      if (row === undefined) return null
      return {
        secret: decryptEnvelope(key, row.sealed, keyringSecretAad(place)).toString('utf8'),
        hosts: row.hosts,
      }
    },
  }
}
export type KeyringStore = ReturnType<typeof createKeyringStore>

interface EntryRow {
  name: string
  hosts: string[]
  created_at: Date
}

const fromRow = (row: EntryRow): KeyringEntry => ({
  name: row.name,
  hosts: row.hosts,
  createdAt: row.created_at,
})

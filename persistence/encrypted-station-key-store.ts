import { randomBytes } from 'node:crypto'
import {
  envelopeKeyId,
  masterKeyId,
  decryptEnvelope,
  encryptEnvelope,
  deriveEncryptionKeys,
  STATION_KEY_PURPOSES,
  deriveSubkey,
  type MasterKey,
  type MasterKeys,
  type StationKeyPurpose,
} from '../core/key-derivation-and-encryption.ts'
import type { DatabaseTransaction } from './idempotency/idempotent-writes.ts'
import type { Sql } from './start-postgres-and-redis.ts'

/** The keys of a station that do not change with its master key. */
export type StationKeys = Readonly<Record<StationKeyPurpose, Buffer>>

/** The given master key does not fit this database. */
export class MasterKeyMismatchError extends Error {
  override readonly name = 'MasterKeyMismatchError'
}

const KEY_BYTES = 32
/** Any constant, the same on all nodes: its lock permits creating a station's keys. */
const STATION_KEYS_LOCK_ID = 8402_0010

/**
 * Decrypts the keys of the station with any of its master keys. A new station draws random ones. A
 * station older than this table keeps those derived from its master key. Rejects with
 * `MasterKeyMismatchError`, without changes, if the keys do not fit this database.
 */
export function openStationKeys(sql: Sql, masters: MasterKeys): Promise<StationKeys> {
  const sealing = deriveEncryptionKeys(masters, 'station')
  const ids = masters.map(masterKeyId)
  return sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(${STATION_KEYS_LOCK_ID})`
    await assertNotRetired(tx, ids[0] ?? '')
    const rows = await tx<StationKeyRow[]>`select purpose, sealed from station_keys`
    const sealed = new Map(rows.map((row) => [row.purpose, row.sealed]))
    assertKeysProvided(ids, [...sealed.values()].map(envelopeKeyId))
    const before = sealed.size === 0 ? await findLegacyMasterKey(tx, masters) : null
    for (const purpose of STATION_KEY_PURPOSES) {
      if (sealed.has(purpose)) continue
      const key = before === null ? randomBytes(KEY_BYTES) : deriveSubkey(before, purpose)
      const fresh = encryptEnvelope(sealing, key, [purpose])
      await tx`insert into station_keys (purpose, sealed) values (${purpose}, ${fresh})`
      sealed.set(purpose, fresh)
    }
    await tx`insert into master_keys (key_id) values (${ids[0] ?? ''}) on conflict do nothing`
    return Object.fromEntries(
      STATION_KEY_PURPOSES.map((purpose) => {
        const envelope = sealed.get(purpose) ?? Buffer.alloc(0)
        return [purpose, decryptEnvelope(sealing, envelope, [purpose])]
      }),
    ) as Record<StationKeyPurpose, Buffer>
  })
}

interface StationKeyRow {
  purpose: string
  sealed: Buffer
}

async function assertNotRetired(tx: DatabaseTransaction, id: string): Promise<void> {
  const [gone] = await tx`
    select from master_keys where key_id = ${id} and retired_at is not null`
  if (gone === undefined) return
  throw new MasterKeyMismatchError(
    `MASTER_KEY is key ${id}, which was rotated out of use: give the key that replaced it`,
  )
}

function assertKeysProvided(held: readonly string[], used: readonly string[]): void {
  const strange = [...new Set(used)].filter((id) => !held.includes(id))
  if (strange.length === 0) return
  throw new MasterKeyMismatchError(
    `the secrets of this database are sealed under master key ${strange.join(', ')}, and only ` +
      `${held.join(', ')} was given: give that one as MASTER_KEY, or as MASTER_KEY_PREVIOUS to rotate it`,
  )
}

/** The master key of a station from before this table; null for a new station. */
async function findLegacyMasterKey(
  tx: DatabaseTransaction,
  masters: MasterKeys,
): Promise<MasterKey | null> {
  const [first] = masters
  const [row] = await tx<{ used: string[]; old: boolean }[]>`
    select coalesce((select array_agg(distinct key_id) from wallets where key_id <> ''), '{}') as used,
           exists (select from aggregates) as old`
  const { used = [], old = false } = row ?? {}
  assertKeysProvided(masters.map(masterKeyId), used)
  if (!old) return null
  return masters.find((master) => used.includes(masterKeyId(master))) ?? first
}

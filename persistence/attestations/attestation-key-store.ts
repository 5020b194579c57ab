import { randomBytes } from 'node:crypto'
import { toPublicKey, type NoteSignerKey } from '../../core/attestations/signed-note.ts'
import type { AttestationPublicKey } from '../../core/attestations/did-document.ts'
import {
  decryptEnvelope,
  encryptEnvelope,
  type EncryptionKeys,
} from '../../core/key-derivation-and-encryption.ts'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** The Ed25519 keys that sign tree heads and receipts, sealed by the master key. */

/** A verifier of the key before the newest one still accepts what is signed. */
const SIGNING_KEYS = 2
const SEED_BYTES = 32
const aadOf = (number: number): string[] => ['attestation', String(number)]

type Database = Sql | DatabaseTransaction

interface SealedKeyRow {
  number: number
  sealed: Buffer
  public_key: Buffer
}

/** The keys that sign, the newest first. */
export async function readActiveAttestationSigningKeys(
  db: Database,
  sealing: EncryptionKeys,
  name: string,
): Promise<NoteSignerKey[]> {
  const rows = await db<SealedKeyRow[]>`
    select number, sealed, public_key from attestation_keys
     where retired_at is null order by number desc limit ${SIGNING_KEYS}`
  return rows.map(({ number, sealed, public_key: publicKey }) => ({
    name,
    publicKey,
    seed: decryptEnvelope(sealing, sealed, aadOf(number)),
  }))
}

/** All keys, the newest first. */
export async function listAttestationKeys(sql: Sql): Promise<AttestationPublicKey[]> {
  const rows = await sql<{ number: number; public_key: Buffer; retired: boolean }[]>`
    select number, public_key, retired_at is not null as retired from attestation_keys
     order by number desc`
  return rows.map(({ number, public_key: publicKey, retired }) => ({ number, publicKey, retired }))
}

/** Makes the first key of a station, once over all nodes. */
export const ensureAttestationKey = (sql: Sql, sealing: EncryptionKeys): Promise<void> =>
  sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtext('attestation keys'))`
    const [found] = await tx`select from attestation_keys limit 1`
    if (found === undefined) await insertKey(tx, sealing, 1)
  })

/**
 * Makes a new key. The one before it signs beside it until the next rotation; if it has leaked, all earlier keys
 * are retired at once. Returns the number of the new key.
 */
export const rotateAttestationKey = (
  sql: Sql,
  sealing: EncryptionKeys,
  hasLeaked: boolean,
): Promise<number> =>
  sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtext('attestation keys'))`
    const [last] = await tx<{ number: number }[]>`
      select coalesce(max(number), 0) as number from attestation_keys`
    const number = (last?.number ?? 0) + 1
    await tx`update attestation_keys set retired_at = now()
      where retired_at is null and (${hasLeaked}::boolean or number < ${number - 1})`
    await insertKey(tx, sealing, number)
    return number
  })

async function insertKey(
  tx: DatabaseTransaction,
  sealing: EncryptionKeys,
  number: number,
): Promise<void> {
  const seed = randomBytes(SEED_BYTES)
  const sealed = encryptEnvelope(sealing, seed, aadOf(number))
  await tx`insert into attestation_keys (number, public_key, sealed)
    values (${number}, ${toPublicKey(seed)}, ${sealed})`
}

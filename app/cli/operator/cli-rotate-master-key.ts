import {
  envelopeKeyId,
  masterKeyId,
  decryptEnvelope,
  encryptEnvelope,
  deriveEncryptionKeys,
  type MasterKeys,
  type EncryptionKeys,
} from '../../../core/key-derivation-and-encryption.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import {
  isMasterKeyRetired,
  retireMasterKey,
  listSealedColumns,
  countStationsWithoutMasterKey,
  type StoredEncryptedEnvelope,
  type EncryptedEnvelopeReplacement,
  type SealedColumn,
} from '../../../persistence/encrypted-database-columns.ts'
import { openStationKeys } from '../../../persistence/encrypted-station-key-store.ts'

/** The `gas rotate-master-key` command. */

const ROTATION_PAGE_ROWS = 200

/** Thrown when the rotation is rejected or incomplete; the message says why. */
export class MasterKeyRotationAbortedError extends Error {
  override readonly name = 'RotationAbortedError'
}

/**
 * Re-encrypts all secrets with the first of two master keys and retires the second. Can be
 * interrupted and repeated; stations with both keys serve meanwhile. Resolves when every envelope
 * has been read back with the new key alone. Throws `MasterKeyRotationAbortedError` (nothing was changed, or
 * some envelopes cannot be decrypted) or `MasterKeyMismatchError`.
 */
export async function rotateMasterKey(
  sql: Sql,
  masters: MasterKeys,
  say: (line: string) => void,
): Promise<void> {
  const [current, previous] = masters.map(masterKeyId)
  if (current === undefined || previous === undefined)
    throw new MasterKeyRotationAbortedError(SINGLE_KEY_MESSAGE)
  await openStationKeys(sql, masters)
  const places = listSealedColumns(sql)
  await assertCanRotate(sql, places, { current, previous })
  await retireMasterKey(sql, previous)
  say(`key ${previous} seals nothing any more; sealing what it had under ${current}`)
  for (const place of places) {
    const count = await resealPlace(place, masters, current)
    say(`${place.name}: ${count} sealed anew`)
  }
  const read = await readBack(places, [masters[0]])
  say(
    `${read} secrets read back: each opens under ${current}, and ${previous} opens nothing any more`,
  )
}

const SINGLE_KEY_MESSAGE =
  'there is one master key only: give the new one as MASTER_KEY and the old one as MASTER_KEY_PREVIOUS'

interface Ids {
  readonly current: string
  readonly previous: string
}

/** Throws when the keys cannot be right, or when a running station lacks the new one. */
async function assertCanRotate(
  sql: Sql,
  places: readonly SealedColumn[],
  { current, previous }: Ids,
) {
  const used = new Set<string>()
  for await (const { sealed } of listEnvelopes(places)) {
    used.add(idOf(sealed) ?? previous)
  }
  const unknown = [...used].filter((id) => id !== current && id !== previous)
  if (unknown.length > 0) {
    throw new MasterKeyRotationAbortedError(
      `nothing was changed: secrets are sealed under ${unknown.join(', ')} too, which was not given`,
    )
  }
  if (!used.has(previous) && !(await isMasterKeyRetired(sql, previous))) {
    throw new MasterKeyRotationAbortedError(
      `nothing was changed: no secret is sealed under MASTER_KEY_PREVIOUS (${previous}); are the two exchanged?`,
    )
  }
  const without = await countStationsWithoutMasterKey(sql, current)
  if (without > 0) {
    throw new MasterKeyRotationAbortedError(
      `nothing was changed: a running station does not hold MASTER_KEY (${current}); restart it with both keys`,
    )
  }
}

/** Skips envelopes that cannot be decrypted; `readBack` reports them. */
async function resealPlace(place: SealedColumn, masters: MasterKeys, current: string) {
  const keys = deriveEncryptionKeys(masters, place.purpose)
  let count = 0
  for await (const page of pages(place)) {
    const old = page.filter(({ sealed }) => idOf(sealed) !== current)
    const changes = old.flatMap((kept) => reencryptEnvelope(keys, kept))
    if (changes.length > 0) await place.replace(changes, current)
    count += changes.length
  }
  return count
}

function reencryptEnvelope(
  keys: EncryptionKeys,
  { row, sealed, aad }: StoredEncryptedEnvelope,
): EncryptedEnvelopeReplacement[] {
  const text = decryptOrNull(keys, { sealed, aad })
  return text === null ? [] : [{ row, before: sealed, after: encryptEnvelope(keys, text, aad) }]
}

/** Returns null when the bytes are no envelope. */
function idOf(sealed: Buffer): string | null {
  try {
    return envelopeKeyId(sealed)
  } catch {
    return null
  }
}

function decryptOrNull(
  keys: EncryptionKeys,
  { sealed, aad }: Pick<StoredEncryptedEnvelope, 'sealed' | 'aad'>,
) {
  try {
    return decryptEnvelope(keys, sealed, aad)
  } catch {
    return null
  }
}

/** Decrypts every envelope with the new key alone. Returns their number. */
async function readBack(places: readonly SealedColumn[], masters: MasterKeys): Promise<number> {
  let count = 0
  const closed: string[] = []
  for await (const { place, row, ...kept } of listEnvelopes(places)) {
    count += 1
    if (decryptOrNull(deriveEncryptionKeys(masters, place.purpose), kept) === null)
      closed.push(`${place.name} ${row.join(' ')}`)
  }
  if (closed.length === 0) return count
  throw new MasterKeyRotationAbortedError(
    `${closed.length} of ${count} secrets do not open under the new key, so keep the old one: ` +
      closed.slice(0, MAX_NAMED_FAILURES).join('; '),
  )
}
const MAX_NAMED_FAILURES = 10

async function* listEnvelopes(places: readonly SealedColumn[]) {
  for (const place of places)
    for await (const page of pages(place)) for (const kept of page) yield { place, ...kept }
}

async function* pages(place: SealedColumn): AsyncGenerator<StoredEncryptedEnvelope[]> {
  let after: readonly string[] | null = null
  for (;;) {
    const page: StoredEncryptedEnvelope[] = await place.page(after, ROTATION_PAGE_ROWS)
    if (page.length > 0) yield page
    if (page.length < ROTATION_PAGE_ROWS) return
    after = page.at(-1)?.row ?? null
  }
}

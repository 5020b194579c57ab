import { randomBytes } from 'node:crypto'
import {
  keyIdOf,
  masterKeyId,
  open,
  seal,
  sealingKeys,
  STATION_PURPOSES,
  subkey,
  type MasterKey,
  type MasterKeys,
  type StationPurpose,
} from '../core/crypto.ts'
import type { Tx } from './once.ts'
import type { Sql } from './plane.ts'

/** The keys of a station that stay when its master key changes. */
export type StationKeys = Readonly<Record<StationPurpose, Buffer>>

/** A master key that this database cannot be used with. */
export class MasterKeyRefused extends Error {
  override readonly name = 'MasterKeyRefused'
}

const KEY_BYTES = 32
/** Any constant, the same on all nodes: who holds it makes the keys of a new station. */
const LOCK = 8402_0010

/**
 * Opens the keys of the station, with whichever master key seals them. A new station makes random
 * ones. One that is older than this table keeps those that were derived from its master key.
 * Rejects with `MasterKeyRefused` when the keys given do not fit this database: nothing has changed.
 */
export function openStationKeys(sql: Sql, masters: MasterKeys): Promise<StationKeys> {
  const sealing = sealingKeys(masters, 'station')
  const ids = masters.map(masterKeyId)
  return sql.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(${LOCK})`
    await demandWorking(tx, ids[0] ?? '')
    const rows = await tx<Row[]>`select purpose, sealed from station_keys`
    const sealed = new Map(rows.map((row) => [row.purpose, row.sealed]))
    demandHeld(ids, [...sealed.values()].map(keyIdOf))
    const before = sealed.size === 0 ? await derivedBefore(tx, masters) : null
    for (const purpose of STATION_PURPOSES) {
      if (sealed.has(purpose)) continue
      const key = before === null ? randomBytes(KEY_BYTES) : subkey(before, purpose)
      const fresh = seal(sealing, key, [purpose])
      await tx`insert into station_keys (purpose, sealed) values (${purpose}, ${fresh})`
      sealed.set(purpose, fresh)
    }
    await tx`insert into master_keys (key_id) values (${ids[0] ?? ''}) on conflict do nothing`
    return Object.fromEntries(
      STATION_PURPOSES.map((purpose) => {
        const envelope = sealed.get(purpose) ?? Buffer.alloc(0)
        return [purpose, open(sealing, envelope, [purpose])]
      }),
    ) as Record<StationPurpose, Buffer>
  })
}

interface Row {
  purpose: string
  sealed: Buffer
}

async function demandWorking(tx: Tx, id: string): Promise<void> {
  const [gone] = await tx`
    select from master_keys where key_id = ${id} and retired_at is not null`
  if (gone === undefined) return
  throw new MasterKeyRefused(
    `MASTER_KEY is key ${id}, which was rotated out of use: give the key that replaced it`,
  )
}

function demandHeld(held: readonly string[], used: readonly string[]): void {
  const strange = [...new Set(used)].filter((id) => !held.includes(id))
  if (strange.length === 0) return
  throw new MasterKeyRefused(
    `the secrets of this database are sealed under master key ${strange.join(', ')}, and only ` +
      `${held.join(', ')} was given: give that one as MASTER_KEY, or as MASTER_KEY_PREVIOUS to rotate it`,
  )
}

/** The master key of a station from before this table; null when there was no station yet. */
async function derivedBefore(tx: Tx, masters: MasterKeys): Promise<MasterKey | null> {
  const [first] = masters
  const [row] = await tx<{ used: string[]; old: boolean }[]>`
    select coalesce((select array_agg(distinct key_id) from wallets where key_id <> ''), '{}') as used,
           exists (select from aggregates) as old`
  const { used = [], old = false } = row ?? {}
  demandHeld(masters.map(masterKeyId), used)
  if (!old) return null
  return masters.find((master) => used.includes(masterKeyId(master))) ?? first
}

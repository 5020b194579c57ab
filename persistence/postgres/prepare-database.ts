import { SettingError } from '../../core/setting-error.ts'
import { describeDatabase, type DatabaseAddress } from './database-address.ts'
import { openPostgresPool, type Sql } from './postgres-connection-pool.ts'

/** What a database must be before its schema is touched. */

export interface DatabasePreparation {
  readonly target: DatabaseAddress
  /** Its cluster is ours: the database is created in it. */
  readonly isEmbedded: boolean
  /** Whether a database without a station may become one (decision 420). */
  readonly mayCreate: boolean
}

/** Throws a SettingError for a server that is too old, and for a database that may not become a station's. */
export async function prepareDatabase(sql: Sql, wanted: DatabasePreparation): Promise<void> {
  const { target, isEmbedded, mayCreate } = wanted
  if (isEmbedded && mayCreate) await ensureDatabase(sql, target)
  const [found] = await sql<{ version: number; encoding: string; station: boolean }[]>`
    select current_setting('server_version_num')::int as version, current_setting('server_encoding') as encoding,
      to_regclass('schema_migrations') is not null as station`
  const where = describeDatabase(target)
  if (found === undefined) return
  if (found.version < OLDEST_VERSION)
    throw new SettingError(
      `DATABASE_URL cannot be used: ${where} is PostgreSQL ${Math.floor(found.version / 10_000)}, and the station needs 15 or later`,
    )
  if (found.encoding !== 'UTF8')
    throw new SettingError(
      `DATABASE_URL cannot be used: ${where} is encoded in ${found.encoding}, and the station needs UTF8`,
    )
  if (!found.station && !mayCreate)
    throw new SettingError(
      `there is no station in ${where}: set DATA_DIR or DATABASE_URL, or run gas migrate`,
    )
}

const OLDEST_VERSION = 150_000

/** A new cluster lacks our database; another process may create it at the same moment. */
async function ensureDatabase(sql: Sql, target: DatabaseAddress): Promise<void> {
  try {
    await sql`select 1`
  } catch (error) {
    if (readErrorCode(error) !== '3D000') throw error
    const admin = openPostgresPool({ ...target, database: 'postgres' }, { max: 1 })
    try {
      await admin`create database ${admin(target.database)}`
    } catch (cause) {
      if (!['42P04', '23505'].includes(readErrorCode(cause))) throw cause
    } finally {
      await admin.end({ timeout: 1 })
    }
  }
}

const readErrorCode = (error: unknown): string => (error as { code?: string }).code ?? ''

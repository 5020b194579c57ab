import { setTimeout as sleep } from 'node:timers/promises'
import { createDatabaseAdjustedClock } from '../../core/clock.ts'
import { envelopeKeyId } from '../../core/key-derivation-and-encryption.ts'
import { createAggregateStore } from '../aggregate-store.ts'
import { readSchemaState } from '../migrate-schema.ts'
import { toDatabaseSettingError } from './connect-failure.ts'
import { decideTls, describeDatabase, type DatabaseAddress } from './database-address.ts'
import { parseDatabaseUrl } from './database-url.ts'
import { hasDatabaseCluster } from './embedded-postgres-cluster.ts'
import { startEmbeddedPostgres } from './embedded-postgres-server.ts'
import { openDedicatedConnection, type Sql } from './postgres-connection-pool.ts'

/** What `gas doctor` asks a database. */

export interface DatabaseExam {
  readonly where: string
  /** Null where there is no embedded database yet. */
  readonly server: ServerExam | null
  /** The ids of the master keys that seal the keys of the station. */
  readonly sealedBy: readonly string[]
}

interface ServerExam {
  /** The major version. */
  readonly version: number
  readonly encoding: string
  readonly isEncrypted: boolean
  readonly isReadOnly: boolean
  readonly mayCreate: boolean
  readonly user: string
  readonly schema: string
  readonly aheadMs: number
  readonly applied: number
  readonly known: number
  readonly isNotified: boolean
}

/**
 * Connects, asks and leaves; nothing is created or changed. An embedded database that does not run is
 * started for it. Rejects with a SettingError.
 */
export async function examineDatabase(settings: {
  readonly databaseUrl: string | null
  readonly dataDir: string
}): Promise<DatabaseExam> {
  const { databaseUrl, dataDir } = settings
  if (databaseUrl !== null) {
    const target = await decideTls(parseDatabaseUrl(databaseUrl))
    return examine(target, describeDatabase(target))
  }
  if (!hasDatabaseCluster(dataDir)) return { where: dataDir, server: null, sealedBy: [] }
  const embedded = await startEmbeddedPostgres({ dataDir, log: () => {} })
  try {
    const { socketDir } = embedded
    return await examine({ socketDir, database: 'gas', user: 'gas' }, dataDir)
  } finally {
    await embedded.stop()
  }
}

async function examine(target: DatabaseAddress, where: string): Promise<DatabaseExam> {
  let isNotified = false
  const onnotify = () => (isNotified = true)
  const sql = openDedicatedConnection(target, { onclose: () => {}, onnotify })
  try {
    const server = await askServer(sql)
    const schema = await readSchemaState(sql)
    await hearNotification(sql, () => isNotified)
    const sealedBy = schema.applied === 0 ? [] : await readSealedBy(sql)
    return { where, server: { ...server, ...schema, isNotified }, sealedBy }
  } catch (error) {
    throw toDatabaseSettingError(error, target)
  } finally {
    await sql.end({ timeout: 1 })
  }
}

async function askServer(sql: Sql) {
  const [row] = await sql<Omit<ServerExam, 'applied' | 'known' | 'isNotified' | 'aheadMs'>[]>`
    select current_setting('server_version_num')::int / 10000 as version,
      current_setting('server_encoding') as encoding,
      coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as "isEncrypted",
      current_setting('transaction_read_only') = 'on' as "isReadOnly",
      has_schema_privilege(current_schema(), 'CREATE') as "mayCreate",
      current_user::text as user, coalesce(current_schema(), 'none')::text as schema`
  if (row === undefined) throw new Error('the database has no answer')
  const { now } = createDatabaseAdjustedClock()
  return { ...row, aheadMs: await createAggregateStore(sql).clockOffset(now) }
}

const NOTIFIED_MS = 2_000

/** A pooler in transaction mode forwards none: LISTEN and NOTIFY reach different sessions. */
async function hearNotification(sql: Sql, isHeard: () => boolean): Promise<void> {
  await sql.unsafe('listen gas_doctor')
  await sql`select pg_notify('gas_doctor', '')`
  for (let waited = 0; !isHeard() && waited < NOTIFIED_MS; waited += 20) await sleep(20)
}

async function readSealedBy(sql: Sql): Promise<string[]> {
  const rows = await sql<{ sealed: Buffer }[]>`select sealed from station_keys`
  return [...new Set(rows.map(({ sealed }) => envelopeKeyId(sealed)))].filter((id) => id !== null)
}

import { basename } from 'node:path'
import { openPostgresPool } from '../../../persistence/postgres/postgres-connection-pool.ts'
import { parseDatabaseUrl } from '../../../persistence/postgres/database-url.ts'
import type { Sql } from '../../../persistence/postgres/postgres-connection-pool.ts'
import {
  readPostgresClusterNote,
  startTestRunPostgresCluster,
  testDatabaseName,
} from './test-postgres-cluster.ts'
import type { TestPostgresCluster } from './test-postgres-cluster.ts'

/** Creates a database of its own for each test, from a migrated template. */

interface Teardown {
  teardown(work: () => unknown): unknown
}

export interface TestDatabase {
  /** To spread into PlaneSettings. */
  readonly settings: { readonly databaseUrl: string }
  readonly sql: Sql
}

let cluster: Promise<TestPostgresCluster> | undefined
let ownCluster: Promise<TestPostgresCluster> | undefined
let databaseCount = 0

/** A place of its own for the tables of a database. */
interface Tablespace {
  readonly name: string
  /** Its folder, which the owner of the cluster's folder must own too. */
  at(dataDirectory: string): string
}

/** A database with the service's schema, dropped after its process has ended. */
export async function createTestDatabase(t: Teardown, place?: Tablespace): Promise<TestDatabase> {
  const { socketDir } = await (place === undefined ? testCluster() : clusterOfThisProcess())
  const file = basename(process.argv[1] ?? 'repl')
    .replace(/\W.*/, '')
    .slice(0, 30)
    .toLowerCase()
  const name = testDatabaseName(file, process.pid, (databaseCount += 1))
  const admin = openPostgresPool(parseDatabaseUrl(urlOf(socketDir, 'postgres')), { max: 1 })
  // Copying its files takes a fifth of the time of copying its blocks through the log.
  if (place === undefined)
    await admin`create database ${admin(name)} template tmpl strategy file_copy`
  else await createInTablespace(t, admin, name, place)
  if (place === undefined) await admin.end()
  const databaseUrl = urlOf(socketDir, name)
  const sql = openPostgresPool(parseDatabaseUrl(databaseUrl), { max: 8 })
  t.teardown(() => sql.end({ timeout: 1 }))
  return { settings: { databaseUrl }, sql }
}

/** The folder of a tablespace may go only after its database, and that before the cluster. */
async function createInTablespace(
  t: Teardown,
  admin: Sql,
  name: string,
  { name: space, at }: Tablespace,
) {
  const [row] = await admin<{ data_directory: string }[]>`show data_directory`
  await admin.unsafe(`create tablespace ${space} location '${at(row?.data_directory ?? '')}'`)
  await admin`create database ${admin(name)} template tmpl tablespace ${admin(space)}`
  t.teardown(async () => {
    await admin`drop database ${admin(name)} with (force)`
    await admin`drop tablespace ${admin(space)}`
    await admin.end()
  })
}

/** The cluster of this tap run; for a file that is run by itself, one of its own. */
function testCluster(): Promise<TestPostgresCluster> {
  cluster ??= (async () =>
    readPostgresClusterNote(process.ppid) ?? (await clusterOfThisProcess()))()
  return cluster
}

/**
 * Tablespaces are for disks that fill up. Until there is room again no checkpoint of their cluster succeeds, so
 * that nobody else could create a database there.
 */
function clusterOfThisProcess(): Promise<TestPostgresCluster> {
  ownCluster ??= (async () =>
    readPostgresClusterNote(process.pid) ?? (await startTestRunPostgresCluster(process.pid)))()
  return ownCluster
}

const urlOf = (socketDir: string, database: string): string =>
  `socket://${encodeURI(socketDir)}?db=${database}&user=gas`

import { basename } from 'node:path'
import { openPool, targetOf } from '../../persistence/postgres/connect.ts'
import type { Sql } from '../../persistence/postgres/connect.ts'
import { readNote, startKeeper } from './cluster.ts'
import type { TestCluster } from './cluster.ts'

interface Teardown {
  teardown(work: () => unknown): unknown
}

export interface TestDatabase {
  /** To spread into PlaneSettings. */
  readonly settings: { readonly databaseUrl: string }
  readonly sql: Sql
}

let cluster: Promise<TestCluster> | undefined
let made = 0

/** A database of its own with the service's schema; it goes with the whole cluster after the run. */
export async function testDatabase(t: Teardown): Promise<TestDatabase> {
  const { socketDir } = await testCluster()
  const file = basename(process.argv[1] ?? 'repl')
    .replace(/\W.*/, '')
    .slice(0, 30)
    .toLowerCase()
  const name = `t_${file}_${process.pid}_${(made += 1)}`
  const admin = openPool(targetOf(urlOf(socketDir, 'postgres')), { max: 1 })
  await admin`create database ${admin(name)} template tmpl`
  await admin.end()
  const databaseUrl = urlOf(socketDir, name)
  const sql = openPool(targetOf(databaseUrl), { max: 8 })
  t.teardown(() => sql.end({ timeout: 1 }))
  return { settings: { databaseUrl }, sql }
}

/** The cluster of this tap run; for a file that is run by itself, one of its own. */
function testCluster(): Promise<TestCluster> {
  cluster ??= (async () => readNote(process.ppid) ?? (await startKeeper(process.pid)))()
  return cluster
}

const urlOf = (socketDir: string, database: string): string =>
  `socket://${encodeURI(socketDir)}?db=${database}&user=gas`

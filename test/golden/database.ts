import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { migrateSchema } from '../../persistence/migrate-schema.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import { REPOSITORY_ROOT } from '../../scripts/repository-root.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres/test-database.ts'
import type { OpenWork } from './open-work.ts'

/** Loads the database that version 1.0.0 left, as text and without tools of PostgreSQL. */

export interface GoldenTable {
  readonly name: string
  /** A JSON array that PostgreSQL has written, and reads again: JavaScript would round its numbers. */
  readonly rows: string
}

/** A database with its journal, its archived months and the migrations that made its schema. */
export interface GoldenDatabase {
  /** The time of the station that left it, in milliseconds. */
  readonly at: number
  readonly migrations: readonly { readonly name: string; readonly text: string }[]
  readonly tables: readonly GoldenTable[]
  readonly sequences: readonly { readonly name: string; readonly value: number }[]
  readonly archive: readonly { readonly name: string; readonly base64: string }[]
  readonly open: OpenWork
}

export interface LoadedGoldenDatabase extends GoldenDatabase {
  readonly database: TestDatabase
  readonly sql: Sql
  readonly archiveDir: string
}

export const GOLDEN_DATABASE_PATH = join(REPOSITORY_ROOT, 'test/golden/station-1.0.0.json.gz')

/** The database as its station left it, migrated by today's code. */
export async function loadGoldenDatabase(
  t: Parameters<typeof createTestDatabase>[0],
): Promise<LoadedGoldenDatabase> {
  const golden = JSON.parse(
    gunzipSync(readFileSync(GOLDEN_DATABASE_PATH)).toString('utf8'),
  ) as GoldenDatabase
  const archiveDir = mkdtempSync(join(tmpdir(), 'gas-station-golden-'))
  t.teardown(() => rmSync(archiveDir, { recursive: true, force: true }))
  for (const { name, base64 } of golden.archive)
    writeFileSync(join(archiveDir, name), Buffer.from(base64, 'base64'))
  const database = await createTestDatabase(t)
  await fill(database.sql, golden)
  await migrateSchema(database.sql)
  return { ...golden, database, sql: database.sql, archiveDir }
}

/** Runs the migrations of that version, and puts its rows in the place of theirs. */
async function fill(sql: Sql, { migrations, tables, sequences }: GoldenDatabase): Promise<void> {
  await sql.begin(async (tx) => {
    await tx`drop schema public cascade`
    await tx`create schema public`
    for (const { text } of migrations) await tx.unsafe(text).simple()
    await tx`create table schema_migrations (
      number integer primary key, name text not null, checksum text not null,
      applied_at timestamptz not null default now())`
    await tx`set local session_replication_role = replica`
    for (const { name, rows } of tables) {
      await tx`delete from ${tx(name)}`
      await tx`
        insert into ${tx(name)} overriding system value
        select * from json_populate_recordset(null::${tx(name)}, ${rows}::text::json)`
    }
    for (const { name, value } of sequences) await tx`select setval(${name}, ${value})`
  })
}

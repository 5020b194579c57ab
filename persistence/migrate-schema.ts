import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile, readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type postgres from 'postgres'
import { SettingError } from '../core/setting-error.ts'
import type { Sql } from './postgres/postgres-connection-pool.ts'

/** Migrates the database to the schema of this code. */

interface Migration {
  readonly number: number
  readonly name: string
  readonly text: string
  readonly checksum: string
}

interface AppliedMigration {
  readonly number: number
  readonly name: string
  readonly checksum: string
}

/** The pool or one of its transactions. */
type Session = postgres.ISql<{ bigint: bigint }>

/** Any constant, the same on all nodes: its lock permits schema changes. */
const MIGRATION_LOCK_ID = 8402_0001

/**
 * Migrates forward, one transaction per file, and returns the schema number; a lock serializes
 * nodes that start at once. Analyses tables without statistics, also those of a restored database. Throws if the database is newer, or has run a file that was edited
 * since.
 */
export async function migrateSchema(
  sql: Sql,
  folder: string = findMigrationsFolder(),
): Promise<number> {
  const migrations = await readMigrations(folder)
  if (!(await isUpToDate(sql, migrations))) while (await applyNextMigration(sql, migrations));
  if ((await listTablesWithoutStatistics(sql)).length > 0) await analyzeTables(sql)
  return migrations.length
}

/**
 * How far the schema of a database is, and how far this code can bring it; changes nothing. Throws if the database is
 * newer, or has run a file that was edited since, as `migrateSchema` does.
 */
export async function readSchemaState(sql: Sql): Promise<{ applied: number; known: number }> {
  const migrations = await readMigrations(findMigrationsFolder())
  const applied = await readApplied(sql)
  assertAppliedMatches(applied, migrations)
  return { applied: applied.length, known: migrations.length }
}

/** Throws unless the schema is that of this code; for what only looks at a database (decision 420). */
export async function assertSchemaCurrent(sql: Sql): Promise<void> {
  const { applied, known } = await readSchemaState(sql)
  if (applied < known)
    throw new SettingError(
      `DATABASE_URL or DATA_DIR cannot be used: the database is at migration ${applied}, this code needs ${known}: run gas migrate, or start the station, which ends what an older station can do with it`,
    )
}

/** What the database has run; nothing where there is no station yet. */
async function readApplied(sql: Sql): Promise<AppliedMigration[]> {
  const [found] = await sql<
    { present: boolean }[]
  >`select to_regclass('schema_migrations') is not null as present`
  if (found?.present !== true) return []
  return sql<
    AppliedMigration[]
  >`select number, name, checksum from schema_migrations order by number`
}

/** A warm start runs one query and takes no lock. */
async function isUpToDate(sql: Sql, migrations: Migration[]): Promise<boolean> {
  const applied = await readApplied(sql)
  assertAppliedMatches(applied, migrations)
  return applied.length === migrations.length
}

/**
 * The tables that were never analysed: new ones, and all of a restored database. Partitions are
 * analysed with their parent.
 */
async function listTablesWithoutStatistics(sql: Session): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select oid::regclass::text as name from pg_class
     where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p')
       and not relispartition and reltuples < 0`
  return rows.map(({ name }) => name)
}

/** Decision 440. Without statistics the planner takes tables for large, until autovacuum has read them minutes later. */
async function analyzeTables(sql: Sql): Promise<void> {
  await sql.begin(async (tx) => {
    await waitForMigrationLock(tx)
    const tables = await listTablesWithoutStatistics(tx)
    if (tables.length > 0) await tx.unsafe(`analyze ${tables.join(', ')}`)
  })
}

async function waitForMigrationLock(tx: Session): Promise<void> {
  await tx`select set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true)`
  await tx`select pg_advisory_xact_lock(${MIGRATION_LOCK_ID})`
}

async function applyNextMigration(sql: Sql, migrations: Migration[]): Promise<boolean> {
  return sql.begin(async (tx) => {
    await waitForMigrationLock(tx)
    await tx`create table if not exists schema_migrations (
      number integer primary key, name text not null, checksum text not null, applied_at timestamptz not null default now())`
    const applied = await tx<
      AppliedMigration[]
    >`select number, name, checksum from schema_migrations order by number`
    assertAppliedMatches(applied, migrations)
    const next = migrations[applied.length]
    if (next === undefined) return false
    await tx
      .unsafe(next.text)
      .simple()
      .catch((cause: Error) => {
        throw new Error(`migration ${next.name} failed: ${cause.message}`, { cause })
      })
    await tx`insert into schema_migrations (number, name, checksum) values (${next.number}, ${next.name}, ${next.checksum})`
    return applied.length + 1 < migrations.length
  })
}

function assertAppliedMatches(
  applied: readonly AppliedMigration[],
  migrations: readonly Migration[],
): void {
  if (applied.length > migrations.length) {
    throw new SettingError(
      `DATABASE_URL or DATA_DIR cannot be used: the database is at migration ${applied.length}, this code knows ${migrations.length}: run a newer version`,
    )
  }
  applied.forEach(({ number, name, checksum }, index) => {
    const known = migrations[index]
    if (number !== index + 1)
      throw new SettingError(
        `DATABASE_URL or DATA_DIR cannot be used: the database lacks migration ${index + 1}`,
      )
    if (known?.checksum !== checksum)
      throw new SettingError(
        `DATABASE_URL or DATA_DIR cannot be used: migration ${name} was applied with another content than ${known?.name ?? 'none'} has`,
      )
  })
}

async function readMigrations(folder: string): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).sort()
  return Promise.all(
    names.map(async (name, index) => {
      if (!/^\d{4}-/.test(name) || Number(name.slice(0, 4)) !== index + 1) {
        throw new Error(
          `${name} should be migration number ${index + 1}: numbers have four digits, no gaps, no doubles`,
        )
      }
      const text = (await readFile(join(folder, name), 'utf8')).replaceAll('\r\n', '\n')
      return {
        number: index + 1,
        name,
        text,
        checksum: createHash('sha256').update(text).digest('hex'),
      }
    }),
  )
}

/** The files stay in the source tree; this finds them from there and from `dist`. */
function findMigrationsFolder(): string {
  let dir = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(dir, 'persistence', 'migrations'))) {
    if (dir === dirname(dir)) throw new Error('the migrations were not found')
    dir = dirname(dir)
  }
  return join(dir, 'persistence', 'migrations')
}

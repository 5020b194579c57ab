import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { migrateSchema } from '../../persistence/migrate-schema.ts'
import { openPostgresPool } from '../../persistence/postgres/postgres-connection-pool.ts'
import { parseDatabaseUrl } from '../../persistence/postgres/database-url.ts'
import type { Sql } from '../../persistence/postgres/postgres-connection-pool.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'

const TWO = {
  '0001-a.sql': 'create table a (x bigint); insert into a values (1);',
  '0002-b.sql': 'alter table a add y text',
}

async function empty(t: Test): Promise<{ sql: Sql; again: () => Sql }> {
  const { sql, settings } = await createTestDatabase(t)
  await sql`drop schema public cascade`
  await sql`create schema public`
  const again = (): Sql => {
    const other = openPostgresPool(parseDatabaseUrl(settings.databaseUrl), { max: 2 })
    t.teardown(() => other.end())
    return other
  }
  return { sql, again }
}

t.test("the service's own migrations are applied to the template", async (t) => {
  const { sql } = await createTestDatabase(t)
  const count = await migrateSchema(sql)
  t.same(await sql`select count(*) as n from schema_migrations`, [{ n: BigInt(count) }])
})

t.test('pending files run in order, once', async (t) => {
  const { sql } = await empty(t)
  const folder = t.testdir(TWO)
  t.equal(await migrateSchema(sql, folder), 2)
  t.equal(await migrateSchema(sql, folder), 2)
  t.same(await sql`select x, y from a`, [{ x: 1n, y: null }])
  writeFileSync(join(folder, '0003-c.sql'), 'insert into a values (2)')
  t.equal(await migrateSchema(sql, folder), 3)
  t.same(await sql`select count(*) as n from a`, [{ n: 2n }])
})

t.test('several nodes may migrate concurrently', async (t) => {
  const { again } = await empty(t)
  const folder = t.testdir(TWO)
  const nodes = [again(), again(), again(), again()]
  t.same(await Promise.all(nodes.map((sql) => migrateSchema(sql, folder))), [2, 2, 2, 2])
  t.same(await again()`select count(*) as n from a`, [{ n: 1n }])
})

t.test('a failing migration is rolled back, and earlier ones stay', async (t) => {
  const { sql } = await empty(t)
  const folder = t.testdir({ ...TWO, '0003-c.sql': 'create table c (); select 1/0' })
  await t.rejects(migrateSchema(sql, folder), /0003-c\.sql failed: division by zero/)
  t.same(
    await sql`select to_regclass('c') as c, (select max(number) from schema_migrations) as n`,
    [{ c: null, n: 2 }],
  )
})

t.test('a file edited after it ran is rejected', async (t) => {
  const { sql } = await empty(t)
  const folder = t.testdir(TWO)
  await migrateSchema(sql, folder)
  writeFileSync(join(folder, '0001-a.sql'), 'create table a (x text)')
  await t.rejects(migrateSchema(sql, folder), /0001-a\.sql was applied with another content/)
})

t.test('a database newer than the code is rejected', async (t) => {
  const { sql } = await empty(t)
  await migrateSchema(sql, t.testdir(TWO))
  await t.rejects(
    migrateSchema(sql, t.testdir({ '0001-a.sql': TWO['0001-a.sql'] })),
    /at migration 2, this code knows 1/,
  )
})

t.test('gaps, duplicates and invalid names are rejected before anything runs', async (t) => {
  const { sql } = await empty(t)
  const odd = [
    { '0002-a.sql': '' },
    { '0001-a.sql': '', '0003-b.sql': '' },
    { '0001-a.sql': '', '0001-b.sql': '' },
    { '1-a.sql': '' },
  ]
  for (const files of odd)
    await t.rejects(migrateSchema(sql, t.testdir(files)), /should be migration number/)
  t.same(await sql`select to_regclass('schema_migrations') as found`, [{ found: null }])
})

t.test(
  'tables without statistics are analysed: new ones, and those of a restored database',
  async (t) => {
    const { sql } = await empty(t)
    const folder = t.testdir(TWO)
    const rowsOfA = async () => {
      const [row] = await sql<
        { reltuples: number }[]
      >`select reltuples from pg_class where oid = 'a'::regclass`
      return row?.reltuples
    }
    await migrateSchema(sql, folder)
    t.equal(await rowsOfA(), 1)
    await sql`create table restored as select * from a`
    await sql`alter table restored rename to b`
    await sql`drop table a`
    await sql`alter table b rename to a`
    t.equal(await rowsOfA(), -1, 'a copy has none')
    await migrateSchema(sql, folder)
    t.equal(await rowsOfA(), 1)
  },
)

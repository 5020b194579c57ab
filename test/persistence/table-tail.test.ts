import t from 'tap'
import { createTableTail } from '../../persistence/table-tail.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'
import { createTestPauseGate } from '../support/actors/test-actor-node.ts'

type Test = Parameters<typeof createTestDatabase>[0]

async function table(t: Test) {
  const { sql } = await createTestDatabase(t)
  await sql`create table told (id bigint generated always as identity primary key, word text)`
  const tail = (after?: bigint) =>
    createTableTail<{ id: bigint; word: string }>(sql, { table: 'told', columns: ['word'] }, after)
  const add = async (word: string) => void (await sql`insert into told (word) values (${word})`)
  return { sql, tail, add }
}

/**
 * A transaction that has drawn an id and is neither committed nor rolled back. `meanwhile` happens
 * when it has begun to write and has drawn none yet.
 */
async function pending(
  { sql }: Awaited<ReturnType<typeof table>>,
  word: string,
  meanwhile: () => Promise<unknown> = async () => {},
) {
  const [drawn, decided] = [createTestPauseGate(), createTestPauseGate()]
  let fails = false
  const over = sql
    .begin(async (tx) => {
      await tx`select pg_current_xact_id()`
      await meanwhile()
      await tx`insert into told (word) values (${word})`
      void drawn.pass()
      await decided.pass()
      if (fails) throw new Error('rolled back')
    })
    .catch(() => {})
  await drawn.reached
  return {
    async end(how: 'commit' | 'rollback') {
      fails = how === 'rollback'
      decided.open()
      await over
    },
  }
}

/** Number of reads after which a missing row counts as missing. */
const MAX_READS = 20_000
type Rows = readonly { word: string }[]
const words = (rows: Rows) => rows.map(({ word }) => word)

/** Readings until one brings something: other databases of the cluster may hold a hole open a while. */
async function next(tail: { read(): Promise<Rows> }): Promise<string[]> {
  for (let looks = 0; looks < MAX_READS; looks++) {
    const rows = await tail.read()
    if (rows.length > 0) return words(rows)
  }
  return []
}

/** Readings until the mark has got there. */
async function reaches(tail: { read(): Promise<Rows>; mark(): bigint }, mark: bigint) {
  const got: string[] = []
  for (let looks = 0; looks < MAX_READS && tail.mark() < mark; looks++)
    got.push(...words(await tail.read()))
  return got
}

t.test('rows are returned in order, each once', async (t) => {
  const { tail, add } = await table(t)
  await add('before')
  const reader = await tail()
  t.strictSame(words(await reader.read()), [])
  for (const word of ['a', 'b', 'c']) await add(word)
  t.strictSame(words(await reader.read()), ['a', 'b', 'c'])
  t.strictSame(words(await reader.read()), [])
  t.equal(reader.mark(), 4n)
  t.strictSame(words(await (await tail(1n)).read()), ['a', 'b', 'c'], 'from a cursor')
})

t.test('a late commit is not lost: later rows wait for it', async (t) => {
  const at = await table(t)
  const reader = await at.tail()
  const first = await pending(at, 'late')
  await at.add('early')
  t.strictSame(words(await reader.read()), [])
  t.strictSame(words(await reader.read()), [], 'however often one looks')
  t.equal(reader.mark(), 0n)
  t.equal(reader.waiting(), 2n)
  await first.end('commit')
  t.strictSame(await next(reader), ['late', 'early'])
  t.equal(reader.waiting(), 0n)
})

t.test('a row whose transaction started after its successor is not lost either', async (t) => {
  const at = await table(t)
  const reader = await at.tail()
  // It is the newest of all transactions, and nothing that began after it has ended.
  const late: Awaited<ReturnType<typeof pending>>[] = []
  const early = await pending(at, 'early', async () => late.push(await pending(at, 'late')))
  await early.end('commit')
  t.strictSame(words(await reader.read()), [])
  t.strictSame(words(await reader.read()), [], 'however often one looks')
  const beside = await at.tail()
  t.strictSame(words(await beside.read()), [], 'nor where one begins to read then')
  await late[0]?.end('commit')
  t.strictSame(await next(reader), ['late', 'early'])
  t.strictSame(await next(beside), ['late', 'early'])
})

t.test('a gap that will never be filled is skipped once it is certain', async (t) => {
  const at = await table(t)
  const reader = await at.tail()
  const failed = await pending(at, 'never')
  const slow = await pending(at, 'slow')
  await at.add('after')
  await failed.end('rollback')
  t.strictSame(words(await reader.read()), [], 'the other one may still come')
  await slow.end('commit')
  t.strictSame(await next(reader), ['slow', 'after'])
})

t.test('a gap that opens while another one is pending is detected too', async (t) => {
  const at = await table(t)
  const reader = await at.tail()
  const first = await pending(at, '1')
  await at.add('2')
  t.strictSame(words(await reader.read()), [])
  const third = await pending(at, '3')
  await at.add('4')
  await first.end('rollback')
  t.strictSame(await next(reader), ['2'])
  t.strictSame(words(await reader.read()), [])
  await third.end('commit')
  t.strictSame(await next(reader), ['3', '4'])
})

t.test('a reader that starts during an open transaction still gets its row', async (t) => {
  const at = await table(t)
  await at.add('old')
  const open = await pending(at, 'open')
  await at.add('newer')
  const reader = await at.tail()
  t.equal(reader.mark(), 1n)
  t.strictSame(words(await reader.read()), [])
  await open.end('commit')
  t.strictSame(await next(reader), ['open', 'newer'])
})

t.test('unused ids and deleted rows do not block a new reader', async (t) => {
  const at = await table(t)
  for (const word of ['a', 'b', 'c']) await at.add(word)
  const failed = await pending(at, 'never')
  await failed.end('rollback')
  await at.sql`delete from told where word in ('b', 'c')`
  const reader = await at.tail()
  t.strictSame(await reaches(reader, 4n), [])
  await at.add('d')
  t.strictSame(await next(reader), ['d'])
})

t.test('rows beyond the size of one read are read in several', async (t) => {
  const at = await table(t)
  const reader = await at.tail()
  const open = await pending(at, '0')
  await at.sql`insert into told (word) select g::text from generate_series(1, 1200) g`
  t.strictSame(words(await reader.read()), [])
  await open.end('commit')
  const all = await reaches(reader, 1_201n)
  t.strictSame(
    all,
    Array.from({ length: 1_201 }, (_, at) => String(at)),
  )
})

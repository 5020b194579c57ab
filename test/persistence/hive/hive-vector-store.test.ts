import t from 'tap'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { createHiveVectorStore } from '../../../persistence/hive/hive-vector-store.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import { waitUntilTrue } from '../../support/schedules/make-schedule-slots-due.ts'

const MODEL = 'm'
/** Enough vectors that some with smaller ids arrive after the reader has passed them. */
const MANY = 300

t.test('vectors that another node stores later are not skipped', async (t) => {
  const { sql } = await createTestDatabase(t)
  const store = createHiveVectorStore(sql)
  const entries = Array.from({ length: MANY + 3 }, () => newUuidV7(Date.now())).sort()
  await sql`
    insert into hive_entries (id, agent_id, content, namespace, tags, confidence, is_public, call_id, at)
    select id, id, 'word', 'general', '{}', 1, true, id, now() from unnest(${entries}::text[]::uuid[]) id`
  const waiting = async () => {
    const [row] = await sql<{ n: number }[]>`
      select count(*)::int as n from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock'`
    return row?.n ?? 0
  }
  const keep = (ids: readonly string[]) =>
    store.keep(
      MODEL,
      ids.map((id) => ({ id, vector: Float32Array.of(1) })),
    )
  let last: bigint | null = null
  const seen = new Set<string>()
  async function read(): Promise<void> {
    for (;;) {
      const rows = await store.after(MODEL, last, MANY)
      for (const { entryId } of rows) seen.add(entryId)
      if (rows.length === 0 || rows.at(-1)?.id === last) return
      last = rows.at(-1)?.id ?? last
    }
  }

  await keep(entries.slice(0, 1))
  await read()
  const [slow, fast] = [entries.slice(1, 3), entries.slice(3)]
  const kept = await sql.begin(async (other) => {
    // The slow one has drawn its ids and waits at the last of its rows.
    await other`insert into hive_vectors (entry_id, model, vector) values (${slow[1] ?? ''}, 'other', '{}')`
    const first = keep(slow)
    await waitUntilTrue('the slow one waits', async () => (await waiting()) === 1)
    let over = false
    const second = keep(fast).then(() => (over = true))
    await waitUntilTrue(
      'the fast one is through, or waits too',
      async () => over || (await waiting()) === 2,
    )
    await read()
    return { all: Promise.all([first, second]) }
  })
  await kept.all
  await read()
  t.equal(seen.size, entries.length, 'each of them is read')
})

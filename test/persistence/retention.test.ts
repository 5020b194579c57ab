import t from 'tap'
import { newId } from '../../core/ids.ts'
import { slotsLeft, slotTake, slotUse } from '../../payments/commands/visitor.ts'
import { LIMITS } from '../../core/limits.ts'
import type { Sql } from '../../persistence/plane.ts'
import { retention } from '../../persistence/retention.ts'
import { pair, single, soundly } from '../support/nodes.ts'
import type { Node } from '../support/runtime.ts'

const days = (sql: Sql, count: number) => sql`make_interval(days => ${count})`
const eventIds = async (sql: Sql) =>
  (await sql<{ id: bigint }[]>`select id from outbox order by id`).map(({ id }) => id)

t.test('facts are kept for a month, and go from the oldest on', async (t) => {
  const { sql, one } = await single(t)
  const agentId = await one.born(0.5)
  await sql`
    insert into outbox (agent_id, type, data, at)
    select ${agentId}, 'topup', '{}', now() - ${days(sql, LIMITS.eventDays + 1)}
      from generate_series(1, 4500)`
  await sql`
    insert into outbox (agent_id, type, data, at)
    select ${agentId}, 'topup', '{}', now() - ${days(sql, LIMITS.eventDays - 1)}
      from generate_series(1, 3)`
  const before = await eventIds(sql)
  await retention(sql).sweep()
  t.strictSame(await eventIds(sql), before.slice(4500))
  await soundly(t, sql)
})

const slot = { tool: 'hive_read', limit: 10 }

async function freeCall(at: Node, visitor: string): Promise<void> {
  const taken = { ...slot, callId: newId(Date.now()) }
  await at.ask(visitor, slotTake, taken)
  await at.ask(visitor, slotUse, { ...taken, record: null })
}

const age = (sql: Sql, visitor: string, count: number) =>
  sql`update journal set at = at - ${days(sql, count)} where aggregate_id = ${visitor}`

const left = (at: Node, visitor: string) => at.ask(visitor, slotsLeft, slot)

t.test('an address is forgotten a week after its last free call', async (t) => {
  const { sql, one, two } = await pair(t)
  const agentId = await one.born(0.5)
  for (const visitor of ['gone', 'stays', 'returns']) {
    await freeCall(one, visitor)
    await freeCall(one, visitor)
    await age(sql, visitor, LIMITS.visitorDays + 1)
  }
  await freeCall(one, 'returns')
  await age(sql, 'stays', -2)
  await age(sql, agentId, 100)
  await retention(sql).sweep()
  for (const table of ['aggregates', 'actors', 'journal']) {
    const id = table === 'aggregates' ? sql`id` : sql`aggregate_id`
    const rows = await sql<{ id: string }[]>`select distinct ${id} as id from ${sql(table)}`
    t.strictSame(rows.map(({ id }) => id).sort(), [agentId, 'returns', 'stays'].sort(), table)
  }
  t.equal(await left(two, 'stays'), 8)
  t.equal(await left(two, 'gone'), 10)
  t.equal(await left(one, 'gone'), 10, 'also where it was still in memory')
  await freeCall(one, 'gone')
  await freeCall(two, 'gone')
  t.equal(await left(one, 'gone'), 8)
  await soundly(t, sql)
})

t.test('drafts of onboardings are kept as long as their keys count', async (t) => {
  const { sql } = await single(t)
  await sql`
    insert into drafts (owner, idempotency_key, request_hash, sealed, at)
    select 'visitor', 'key ' || hours, 'hash', '', now() - make_interval(hours => hours)
      from unnest(${[1, 23, 25]}::int[]) hours`
  await retention(sql).sweep()
  const kept = await sql<{ key: string }[]>`select idempotency_key as key from drafts order by at`
  t.strictSame(
    kept.map(({ key }) => key),
    ['key 23', 'key 1'],
  )
})

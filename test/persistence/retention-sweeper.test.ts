import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { CommandContext } from '../../actors/aggregate-command-types.ts'
import { updateHiveWatchList } from '../../actors/commands/update-hive-watch-list.ts'
import { DAY, SECOND } from '../../core/clock.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import {
  deliverPaidCallsCommand,
  type PaymentClaimInput,
} from '../../payments/commands/payment-claim-commands.ts'
import { admitCallCommand, settleCallCommand } from '../../payments/commands/call-commands.ts'
import {
  getFreeCallsLeftCommand,
  reserveFreeCallCommand,
  consumeFreeCallCommand,
} from '../../payments/commands/daily-free-call-commands.ts'
import { LIMITS } from '../../core/limits.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import { REPOSITORY_ROOT } from '../../scripts/repository-root.ts'
import { createRetentionSweeper } from '../../persistence/retention-sweeper.ts'
import { createDeadLetterStore } from '../../persistence/dead-letter-store.ts'
import { createVaultStore } from '../../persistence/vault/vault-store.ts'
import { verifyDatabaseInvariants } from '../../persistence/verify/verify-database-invariants.ts'
import {
  createTestActorNodePair,
  createSingleTestActorNode,
  assertNoInvariantViolations,
} from '../support/actors/test-actor-node-pairs.ts'
import {
  runSettlementCommand,
  claimPaymentOnTestNode,
  samplePaymentClaimInput,
  samplePaidCallOutcome,
  samplePayment,
  reportClaimedPaymentSettled,
  PAYMENT_TIMER_COMMANDS,
} from '../support/payments/sample-payment-claims.ts'
import { toSettlementId } from '../../payments/commands/payment-claim-commands.ts'
import {
  sampleCallAdmissionRequest,
  settleCallInputOfAdmission,
  type TestActorNode,
} from '../support/actors/test-actor-node.ts'

const days = (sql: Sql, count: number) => sql`make_interval(days => ${count})`
const eventIds = async (sql: Sql) =>
  (await sql<{ id: bigint }[]>`select id from outbox order by id`).map(({ id }) => id)

t.test('events are kept for a month and deleted oldest first', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
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
  await createRetentionSweeper(sql).sweep()
  t.strictSame(await eventIds(sql), before.slice(4500))
  await assertNoInvariantViolations(t, sql)
})

const slot = { tool: 'hive_read', limit: 10 }

async function freeCall(at: TestActorNode, visitor: string): Promise<void> {
  const taken = { ...slot, callId: newUuidV7(Date.now()) }
  await at.ask(visitor, reserveFreeCallCommand, taken)
  await at.ask(visitor, consumeFreeCallCommand, { ...taken, record: null })
}

const age = (sql: Sql, visitor: string, count: number) =>
  sql`update journal set at = at - ${days(sql, count)} where aggregate_id = ${visitor}`

const left = (at: TestActorNode, visitor: string) => at.ask(visitor, getFreeCallsLeftCommand, slot)

t.test('an address is deleted a week after its last free call', async (t) => {
  const { sql, one, two } = await createTestActorNodePair(t)
  const agentId = await one.born(0.5)
  for (const visitor of ['gone', 'stays', 'returns']) {
    await freeCall(one, visitor)
    await freeCall(one, visitor)
    await age(sql, visitor, LIMITS.visitorDays + 1)
  }
  await freeCall(one, 'returns')
  await age(sql, 'stays', -2)
  await age(sql, agentId, 100)
  await createRetentionSweeper(sql).sweep()
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
  await assertNoInvariantViolations(t, sql)
})

t.test('the document of retention names every table', async (t) => {
  const { sql } = await createSingleTestActorNode(t)
  const tables = await sql<{ name: string }[]>`
    select relname as name from pg_class where relnamespace = 'public'::regnamespace
       and relkind in ('r', 'p') and not relispartition and relname <> 'schema_migrations'`
  const text = readFileSync(join(REPOSITORY_ROOT, 'docs/retention.md'), 'utf8')
  const named = [...text.matchAll(/`([a-z0-9_*]+)`/g)].map(([, name = '']) => name)
  const covers = (name: string) => new RegExp(`^${name.replaceAll('*', '[a-z0-9_]*')}$`)
  const patterns = named.map(covers)
  t.strictSame(
    tables.map(({ name }) => name).filter((name) => !patterns.some((one) => one.test(name))),
    [],
  )
})

t.test('drafts of onboardings are kept for the lifetime of their keys', async (t) => {
  const { sql } = await createSingleTestActorNode(t)
  await sql`
    insert into idempotency_drafts (owner, idempotency_key, request_hash, sealed, at)
    select 'visitor', 'key ' || minutes, 'hash', '', now() - make_interval(mins => minutes)
      from unnest(${[1, 9, 11]}::int[]) minutes`
  await createRetentionSweeper(sql).sweep()
  const kept = await sql<
    { key: string }[]
  >`select idempotency_key as key from idempotency_drafts order by at`
  t.strictSame(
    kept.map(({ key }) => key),
    ['key 9', 'key 1'],
  )
})

t.test('dead letters are deleted with their object, and a month after their replay', async (t) => {
  const { sql } = await createSingleTestActorNode(t)
  const letters = createDeadLetterStore(sql)
  await sql`
    insert into deliveries (id, webhook_id, type, data, at, state, due_at, created_at)
    values ('msg_kept', 'wh', 'topup', '{}', now(), 'failed', now(), now())`
  const [fact] = await sql<{ id: bigint }[]>`
    insert into outbox (agent_id, type, data, at) values ('a', 'topup', '{}', now()) returning id`
  const put = (kind: string, key: string) =>
    letters.put({ kind, key, reason: 'it broke', payload: {} })
  await put('webhook', 'msg_kept')
  await put('webhook', 'msg_gone')
  await put('fact', String(fact?.id))
  await put('fact', '4000000000')
  for (const key of ['old', 'replayed', 'replayed long ago']) await put('timer', key)
  await sql`update dead_letters set at = now() - ${days(sql, 400)} where kind = 'timer'`
  const replay = (key: string, count: number) =>
    sql`update dead_letters set replayed_at = now() - ${days(sql, count)} where key = ${key}`
  await replay('replayed', LIMITS.deadLetterDays - 1)
  await replay('replayed long ago', LIMITS.deadLetterDays + 1)
  await createRetentionSweeper(sql).sweep()
  const kept = (await letters.list({ replayed: true })).map(({ key }) => key)
  t.strictSame(kept.sort(), ['msg_kept', String(fact?.id), 'old', 'replayed'].sort())
})

/** Begins or ends a watch, as the tool does. */
async function watch(
  { ask }: TestActorNode,
  agentId: string,
  type: 'BEGIN' | 'END',
  watchId: string,
) {
  const [asked, at] = [sampleCallAdmissionRequest(0.02), new Date().toISOString()]
  const of = { watch_id: watchId, agent_id: agentId }
  const begun = { ...of, keyword: 'gas', namespace: null, call_id: asked.callId, created_at: at }
  const rows =
    type === 'BEGIN'
      ? [{ table: 'hive_watches', row: { ...begun, ended_at: null } }]
      : [{ table: 'hive_watch_closures', row: { ...of, at } }]
  const ended = (turn: CommandContext) => updateHiveWatchList(turn, { type, watchId })
  await ask(agentId, admitCallCommand, asked)
  await ask(
    agentId,
    settleCallCommand,
    settleCallInputOfAdmission(asked, agentId, asked.amount, { rows, ended }),
  )
}

t.test('watches are deleted a month after their end, and not before', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const agentId = await one.born(0.5)
  const [old, late, open] = [newUuidV7(1_000), newUuidV7(2_000), newUuidV7(3_000)]
  for (const id of [old, late, open]) await watch(one, agentId, 'BEGIN', id)
  await sql`update hive_watches set created_at = created_at - ${days(sql, 400)}`
  for (const id of [old, late]) {
    await watch(one, agentId, 'END', id)
    const ago = days(sql, LIMITS.hiveMatchDays + (id === old ? 1 : -1))
    await sql`update hive_watches set ended_at = ended_at - ${ago} where watch_id = ${id}`
    await sql`update hive_watch_closures set at = at - ${ago} where watch_id = ${id}`
  }
  await createRetentionSweeper(sql).sweep()
  const ids = (table: string) => sql`select watch_id as id from ${sql(table)} order by 1`
  t.match(await ids('hive_watches'), [{ id: late }, { id: open }])
  t.match(await ids('hive_watch_closures'), [{ id: late }])
  await assertNoInvariantViolations(t, sql)
  const counts = (await verifyDatabaseInvariants(sql)).find(({ rule }) => rule === 'W1')
  t.equal(counts?.checked, 1, 'what the rule looks at')
})

t.test('vault queries are deleted after their retention', async (t) => {
  const { sql } = await createSingleTestActorNode(t)
  for (const age of [-1, 1])
    await sql`
      insert into vault_queries (id, agent_id, query, memory_ids, similarity, call_id, at)
      values (${randomUUID()}, ${randomUUID()}, ${`${age}`}, '{}', 0, ${randomUUID()},
              now() - ${days(sql, LIMITS.vaultQueryDays + age)})`
  await createRetentionSweeper(sql).sweep()
  t.strictSame([...(await sql`select query from vault_queries`)], [{ query: '-1' }])
})

t.test('the lock of a memory for a promotion expires', async (t) => {
  const { sql } = await createSingleTestActorNode(t)
  const vault = createVaultStore(sql)
  const [over, held, call] = [newUuidV7(1_000), newUuidV7(2_000), newUuidV7(3_000)]
  const now = new Date()
  await vault.takePromotion(over, call, new Date(now.getTime() - 61 * SECOND))
  await vault.takePromotion(held, call, now)
  await createRetentionSweeper(sql).sweep()
  t.match(await sql`select memory_id from vault_promotion_claims`, [{ memory_id: held }])
  t.equal(await vault.takePromotion(held, newUuidV7(4_000), now), false, 'what is held stays held')
  await sql`
    insert into vault_promotions (memory_id, entry_id, agent_id, call_id, at)
    values (${over}, ${randomUUID()}, ${randomUUID()}, ${call}, now())`
  t.equal(await vault.takePromotion(over, newUuidV7(5_000), now), false, 'nor is it promoted twice')
})

/** A UUIDv7 with a timestamp the given number of days ago. */
function idOf(daysAgo: number): string {
  const time = Math.floor(Date.now() - daysAgo * DAY)
    .toString(16)
    .padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}

/** A transaction of the settler with a payload, signed the given number of days ago. */
async function signed(
  sql: Sql,
  { nonce, state = 'mined', age = LIMITS.settlerDays + 1, carries }: Signed,
): Promise<void> {
  const [before, id] = [idOf(age), idOf(age)]
  for (const [one, by] of [[before, id] as const, [id, null] as const])
    await sql`
      insert into settler_txs (id, chain, settler, nonce, raw, hash, max_fee, priority_fee, state,
        created_at, replaced_by)
      values (${one}, 'base', '0x01', ${nonce}, '0x', ${one}, '1', '1', ${state}, now(), ${by})`
  for (const [at, purpose] of carries.entries())
    await sql`
      insert into settler_tx_settlements (chain, purpose, attempt, settler, nonce)
      values ('base', ${purpose}, ${nonce + at}, '0x01', ${nonce})`
}
interface Signed {
  readonly nonce: number
  readonly state?: string
  readonly age?: number
  readonly carries: readonly string[]
}

t.test('signed transactions are deleted with their payments, after the end', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t, { timerCommands: PAYMENT_TIMER_COMMANDS })
  const claims = [0, 1, 2].map(() => samplePaymentClaimInput(samplePayment(0.01)))
  for (const claimed of claims) {
    await claimPaymentOnTestNode(one, claimed)
    await runSettlementCommand(
      one,
      claimed,
      deliverPaidCallsCommand,
      samplePaidCallOutcome(claimed),
    )
  }
  const [settled, undoable, open] = claims as [
    PaymentClaimInput,
    PaymentClaimInput,
    PaymentClaimInput,
  ]
  for (const claimed of [settled, undoable]) await reportClaimedPaymentSettled(one, claimed)
  const of = ({ payment }: PaymentClaimInput) => toSettlementId(payment)
  await sql`delete from unfinalized_transfers where ref = ${of(settled)}`
  const sweep = randomUUID()
  await sql`
    insert into sweeps (id, chain, agent_id, address, amount_micros, state, authorization_terms, started_at)
    values (${sweep}, 'base', ${randomUUID()}, '0x02', 1, 'open', '{}', now())`
  await signed(sql, { nonce: 0, carries: [of(settled), 'sweep:ended'] })
  await signed(sql, { nonce: 1, carries: [of(settled), of(open)] })
  await signed(sql, { nonce: 2, carries: [of(undoable)] })
  await signed(sql, { nonce: 3, carries: [`sweep:${sweep}`] })
  await signed(sql, { nonce: 4, carries: ['sweep:waits'], state: 'signed' })
  await signed(sql, { nonce: 5, carries: ['sweep:void'], state: 'void' })
  await signed(sql, { nonce: 6, carries: ['sweep:young'], age: LIMITS.settlerDays - 1 })
  await createRetentionSweeper(sql).sweep()
  for (const table of ['settler_txs', 'settler_tx_settlements']) {
    const rows = await sql<{ nonce: bigint }[]>`
      select distinct nonce from ${sql(table)} order by nonce`
    t.strictSame(
      rows.map(({ nonce }) => Number(nonce)),
      [1, 2, 3, 4, 6],
      table,
    )
  }
  await assertNoInvariantViolations(t, sql)
})

t.test('explanations of refusals are kept for a week', async (t) => {
  const { sql } = await createSingleTestActorNode(t)
  await sql`
    insert into refusals (id, agent_id, code, times, first_at, last_at, data)
    select gen_random_uuid(), gen_random_uuid(), age::text, 1, now() - interval '30 days',
           now() - make_interval(days => age), '{}'
      from unnest(${[0, LIMITS.explainedRefusalDays - 1, LIMITS.explainedRefusalDays + 1]}::int[]) age`
  await createRetentionSweeper(sql).sweep()
  const kept = await sql<{ code: string }[]>`select code from refusals order by code::int`
  t.strictSame(
    kept.map(({ code }) => Number(code)),
    [0, LIMITS.explainedRefusalDays - 1],
  )
})

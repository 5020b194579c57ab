import t from 'tap'
import { newId } from '../../core/ids.ts'
import type { Sql } from '../../persistence/plane.ts'
import { verify } from '../../persistence/verify.ts'
import { testDatabase } from '../support/database.ts'
import { breaches } from '../support/runtime.ts'
import { day } from './day.ts'
import { hivePlants } from './hive-plants.ts'
import { vaultPlants } from './vault-plants.ts'
import { creditPlants, fleetPlants, keyPlants, schedulePlants, type Plant } from './plants.ts'

t.test('a sound database has nothing broken, and something behind every rule', async (t) => {
  const { sql } = await day(t)
  t.strictSame(await breaches(sql), {})
  for (const { rule, checked } of await verify(sql))
    t.ok(checked > 0, `${rule} looked at ${checked}`)
})

t.test('an empty database is sound', async (t) => {
  const { sql } = await testDatabase(t)
  t.strictSame(await breaches(sql), {})
})

const transfer = (
  sql: Sql,
  debit: string,
  credit: string,
  amount: number,
  kind = 'send',
  callId: string | null = null,
) =>
  sql`insert into transfers (id, owner, debit, credit, amount_micros, kind, call_id, at)
    values (${newId(Date.now())}, 'x', ${debit}, ${credit}, ${amount}, ${kind}, ${callId}, now())`
const context = (sql: Sql, kind: string, path: string, value: string) =>
  sql`update actors set state = jsonb_set(state, ${`{context,${path}}`}::text[], ${value}::text::jsonb)
    where ctid = (select ctid from actors where kind = ${kind} order by id limit 1)`

const plants: Plant[] = [
  {
    says: 'a transfer of nothing',
    rule: 'I1',
    plant: async (sql) => {
      await unchecked(sql)
      await transfer(sql, 'a', 'b', 0)
    },
  },
  {
    says: 'a transfer to itself',
    rule: 'I1',
    plant: async (sql) => {
      await unchecked(sql)
      await transfer(sql, 'a', 'a', 5)
    },
  },
  {
    says: 'an account below zero',
    rule: 'I2',
    plant: (sql) => transfer(sql, 'royalty:pool', 'treasury:fees', 5_000_000),
  },
  {
    says: 'an agent below zero',
    rule: 'I2',
    plant: (sql, { id }) => transfer(sql, `agent:${id}:cash`, 'treasury:fees', 5),
  },
  {
    says: 'a balance that the ledger does not know',
    rule: 'I3',
    plant: (sql) => context(sql, 'agent', 'promo', '{"$n":"900000"}'),
  },
  {
    says: 'money of an agent without a snapshot',
    rule: 'I3',
    plant: (sql) => transfer(sql, 'grants:promo', `agent:${newId(Date.now())}:promo`, 5, 'grant'),
  },
  {
    says: 'a message that was lost on its way',
    rule: 'I3',
    plant: (sql) => sql`delete from inbox where absorbed_at is null`,
  },
  {
    says: 'held money without a hold',
    rule: 'I4',
    plant: (sql) => context(sql, 'agent', 'holds', '{}'),
  },
  {
    says: 'a hold without a timer',
    rule: 'I4',
    plant: (sql) => sql`delete from timers where id like 'hold:%'`,
  },
  {
    says: 'a hold that outlived its expiry',
    rule: 'I4',
    plant: (sql) =>
      sql`update timers set due_at = now() - interval '10 minutes' where id like 'hold:%'`,
  },
  {
    says: 'a task that spent more than its calls',
    rule: 'I5a',
    plant: (sql) => context(sql, 'taskSession', 'spent', '{"$n":"130000"}'),
  },
  {
    says: 'a task beyond its budget',
    rule: 'I5a',
    plant: (sql) => context(sql, 'taskSession', 'budget', '{"$n":"119999"}'),
  },
  {
    says: 'a Backpack that forgot a call',
    rule: 'I5b',
    plant: (sql) => context(sql, 'backpack', 'spentDay', '{"$n":"70000"}'),
  },
  {
    says: 'a Backpack whose total is wrong',
    rule: 'I5b',
    plant: (sql) => context(sql, 'backpack', 'spentTotal', '{"$n":"1"}'),
  },
  {
    says: 'a Backpack beyond its day',
    rule: 'I5b',
    plant: (sql) => context(sql, 'backpack', 'fuse,perDay', '{"$n":"119999"}'),
  },
  {
    says: 'a Backpack that let too large a call through',
    rule: 'I5b',
    plant: (sql) => context(sql, 'backpack', 'fuse,perCall', '{"$n":"69999"}'),
  },
  ...keyPlants,
  ...schedulePlants,
  ...fleetPlants,
  ...hivePlants,
  ...vaultPlants,
  {
    says: 'a call that was charged twice',
    rule: 'I6',
    plant: (
      sql,
    ) => sql`insert into transfers select ${newId(Date.now())}, owner, debit, credit, amount_micros,
      kind, call_id, memo, at from transfers where kind = 'charge' limit 1`,
  },
  {
    says: 'a call that was recorded twice',
    rule: 'I6',
    plant: (
      sql,
    ) => sql`insert into calls select owner, call_id, agent_id, key_id, operation, tool, rail, 0, 'failed',
      'internal', ms, null, null, ghost, null, null, null, at + interval '1 second' from calls limit 1`,
  },
  {
    says: 'a charge without a call',
    rule: 'I6',
    plant: (sql, { id }) =>
      transfer(sql, `agent:${id}:promo`, 'treasury:fees', 5, 'fee', newId(Date.now())),
  },
  {
    says: 'a payment that the ledger does not know',
    rule: 'I7',
    plant: (sql) => transfer(sql, 'world:base', 'owed:base', 5, 'settlement'),
  },
  {
    says: 'a payment that settled out of nothing',
    rule: 'I7',
    plant: (sql) => sql`delete from chain_moves where ctid = (select min(ctid) from chain_moves)`,
  },
  {
    says: 'a nonce that was claimed under two names',
    rule: 'I7',
    plant: (
      sql,
    ) => sql`insert into settlements select 'stl_twice', claim, payer, chain, asset, nonce,
      amount, price_micros, from_block, payment, agent_id, purpose, created_at from settlements limit 1`,
  },
  {
    says: 'a delivery that nobody owes',
    rule: 'I7b',
    plant: (sql) => sql`update actors set state = jsonb_set(state, '{value,delivery}', '"waiting"')
      where kind = 'settlement' and state->'value'->>'money' = 'due'`,
  },
  {
    says: 'money that went somewhere else on its way',
    rule: 'I7b',
    plant: (sql) => transfer(sql, 'owed:base', 'treasury:fees', 5, 'loss'),
  },
  {
    says: 'a payer with a payment forgotten',
    rule: 'I7c',
    plant: (sql) => context(sql, 'payer', 'inFlight', '{"$n":"0"}'),
  },
  {
    says: 'a payer with a reservation too many',
    rule: 'I7c',
    plant: (sql) => context(sql, 'payer', 'reservations', '{}'),
  },
  {
    says: 'shares that favour the treasury',
    rule: 'I9',
    plant: async (sql) => {
      await mutable(sql)
      await sql`update transfers set credit = 'treasury:fees' where kind = 'charge'`
    },
  },
  {
    says: 'a command without its history',
    rule: 'I10',
    plant: (sql, { id }) => sql`delete from journal where aggregate_id = ${id} and version = 3`,
  },
  {
    says: 'a version that history does not know',
    rule: 'I10',
    plant: (sql, { id }) => sql`update aggregates set version = version + 1 where id = ${id}`,
  },
  {
    says: 'promotional credits out of nowhere',
    rule: 'I11',
    plant: (sql, { id }) => transfer(sql, 'world:base', `agent:${id}:promo`, 5),
  },
  {
    says: 'promotional credits turned into cash',
    rule: 'I11',
    plant: (sql, { id, other }) => transfer(sql, `agent:${id}:promo`, `agent:${other}:cash`, 5),
  },
  {
    says: 'a movement that is not listed',
    rule: 'I11',
    plant: (sql, { id }) => transfer(sql, `agent:${id}:cash`, 'grants:promo', 5),
  },
  {
    says: 'a hold of another agent',
    rule: 'I11',
    plant: (sql, { id, other }) =>
      transfer(sql, `agent:${id}:promo`, `agent:${other}:held:promo`, 5, 'hold'),
  },
  ...creditPlants,
  {
    says: 'a message absorbed without a command',
    rule: 'I12',
    plant: (sql) => sql`update inbox set absorbed_at = now() where absorbed_at is null`,
  },
  {
    says: 'a message absorbed by two commands',
    rule: 'I12',
    plant: (
      sql,
    ) => sql`insert into journal select aggregate_id, version + 100, ${newId(Date.now())}, command, changed, at
      from journal where command->>'name' = 'inbox.absorb'`,
  },
  {
    says: 'a message absorbed that still lies open',
    rule: 'I12',
    plant: (sql) => sql`update inbox set absorbed_at = null where absorbed_at is not null`,
  },
  {
    says: 'a day of usage that nobody called',
    rule: 'U1',
    plant: (sql) => sql`update usage_daily set calls = calls + 1`,
  },
  {
    says: 'a key that was answered twice',
    rule: 'K1',
    plant: (
      sql,
    ) => sql`insert into calls select owner, ${newId(Date.now())}, agent_id, key_id, operation, null, rail, 0,
      status, null, ms, null, null, ghost, idempotency_key, request_hash, response, at from calls
      where idempotency_key is not null`,
  },
  {
    says: 'a pool that the ledger does not know',
    rule: 'F1',
    plant: (sql) => context(sql, 'fleet', 'cash', '{"$n":"1"}'),
  },
  {
    says: 'credits on their way back to a pool that were lost',
    rule: 'F1',
    plant: (sql) => sql`delete from inbox where receiver_kind = 'fleet' and absorbed_at is null`,
  },
  {
    says: 'a bonus of a pool out of nowhere',
    rule: 'I11',
    plant: (sql) => transfer(sql, 'world:base', `fleet:${newId(Date.now())}:promo`, 5),
  },
  {
    says: 'a bonus of a pool turned into cash',
    rule: 'I11',
    plant: (sql, { id }) =>
      transfer(sql, `fleet:${newId(Date.now())}:promo`, `agent:${id}:cash`, 5, 'draw'),
  },
  {
    says: 'a member that no fleet counts',
    rule: 'F2',
    plant: (sql) =>
      sql`insert into fleet_members select ${newId(Date.now())}, fleet_id, now() from fleet_members limit 1`,
  },
  {
    says: 'a member that the directory lacks',
    rule: 'F2',
    plant: (sql) => sql`delete from fleet_members`,
  },
  {
    says: 'a bounty that was paid twice',
    rule: 'I8',
    plant: (sql) => sql`insert into transfers select ${newId(Date.now())}, owner, debit, credit,
      amount_micros, kind, call_id, memo, at from transfers where kind = 'bounty'`,
  },
  {
    says: 'a bounty that was paid to somebody else',
    rule: 'I8',
    plant: (sql, { id }) => sql`update actors set state =
      jsonb_set(state, '{context,claimerId}', to_jsonb(${id}::text))
      where kind = 'bounty' and state->>'value' = 'claimed'`,
  },
  {
    says: 'an escrow that leaked',
    rule: 'I8',
    plant: (sql) => sql`insert into transfers select ${newId(Date.now())}, owner, credit,
      'treasury:fees', 1, 'fee', null, null, at from transfers where kind = 'escrow' limit 1`,
  },
  {
    says: 'an escrow that was never taken',
    rule: 'I8',
    plant: async (sql) => {
      await mutable(sql)
      await sql`delete from transfers where kind = 'escrow'`
    },
  },
  {
    says: 'promotional credits turned into cash by a bounty',
    rule: 'I11',
    plant: (sql, { id }) =>
      transfer(sql, `bounty:${newId(Date.now())}:promo`, `agent:${id}:cash`, 5, 'bounty'),
  },
  {
    says: 'promotional credits that came into an escrow as cash',
    rule: 'I11',
    plant: (sql, { id }) =>
      transfer(sql, `agent:${id}:promo`, `bounty:${newId(Date.now())}`, 5, 'escrow'),
  },
  {
    says: 'a claimed bounty that lists show as open',
    rule: 'B1',
    plant: (sql) => sql`update bounties set status = 'open', closed_reason = null`,
  },
  {
    says: 'an open bounty without its timer',
    rule: 'B1',
    plant: (sql) => sql`delete from timers where command = 'bounty.expire'`,
  },
  {
    says: 'a slot of a drop that was given twice',
    rule: 'D1',
    plant: (sql) => sql`insert into transfers select ${newId(Date.now())}, owner, debit, credit,
      amount_micros, kind, call_id, memo, at from transfers where kind = 'drop'`,
  },
  {
    says: 'a drop with more slots taken than it had',
    rule: 'D1',
    plant: (sql) => context(sql, 'drop', 'slots', '0'),
  },
]

/** The ledger can be written to only by whoever may take its guards away. */
const mutable = (sql: Sql) => sql`alter table transfers disable trigger all`
async function unchecked(sql: Sql): Promise<void> {
  const rows = await sql<{ conname: string }[]>`
    select conname from pg_constraint where conrelid = 'transfers'::regclass and contype = 'c'`
  for (const { conname } of rows) await sql`alter table transfers drop constraint ${sql(conname)}`
}

for (const { says, rule, plant } of plants) {
  t.test(`${rule} finds ${says}`, async (t) => {
    const made = await day(t)
    await plant(made.sql, made)
    const found = await breaches(made.sql)
    t.ok(rule in found, Object.keys(found).join())
  })
}

t.test('every rule has a plant', async (t) => {
  const { sql } = await testDatabase(t)
  const rules = (await verify(sql)).map(({ rule }) => rule)
  t.strictSame([...new Set(plants.map(({ rule }) => rule))].sort(), rules.sort())
})

import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { attestationCorruptions } from './attestation-corruptions.ts'
import { communityToolCorruptions } from './community-tool-corruptions.ts'
import { hiveCorruptions } from './hive-corruptions.ts'
import { journalCorruptions } from './journal-corruptions.ts'
import {
  creditCorruptions,
  fleetCorruptions,
  keySpendCorruptions,
  scheduleCorruptions,
  type LedgerCorruption,
} from './ledger-corruptions.ts'
import { taskPassCorruptions } from './task-pass-corruptions.ts'
import { memoryMarketplaceCorruptions } from './memory-marketplace-corruptions.ts'
import { vaultCorruptions } from './vault-corruptions.ts'

/** Corruptions of each invariant of `gas verify`. */

const transfer = (
  sql: Sql,
  debit: string,
  credit: string,
  amount: number,
  kind = 'send',
  callId: string | null = null,
) =>
  sql`insert into ledger (id, owner, debit, credit, amount_micros, kind, call_id, at)
    values (${newUuidV7(Date.now())}, 'x', ${debit}, ${credit}, ${amount}, ${kind}, ${callId}, now())`
const context = (sql: Sql, kind: string, path: string, value: string) =>
  sql`update actors set state = jsonb_set(state, ${`{context,${path}}`}::text[], ${value}::text::jsonb)
    where ctid = (select ctid from actors where kind = ${kind} order by id limit 1)`

/** At least one corruption of each invariant. */
export const INVARIANT_CORRUPTIONS: readonly LedgerCorruption[] = [
  {
    description: 'a transfer of zero',
    rule: 'I1',
    apply: async (sql) => {
      await unchecked(sql)
      await transfer(sql, 'a', 'b', 0)
    },
  },
  {
    description: 'a transfer to itself',
    rule: 'I1',
    apply: async (sql) => {
      await unchecked(sql)
      await transfer(sql, 'a', 'a', 5)
    },
  },
  {
    description: 'a price with a fee above it',
    rule: 'I1',
    apply: async (sql) => {
      await unchecked(sql)
      await mutable(sql)
      await sql`update ledger set fee_micros = amount_micros + 1 where kind = 'price'`
    },
  },
  {
    description: 'a price that promotional credits pay, of an agent that has none left',
    rule: 'I3',
    apply: async (sql) => {
      await mutable(sql)
      await sql`update ledger set promo_micros = amount_micros - promo_micros
        where kind = 'price' and source in ('free', 'held')`
    },
  },
  {
    description: 'an account below zero',
    rule: 'I2',
    apply: (sql) => transfer(sql, 'royalty:pool', 'treasury:fees', 5_000_000),
  },
  {
    description: 'an agent below zero',
    rule: 'I2',
    apply: (sql, { id }) => transfer(sql, `agent:${id}:cash`, 'treasury:fees', 5),
  },
  {
    description: 'a balance that differs from the ledger',
    rule: 'I3',
    apply: (sql) => context(sql, 'agent', 'promo', '{"$n":"900000"}'),
  },
  {
    description: 'credits of an agent without a snapshot',
    rule: 'I3',
    apply: (sql) =>
      transfer(sql, 'grants:promo', `agent:${newUuidV7(Date.now())}:promo`, 5, 'grant'),
  },
  {
    description: 'a message that was lost in transit',
    rule: 'I3',
    apply: (sql) => sql`delete from inbox where absorbed_at is null`,
  },
  {
    description: 'held credits without a hold',
    rule: 'I4',
    apply: (sql) => context(sql, 'agent', 'holds', '{}'),
  },
  {
    description: 'a hold without a timer',
    rule: 'I4',
    apply: (sql) => sql`delete from timers where id like 'hold:%'`,
  },
  {
    description: 'a hold after its expiry',
    rule: 'I4',
    apply: (sql) =>
      sql`update timers set due_at = now() - interval '10 minutes' where id like 'hold:%'`,
  },
  {
    description: 'a task that spent more than its calls',
    rule: 'I5a',
    apply: (sql) => context(sql, 'taskSession', 'spent', '{"$n":"130000"}'),
  },
  {
    description: 'a task above its budget',
    rule: 'I5a',
    apply: (sql) => context(sql, 'taskSession', 'budget', '{"$n":"119999"}'),
  },
  {
    description: 'a Backpack that did not count a call',
    rule: 'I5b',
    apply: (sql) => context(sql, 'backpack', 'spentDay', '{"$n":"70000"}'),
  },
  {
    description: 'a Backpack whose total is wrong',
    rule: 'I5b',
    apply: (sql) => context(sql, 'backpack', 'spentTotal', '{"$n":"1"}'),
  },
  {
    description: 'a Backpack above its daily limit',
    rule: 'I5b',
    apply: (sql) => context(sql, 'backpack', 'fuse,perDay', '{"$n":"119999"}'),
  },
  {
    description: 'a Backpack that admitted a call above its limit',
    rule: 'I5b',
    apply: (sql) => context(sql, 'backpack', 'fuse,perCall', '{"$n":"69999"}'),
  },
  ...keySpendCorruptions,
  ...scheduleCorruptions,
  ...fleetCorruptions,
  ...hiveCorruptions,
  ...vaultCorruptions,
  ...attestationCorruptions,
  ...taskPassCorruptions,
  ...communityToolCorruptions,
  ...memoryMarketplaceCorruptions,
  {
    description: 'a call that was charged twice',
    rule: 'I6',
    apply: (
      sql,
    ) => sql`insert into ledger (id, owner, kind, source, amount_micros, fee_micros, promo_micros, call_id, at)
      select ${newUuidV7(Date.now())}, owner, kind, source, amount_micros, fee_micros, promo_micros, call_id, at
        from ledger where kind = 'price' limit 1`,
  },
  {
    description: 'a call that was recorded twice',
    rule: 'I6',
    apply: (
      sql,
    ) => sql`insert into calls (owner, call_id, operation, tool, rail, cost_micros, status, error_code, ms, ghost, at)
      select owner, call_id, operation, tool, rail, 0, 'failed', 'internal', ms, ghost, at + interval '1 second'
        from calls limit 1`,
  },
  {
    description: 'a charge without a call',
    rule: 'I6',
    apply: (sql, { id }) =>
      transfer(sql, `agent:${id}:promo`, 'treasury:fees', 5, 'fee', newUuidV7(Date.now())),
  },
  {
    description: 'a payment that is missing from the ledger',
    rule: 'I7',
    apply: (sql) => transfer(sql, 'world:base', 'owed:base', 5, 'settlement'),
  },
  {
    description: 'a settled payment without a transfer',
    rule: 'I7',
    apply: (sql) =>
      sql`delete from chain_transfers where ctid = (select min(ctid) from chain_transfers)`,
  },
  {
    description: 'a nonce claimed under two ids',
    rule: 'I7',
    apply: (
      sql,
    ) => sql`insert into settlements select 'stl_twice', claim, payer, chain, asset, nonce,
      amount, price_micros, from_block, payment, agent_id, purpose, created_at from settlements limit 1`,
  },
  {
    description: 'a delivery without an owed amount',
    rule: 'I7b',
    apply: (sql) => sql`update actors set state = jsonb_set(state, '{value,delivery}', '"waiting"')
      where kind = 'settlement' and state->'value'->>'money' = 'due'`,
  },
  {
    description: 'a payment credited to another account',
    rule: 'I7b',
    apply: (sql) => transfer(sql, 'owed:base', 'treasury:fees', 5, 'loss'),
  },
  {
    description: 'a payer without one of its payments',
    rule: 'I7c',
    apply: (sql) => context(sql, 'payer', 'inFlight', '{"$n":"0"}'),
  },
  {
    description: 'a payer with an extra reservation',
    rule: 'I7c',
    apply: (sql) => context(sql, 'payer', 'reservations', '{}'),
  },
  {
    description: 'shares of a price with too much for the treasury',
    rule: 'I9',
    apply: async (sql) => {
      await mutable(sql)
      await sql`update ledger set fee_micros = amount_micros where kind = 'price'`
    },
  },
  ...journalCorruptions,
  {
    description: 'promotional credits without a grant',
    rule: 'I11',
    apply: (sql, { id }) => transfer(sql, 'world:base', `agent:${id}:promo`, 5),
  },
  {
    description: 'promotional credits converted to cash',
    rule: 'I11',
    apply: (sql, { id, other }) => transfer(sql, `agent:${id}:promo`, `agent:${other}:cash`, 5),
  },
  {
    description: 'a movement that is not listed',
    rule: 'I11',
    apply: (sql, { id }) => transfer(sql, `agent:${id}:cash`, 'grants:promo', 5),
  },
  {
    description: 'a hold of another agent',
    rule: 'I11',
    apply: (sql, { id, other }) =>
      transfer(sql, `agent:${id}:promo`, `agent:${other}:held:promo`, 5, 'hold'),
  },
  ...creditCorruptions,
  {
    description: 'a message absorbed without a command',
    rule: 'I12',
    apply: (sql) => sql`update inbox set absorbed_at = now() where absorbed_at is null`,
  },
  {
    description: 'a message absorbed by two commands',
    rule: 'I12',
    apply: (
      sql,
    ) => sql`insert into journal select aggregate_id, version + 100, ${newUuidV7(Date.now())}, command, changed, at
      from journal where command->>'name' = 'inbox.absorb'`,
  },
  {
    description: 'an absorbed message that is still pending',
    rule: 'I12',
    apply: (sql) => sql`update inbox set absorbed_at = null where absorbed_at is not null`,
  },
  {
    description: 'a day of usage without calls',
    rule: 'U1',
    apply: (sql) => sql`update usage_daily set calls = calls + 1`,
  },
  {
    description: 'a key that was answered twice',
    rule: 'K1',
    apply: (
      sql,
    ) => sql`insert into calls (owner, call_id, operation, rail, cost_micros, status, ms, ghost, idempotency_key,
        request_hash, response, at)
      select owner, ${newUuidV7(Date.now())}, operation, rail, 0, status, ms, ghost, idempotency_key,
             request_hash, response, at from calls where idempotency_key is not null`,
  },
  {
    description: 'a pool that differs from the ledger',
    rule: 'F1',
    apply: (sql) => context(sql, 'fleet', 'cash', '{"$n":"1"}'),
  },
  {
    description: 'credits lost while returning to a pool',
    rule: 'F1',
    apply: (sql) => sql`delete from inbox where receiver_kind = 'fleet' and absorbed_at is null`,
  },
  {
    description: 'a bonus of a pool without a grant',
    rule: 'I11',
    apply: (sql) => transfer(sql, 'world:base', `fleet:${newUuidV7(Date.now())}:promo`, 5),
  },
  {
    description: 'a bonus of a pool converted to cash',
    rule: 'I11',
    apply: (sql, { id }) =>
      transfer(sql, `fleet:${newUuidV7(Date.now())}:promo`, `agent:${id}:cash`, 5, 'draw'),
  },
  {
    description: 'a member that its fleet does not count',
    rule: 'F2',
    apply: (sql) =>
      sql`insert into fleet_members select ${newUuidV7(Date.now())}, fleet_id, now() from fleet_members limit 1`,
  },
  {
    description: 'a member that the directory lacks',
    rule: 'F2',
    apply: (sql) => sql`delete from fleet_members`,
  },
  {
    description: 'a bounty that was paid twice',
    rule: 'I8',
    apply: (
      sql,
    ) => sql`insert into ledger (id, owner, debit, credit, amount_micros, kind, call_id, memo, at) select ${newUuidV7(Date.now())}, owner, debit, credit,
      amount_micros, kind, call_id, memo, at from ledger where kind = 'bounty'`,
  },
  {
    description: 'a bounty that was paid to another agent',
    rule: 'I8',
    apply: (sql, { id }) => sql`update actors set state =
      jsonb_set(state, '{context,claimerId}', to_jsonb(${id}::text))
      where kind = 'bounty' and state->>'value' = 'claimed'`,
  },
  {
    description: 'an escrow with a missing amount',
    rule: 'I8',
    apply: (
      sql,
    ) => sql`insert into ledger (id, owner, debit, credit, amount_micros, kind, call_id, memo, at) select ${newUuidV7(Date.now())}, owner, credit,
      'treasury:fees', 1, 'fee', null, null, at from ledger where kind = 'escrow' limit 1`,
  },
  {
    description: 'an escrow that was never debited',
    rule: 'I8',
    apply: async (sql) => {
      await mutable(sql)
      await sql`delete from ledger where kind = 'escrow'`
    },
  },
  {
    description: 'promotional credits converted to cash by a bounty',
    rule: 'I11',
    apply: (sql, { id }) =>
      transfer(sql, `bounty:${newUuidV7(Date.now())}:promo`, `agent:${id}:cash`, 5, 'bounty'),
  },
  {
    description: 'promotional credits moved into an escrow as cash',
    rule: 'I11',
    apply: (sql, { id }) =>
      transfer(sql, `agent:${id}:promo`, `bounty:${newUuidV7(Date.now())}`, 5, 'escrow'),
  },
  {
    description: 'a claimed bounty that is listed as open',
    rule: 'B1',
    apply: (sql) => sql`update bounties set status = 'open', closed_reason = null`,
  },
  {
    description: 'an open bounty without its timer',
    rule: 'B1',
    apply: (sql) => sql`delete from timers where command = 'bounty.expire'`,
  },
  {
    description: 'a slot of a drop that was given twice',
    rule: 'D1',
    apply: (
      sql,
    ) => sql`insert into ledger (id, owner, debit, credit, amount_micros, kind, call_id, memo, at) select ${newUuidV7(Date.now())}, owner, debit, credit,
      amount_micros, kind, call_id, memo, at from ledger where kind = 'drop'`,
  },
  {
    description: 'a drop with more claims than slots',
    rule: 'D1',
    apply: (sql) => context(sql, 'drop', 'slots', '0'),
  },
]

/** Allows changes of the append-only ledger. */
const mutable = (sql: Sql) => sql`alter table ledger disable trigger all`

/** Drops the checks of the ledger's columns. */
async function unchecked(sql: Sql): Promise<void> {
  const rows = await sql<{ conname: string }[]>`
    select conname from pg_constraint where conrelid = 'ledger'::regclass and contype = 'c'`
  for (const { conname } of rows) await sql`alter table ledger drop constraint ${sql(conname)}`
}

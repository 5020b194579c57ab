import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import type { LedgerCorruption } from './ledger-corruptions.ts'

/** Corruptions of the journal and of actors that differ from it. */

/** Rewrites the last change of the agent's promotional credits. */
const rewriteLastDelta = (sql: Sql, id: string, pattern: string, by: string) => sql`
  update journal set changed = regexp_replace(changed::text, ${pattern}, ${by})::json
   where aggregate_id = ${id} and version = (select max(version) from journal
     where aggregate_id = ${id} and changed::text ~ '"/promo":' and changed->0->'state' is null)`

export const journalCorruptions: readonly LedgerCorruption[] = [
  {
    description: 'a command without its history',
    rule: 'I10',
    apply: (sql, { id }) => sql`delete from journal where aggregate_id = ${id} and version = 3`,
  },
  {
    description: 'a version without its command',
    rule: 'I10',
    apply: (sql, { id }) => sql`update aggregates set version = version + 1 where id = ${id}`,
  },
  {
    description: 'an archived version without its place',
    rule: 'I10',
    apply: (sql) => sql`delete from journal_archive_segments`,
  },
  {
    description: 'an archived month whose file has another content',
    rule: 'I10c',
    apply: (sql) => sql`update journal_archives set sha256 = repeat('0', 64)`,
  },
  {
    description: 'an archived month without its file',
    rule: 'I10c',
    apply: (sql) => sql`update journal_archives set file = 'journal-2026-01-none.ndjson.gz'`,
  },
  {
    description: 'an actor at rest that differs from its archived journal',
    rule: 'I10b',
    apply: (sql) => sql`
      update actors a set state = jsonb_set(state, '{context,name}', '"other"')
        from archived_journal s where s.aggregate_id = a.aggregate_id and a.kind = 'agent'`,
  },
  {
    description: 'a delta with another amount',
    rule: 'I10b',
    apply: (sql, { id }) =>
      rewriteLastDelta(sql, id, '"/promo":{"\\$n":"\\d+"}', '"/promo":{"$n":"1"}'),
  },
  {
    description: 'a delta of another field',
    rule: 'I10b',
    apply: (sql, { id }) => rewriteLastDelta(sql, id, '"/promo"', '"/cash"'),
  },
  {
    description: 'a delta of a missing field',
    rule: 'I10b',
    apply: (sql, { id }) => rewriteLastDelta(sql, id, '"/promo"', '"/promo/x"'),
  },
  {
    description: 'a command without its delta',
    rule: 'I10b',
    apply: (sql, { id }) => rewriteLastDelta(sql, id, '.*', '[]'),
  },
  {
    description: 'a full state that was changed',
    rule: 'I10b',
    apply: (sql, { id }) => sql`
      update journal set changed = jsonb_set(changed::jsonb, '{0,state,context,activated}', 'true')::json
       where aggregate_id = ${id} and version = 1`,
  },
  {
    description: 'a creation without a full state',
    rule: 'I10b',
    apply: (sql, { id }) => sql`
      update journal set changed = (changed::jsonb #- '{0,state}')::json
       where aggregate_id = ${id} and version = 1`,
  },
  {
    description: 'a journal without full states',
    rule: 'I10b',
    apply: (sql, { id }) => sql`
      update journal set version = version + 100 where aggregate_id = ${id} and version > 1`,
  },
  {
    description: 'a state that differs from the journal',
    rule: 'I10b',
    apply: (sql) => sql`
      update actors set state = jsonb_set(state, '{context,name}', '"other"') where kind = 'taskSession'`,
  },
  {
    description: 'a machine version that differs from the journal',
    rule: 'I10b',
    apply: (sql) => sql`update actors set machine_version = 2 where kind = 'bounty'`,
  },
  {
    description: 'an actor without a journal',
    rule: 'I10b',
    apply: (sql) => sql`
      insert into actors select aggregate_id, kind, 'other', machine_version, state, archived
        from actors where kind = 'backpack' limit 1`,
  },
  {
    description: 'a missing actor',
    rule: 'I10b',
    apply: (sql) => sql`delete from actors where kind = 'backpack'`,
  },
]

import { stringifyWithBigints } from '../core/bigint-json.ts'
import type { DomainEvent } from '../core/domain-events.ts'
import { toUnquotedArrayLiteral, toTextArrayLiteral } from './postgres/postgres-array-literal.ts'
import type { Sql } from './start-postgres-and-redis.ts'
import type {
  CallRow,
  InboxMessage,
  JournalRow,
  DurableTimer,
  LedgerTransfer,
} from '../core/commit-rows.ts'
import type { StoredActor } from './stored-aggregate.ts'

/** The changes of one aggregate in a batch; all are skipped if its version has changed. */
export interface AggregateChanges {
  readonly id: string
  readonly kind: string
  readonly oldVersion: number
  readonly newVersion: number
  readonly journal: readonly JournalRow[]
  readonly actors: readonly (StoredActor & { readonly archived: boolean })[]
  readonly transfers: readonly (LedgerTransfer & { readonly id: string; readonly at: number })[]
  readonly calls: readonly CallRow[]
  readonly inbox: readonly (InboxMessage & { readonly at: number })[]
  readonly absorbed: readonly string[]
  readonly events: readonly (DomainEvent & { readonly at: number })[]
  readonly removedTimers: readonly string[]
  readonly timers: readonly DurableTimer[]
  readonly rows: readonly { readonly table: string; readonly row: Record<string, unknown> }[]
}

/** A reply without changes that must still be based on the newest version. */
export interface VersionAssertion {
  readonly id: string
  readonly version: number
}

export interface CommitBatchResult {
  /** Aggregates whose version had changed: none of their changes were applied. */
  readonly bad: ReadonlySet<string>
  /** Asserted aggregates with unabsorbed inbox rows. */
  readonly waiting: ReadonlySet<string>
}

/**
 * Commits a batch in one transaction and one round trip (SQL function `commit_batch`). Rejects only
 * with database errors, after which the outcome may be unknown.
 */
export async function commitBatch(
  sql: Sql,
  changes: readonly AggregateChanges[],
  assertions: readonly VersionAssertion[],
): Promise<CommitBatchResult> {
  const texts = <T>(rows: readonly T[], get: (row: T) => string | null) =>
    toTextArrayLiteral(rows.map(get))
  const plain = <T>(
    rows: readonly T[],
    get: (row: T) => string | number | bigint | boolean | null,
  ) => toUnquotedArrayLiteral(rows.map(get))
  const j = withAggregateId(changes, (c) => c.journal)
  const a = withAggregateId(changes, (c) => c.actors)
  const t = withAggregateId(changes, (c) => c.transfers)
  const c = withAggregateId(changes, (one) => one.calls)
  const i = withAggregateId(changes, (one) => one.inbox)
  const x = withAggregateId(changes, (one) => one.absorbed)
  const o = withAggregateId(changes, (one) => one.events)
  const d = withAggregateId(changes, (one) => one.removedTimers)
  const m = changes.flatMap((one) => one.timers.map((row) => ({ of: one.id, kind: one.kind, row })))
  const r = withAggregateId(changes, (one) => one.rows)
  const [outcome] = await sql<{ bad: string[]; waiting: string[] }[]>`
    select * from commit_batch(
      ${texts(changes, (one) => one.id)}::text[], ${texts(changes, (one) => one.kind)}::text[],
      ${plain(changes, (one) => one.oldVersion)}::bigint[],
      ${plain(changes, (one) => one.newVersion)}::bigint[],
      ${texts(assertions, (one) => one.id)}::text[],
      ${plain(assertions, (one) => one.version)}::bigint[],
      ${texts(j, (e) => e.of)}::text[], ${plain(j, (e) => e.row.version)}::bigint[],
      ${plain(j, (e) => e.row.commandId)}::uuid[], ${plain(j, (e) => e.row.at)}::bigint[],
      ${texts(j, (e) => e.row.command)}::text[], ${texts(j, (e) => e.row.changed)}::text[],
      ${texts(a, (e) => e.of)}::text[], ${texts(a, (e) => e.row.kind)}::text[],
      ${texts(a, (e) => e.row.id)}::text[], ${plain(a, (e) => e.row.machineVersion)}::int[],
      ${texts(a, (e) => e.row.state)}::text[], ${plain(a, (e) => e.row.archived)}::boolean[],
      ${texts(t, (e) => e.of)}::text[], ${plain(t, (e) => e.row.id)}::uuid[],
      ${texts(t, (e) => e.row.debit)}::text[], ${texts(t, (e) => e.row.credit)}::text[],
      ${plain(t, (e) => e.row.amount)}::bigint[], ${texts(t, (e) => e.row.kind)}::text[],
      ${plain(t, (e) => e.row.callId ?? null)}::uuid[],
      ${texts(t, (e) => e.row.memo ?? null)}::text[], ${plain(t, (e) => e.row.at)}::bigint[],
      ${texts(c, (e) => e.of)}::text[], ${plain(c, (e) => e.row.callId)}::uuid[],
      ${plain(c, (e) => e.row.agentId)}::uuid[], ${plain(c, (e) => e.row.keyId)}::uuid[],
      ${texts(c, (e) => e.row.operation)}::text[], ${texts(c, (e) => e.row.tool)}::text[],
      ${texts(c, (e) => e.row.rail)}::text[], ${plain(c, (e) => e.row.cost)}::bigint[],
      ${texts(c, (e) => e.row.status)}::text[], ${texts(c, (e) => e.row.errorCode)}::text[],
      ${plain(c, (e) => e.row.ms)}::int[], ${plain(c, (e) => e.row.taskId)}::uuid[],
      ${texts(c, (e) => e.row.backpackId)}::text[], ${plain(c, (e) => e.row.ghost)}::boolean[],
      ${texts(c, (e) => e.row.idempotencyKey)}::text[],
      ${texts(c, (e) => e.row.requestHash)}::text[], ${texts(c, (e) => e.row.response)}::text[],
      ${plain(c, (e) => e.row.at)}::bigint[],
      ${texts(i, (e) => e.of)}::text[], ${texts(i, (e) => e.row.receiver)}::text[],
      ${texts(i, (e) => e.row.receiverKind)}::text[], ${texts(i, (e) => e.row.id)}::text[],
      ${texts(i, (e) => stringifyWithBigints(e.row.event))}::text[], ${plain(i, (e) => e.row.at)}::bigint[],
      ${texts(x, (e) => e.of)}::text[], ${texts(x, (e) => e.row)}::text[],
      ${texts(o, (e) => e.of)}::text[], ${texts(o, (e) => e.row.to)}::text[],
      ${texts(o, (e) => e.row.backpackId ?? null)}::text[], ${texts(o, (e) => e.row.type)}::text[],
      ${texts(o, (e) => JSON.stringify(e.row.data))}::text[], ${plain(o, (e) => e.row.at)}::bigint[],
      ${texts(d, (e) => e.of)}::text[], ${texts(d, (e) => e.row)}::text[],
      ${texts(m, (e) => e.of)}::text[], ${texts(m, (e) => e.kind)}::text[],
      ${texts(m, (e) => e.row.id)}::text[], ${plain(m, (e) => e.row.dueAt)}::bigint[],
      ${texts(m, (e) => e.row.command)}::text[], ${texts(m, (e) => stringifyWithBigints(e.row.input))}::text[],
      ${texts(r, (e) => e.of)}::text[], ${texts(r, (e) => e.row.table)}::text[],
      ${texts(r, (e) => JSON.stringify(e.row.row))}::text[])`
  return { bad: new Set(outcome?.bad), waiting: new Set(outcome?.waiting) }
}

function withAggregateId<T>(
  changes: readonly AggregateChanges[],
  rows: (one: AggregateChanges) => readonly T[],
): { of: string; row: T }[] {
  return changes.flatMap((one) => rows(one).map((row) => ({ of: one.id, row })))
}

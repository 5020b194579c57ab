import { stringifyWithBigints } from '../core/bigint-json.ts'
import type { DomainEvent } from '../core/domain-events.ts'
import {
  unitSeparatedJsonColumn,
  plainColumnLiteral,
  textColumnLiteral,
} from './postgres/postgres-array-literal.ts'
import type { Sql } from './start-postgres-and-redis.ts'
import type {
  CallRow,
  InboxMessage,
  AggregateCommandJournalRow,
  DurableTimer,
  LedgerTransfer,
  CallPriceSplitInput,
} from '../core/aggregate-commit-row-types.ts'
import type { StoredActor } from './stored-aggregate.ts'

/** The changes of one aggregate in a batch; all are skipped if its version has changed. */
export interface AggregateChanges {
  readonly id: string
  readonly kind: string
  readonly oldVersion: number
  readonly newVersion: number
  readonly journal: readonly AggregateCommandJournalRow[]
  readonly actors: readonly (StoredActor & { readonly archived: boolean })[]
  readonly transfers: readonly (LedgerTransfer & { readonly id: string; readonly at: number })[]
  readonly prices: readonly (CallPriceSplitInput & { readonly id: string; readonly at: number })[]
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
  readonly storedEvents: number
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
  const [outcome] = await sql.unsafe<{ bad: string[]; waiting: string[]; stored_events: number }[]>(
    COMMIT_TEXT,
    toParameters(changes, assertions),
    { prepare: true },
  )
  const { bad, waiting, stored_events: storedEvents = 0 } = outcome ?? {}
  return { bad: new Set(bad), waiting: new Set(waiting), storedEvents }
}

/** The columns of a batch as array literals in the order of the SQL function, and what is rare. */
function toParameters(
  changes: readonly AggregateChanges[],
  assertions: readonly VersionAssertion[],
): (string | null)[] {
  const j = collectRows(changes, (one) => one.journal)
  const a = collectRows(changes, (one) => one.actors)
  const p = collectRows(changes, (one) => one.prices)
  const c = collectRows(changes, (one) => one.calls)
  const o = collectRows(changes, (one) => one.events)
  return [
    textColumnLiteral(changes, (one) => one.id),
    plainColumnLiteral(changes, (one) => one.kind),
    plainColumnLiteral(changes, (one) => one.oldVersion),
    plainColumnLiteral(changes, (one) => one.newVersion),
    textColumnLiteral(assertions, (one) => one.id),
    plainColumnLiteral(assertions, (one) => one.version),
    textColumnLiteral(j.of, (at) => changes[at - 1]?.id ?? null),
    plainColumnLiteral(j.rows, (row) => row.version),
    plainColumnLiteral(j.rows, (row) => row.commandId),
    plainColumnLiteral(j.rows, (row) => row.at),
    unitSeparatedJsonColumn(j.rows, (row) => row.command),
    unitSeparatedJsonColumn(j.rows, (row) => row.changed),
    plainColumnLiteral(a.of, (at) => at),
    plainColumnLiteral(a.rows, (row) => row.kind),
    textColumnLiteral(a.rows, (row) => row.id),
    plainColumnLiteral(a.rows, (row) => row.machineVersion),
    unitSeparatedJsonColumn(a.rows, (row) => row.state),
    plainColumnLiteral(a.rows, (row) => row.archived),
    plainColumnLiteral(p.of, (at) => at),
    plainColumnLiteral(p.rows, (row) => row.id),
    textColumnLiteral(p.rows, (row) => row.source),
    plainColumnLiteral(p.rows, (row) => row.amount),
    plainColumnLiteral(p.rows, (row) => row.fee),
    plainColumnLiteral(p.rows, (row) => row.promo),
    plainColumnLiteral(p.rows, (row) => row.callId),
    plainColumnLiteral(p.rows, (row) => row.at),
    plainColumnLiteral(c.of, (at) => at),
    plainColumnLiteral(c.rows, (row) => row.callId),
    plainColumnLiteral(c.rows, (row) => row.agentId),
    plainColumnLiteral(c.rows, (row) => row.keyId),
    textColumnLiteral(c.rows, (row) => row.operation),
    textColumnLiteral(c.rows, (row) => row.tool),
    plainColumnLiteral(c.rows, (row) => row.rail),
    plainColumnLiteral(c.rows, (row) => row.cost),
    plainColumnLiteral(c.rows, (row) => row.status),
    textColumnLiteral(c.rows, (row) => row.errorCode),
    plainColumnLiteral(c.rows, (row) => row.ms),
    plainColumnLiteral(c.rows, (row) => row.taskId),
    textColumnLiteral(c.rows, (row) => row.backpackId),
    plainColumnLiteral(c.rows, (row) => row.ghost),
    textColumnLiteral(c.rows, (row) => row.idempotencyKey),
    textColumnLiteral(c.rows, (row) => row.requestHash),
    textColumnLiteral(c.rows, (row) => row.response),
    plainColumnLiteral(c.rows, (row) => row.at),
    plainColumnLiteral(o.of, (at) => at),
    textColumnLiteral(o.rows, (row) => row.to),
    textColumnLiteral(o.rows, (row) => row.backpackId ?? null),
    plainColumnLiteral(o.rows, (row) => row.type),
    unitSeparatedJsonColumn(o.rows, (row) => JSON.stringify(row.data)),
    plainColumnLiteral(o.rows, (row) => row.at),
    plainColumnLiteral(o.rows, (row) => row.onlyIfHeard ?? false),
    toRareRows(changes),
  ]
}

/** The rows of a kind in a batch, and the position of the aggregate of each, from 1. */
function collectRows<T>(
  changes: readonly AggregateChanges[],
  get: (one: AggregateChanges) => readonly T[],
): { of: readonly number[]; rows: readonly T[] } {
  const of: number[] = []
  const rows: T[] = []
  for (const [at, one] of changes.entries())
    for (const row of get(one)) {
      of.push(at + 1)
      rows.push(row)
    }
  return { of, rows }
}

/** What most commands do not write, as JSON; null if the batch has none of it. */
function toRareRows(changes: readonly AggregateChanges[]): string | null {
  const rare: Record<string, Record<string, unknown>[]> = {}
  const add = (group: string, row: Record<string, unknown>) => (rare[group] ??= []).push(row)
  for (const one of changes) {
    const o = one.id
    for (const { callId = null, memo = null, amount, id, debit, credit, kind, at } of one.transfers)
      add('transfers', {
        o,
        id,
        debit,
        credit,
        amount: String(amount),
        kind,
        call: callId,
        memo,
        at,
      })
    for (const { event, ...message } of one.inbox)
      add('inbox', { o, ...message, event: stringifyWithBigints(event) })
    for (const id of one.absorbed) add('absorbed', { o, id })
    for (const id of one.removedTimers) add('removed', { o, id })
    for (const { id, dueAt, command, input } of one.timers)
      add('timers', { o, k: one.kind, id, due: dueAt, command, input: stringifyWithBigints(input) })
    for (const { table, row } of one.rows) add('rows', { o, table, row })
  }
  for (const _ in rare) return JSON.stringify(rare)
  return null
}

/** Built once, without types: they are those of the function. */
const COMMIT_TEXT = `select * from commit_batch(${toParameters([], [])
  .map((_, at) => `$${at + 1}`)
  .join()})`

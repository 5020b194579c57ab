import { stringifyWithBigints } from '../core/json/bigint.ts'
import type { DomainEvent } from '../core/domain-events.ts'
import {
  toUnitSeparatedJsonColumn,
  toUnquotedColumnArrayLiteral,
  toTextColumnArrayLiteral,
} from './postgres/postgres-array-literal.ts'
import type { Sql } from './start-postgres-and-redis.ts'
import type {
  CallRow,
  InboxMessage,
  AggregateCommandJournalRow,
  DurableTimer,
  LedgerTransfer,
  CallPriceWithoutAgentShares,
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
  readonly prices: readonly (CallPriceWithoutAgentShares & {
    readonly id: string
    readonly at: number
  })[]
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
    toTextColumnArrayLiteral(changes, (one) => one.id),
    toUnquotedColumnArrayLiteral(changes, (one) => one.kind),
    toUnquotedColumnArrayLiteral(changes, (one) => one.oldVersion),
    toUnquotedColumnArrayLiteral(changes, (one) => one.newVersion),
    toTextColumnArrayLiteral(assertions, (one) => one.id),
    toUnquotedColumnArrayLiteral(assertions, (one) => one.version),
    toTextColumnArrayLiteral(j.of, (at) => changes[at - 1]?.id ?? null),
    toUnquotedColumnArrayLiteral(j.rows, (row) => row.version),
    toUnquotedColumnArrayLiteral(j.rows, (row) => row.commandId),
    toUnquotedColumnArrayLiteral(j.rows, (row) => row.at),
    toUnitSeparatedJsonColumn(j.rows, (row) => row.command),
    toUnitSeparatedJsonColumn(j.rows, (row) => row.changed),
    toUnquotedColumnArrayLiteral(a.of, (at) => at),
    toUnquotedColumnArrayLiteral(a.rows, (row) => row.kind),
    toTextColumnArrayLiteral(a.rows, (row) => row.id),
    toUnquotedColumnArrayLiteral(a.rows, (row) => row.machineVersion),
    toUnitSeparatedJsonColumn(a.rows, (row) => row.state),
    toUnquotedColumnArrayLiteral(a.rows, (row) => row.archived),
    toUnquotedColumnArrayLiteral(p.of, (at) => at),
    toUnquotedColumnArrayLiteral(p.rows, (row) => row.id),
    toTextColumnArrayLiteral(p.rows, (row) => row.source),
    toUnquotedColumnArrayLiteral(p.rows, (row) => row.amount),
    toUnquotedColumnArrayLiteral(p.rows, (row) => row.fee),
    toUnquotedColumnArrayLiteral(p.rows, (row) => row.promo),
    toUnquotedColumnArrayLiteral(p.rows, (row) => row.callId),
    toUnquotedColumnArrayLiteral(p.rows, (row) => row.at),
    toUnquotedColumnArrayLiteral(c.of, (at) => at),
    toUnquotedColumnArrayLiteral(c.rows, (row) => row.callId),
    toUnquotedColumnArrayLiteral(c.rows, (row) => row.agentId),
    toUnquotedColumnArrayLiteral(c.rows, (row) => row.keyId),
    toTextColumnArrayLiteral(c.rows, (row) => row.operation),
    toTextColumnArrayLiteral(c.rows, (row) => row.tool),
    toUnquotedColumnArrayLiteral(c.rows, (row) => row.rail),
    toUnquotedColumnArrayLiteral(c.rows, (row) => row.cost),
    toUnquotedColumnArrayLiteral(c.rows, (row) => row.status),
    toTextColumnArrayLiteral(c.rows, (row) => row.errorCode),
    toUnquotedColumnArrayLiteral(c.rows, (row) => row.ms),
    toUnquotedColumnArrayLiteral(c.rows, (row) => row.taskId),
    toTextColumnArrayLiteral(c.rows, (row) => row.backpackId),
    toUnquotedColumnArrayLiteral(c.rows, (row) => row.ghost),
    toTextColumnArrayLiteral(c.rows, (row) => row.idempotencyKey),
    toTextColumnArrayLiteral(c.rows, (row) => row.requestHash),
    toTextColumnArrayLiteral(c.rows, (row) => row.response),
    toUnquotedColumnArrayLiteral(c.rows, (row) => row.at),
    toUnquotedColumnArrayLiteral(o.of, (at) => at),
    toTextColumnArrayLiteral(o.rows, (row) => row.to),
    toTextColumnArrayLiteral(o.rows, (row) => row.backpackId ?? null),
    toUnquotedColumnArrayLiteral(o.rows, (row) => row.type),
    toUnitSeparatedJsonColumn(o.rows, (row) => JSON.stringify(row.data)),
    toUnquotedColumnArrayLiteral(o.rows, (row) => row.at),
    toUnquotedColumnArrayLiteral(o.rows, (row) => row.onlyIfHeard ?? false),
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

import { isDeepStrictEqual } from 'node:util'
import {
  applyStateDelta,
  JOURNAL_FULL_STATE_INTERVAL,
  type ActorState,
  type JournalChange,
} from '../../core/journal-actor-state-delta.ts'
import { toTextArrayLiteral } from '../postgres/postgres-array-literal.ts'
import type { Sql } from '../start-postgres-and-redis.ts'
import {
  readArchivedJournalRowsOfAggregates,
  readRowsOfFullyArchivedAggregates,
  type ArchivedAggregateRows,
} from './verify-archived-journal-files.ts'

/**
 * Rebuilds every actor from its journal, page by page: applies each delta, and compares the result
 * with each full state and with the stored actor. Archived rows come before the others of their
 * aggregate; where their file cannot be read, an actor is checked from its next full state on. Memory
 * holds one page and the actors of its aggregates.
 */
export const JOURNAL_FOLD_INVARIANT = {
  id: 'I10b',
  description:
    'each actor equals the sum of its journal, which has a full state at least every 100 versions',
}

export interface JournalFoldFindings {
  /** Actors checked. */
  readonly checked: number
  readonly broken: readonly Record<string, unknown>[]
}

const PAGE_ROWS = 2_000
/** Aggregates that are compared at once. */
const RESTING_AGGREGATES = 500

/** Checks the journal in the transaction of `sql`. Returns at most `maxSamples` violations. */
export async function findJournalFoldViolations(
  sql: Sql,
  maxSamples: number,
  archiveDir: string | null,
): Promise<JournalFoldFindings> {
  const broken: Record<string, unknown>[] = []
  const report: ReportViolation = (violation) => {
    if (broken.length < maxSamples) broken.push(violation)
  }
  const live = await checkLiveAggregates(sql, archiveDir, report)
  const resting = await checkRestingAggregates(sql, archiveDir, report)
  const strays = await sql<{ aggregateId: string; actor: string }[]>`
    select aggregate_id as "aggregateId", kind || ':' || id as actor from actors a
     where not exists (select from journal j where j.aggregate_id = a.aggregate_id)
       and not exists (select from archived_journal s where s.aggregate_id = a.aggregate_id)
     limit ${maxSamples}`
  for (const stray of strays) report({ ...stray, why: 'not in the journal' })
  return { checked: live + resting + strays.length, broken }
}

/** Checks the aggregates that have rows in the database. Returns the number of their actors. */
async function checkLiveAggregates(
  sql: Sql,
  archiveDir: string | null,
  report: ReportViolation,
): Promise<number> {
  let checked = 0
  let folds = new Map<string, AggregateFold>()
  let last = { aggregateId: '', version: 0n }
  for (;;) {
    const page = await sql<JournalPageRow[]>`
      select aggregate_id as "aggregateId", version, changed from journal
       where (aggregate_id, version) > (${last.aggregateId}, ${last.version}::bigint)
       order by aggregate_id, version limit ${PAGE_ROWS}`
    const fresh = new Set(page.map((row) => row.aggregateId))
    fresh.delete(last.aggregateId)
    for await (const archived of readArchivedJournalRowsOfAggregates(sql, archiveDir, [...fresh]))
      foldArchived(folds, archived, report)
    for (const row of page) foldRow(folds, row, report)
    const end = page.at(-1)
    const isLast = end === undefined || page.length < PAGE_ROWS
    // The next page may go on with the last aggregate of this one.
    const openId = end?.aggregateId ?? ''
    const open = folds.get(openId)
    if (!isLast) folds.delete(openId)
    checked += await compareFolds(sql, folds, report)
    if (isLast) return checked
    folds = new Map(open === undefined ? [] : [[openId, open]])
    last = end
  }
}

/** Checks the aggregates whose rows are all archived. Returns the number of their actors. */
async function checkRestingAggregates(
  sql: Sql,
  archiveDir: string | null,
  report: ReportViolation,
): Promise<number> {
  let checked = 0
  let folds = new Map<string, AggregateFold>()
  for await (const archived of readRowsOfFullyArchivedAggregates(sql, archiveDir)) {
    if (!folds.has(archived.aggregateId) && folds.size >= RESTING_AGGREGATES) {
      checked += await compareFolds(sql, folds, report)
      folds = new Map()
    }
    foldArchived(folds, archived, report)
  }
  return checked + (await compareFolds(sql, folds, report))
}

/** Compares the stored actors of these aggregates. Returns their number. */
async function compareFolds(
  sql: Sql,
  folds: Map<string, AggregateFold>,
  report: ReportViolation,
): Promise<number> {
  const ids = toTextArrayLiteral([...folds.keys()])
  const stored = await sql<ActorPageRow[]>`
    select aggregate_id as "aggregateId", kind, id, machine_version as machine, state from actors
     where aggregate_id = any(${ids}::text[])`
  for (const actor of stored) compareActor(folds, actor, report)
  for (const [aggregateId, { actors }] of folds)
    for (const key of actors.keys()) report({ aggregateId, actor: key, why: 'not stored' })
  return stored.length
}

interface JournalPageRow {
  readonly aggregateId: string
  readonly version: bigint
  readonly changed: readonly JournalChange[]
}

interface ActorPageRow {
  readonly aggregateId: string
  readonly kind: string
  readonly id: string
  readonly machine: number
  readonly state: ActorState
}

interface ActorFold {
  readonly state: ActorState
  readonly machine: number
  readonly fullStateAt: bigint
}
interface AggregateFold {
  readonly actors: Map<string, ActorFold>
  /** Whether archived rows could not be read, so that some actors have no state yet. */
  isIncomplete: boolean
}
type ReportViolation = (violation: Record<string, unknown>) => void

function foldOf(folds: Map<string, AggregateFold>, aggregateId: string): AggregateFold {
  const known = folds.get(aggregateId)
  if (known !== undefined) return known
  const fold = { actors: new Map<string, ActorFold>(), isIncomplete: false }
  folds.set(aggregateId, fold)
  return fold
}

function foldArchived(
  folds: Map<string, AggregateFold>,
  { aggregateId, rows }: ArchivedAggregateRows,
  report: ReportViolation,
): void {
  const fold = foldOf(folds, aggregateId)
  if (rows !== null) {
    for (const { version, changed } of rows)
      foldRow(folds, { aggregateId, version: BigInt(version), changed }, report)
    return
  }
  // States from before the gap do not fit the deltas after it.
  fold.actors.clear()
  fold.isIncomplete = true
}

function foldRow(
  folds: Map<string, AggregateFold>,
  { aggregateId, version, changed }: JournalPageRow,
  report: ReportViolation,
): void {
  const { actors, isIncomplete } = foldOf(folds, aggregateId)
  for (const change of changed) {
    const key = `${change.kind}:${change.id ?? aggregateId}`
    const complain = (why: string) => report({ aggregateId, version, actor: key, why })
    const before = actors.get(key)
    if (before === undefined && change.state === undefined && isIncomplete) continue
    const next = foldChange(before, change, version, complain)
    if (next !== null) actors.set(key, next)
  }
}

/** The actor after a change. Where a delta does not fit, the next full state replaces it. */
function foldChange(
  before: ActorFold | undefined,
  change: JournalChange,
  version: bigint,
  complain: (why: string) => void,
): ActorFold | null {
  const { machine, state } = change
  const isFollowing = before !== undefined && before.machine === machine
  if (state === undefined && !isFollowing) {
    complain('no full state before this change')
    return before ?? null
  }
  const made = isFollowing ? tryToApply(before.state, change, complain) : undefined
  if (state !== undefined) {
    if (made !== undefined && !isDeepStrictEqual(made, state))
      complain('the full state differs from the deltas before it')
    return { state, machine, fullStateAt: version }
  }
  if (before === undefined) return null
  if (version - before.fullStateAt >= JOURNAL_FULL_STATE_INTERVAL)
    complain('the last full state is too far away')
  return { ...before, state: made ?? before.state }
}

function tryToApply(
  state: ActorState,
  change: JournalChange,
  complain: (why: string) => void,
): ActorState | undefined {
  try {
    return applyStateDelta(state, change)
  } catch (error) {
    complain((error as Error).message)
    return undefined
  }
}

/** Takes the actor out of the folded ones. */
function compareActor(
  folds: Map<string, AggregateFold>,
  { aggregateId, kind, id, machine, state }: ActorPageRow,
  report: ReportViolation,
): void {
  const key = `${kind}:${id}`
  const fold = folds.get(aggregateId)
  const made = fold?.actors.get(key)
  fold?.actors.delete(key)
  if (made === undefined) {
    if (fold?.isIncomplete !== true) report({ aggregateId, actor: key, why: 'not in the journal' })
  } else if (made.machine !== machine || !isDeepStrictEqual(made.state, state))
    report({ aggregateId, actor: key, why: 'stored state differs' })
}

import { isDeepStrictEqual } from 'node:util'
import {
  applyStateDelta,
  FULL_STATE_INTERVAL,
  type ActorState,
  type JournalChange,
} from '../../core/journal-change.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/**
 * Rebuilds every actor from its journal, page by page: applies each delta, and compares the result
 * with each full state and with the stored actor. Memory holds one page and the actors of its
 * aggregates.
 */
export const JOURNAL_FOLD_RULE = {
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

/** Checks the journal in the transaction of `sql`. Returns at most `maxSamples` violations. */
export async function findJournalFoldViolations(
  sql: Sql,
  maxSamples: number,
): Promise<JournalFoldFindings> {
  const broken: Record<string, unknown>[] = []
  const report: ReportViolation = (violation) => {
    if (broken.length < maxSamples) broken.push(violation)
  }
  let checked = 0
  let folds = new Map<string, AggregateFold>()
  /** The first aggregate that is not compared yet. */
  let from = ''
  let last = { aggregateId: '', version: 0n }
  for (;;) {
    const page = await sql<JournalPageRow[]>`
      select aggregate_id as "aggregateId", version, changed from journal
       where (aggregate_id, version) > (${last.aggregateId}, ${last.version}::bigint)
       order by aggregate_id, version limit ${PAGE_ROWS}`
    for (const row of page) foldRow(folds, row, report)
    const end = page.at(-1)
    const isLast = end === undefined || page.length < PAGE_ROWS
    // The next page may go on with the last aggregate of this one.
    const openId = end?.aggregateId ?? ''
    const open = folds.get(openId)
    if (!isLast) folds.delete(openId)
    const actors = await sql<ActorPageRow[]>`
      select aggregate_id as "aggregateId", kind, id, machine_version as machine, state from actors
       where aggregate_id >= ${from} and (${isLast}::boolean or aggregate_id < ${openId})`
    for (const actor of actors) compareActor(folds, actor, report)
    for (const [aggregateId, fold] of folds)
      for (const key of fold.keys()) report({ aggregateId, actor: key, why: 'not stored' })
    checked += actors.length
    if (isLast) return { checked, broken }
    folds = new Map(open === undefined ? [] : [[openId, open]])
    last = end
    from = openId
  }
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
type AggregateFold = Map<string, ActorFold>
type ReportViolation = (violation: Record<string, unknown>) => void

function foldRow(
  folds: Map<string, AggregateFold>,
  { aggregateId, version, changed }: JournalPageRow,
  report: ReportViolation,
): void {
  const fold = folds.get(aggregateId) ?? new Map<string, ActorFold>()
  folds.set(aggregateId, fold)
  for (const change of changed) {
    const key = `${change.kind}:${change.id ?? aggregateId}`
    const complain = (why: string) => report({ aggregateId, version, actor: key, why })
    const next = foldChange(fold.get(key), change, version, complain)
    if (next !== null) fold.set(key, next)
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
  if (version - before.fullStateAt >= FULL_STATE_INTERVAL)
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
  const made = fold?.get(key)
  fold?.delete(key)
  if (made === undefined) report({ aggregateId, actor: key, why: 'not in the journal' })
  else if (made.machine !== machine || !isDeepStrictEqual(made.state, state))
    report({ aggregateId, actor: key, why: 'stored state differs' })
}

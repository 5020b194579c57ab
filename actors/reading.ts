import { randomInt } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Clock } from '../core/clock.ts'
import type { AggregateStore } from '../persistence/aggregates.ts'
import type { CallLog } from '../persistence/call-log.ts'
import type { SnapshotCache } from '../persistence/snapshot-cache.ts'
import { actorKey, hydrateActor, type Aggregate } from './aggregate.ts'
import { AlreadyAnswered } from './command.ts'
import { loader } from './loader.ts'
import type { Cell, Job } from './mailbox.ts'

export interface ReadingParts {
  readonly clock: Clock
  readonly store: AggregateStore
  readonly callLog: Pick<CallLog, 'findAnswer'>
  /** Null where there is no Redis. */
  readonly cache: SnapshotCache | null
}

/** Everything that has to be read before a command may be stepped; the queue rests meanwhile. */
export function reading(
  { clock, store, callLog, cache }: ReadingParts,
  settle: (job: Job, answer: () => void) => void,
) {
  const load = loader(store, cache)

  /** Of the commands whose commit was lost or refused, answers those that did land after all. */
  async function answerLanded(cell: Cell): Promise<void> {
    const again = cell.queue.filter((job) => job.attempts > 0 && !job.settled)
    const doubtful = again.flatMap((job) => job.earlier)
    const above = Math.min(...doubtful.map((attempt) => attempt.above))
    const ids = doubtful.map((attempt) => attempt.id)
    const landed = ids.length === 0 ? NONE : await store.landed(cell.id, above, ids)
    for (const job of again) {
      const found = job.earlier.find((attempt) => landed.has(attempt.id))
      if (found === undefined || job.settled) continue
      found.soft?.apply()
      settle(job, found.answer)
    }
  }

  return {
    /** Loads the aggregate, then asks which of its doubtful commands have landed. */
    async reload(cell: Cell): Promise<void> {
      const tries = Math.max(0, ...cell.queue.map((job) => job.attempts))
      // Two nodes on one key: a random pause lets one of them finish a batch.
      if (tries > 3) await pause(randomInt(5 * tries))
      const { epoch } = cell
      const state = await load(cell.id, cell.distrustCache)
      const loadedAt = clock.mono()
      await answerLanded(cell)
      // A commit failed meanwhile: this may be older than it, and its commands were not asked after.
      if (cell.epoch !== epoch) return
      cell.state = state
      cell.loadedAt = loadedAt
      cell.distrustCache = false
    },

    /**
     * Another node may have answered a key before this state was read, but after the caller looked:
     * no conflict would tell. What is answered after the state was read is a conflict.
     */
    isKeyDue: (cell: Cell, job: Job): boolean =>
      keysOf(job).length > 0 &&
      job.lookedUpFor !== cell.state &&
      (job.options.lookedUpAt ?? -1) < cell.loadedAt,

    async lookUpKey(state: Aggregate, job: Job): Promise<void> {
      job.lookedUpFor = state
      for (const key of keysOf(job)) {
        const stored = await callLog.findAnswer(job.cell.id, key)
        if (stored !== null) return settle(job, () => job.reject(new AlreadyAnswered(stored)))
      }
    },

    missing,

    async fetchActors(cell: Cell, state: Aggregate, job: Job): Promise<void> {
      const wanted = missing(state, job)
      job.fetchedFor = state
      for (const actor of await store.loadActors(cell.id, wanted)) {
        const entry = hydrateActor(actor)
        const key = actorKey(entry.kind, entry.id)
        if (!state.actors.has(key)) state.actors.set(key, entry)
      }
    },

    /** What waits in the inbox, oldest first. */
    inboxOf: (cell: Cell) => store.openInbox(cell.id, INBOX_BATCH),
  }
}

const INBOX_BATCH = 5_000
const NONE: ReadonlySet<string> = new Set()

/**
 * The key a job was asked with, and those its rows have been refused for with their commit: whoever
 * wrote one without naming it would be refused again for ever.
 */
function keysOf({ options, wrote }: Job): readonly string[] {
  const named = options.key ?? options.receipt?.key
  return named === undefined || wrote.includes(named) ? wrote : [named, ...wrote]
}

/** Actors the command names that are not in memory; asked for once per loaded state. */
const missing = (state: Aggregate, job: Job) =>
  job.fetchedFor === state
    ? []
    : (job.options.touch ?? []).filter(({ kind, id }) => !state.actors.has(actorKey(kind, id)))

import { randomInt } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Clock } from '../core/clock.ts'
import type { AggregateStore } from '../persistence/aggregate-store.ts'
import type { CallLogStore } from '../persistence/calls/call-log-store.ts'
import type { SnapshotCache } from '../persistence/redis/redis-aggregate-snapshot-cache.ts'
import { actorKey, hydrateActor, type LoadedAggregateActors } from './loaded-aggregate-state.ts'
import { IdempotencyKeyAnsweredElsewhereError } from './aggregate-command-types.ts'
import { createAggregateLoader } from './aggregate-loader.ts'
import type { AggregateMailbox, PendingCommand } from './aggregate-mailbox.ts'

/** Reads what a command needs before it can run: state, resting actors, idempotency keys, inbox. */

export interface CommandStateLoaderDeps {
  readonly clock: Clock
  readonly store: AggregateStore
  readonly callLog: Pick<CallLogStore, 'findAnswer'>
  /** Null without Redis. */
  readonly cache: SnapshotCache | null
}

/** Creates the hydrator. The runtime pauses the queue during each read. */
export function createCommandStateLoader(
  { clock, store, callLog, cache }: CommandStateLoaderDeps,
  settle: (job: PendingCommand, answer: () => void) => void,
) {
  const load = createAggregateLoader(store, cache)

  /** Answers commands with an interrupted commit that landed after all. */
  async function answerLanded(mailbox: AggregateMailbox): Promise<void> {
    const again = mailbox.queue.filter((job) => job.attempts > 0 && !job.settled)
    const doubtful = again.flatMap((job) => job.earlierAttempts)
    const above = Math.min(...doubtful.map((attempt) => attempt.afterVersion))
    const ids = doubtful.map((attempt) => attempt.id)
    const landed = ids.length === 0 ? NO_COMMAND_IDS : await store.landed(mailbox.id, above, ids)
    for (const job of again) {
      const found = job.earlierAttempts.find((attempt) => landed.has(attempt.id))
      if (found === undefined || job.settled) continue
      found.holdChanges?.apply()
      settle(job, found.answer)
    }
  }

  return {
    /** Loads the aggregate, then looks up which interrupted commits have landed. */
    async reload(mailbox: AggregateMailbox): Promise<void> {
      const tries = Math.max(0, ...mailbox.queue.map((job) => job.attempts))
      // Two nodes compete for one aggregate: a random pause lets one finish a batch.
      if (tries > 3) await pause(randomInt(5 * tries))
      const { epoch } = mailbox
      const state = await load(mailbox.id, mailbox.bypassCache)
      const loadedAt = clock.mono()
      await answerLanded(mailbox)
      // A commit failed during the load: the state may be older than that commit.
      if (mailbox.epoch !== epoch) return
      mailbox.state = state
      mailbox.loadedAt = loadedAt
      mailbox.bypassCache = false
    },

    /**
     * Another node may have answered a key after the caller's look-up and before this state was
     * read; no conflict would show it. A later answer causes a conflict.
     */
    isKeyDue: (mailbox: AggregateMailbox, job: PendingCommand): boolean =>
      idempotencyKeysOf(job).length > 0 &&
      job.lookedUpFor !== mailbox.state &&
      (job.options.lookedUpAt ?? -1) < mailbox.loadedAt,

    async lookUpKey(state: LoadedAggregateActors, job: PendingCommand): Promise<void> {
      job.lookedUpFor = state
      for (const key of idempotencyKeysOf(job)) {
        const stored = await callLog.findAnswer(job.mailbox.id, key)
        if (stored !== null)
          return settle(job, () => job.reject(new IdempotencyKeyAnsweredElsewhereError(stored)))
      }
    },

    missing: missingActors,

    async fetchActors(
      mailbox: AggregateMailbox,
      state: LoadedAggregateActors,
      job: PendingCommand,
    ): Promise<void> {
      const wanted = missingActors(state, job)
      job.fetchedFor = state
      for (const actor of await store.loadActors(mailbox.id, wanted)) {
        const entry = hydrateActor(actor)
        const key = actorKey(entry.kind, entry.id)
        if (!state.actors.has(key)) state.actors.set(key, entry)
      }
    },

    /** Returns unabsorbed inbox messages, oldest first. */
    inboxOf: (mailbox: AggregateMailbox) => store.openInbox(mailbox.id, MAX_INBOX_MESSAGES),
  }
}

const MAX_INBOX_MESSAGES = 5_000
const NO_COMMAND_IDS: ReadonlySet<string> = new Set()

/**
 * The key of the request, and keys whose rows made an earlier commit fail. Without the latter, the
 * same commit would fail forever.
 */
function idempotencyKeysOf({ options, writtenKeys }: PendingCommand): readonly string[] {
  const named = options.key ?? options.receipt?.key
  return named === undefined || writtenKeys.includes(named) ? writtenKeys : [named, ...writtenKeys]
}

/** Actors the command names that are not in memory. Fetched once per loaded state. */
const missingActors = (state: LoadedAggregateActors, job: PendingCommand) =>
  job.fetchedFor === state
    ? []
    : (job.options.touch ?? []).filter(({ kind, id }) => !state.actors.has(actorKey(kind, id)))

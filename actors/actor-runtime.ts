import { setTimeout as pause } from 'node:timers/promises'
import { ServiceError } from '../core/errors.ts'
import { createIntervalWhileNeeded } from '../core/concurrency/interval-while-needed.ts'
import { newUuidV7 } from '../core/ids-and-api-keys.ts'
import { LIMITS } from '../core/limits.ts'
import type { AggregateKind } from '../core/aggregate-commit-row-types.ts'
import type {
  AggregateChanges,
  VersionAssertion,
  CommitBatchResult,
} from '../persistence/commit-batch.ts'
import {
  removeInMemoryHoldByCall,
  evictArchivedActors,
  type LoadedAggregateActors,
} from './loaded-aggregate-state.ts'
import type {
  ActorSystem,
  AggregateCommandOptions,
  AggregateCommand,
} from './aggregate-command-types.ts'
import { isPostgresConcurrencyError } from '../persistence/postgres/postgres-concurrency-errors.ts'
import { CommandNotCommittedError, commitOutcomeUnknownError } from './unanswered-commit-errors.ts'
import {
  createAbsorbInboxCommand,
  createNoopInboxAbsorptionCommand,
  type InboxMessageHandler,
} from './absorb-aggregate-inbox-command.ts'
import { createInboxCommandQueue } from './inbox-command-queue.ts'
import { createGroupCommit, toStoredActorsOfBatch, type CommitBatchEntry } from './group-commit.ts'
import { createResidentMailboxes } from './resident-mailboxes.ts'
import {
  createPendingCommand,
  type AggregateMailbox,
  type PendingCommand,
} from './aggregate-mailbox.ts'
import { createCommandStateLoader, type CommandStateLoaderDeps } from './command-state-loader.ts'
import { reportCommandToInspector } from './inspection/report-command-to-inspector.ts'
import { NOOP_COMMAND_RECORDER, type CommandRecorder } from './inspection/command-recorder.ts'
import {
  executeAggregateCommand,
  type ActorRuntimeStepAfterCommand,
} from './execute-aggregate-command.ts'

/** Runs the commands of all aggregates on this node: mailboxes, commits, conflicts, timeouts. */

export interface ActorRuntimeDeps extends CommandStateLoaderDeps {
  readonly commit: (
    changes: readonly AggregateChanges[],
    assertions: readonly VersionAssertion[],
  ) => Promise<CommitBatchResult>
  /** True when the connection was lost, false when the database rejected a statement. */
  readonly isOutage: (error: unknown) => boolean
  readonly log: (message: string, error: unknown) => void
  readonly absorb: InboxMessageHandler
  readonly resident?: number
  /** Told of every command while somebody watches. */
  readonly recorder?: CommandRecorder
  /** Called after each commit that set timers, with the earliest due time in milliseconds. */
  readonly onTimer?: (dueAt: number) => void
}

/** Creates the node's actor system. Nodes coordinate only through the version check in Postgres. */
export function createActorRuntime(parts: ActorRuntimeDeps) {
  const { clock, cache, recorder = NOOP_COMMAND_RECORDER } = parts
  const resident = parts.resident ?? LIMITS.residentAggregates
  const mailboxes = createResidentMailboxes(clock, resident, (one) => commits.busyWith(one))
  const open = new Set<PendingCommand>()
  const read = createCommandStateLoader(parts, settle)
  const commits = createGroupCommit(parts.commit, { committed, stale, failed })
  const watch = createIntervalWhileNeeded(expireOverdue, 250, () => open.size > 0)
  const absorbing = createAbsorbInboxCommand(parts.absorb) as AggregateCommand<unknown, unknown>
  const inbox = createInboxCommandQueue(absorbing, settle)
  let closed = false
  let lastNow = 0
  /** When the database last answered a commit, whether it applied it or not. */
  let lastCommitAnsweredAt = -Infinity

  function ask<I, R>(
    id: string,
    command: AggregateCommand<I, R>,
    input: I,
    options: AggregateCommandOptions = {},
  ): Promise<R> {
    const mailbox = mailboxes.of(id, command.kind)
    if (closed) return Promise.reject(new CommandNotCommittedError())
    if (mailbox.openCommands >= LIMITS.mailboxMaxCommands) {
      return Promise.reject(new ServiceError('overloaded', { retry_after: 1 }))
    }
    return new Promise<R>((resolve, reject) => {
      const job = toPending(mailbox, command as AggregateCommand<unknown, unknown>, input, options)
      job.resolve = resolve as (result: unknown) => void
      job.reject = reject
      if (options.fresh === true && mailbox.state === null && mailbox.queue.length === 0) {
        mailbox.state = { version: 0, actors: new Map() }
      }
      track(job)
      mailbox.queue.push(job)
      pump(mailbox)
    })
  }

  const toPending = (
    mailbox: AggregateMailbox,
    command: AggregateCommand<unknown, unknown>,
    input: unknown,
    options: AggregateCommandOptions,
  ): PendingCommand =>
    createPendingCommand({
      id: newUuidV7(clock.now()),
      mailbox,
      command,
      input,
      options,
      askedAt: clock.mono(),
      requestId: recorder.watched && command !== absorbing ? recorder.requestId() : null,
    })

  function track(job: PendingCommand): void {
    open.add(job)
    watch.start()
    job.mailbox.openCommands += 1
  }

  function settle(job: PendingCommand, answer: () => void): void {
    if (job.settled) return
    job.settled = true
    open.delete(job)
    job.mailbox.openCommands -= 1
    answer()
  }

  function pump(mailbox: AggregateMailbox): void {
    while (mailbox.pendingLoads === 0) {
      const job = mailbox.queue[0]
      if (job === undefined || inbox.mustWait(job)) return
      if (job.settled) {
        mailbox.queue.shift()
      } else if (mailbox.state === null) {
        pauseQueueFor(mailbox, read.reload(mailbox))
      } else if (read.isKeyDue(mailbox, job)) {
        pauseQueueFor(mailbox, read.lookUpKey(mailbox.state, job))
      } else if (read.missing(mailbox.state, job).length > 0) {
        pauseQueueFor(mailbox, read.fetchActors(mailbox, mailbox.state, job))
      } else {
        mailbox.queue.shift()
        const { state } = mailbox
        addToBatch(
          mailbox,
          state,
          job,
          executeAggregateCommand(job, state, now(), recorder.watched),
        )
      }
    }
  }

  /** Stops the queue until `work` is done. If it fails, rejects every queued command. */
  function pauseQueueFor(mailbox: AggregateMailbox, work: Promise<void>): void {
    mailbox.pendingLoads += 1
    work
      .then(() => markAnswered(mailbox))
      .catch((error: unknown) => {
        const outage = parts.isOutage(error)
        for (const job of mailbox.queue.splice(0)) {
          job.holdChanges?.abandon()
          const isSent = job.earlierAttempts.length > 0
          const toReason = () =>
            isSent ? commitOutcomeUnknownError(error) : new CommandNotCommittedError(error)
          settle(job, () => job.reject(outage ? toReason() : error))
        }
      })
      .finally(() => {
        mailbox.pendingLoads -= 1
        pump(mailbox)
      })
  }

  /** Time never runs backwards, neither for an aggregate nor for this node. */
  const now = () => (lastNow = Math.max(lastNow, Math.floor(clock.now())))

  /** Applies the command to the state at once and adds its effects to the open batch. */
  function addToBatch(
    mailbox: AggregateMailbox,
    state: LoadedAggregateActors,
    pendingCommand: PendingCommand,
    stepped: ActorRuntimeStepAfterCommand,
  ): void {
    if (stepped.then === 'answer') return answer(pendingCommand)
    const oldVersion = state.version
    const step = { mailbox, state, pendingCommand, oldVersion }
    if (stepped.then === 'assert') {
      const nothing = { journal: null, actors: [], effects: null }
      return commits.add({ ...step, newVersion: oldVersion, ...nothing })
    }
    const { journal, effects, actors } = stepped
    const newVersion = journal.version
    state.version = newVersion
    for (const [key, entry] of effects.dirty) state.actors.set(key, entry)
    pendingCommand.afterVersion = oldVersion
    commits.add({ ...step, newVersion, journal, actors, effects })
  }

  function answer(job: PendingCommand): void {
    settle(job, job.answer)
    if (job.recorded !== null) reportCommandToInspector(recorder, job, job.command === absorbing)
  }

  const markAnswered = (mailbox: AggregateMailbox): number =>
    (mailbox.lastAnsweredAt = clock.mono())
  const markCommitAnswered = (mailbox: AggregateMailbox): void =>
    void (lastCommitAnsweredAt = markAnswered(mailbox))

  function committed(entry: CommitBatchEntry, outcome: CommitBatchResult): void {
    const { mailbox } = entry
    markCommitAnswered(mailbox)
    const unabsorbed = new Set(
      entry.asserted && outcome.waiting.has(mailbox.id)
        ? entry.pendingCommands.filter((job) => !job.absorbed && !settledByJournal(entry, job))
        : [],
    )
    if (unabsorbed.size > 0) absorbFor(mailbox, [...unabsorbed])
    for (const job of entry.pendingCommands) if (!unabsorbed.has(job)) answer(job)
    for (const job of entry.pendingCommands) inbox.onCommitted(job)
    for (const { absorbed } of entry.effects)
      for (const gone of mailbox.inboxReads) for (const id of absorbed) gone.add(id)
    if (entry.journal.length > 0) afterCommit(entry)
    pump(mailbox)
  }

  const settledByJournal = (entry: CommitBatchEntry, job: PendingCommand) =>
    entry.journal.some((row) => row.commandId === job.id)

  function afterCommit(entry: CommitBatchEntry): void {
    const { mailbox, state, newVersion, effects } = entry
    const dues = effects.flatMap((one) =>
      [...one.timers.values()].flatMap((timer) => (timer === null ? [] : [timer.dueAt])),
    )
    // What a timer runs later does not belong to the request that has set it.
    if (dues.length > 0) recorder.withoutRequest(() => parts.onTimer?.(Math.min(...dues)))
    // Only a state without later changes equals the committed one.
    if (mailbox.state !== state || state.version !== newVersion) return
    if (mailbox.queue.length === 0) evictArchivedActors(state)
    if (cache !== null) {
      const actors = toStoredActorsOfBatch(entry).filter((one) => !one.archived)
      cache.put({ id: mailbox.id, kind: mailbox.kind, version: newVersion, actors })
    }
  }

  /** Absorbs the inbox first, then runs the commands again. */
  function absorbFor(mailbox: AggregateMailbox, jobs: PendingCommand[]): void {
    for (const job of jobs) {
      job.absorbed = true
      // An ended actor that it fetched may have been removed from memory since.
      job.fetchedFor = null
    }
    inbox.requeue(mailbox, jobs)
    pauseQueueFor(mailbox, absorb(mailbox))
  }

  async function absorb(mailbox: AggregateMailbox): Promise<void> {
    const { epoch, state } = mailbox
    const gone = new Set<string>()
    mailbox.inboxReads.add(gone)
    const waiting = await read.inboxOf(mailbox).finally(() => mailbox.inboxReads.delete(gone))
    // The read may be stale: this node or another one may have absorbed messages since.
    if (mailbox.epoch !== epoch) return
    if (mailbox.state !== state) return inbox.recheck(mailbox)
    // Filter and mark in the same tick: two concurrent reads may return the same messages.
    const messages = waiting.filter(({ id }) => !mailbox.absorbing.has(id) && !gone.has(id))
    if (messages.length === 0) return
    const job = toPending(mailbox, absorbing, messages, {})
    for (const { id } of messages) mailbox.absorbing.add(id)
    job.absorbed = true
    job.commitsAlone = mailbox.isInboxRefused
    job.reject = (error) => {
      // While its commit is under way, its messages must stay marked.
      if (!commits.carries(job)) inbox.unmark(job)
      inbox.rejectDependent(mailbox, error)
      parts.log('inbox not absorbed', error)
    }
    track(job)
    mailbox.queue.unshift(job)
  }

  /** Another node changed the version: commands that ran on the old state run again. */
  function stale(entry: CommitBatchEntry): void {
    markCommitAnswered(entry.mailbox)
    evict(entry.mailbox, entry.pendingCommands)
  }

  function evict(mailbox: AggregateMailbox, jobs: readonly PendingCommand[]): void {
    const withdrawn = commits.withdraw(mailbox)
    for (const job of jobs) job.attempts += 1
    for (const job of [...jobs, ...withdrawn]) {
      // The caller has received 503 already and will send a new request, with its own hold.
      if (job.settled) job.holdChanges?.abandon()
      else job.holdChanges?.revert()
    }
    inbox.requeue(mailbox, [...jobs, ...withdrawn])
    inbox.forget(mailbox)
    mailbox.epoch += 1
    mailbox.state = null
    mailbox.bypassCache = true
    cache?.drop(mailbox.id)
    pump(mailbox)
  }

  function failed(entries: readonly CommitBatchEntry[], error: unknown): void {
    const outage = parts.isOutage(error)
    parts.log(outage ? 'commit interrupted' : 'commit refused', error)
    for (const entry of entries) {
      if (!outage) markCommitAnswered(entry.mailbox)
      const isAlone = entries.length === 1 && entry.pendingCommands.every((job) => job.commitsAlone)
      const isFinal = isAlone && !isPostgresConcurrencyError(error)
      for (const job of entry.pendingCommands) {
        if (settledByJournal(entry, job)) recordAttempt(job)
        if (outage && job.attempts > 0)
          settle(job, () => job.reject(commitOutcomeUnknownError(error)))
        else if (!outage && isFinal) settle(job, () => job.reject(error))
        else if (!outage) job.commitsAlone = true
      }
      evict(entry.mailbox, entry.pendingCommands)
      if (!outage) inbox.onRefused(entry.mailbox, entry.pendingCommands, { error, isFinal })
    }
  }

  /** The commit may have landed: the command gets a new id, and the old id is looked up later. */
  function recordAttempt(job: PendingCommand): void {
    const { id, afterVersion, answer, holdChanges } = job
    job.earlierAttempts.push({ id, afterVersion, answer, holdChanges })
    job.id = newUuidV7(clock.now())
  }

  /**
   * Rejects overdue commands. One that loses to other nodes, or waits behind commits that are answered, has until
   * `contendedTimeoutMs`.
   */
  function expireOverdue(): void {
    const limit = clock.mono() - LIMITS.commitTimeoutMs
    const last = clock.mono() - LIMITS.contendedTimeoutMs
    const expired = new Set<AggregateMailbox>()
    for (const job of open) {
      if (job.askedAt > limit) break
      const isQueued = lastCommitAnsweredAt > limit && commits.isWaiting(job)
      if ((job.mailbox.lastAnsweredAt > limit || isQueued) && job.askedAt > last) continue
      job.holdChanges?.abandon()
      settle(job, () => job.reject(commitOutcomeUnknownError()))
      expired.add(job.mailbox)
    }
    // A commit that was not sent yet must not land after its caller got 503.
    for (const mailbox of expired) if (commits.holds(mailbox)) evict(mailbox, [])
  }

  return {
    ask,
    releaseHold(id: string, callId: string): void {
      const mailbox = mailboxes.get(id)
      if (mailbox !== undefined) removeInMemoryHoldByCall(mailbox.inMemoryHolds, callId)
    },
    /** Absorbs waiting inbox messages when no command does. */
    async wake(id: string, kind: AggregateKind): Promise<void> {
      await ask(id, createNoopInboxAbsorptionCommand(kind), undefined)
    },
    stats: () => ({ resident: mailboxes.size, open: open.size }),
    /** Rejects new commands and waits for those under way. */
    async close(): Promise<void> {
      closed = true
      while (open.size > 0) await pause(CLOSE_POLL_MS)
      // A commit that hangs has no waiting caller any more.
      await Promise.race([
        commits.settled(),
        pause(LIMITS.commitTimeoutMs, undefined, { ref: false }),
      ])
      watch.stop()
    },
  } satisfies ActorSystem & Record<string, unknown>
}
export type ActorRuntime = ReturnType<typeof createActorRuntime>

const CLOSE_POLL_MS = 5

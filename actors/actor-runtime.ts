import { setTimeout as pause } from 'node:timers/promises'
import { ServiceError } from '../core/errors.ts'
import { newUuidV7 } from '../core/ids.ts'
import { LIMITS } from '../core/limits.ts'
import type { AggregateKind } from '../core/commit-rows.ts'
import type {
  AggregateChanges,
  VersionAssertion,
  CommitBatchResult,
} from '../persistence/commit-batch.ts'
import {
  toStoredActor,
  removeInMemoryHoldByCall,
  evictArchivedActors,
  type Aggregate,
} from './aggregate.ts'
import type { ActorSystem, CommandOptions, Command } from './command.ts'
import {
  createAbsorbInboxCommand,
  type InboxMessageHandler,
  type AbsorbInboxCommand,
} from './absorb-inbox-command.ts'
import { createGroupCommit, type CommitBatchEntry } from './group-commit.ts'
import {
  createMailbox,
  createPendingCommand,
  type Mailbox,
  type PendingCommand,
} from './mailbox.ts'
import { createHydrator, type HydratorDeps } from './hydrator.ts'
import { executeCommand, type ExecutedCommand } from './execute-command.ts'

export interface ActorRuntimeDeps extends HydratorDeps {
  readonly commit: (
    changes: readonly AggregateChanges[],
    assertions: readonly VersionAssertion[],
  ) => Promise<CommitBatchResult>
  /** A connection was lost, as against a statement that was refused. */
  readonly isOutage: (error: unknown) => boolean
  readonly log: (message: string, error: unknown) => void
  readonly absorb: InboxMessageHandler
  readonly resident?: number
  /** Told after each commit that set timers: the instant of the earliest. */
  readonly onTimer?: (dueAt: number) => void
}

const unavailable = (cause?: unknown) =>
  new ServiceError(
    'unavailable',
    { retry_after: 2, detail: 'The database does not answer.' },
    cause,
  )

/** The actors of this node: mailboxes over one lane, with Postgres' version check as only arbiter. */
export function createActorRuntime(parts: ActorRuntimeDeps) {
  const { clock, cache } = parts
  const resident = parts.resident ?? LIMITS.residentAggregates
  const mailboxes = new Map<string, Mailbox>()
  const open = new Set<PendingCommand>()
  const read = createHydrator(parts, settle)
  const commits = createGroupCommit(parts.commit, { committed, stale, failed })
  const watch = setInterval(expireOverdue, 250)
  watch.unref()
  const absorbing = createAbsorbInboxCommand(parts.absorb) as Command<unknown, unknown>
  let closed = false
  let lastNow = 0

  function ask<I, R>(
    id: string,
    command: Command<I, R>,
    input: I,
    options: CommandOptions = {},
  ): Promise<R> {
    const mailbox = mailboxOf(id, command.kind)
    if (closed) return Promise.reject(unavailable())
    if (mailbox.openCommands >= LIMITS.mailboxMaxCommands) {
      return Promise.reject(new ServiceError('overloaded', { retry_after: 1 }))
    }
    return new Promise<R>((resolve, reject) => {
      const job = ready(mailbox, command as Command<unknown, unknown>, input, options)
      job.resolve = resolve as (result: unknown) => void
      job.reject = reject
      if (options.fresh === true && mailbox.state === null && mailbox.queue.length === 0) {
        mailbox.state = { version: 0, actors: new Map() }
      }
      enlist(job)
      mailbox.queue.push(job)
      pump(mailbox)
    })
  }

  const ready = (
    mailbox: Mailbox,
    command: Command<unknown, unknown>,
    input: unknown,
    options: CommandOptions,
  ): PendingCommand =>
    createPendingCommand({
      id: newUuidV7(clock.now()),
      mailbox,
      command,
      input,
      options,
      askedAt: clock.mono(),
    })

  function enlist(job: PendingCommand): void {
    open.add(job)
    job.mailbox.openCommands += 1
  }

  function settle(job: PendingCommand, answer: () => void): void {
    if (job.settled) return
    job.settled = true
    open.delete(job)
    job.mailbox.openCommands -= 1
    answer()
  }

  function mailboxOf(id: string, kind: AggregateKind): Mailbox {
    const known = mailboxes.get(id)
    mailboxes.delete(id)
    if (known !== undefined && !isOutdated(known)) {
      mailboxes.set(id, known)
      return known
    }
    const mailbox = createMailbox(id, kind)
    // Before it joins: it is about to be asked, and an aggregate must never have two cells.
    if (mailboxes.size >= resident) passivate()
    mailboxes.set(id, mailbox)
    return mailbox
  }

  /** Forgets the longest unused aggregates; never one with a hold, a question or a commit open. */
  function passivate(): void {
    for (const [id, mailbox] of mailboxes) {
      if (mailboxes.size < resident) return
      if (isIdle(mailbox)) mailboxes.delete(id)
    }
  }

  const isIdle = (mailbox: Mailbox): boolean =>
    mailbox.openCommands === 0 &&
    mailbox.pendingLoads === 0 &&
    mailbox.inMemoryHolds.holds.size === 0 &&
    !commits.busyWith(mailbox)

  /** It may be another one by now: a visitor that was forgotten begins again at the first version. */
  const isOutdated = (mailbox: Mailbox): boolean =>
    isIdle(mailbox) &&
    mailbox.state !== null &&
    clock.mono() - mailbox.lastAnsweredAt > LIMITS.stateMaxAgeMs

  function pump(mailbox: Mailbox): void {
    while (mailbox.pendingLoads === 0) {
      const job = mailbox.queue[0]
      if (job === undefined) return
      if (job.settled) {
        mailbox.queue.shift()
      } else if (mailbox.state === null) {
        rest(mailbox, read.reload(mailbox))
      } else if (read.isKeyDue(mailbox, job)) {
        rest(mailbox, read.lookUpKey(mailbox.state, job))
      } else if (read.missing(mailbox.state, job).length > 0) {
        rest(mailbox, read.fetchActors(mailbox, mailbox.state, job))
      } else {
        mailbox.queue.shift()
        place(mailbox, mailbox.state, job, executeCommand(job, mailbox.state, now()))
      }
    }
  }

  /** Stops the queue until `work` is done; if it fails, everybody waiting is told so. */
  function rest(mailbox: Mailbox, work: Promise<void>): void {
    mailbox.pendingLoads += 1
    work
      .then(() => heardOf(mailbox))
      .catch((error: unknown) => {
        const told = parts.isOutage(error) ? unavailable(error) : error
        for (const job of mailbox.queue.splice(0)) {
          job.holdChanges?.abandon()
          settle(job, () => job.reject(told))
        }
      })
      .finally(() => {
        mailbox.pendingLoads -= 1
        pump(mailbox)
      })
  }

  /** An aggregate's time never runs backwards, and neither does this node's. */
  const now = () => (lastNow = Math.max(lastNow, Math.floor(clock.now())))

  /** The aggregate moves on at once; what the command did joins the open batch. */
  function place(
    mailbox: Mailbox,
    state: Aggregate,
    pendingCommand: PendingCommand,
    stepped: ExecutedCommand,
  ): void {
    if (stepped.then === 'answer') return settle(pendingCommand, pendingCommand.answer)
    const oldVersion = state.version
    if (stepped.then === 'assert') {
      const nothing = { journal: null, actors: [], effects: null }
      return commits.add({
        mailbox,
        state,
        pendingCommand,
        oldVersion,
        newVersion: oldVersion,
        ...nothing,
      })
    }
    const { journal, effects, actors } = stepped
    const newVersion = journal.version
    state.version = newVersion
    for (const [key, entry] of effects.dirty) state.actors.set(key, entry)
    pendingCommand.afterVersion = oldVersion
    commits.add({
      mailbox,
      state,
      pendingCommand,
      oldVersion,
      newVersion,
      journal,
      actors,
      effects,
    })
  }

  const heardOf = (mailbox: Mailbox): void => void (mailbox.lastAnsweredAt = clock.mono())

  function committed(entry: CommitBatchEntry, outcome: CommitBatchResult): void {
    const { mailbox } = entry
    heardOf(mailbox)
    const unheard = new Set(
      entry.asserted && outcome.waiting.has(mailbox.id)
        ? entry.pendingCommands.filter((job) => !job.absorbed && !settledByJournal(entry, job))
        : [],
    )
    if (unheard.size > 0) absorbFor(mailbox, [...unheard])
    for (const job of entry.pendingCommands) if (!unheard.has(job)) settle(job, job.answer)
    for (const job of entry.pendingCommands) if (job.command === absorbing) unmark(job)
    for (const { absorbed } of entry.effects)
      for (const gone of mailbox.inboxReads) for (const id of absorbed) gone.add(id)
    if (entry.journal.length > 0) afterCommit(entry)
    pump(mailbox)
  }

  const settledByJournal = (entry: CommitBatchEntry, job: PendingCommand) =>
    entry.journal.some((row) => row.commandId === job.id)

  function afterCommit({ mailbox, state, newVersion, effects }: CommitBatchEntry): void {
    const dues = effects.flatMap((one) =>
      [...one.timers.values()].flatMap((timer) => (timer === null ? [] : [timer.dueAt])),
    )
    if (dues.length > 0) parts.onTimer?.(Math.min(...dues))
    // Only a state nobody has moved on from is known to be the committed one.
    if (mailbox.state !== state || state.version !== newVersion) return
    if (mailbox.queue.length === 0) evictArchivedActors(state)
    if (cache !== null) {
      const actors = [...state.actors.values()].map(toStoredActor).filter((one) => !one.atRest)
      cache.put({ id: mailbox.id, kind: mailbox.kind, version: newVersion, actors })
    }
  }

  /** Puts the inbox in front of the replies that were about to be given without it. */
  function absorbFor(mailbox: Mailbox, jobs: PendingCommand[]): void {
    for (const job of jobs) job.absorbed = true
    requeue(mailbox, jobs)
    rest(mailbox, absorb(mailbox))
  }

  async function absorb(mailbox: Mailbox): Promise<void> {
    const { epoch, state } = mailbox
    const gone = new Set<string>()
    mailbox.inboxReads.add(gone)
    const waiting = await read.inboxOf(mailbox).finally(() => mailbox.inboxReads.delete(gone))
    // The reading may be older than what was absorbed meanwhile: on another node, or on this one.
    if (mailbox.epoch !== epoch) return
    if (mailbox.state !== state) return askAgain(mailbox)
    // Chosen and marked in one turn: two readings may come back at once, with the same messages.
    const messages = waiting.filter(({ id }) => !mailbox.absorbing.has(id) && !gone.has(id))
    if (messages.length === 0) return
    const job = ready(mailbox, absorbing, messages, {})
    for (const { id } of messages) mailbox.absorbing.add(id)
    job.absorbed = true
    job.reject = (error) => {
      // Nobody waits for it any more, but where it is under way its messages are not open either.
      if (!commits.carries(job)) unmark(job)
      parts.log('inbox not absorbed', error)
    }
    enlist(job)
    mailbox.queue.unshift(job)
  }

  function unmark({ mailbox, input }: PendingCommand): void {
    for (const { id } of input as Parameters<AbsorbInboxCommand['apply']>[1])
      mailbox.absorbing.delete(id)
  }

  /** Back to the front of the queue, in the order they were asked, behind the inbox. */
  function requeue(mailbox: Mailbox, jobs: readonly PendingCommand[]): void {
    const front = mailbox.queue.findIndex(({ command }) => command !== absorbing)
    mailbox.queue.splice(
      front < 0 ? mailbox.queue.length : front,
      0,
      ...jobs.filter((job) => !job.settled),
    )
  }

  /** Another node moved the version: everything that stood on the old state is run again. */
  function stale(entry: CommitBatchEntry): void {
    heardOf(entry.mailbox)
    evict(entry.mailbox, entry.pendingCommands)
  }

  function evict(mailbox: Mailbox, jobs: readonly PendingCommand[]): void {
    const standing = commits.withdraw(mailbox)
    for (const job of jobs) job.attempts += 1
    for (const job of [...jobs, ...standing]) {
      // Whoever was already told 503 comes back with a new request, not with this hold.
      if (job.settled) job.holdChanges?.abandon()
      else job.holdChanges?.revert()
    }
    requeue(mailbox, [...jobs, ...standing])
    forgetInbox(mailbox)
    mailbox.epoch += 1
    mailbox.state = null
    mailbox.bypassCache = true
    cache?.drop(mailbox.id)
    pump(mailbox)
  }

  /** What the inbox held is read anew: another node may have absorbed it meanwhile. */
  function forgetInbox(mailbox: Mailbox): void {
    mailbox.absorbing.clear()
    for (const job of mailbox.queue) if (job.command === absorbing) settle(job, () => {})
    askAgain(mailbox)
  }

  /** Nobody's inbox has been absorbed for them. */
  function askAgain(mailbox: Mailbox): void {
    for (const job of mailbox.queue) if (job.command !== absorbing) job.absorbed = false
  }

  function failed(entries: readonly CommitBatchEntry[], error: unknown): void {
    const outage = parts.isOutage(error)
    parts.log(outage ? 'commit interrupted' : 'commit refused', error)
    for (const entry of entries) {
      const alone = entries.length === 1 && entry.pendingCommands.every((job) => job.commitsAlone)
      for (const job of entry.pendingCommands) {
        if (settledByJournal(entry, job)) doubt(job)
        if (outage && job.attempts > 0) settle(job, () => job.reject(unavailable(error)))
        else if (!outage && alone) settle(job, () => job.reject(error))
        else if (!outage) job.commitsAlone = true
      }
      evict(entry.mailbox, entry.pendingCommands)
    }
  }

  /** Its commit may have landed: from here on it has another id, and the old one is asked for. */
  function doubt(job: PendingCommand): void {
    const { id, afterVersion, answer, holdChanges } = job
    job.earlierAttempts.push({ id, afterVersion, answer, holdChanges })
    job.id = newUuidV7(clock.now())
  }

  /**
   * Nobody waits longer than the answer time for a database that hangs. Where it answers, and other
   * nodes are only faster with the same aggregate, a command has its turn yet: it is not refused.
   */
  function expireOverdue(): void {
    const limit = clock.mono() - LIMITS.commitTimeoutMs
    const last = clock.mono() - LIMITS.contendedTimeoutMs
    const cellsHit = new Set<Mailbox>()
    for (const job of open) {
      if (job.askedAt > limit) break
      if (job.mailbox.lastAnsweredAt > limit && job.askedAt > last) continue
      job.holdChanges?.abandon()
      settle(job, () => job.reject(unavailable()))
      cellsHit.add(job.mailbox)
    }
    // What was not sent yet must not land after its caller was told 503.
    for (const mailbox of cellsHit) if (commits.holds(mailbox)) evict(mailbox, [])
  }

  return {
    ask,
    releaseHold(id: string, callId: string): void {
      const mailbox = mailboxes.get(id)
      if (mailbox !== undefined) removeInMemoryHoldByCall(mailbox.inMemoryHolds, callId)
    },
    /** Absorbs what waits in an inbox nobody has asked for. */
    async wake(id: string, kind: AggregateKind): Promise<void> {
      await ask(id, createWakeCommand(kind), undefined)
    },
    stats: () => ({ resident: mailboxes.size, open: open.size }),
    /** Refuses new commands and answers the ones under way. */
    async close(): Promise<void> {
      closed = true
      while (open.size > 0) await pause(CLOSE_POLL_MS)
      // Nobody waits any more for a commit that hangs.
      await Promise.race([
        commits.settled(),
        pause(LIMITS.commitTimeoutMs, undefined, { ref: false }),
      ])
      clearInterval(watch)
    },
  } satisfies ActorSystem & Record<string, unknown>
}
export type ActorRuntime = ReturnType<typeof createActorRuntime>

const CLOSE_POLL_MS = 5

/** A read of nothing: answering it means the inbox has been absorbed. */
const createWakeCommand = (kind: AggregateKind): Command<undefined, void> => ({
  name: 'aggregate.wake',
  kind,
  creates: true,
  apply() {},
})

import { setTimeout as pause } from 'node:timers/promises'
import { ServiceError } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { LIMITS } from '../core/limits.ts'
import type { AggregateKind } from '../core/rows.ts'
import type { AggregateChanges, Assertion, CommitOutcome } from '../persistence/commit.ts'
import { dehydrate, dropHold, forgetResting, type Aggregate } from './aggregate.ts'
import type { Actors, AskOptions, Command } from './command.ts'
import { absorbInbox, type Absorb, type InboxCommand } from './inbox.ts'
import { lane, type BatchEntry } from './lane.ts'
import { newCell, newJob, type Cell, type Job } from './mailbox.ts'
import { reading, type ReadingParts } from './reading.ts'
import { stepCommand, type Stepped } from './step-command.ts'

export interface RuntimeParts extends ReadingParts {
  readonly commit: (
    changes: readonly AggregateChanges[],
    assertions: readonly Assertion[],
  ) => Promise<CommitOutcome>
  /** A connection was lost, as against a statement that was refused. */
  readonly isOutage: (error: unknown) => boolean
  readonly log: (message: string, error: unknown) => void
  readonly absorb: Absorb
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
export function runtime(parts: RuntimeParts) {
  const { clock, cache } = parts
  const resident = parts.resident ?? LIMITS.residentAggregates
  const cells = new Map<string, Cell>()
  const open = new Set<Job>()
  const read = reading(parts, settle)
  const commits = lane(parts.commit, { committed, stale, failed })
  const watch = setInterval(expireOverdue, 250)
  watch.unref()
  const absorbing = absorbInbox(parts.absorb) as Command<unknown, unknown>
  let closed = false
  let lastNow = 0

  function ask<I, R>(
    id: string,
    command: Command<I, R>,
    input: I,
    options: AskOptions = {},
  ): Promise<R> {
    const cell = cellOf(id, command.kind)
    if (closed) return Promise.reject(unavailable())
    if (cell.open >= LIMITS.mailbox) {
      return Promise.reject(new ServiceError('overloaded', { retry_after: 1 }))
    }
    return new Promise<R>((resolve, reject) => {
      const job = ready(cell, command as Command<unknown, unknown>, input, options)
      job.resolve = resolve as (result: unknown) => void
      job.reject = reject
      if (options.fresh === true && cell.state === null && cell.queue.length === 0) {
        cell.state = { version: 0, actors: new Map() }
      }
      enlist(job)
      cell.queue.push(job)
      pump(cell)
    })
  }

  const ready = (
    cell: Cell,
    command: Command<unknown, unknown>,
    input: unknown,
    options: AskOptions,
  ): Job => newJob({ id: newId(clock.now()), cell, command, input, options, askedAt: clock.mono() })

  function enlist(job: Job): void {
    open.add(job)
    job.cell.open += 1
  }

  function settle(job: Job, answer: () => void): void {
    if (job.settled) return
    job.settled = true
    open.delete(job)
    job.cell.open -= 1
    answer()
  }

  function cellOf(id: string, kind: AggregateKind): Cell {
    const known = cells.get(id)
    cells.delete(id)
    if (known !== undefined && !isOutdated(known)) {
      cells.set(id, known)
      return known
    }
    const cell = newCell(id, kind)
    // Before it joins: it is about to be asked, and an aggregate must never have two cells.
    if (cells.size >= resident) passivate()
    cells.set(id, cell)
    return cell
  }

  /** Forgets the longest unused aggregates; never one with a hold, a question or a commit open. */
  function passivate(): void {
    for (const [id, cell] of cells) {
      if (cells.size < resident) return
      if (isIdle(cell)) cells.delete(id)
    }
  }

  const isIdle = (cell: Cell): boolean =>
    cell.open === 0 && cell.resting === 0 && cell.soft.holds.size === 0 && !commits.busyWith(cell)

  /** It may be another one by now: a visitor that was forgotten begins again at the first version. */
  const isOutdated = (cell: Cell): boolean =>
    isIdle(cell) && cell.state !== null && clock.mono() - cell.heardAt > LIMITS.trustedMs

  function pump(cell: Cell): void {
    while (cell.resting === 0) {
      const job = cell.queue[0]
      if (job === undefined) return
      if (job.settled) {
        cell.queue.shift()
      } else if (cell.state === null) {
        rest(cell, read.reload(cell))
      } else if (read.isKeyDue(cell, job)) {
        rest(cell, read.lookUpKey(cell.state, job))
      } else if (read.missing(cell.state, job).length > 0) {
        rest(cell, read.fetchActors(cell, cell.state, job))
      } else {
        cell.queue.shift()
        place(cell, cell.state, job, stepCommand(job, cell.state, now()))
      }
    }
  }

  /** Stops the queue until `work` is done; if it fails, everybody waiting is told so. */
  function rest(cell: Cell, work: Promise<void>): void {
    cell.resting += 1
    work
      .then(() => heardOf(cell))
      .catch((error: unknown) => {
        const told = parts.isOutage(error) ? unavailable(error) : error
        for (const job of cell.queue.splice(0)) {
          job.soft?.abandon()
          settle(job, () => job.reject(told))
        }
      })
      .finally(() => {
        cell.resting -= 1
        pump(cell)
      })
  }

  /** An aggregate's time never runs backwards, and neither does this node's. */
  const now = () => (lastNow = Math.max(lastNow, Math.floor(clock.now())))

  /** The aggregate moves on at once; what the command did joins the open batch. */
  function place(cell: Cell, state: Aggregate, job: Job, stepped: Stepped): void {
    if (stepped.then === 'answer') return settle(job, job.answer)
    const oldVersion = state.version
    if (stepped.then === 'assert') {
      const nothing = { journal: null, actors: [], effects: null }
      return commits.add({ cell, state, job, oldVersion, newVersion: oldVersion, ...nothing })
    }
    const { journal, effects, actors } = stepped
    const newVersion = journal.version
    state.version = newVersion
    for (const [key, entry] of effects.dirty) state.actors.set(key, entry)
    job.above = oldVersion
    commits.add({ cell, state, job, oldVersion, newVersion, journal, actors, effects })
  }

  const heardOf = (cell: Cell): void => void (cell.heardAt = clock.mono())

  function committed(entry: BatchEntry, outcome: CommitOutcome): void {
    const { cell } = entry
    heardOf(cell)
    const unheard = new Set(
      entry.asserted && outcome.waiting.has(cell.id)
        ? entry.jobs.filter((job) => !job.absorbed && !settledByJournal(entry, job))
        : [],
    )
    if (unheard.size > 0) absorbFor(cell, [...unheard])
    for (const job of entry.jobs) if (!unheard.has(job)) settle(job, job.answer)
    for (const job of entry.jobs) if (job.command === absorbing) unmark(job)
    for (const { absorbed } of entry.effects)
      for (const gone of cell.readings) for (const id of absorbed) gone.add(id)
    if (entry.journal.length > 0) afterCommit(entry)
    pump(cell)
  }

  const settledByJournal = (entry: BatchEntry, job: Job) =>
    entry.journal.some((row) => row.commandId === job.id)

  function afterCommit({ cell, state, newVersion, effects }: BatchEntry): void {
    const dues = effects.flatMap((one) =>
      [...one.timers.values()].flatMap((timer) => (timer === null ? [] : [timer.dueAt])),
    )
    if (dues.length > 0) parts.onTimer?.(Math.min(...dues))
    // Only a state nobody has moved on from is known to be the committed one.
    if (cell.state !== state || state.version !== newVersion) return
    if (cell.queue.length === 0) forgetResting(state)
    if (cache !== null) {
      const actors = [...state.actors.values()].map(dehydrate).filter((one) => !one.atRest)
      cache.put({ id: cell.id, kind: cell.kind, version: newVersion, actors })
    }
  }

  /** Puts the inbox in front of the replies that were about to be given without it. */
  function absorbFor(cell: Cell, jobs: Job[]): void {
    for (const job of jobs) job.absorbed = true
    requeue(cell, jobs)
    rest(cell, absorb(cell))
  }

  async function absorb(cell: Cell): Promise<void> {
    const { epoch, state } = cell
    const gone = new Set<string>()
    cell.readings.add(gone)
    const waiting = await read.inboxOf(cell).finally(() => cell.readings.delete(gone))
    // The reading may be older than what was absorbed meanwhile: on another node, or on this one.
    if (cell.epoch !== epoch) return
    if (cell.state !== state) return askAgain(cell)
    // Chosen and marked in one turn: two readings may come back at once, with the same messages.
    const messages = waiting.filter(({ id }) => !cell.absorbing.has(id) && !gone.has(id))
    if (messages.length === 0) return
    const job = ready(cell, absorbing, messages, {})
    for (const { id } of messages) cell.absorbing.add(id)
    job.absorbed = true
    job.reject = (error) => {
      // Nobody waits for it any more, but where it is under way its messages are not open either.
      if (!commits.carries(job)) unmark(job)
      parts.log('inbox not absorbed', error)
    }
    enlist(job)
    cell.queue.unshift(job)
  }

  function unmark({ cell, input }: Job): void {
    for (const { id } of input as Parameters<InboxCommand['apply']>[1]) cell.absorbing.delete(id)
  }

  /** Back to the front of the queue, in the order they were asked, behind the inbox. */
  function requeue(cell: Cell, jobs: readonly Job[]): void {
    const front = cell.queue.findIndex(({ command }) => command !== absorbing)
    cell.queue.splice(
      front < 0 ? cell.queue.length : front,
      0,
      ...jobs.filter((job) => !job.settled),
    )
  }

  /** Another node moved the version: everything that stood on the old state is run again. */
  function stale(entry: BatchEntry): void {
    heardOf(entry.cell)
    evict(entry.cell, entry.jobs)
  }

  function evict(cell: Cell, jobs: readonly Job[]): void {
    const standing = commits.withdraw(cell)
    for (const job of jobs) job.attempts += 1
    for (const job of [...jobs, ...standing]) {
      // Whoever was already told 503 comes back with a new request, not with this hold.
      if (job.settled) job.soft?.abandon()
      else job.soft?.revert()
    }
    requeue(cell, [...jobs, ...standing])
    forgetInbox(cell)
    cell.epoch += 1
    cell.state = null
    cell.distrustCache = true
    cache?.drop(cell.id)
    pump(cell)
  }

  /** What the inbox held is read anew: another node may have absorbed it meanwhile. */
  function forgetInbox(cell: Cell): void {
    cell.absorbing.clear()
    for (const job of cell.queue) if (job.command === absorbing) settle(job, () => {})
    askAgain(cell)
  }

  /** Nobody's inbox has been absorbed for them. */
  function askAgain(cell: Cell): void {
    for (const job of cell.queue) if (job.command !== absorbing) job.absorbed = false
  }

  function failed(entries: readonly BatchEntry[], error: unknown): void {
    const outage = parts.isOutage(error)
    parts.log(outage ? 'commit interrupted' : 'commit refused', error)
    for (const entry of entries) {
      const alone = entries.length === 1 && entry.jobs.every((job) => job.suspect)
      for (const job of entry.jobs) {
        if (settledByJournal(entry, job)) doubt(job)
        if (outage && job.attempts > 0) settle(job, () => job.reject(unavailable(error)))
        else if (!outage && alone) settle(job, () => job.reject(error))
        else if (!outage) job.suspect = true
      }
      evict(entry.cell, entry.jobs)
    }
  }

  /** Its commit may have landed: from here on it has another id, and the old one is asked for. */
  function doubt(job: Job): void {
    const { id, above, answer, soft } = job
    job.earlier.push({ id, above, answer, soft })
    job.id = newId(clock.now())
  }

  /**
   * Nobody waits longer than the answer time for a database that hangs. Where it answers, and other
   * nodes are only faster with the same aggregate, a command has its turn yet: it is not refused.
   */
  function expireOverdue(): void {
    const limit = clock.mono() - LIMITS.commitAnswerMs
    const last = clock.mono() - LIMITS.contendedAnswerMs
    const cellsHit = new Set<Cell>()
    for (const job of open) {
      if (job.askedAt > limit) break
      if (job.cell.heardAt > limit && job.askedAt > last) continue
      job.soft?.abandon()
      settle(job, () => job.reject(unavailable()))
      cellsHit.add(job.cell)
    }
    // What was not sent yet must not land after its caller was told 503.
    for (const cell of cellsHit) if (commits.holds(cell)) evict(cell, [])
  }

  return {
    ask,
    letGo(id: string, callId: string): void {
      const cell = cells.get(id)
      if (cell !== undefined) dropHold(cell.soft, callId)
    },
    /** Absorbs what waits in an inbox nobody has asked for. */
    async wake(id: string, kind: AggregateKind): Promise<void> {
      await ask(id, wakeOf(kind), undefined)
    },
    stats: () => ({ resident: cells.size, open: open.size }),
    /** Refuses new commands and answers the ones under way. */
    async close(): Promise<void> {
      closed = true
      while (open.size > 0) await pause(CLOSE_POLL_MS)
      // Nobody waits any more for a commit that hangs.
      await Promise.race([
        commits.settled(),
        pause(LIMITS.commitAnswerMs, undefined, { ref: false }),
      ])
      clearInterval(watch)
    },
  } satisfies Actors & Record<string, unknown>
}
export type Runtime = ReturnType<typeof runtime>

const CLOSE_POLL_MS = 5

/** A read of nothing: answering it means the inbox has been absorbed. */
const wakeOf = (kind: AggregateKind): Command<undefined, void> => ({
  name: 'aggregate.wake',
  kind,
  creates: true,
  apply() {},
})

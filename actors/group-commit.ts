import { LIMITS } from '../core/limits.ts'
import type {
  AggregateChanges,
  VersionAssertion,
  CommitBatchResult,
} from '../persistence/commit-batch.ts'
import type { AggregateCommandJournalRow } from '../core/aggregate-commit-row-types.ts'
import {
  actorKey,
  toStoredActor,
  type ActorKey,
  type LoadedAggregateActors,
} from './loaded-aggregate-state.ts'
import { storedFormOfActor, type ChangedActor } from './changed-actors-to-journal-deltas.ts'
import type { AggregateMailbox, PendingCommand } from './aggregate-mailbox.ts'
import type { CommandEffects } from './command-context.ts'

/** The part of one aggregate in one batch. */
export interface CommitBatchEntry {
  readonly mailbox: AggregateMailbox
  /** The state the commands ran on. The mailbox may have a newer one. */
  readonly state: LoadedAggregateActors
  readonly oldVersion: number
  newVersion: number
  /** At least one answer changed nothing and needs a check for unabsorbed inbox rows. */
  asserted: boolean
  readonly pendingCommands: PendingCommand[]
  /** Upper limit of the characters of its texts. */
  size: number
  readonly journal: AggregateCommandJournalRow[]
  /** Each changed actor as the last command left it. */
  readonly actors: Map<ActorKey, ChangedActor>
  readonly effects: CommandEffects[]
}

interface CommitBatch {
  readonly entries: Map<string, CommitBatchEntry>
  commands: number
  /** Upper limit of the characters of the texts in the batch. */
  size: number
  /** A suspect command is committed alone, so that it cannot fail other commands. */
  readonly alone: boolean
}

export interface GroupCommitHandlers {
  committed(entry: CommitBatchEntry, outcome: CommitBatchResult): void
  stale(entry: CommitBatchEntry): void
  failed(entries: readonly CommitBatchEntry[], error: unknown): void
}

export interface CommitBatchAddition {
  readonly mailbox: AggregateMailbox
  readonly state: LoadedAggregateActors
  readonly pendingCommand: PendingCommand
  readonly oldVersion: number
  readonly newVersion: number
  readonly journal: AggregateCommandJournalRow | null
  readonly actors: readonly ChangedActor[]
  readonly effects: CommandEffects | null
}

type CommitBatchFunction = (
  changes: readonly AggregateChanges[],
  assertions: readonly VersionAssertion[],
) => Promise<CommitBatchResult>

/**
 * Group commit: a few batches in flight while the next fills; there is no delay timer. Two batches in flight share no
 * aggregate, so each aggregate commits in the order of its commands, and a command may build on the state of an
 * earlier one. What an aggregate in flight has added since waits; the rest of the open batch goes without it.
 */
export function createGroupCommit(commit: CommitBatchFunction, events: GroupCommitHandlers) {
  const waiting: CommitBatch[] = []
  const inFlight = new Set<CommitBatch>()
  let isStarting = false
  /** Called when nothing is under way any more. */
  const onSettled: (() => void)[] = []

  const open = (alone: boolean): CommitBatch => {
    const last = waiting.at(-1)
    const roomy =
      last !== undefined &&
      last.commands < LIMITS.groupCommitMaxCommands &&
      last.size < LIMITS.groupCommitMaxChars
    if (roomy && !alone && !last.alone) return last
    const fresh: CommitBatch = { entries: new Map(), commands: 0, size: 0, alone }
    waiting.push(fresh)
    return fresh
  }

  const isInFlight = (mailbox: AggregateMailbox): boolean => {
    for (const batch of inFlight) if (batch.entries.has(mailbox.id)) return true
    return false
  }

  /**
   * The next batch without aggregates in flight; null if there is none. What an aggregate has in an earlier batch that
   * waits goes first.
   */
  function takeSendable(): CommitBatch | null {
    const held = new Set<string>()
    for (const [place, batch] of waiting.entries()) {
      const free = [...batch.entries.values()].filter(
        ({ mailbox }) => !held.has(mailbox.id) && !isInFlight(mailbox),
      )
      if (free.length === batch.entries.size) {
        waiting.splice(place, 1)
        if (free.length > 0) return batch
        return takeSendable()
      }
      if (free.length > 0) return splitOff(batch, free)
      for (const id of batch.entries.keys()) held.add(id)
    }
    return null
  }

  function sendWaiting(): void {
    while (inFlight.size < LIMITS.groupCommitsAtOnce) {
      const batch = takeSendable()
      if (batch === null) break
      inFlight.add(batch)
      void send(batch).finally(() => {
        inFlight.delete(batch)
        sendWaiting()
      })
    }
    if (isUnderWay()) return
    for (const settled of onSettled.splice(0)) settled()
  }

  const isUnderWay = () => isStarting || inFlight.size > 0 || waiting.length > 0

  /** What comes in the same turn of the event loop goes together. */
  function startSoon(): void {
    if (isStarting || inFlight.size >= LIMITS.groupCommitsAtOnce) return
    isStarting = true
    setImmediate(() => {
      isStarting = false
      sendWaiting()
    })
  }

  async function send(batch: CommitBatch): Promise<void> {
    const entries = [...batch.entries.values()]
    let outcome: CommitBatchResult
    try {
      outcome = await commit(
        entries.filter((entry) => entry.journal.length > 0).map(toAggregateChanges),
        entries.filter((entry) => entry.asserted).map(toVersionAssertion),
      )
    } catch (error) {
      events.failed(entries, error)
      return
    }
    for (const entry of entries) {
      if (outcome.bad.has(entry.mailbox.id)) events.stale(entry)
      else events.committed(entry, outcome)
    }
  }

  return {
    /** Adds a command, or an answer to check, to the open batch. */
    add(addition: CommitBatchAddition): void {
      const { mailbox, pendingCommand } = addition
      const batch = open(pendingCommand.commitsAlone)
      const entry = batch.entries.get(mailbox.id) ?? createBatchEntry(addition)
      batch.entries.set(mailbox.id, entry)
      const sizeBefore = entry.size
      entry.size += additionChars(addition)
      entry.pendingCommands.push(pendingCommand)
      entry.newVersion = addition.newVersion
      if (addition.journal === null) entry.asserted = true
      else entry.journal.push(addition.journal)
      for (const changed of addition.actors) {
        const key = actorKey(changed.entry.kind, changed.entry.id)
        const replaced = entry.actors.get(key)?.entry.maxChars ?? 0
        entry.size += changed.entry.maxChars - replaced
        entry.actors.set(key, changed)
      }
      batch.commands += 1
      batch.size += entry.size - sizeBefore
      if (addition.effects !== null) entry.effects.push(addition.effects)
      startSoon()
    },

    /** Removes an aggregate from every unsent batch. Returns its commands in order. */
    withdraw(mailbox: AggregateMailbox): PendingCommand[] {
      return waiting.flatMap((batch) => {
        const entry = batch.entries.get(mailbox.id)
        if (entry === undefined) return []
        removeEntry(batch, entry)
        return entry.pendingCommands
      })
    },

    holds: (mailbox: AggregateMailbox): boolean =>
      waiting.some((batch) => batch.entries.has(mailbox.id)),
    /** Whether the command waits to be sent. */
    isWaiting: (job: PendingCommand): boolean => waiting.some((batch) => hasCommand(batch, job)),
    busyWith: isInFlight,

    /** True while the effects of a command are in a batch. */
    carries: (job: PendingCommand): boolean =>
      [...inFlight, ...waiting].some((batch) => hasCommand(batch, job)),

    /** Resolves when everything added has been answered. */
    settled: () =>
      isUnderWay() ? new Promise<void>((resolve) => onSettled.push(resolve)) : Promise.resolve(),
  }
}

const hasCommand = (batch: CommitBatch, job: PendingCommand): boolean =>
  batch.entries.get(job.mailbox.id)?.pendingCommands.includes(job) === true

function removeEntry(batch: CommitBatch, entry: CommitBatchEntry): void {
  batch.entries.delete(entry.mailbox.id)
  batch.commands -= entry.pendingCommands.length
  batch.size -= entry.size
}

/** Moves entries to a batch of their own. */
function splitOff(batch: CommitBatch, entries: readonly CommitBatchEntry[]): CommitBatch {
  const own = { entries: new Map<string, CommitBatchEntry>(), commands: 0, size: 0, alone: false }
  for (const entry of entries) {
    removeEntry(batch, entry)
    own.entries.set(entry.mailbox.id, entry)
    own.commands += entry.pendingCommands.length
    own.size += entry.size
  }
  return own
}

/** Counts only what can be large, besides states: deltas, stored responses and staged rows. */
function additionChars({ journal, effects }: CommitBatchAddition): number {
  const answers = effects?.calls.reduce((all, call) => all + (call.response?.length ?? 0), 0) ?? 0
  const rows = effects?.rows.reduce((all, { row }) => all + JSON.stringify(row).length, 0) ?? 0
  return (journal?.changed.length ?? 0) + answers + rows
}

/** The stored forms of all actors after a batch. No later command may have changed the state. */
export const toStoredActorsOfBatch = ({ state, actors }: CommitBatchEntry) =>
  [...state.actors].map(([key, actor]) => actors.get(key)?.stored ?? toStoredActor(actor))

const createBatchEntry = ({
  mailbox,
  state,
  oldVersion,
}: CommitBatchAddition): CommitBatchEntry => ({
  mailbox,
  state,
  oldVersion,
  newVersion: oldVersion,
  asserted: false,
  pendingCommands: [],
  size: 0,
  journal: [],
  actors: new Map(),
  effects: [],
})

const toVersionAssertion = ({ mailbox, oldVersion }: CommitBatchEntry): VersionAssertion => ({
  id: mailbox.id,
  version: oldVersion,
})

function toAggregateChanges(entry: CommitBatchEntry): AggregateChanges {
  const all = <T>(rows: (effects: CommandEffects) => readonly T[]) => entry.effects.flatMap(rows)
  const timers = new Map(all((effects) => [...effects.timers]))
  return {
    id: entry.mailbox.id,
    kind: entry.mailbox.kind,
    oldVersion: entry.oldVersion,
    newVersion: entry.newVersion,
    journal: entry.journal,
    actors: [...entry.actors.values()].map(storedFormOfActor),
    transfers: all((effects) => effects.transfers),
    prices: all((effects) => effects.prices),
    calls: all((effects) => effects.calls),
    inbox: all((effects) => effects.inbox),
    absorbed: all((effects) => effects.absorbed),
    events: all((effects) => effects.events),
    rows: all((effects) => effects.rows),
    removedTimers: [...timers.keys()],
    timers: [...timers.values()].filter((timer) => timer !== null),
  }
}

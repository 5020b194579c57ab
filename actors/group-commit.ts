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
 * Group commit: one batch in flight while the next fills; there is no delay timer. Batches commit
 * in order, so a command may build on the state of an earlier one.
 */
export function createGroupCommit(commit: CommitBatchFunction, events: GroupCommitHandlers) {
  const waiting: CommitBatch[] = []
  let running: Promise<void> | null = null
  let inFlight: CommitBatch | null = null

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

  async function drain(): Promise<void> {
    for (let batch = waiting.shift(); batch !== undefined; batch = waiting.shift()) {
      inFlight = batch
      await send(batch)
      inFlight = null
    }
    running = null
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
      batch.commands += 1
      batch.size += additionChars(addition)
      entry.pendingCommands.push(pendingCommand)
      entry.newVersion = addition.newVersion
      if (addition.journal === null) entry.asserted = true
      else entry.journal.push(addition.journal)
      for (const changed of addition.actors) {
        const key = actorKey(changed.entry.kind, changed.entry.id)
        const replaced = entry.actors.get(key)?.entry.maxChars ?? 0
        batch.size += changed.entry.maxChars - replaced
        entry.actors.set(key, changed)
      }
      if (addition.effects !== null) entry.effects.push(addition.effects)
      running ??= new Promise<void>((done) => setImmediate(done)).then(drain)
    },

    /** Removes an aggregate from every unsent batch. Returns its commands in order. */
    withdraw(mailbox: AggregateMailbox): PendingCommand[] {
      return waiting.flatMap((batch) => {
        const entry = batch.entries.get(mailbox.id)
        batch.entries.delete(mailbox.id)
        return entry?.pendingCommands ?? []
      })
    },

    holds: (mailbox: AggregateMailbox): boolean =>
      waiting.some((batch) => batch.entries.has(mailbox.id)),
    busyWith: (mailbox: AggregateMailbox): boolean => inFlight?.entries.has(mailbox.id) ?? false,

    /** True while the effects of a command are in a batch. */
    carries: (job: PendingCommand): boolean =>
      [inFlight, ...waiting].some((batch) =>
        batch?.entries.get(job.mailbox.id)?.pendingCommands.includes(job),
      ),

    /** Resolves when everything added has been answered. */
    async settled(): Promise<void> {
      while (running !== null) await running
    },
  }
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

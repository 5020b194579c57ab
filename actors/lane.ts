import { LIMITS } from '../core/limits.ts'
import type { AggregateChanges, Assertion, CommitOutcome } from '../persistence/commit.ts'
import type { JournalRow } from '../core/rows.ts'
import type { StoredActor } from '../persistence/stored.ts'
import type { Aggregate } from './aggregate.ts'
import type { Cell, Job } from './mailbox.ts'
import type { Effects } from './turn.ts'

/** What one aggregate has in one batch. */
export interface BatchEntry {
  readonly cell: Cell
  /** The state its commands were stepped on; the cell may have another one by now. */
  readonly state: Aggregate
  readonly oldVersion: number
  newVersion: number
  /** Some reply of it changed nothing and must be checked for unabsorbed inbox rows. */
  asserted: boolean
  readonly jobs: Job[]
  readonly journal: JournalRow[]
  readonly actors: Map<string, StoredActor & { readonly atRest: boolean }>
  readonly effects: Effects[]
}

interface Batch {
  readonly entries: Map<string, BatchEntry>
  commands: number
  /** Characters of the texts that travel with it. */
  size: number
  /** A suspect command travels alone, so that what it breaks is only its own. */
  readonly alone: boolean
}

export interface LaneEvents {
  committed(entry: BatchEntry, outcome: CommitOutcome): void
  stale(entry: BatchEntry): void
  failed(entries: readonly BatchEntry[], error: unknown): void
}

export interface Addition {
  readonly cell: Cell
  readonly state: Aggregate
  readonly job: Job
  readonly oldVersion: number
  readonly newVersion: number
  readonly journal: JournalRow | null
  readonly actors: readonly (StoredActor & { readonly atRest: boolean })[]
  readonly effects: Effects | null
}

type Commit = (
  changes: readonly AggregateChanges[],
  assertions: readonly Assertion[],
) => Promise<CommitOutcome>

/**
 * Group commit: one batch in flight, the next one filling meanwhile; no timer decides when. Batches
 * commit in the order they were filled, so a command may stand on the state an earlier one left.
 */
export function lane(commit: Commit, events: LaneEvents) {
  const waiting: Batch[] = []
  let running: Promise<void> | null = null
  let inFlight: Batch | null = null

  const open = (alone: boolean): Batch => {
    const last = waiting.at(-1)
    const roomy =
      last !== undefined && last.commands < LIMITS.laneCommands && last.size < LIMITS.laneSize
    if (roomy && !alone && !last.alone) return last
    const fresh: Batch = { entries: new Map(), commands: 0, size: 0, alone }
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

  async function send(batch: Batch): Promise<void> {
    const entries = [...batch.entries.values()]
    let outcome: CommitOutcome
    try {
      outcome = await commit(
        entries.filter((entry) => entry.journal.length > 0).map(changesOf),
        entries.filter((entry) => entry.asserted).map(assertionOf),
      )
    } catch (error) {
      events.failed(entries, error)
      return
    }
    for (const entry of entries) {
      if (outcome.bad.has(entry.cell.id)) events.stale(entry)
      else events.committed(entry, outcome)
    }
  }

  return {
    /** Joins a command, or a reply that must be checked, to the open batch. */
    add(addition: Addition): void {
      const { cell, job } = addition
      const batch = open(job.suspect)
      const entry = batch.entries.get(cell.id) ?? newEntry(addition)
      batch.entries.set(cell.id, entry)
      batch.commands += 1
      batch.size += sizeOf(addition)
      entry.jobs.push(job)
      entry.newVersion = addition.newVersion
      if (addition.journal === null) entry.asserted = true
      else entry.journal.push(addition.journal)
      for (const actor of addition.actors) entry.actors.set(`${actor.kind}:${actor.id}`, actor)
      if (addition.effects !== null) entry.effects.push(addition.effects)
      running ??= new Promise<void>((done) => setImmediate(done)).then(drain)
    },

    /** Takes an aggregate out of every batch not yet sent; its jobs in the order they were added. */
    withdraw(cell: Cell): Job[] {
      return waiting.flatMap((batch) => {
        const entry = batch.entries.get(cell.id)
        batch.entries.delete(cell.id)
        return entry?.jobs ?? []
      })
    },

    holds: (cell: Cell): boolean => waiting.some((batch) => batch.entries.has(cell.id)),
    busyWith: (cell: Cell): boolean => inFlight?.entries.has(cell.id) ?? false,

    /** What the command did is under way, and may land. */
    carries: (job: Job): boolean =>
      [inFlight, ...waiting].some((batch) => batch?.entries.get(job.cell.id)?.jobs.includes(job)),

    /** Resolves once everything added so far has been answered. */
    async settled(): Promise<void> {
      while (running !== null) await running
    },
  }
}

/** Only what can be large counts: states, stored answers and staged rows. */
function sizeOf({ journal, effects }: Addition): number {
  const answers = effects?.calls.reduce((all, call) => all + (call.response?.length ?? 0), 0) ?? 0
  const rows = effects?.rows.reduce((all, { row }) => all + JSON.stringify(row).length, 0) ?? 0
  return (journal?.changed.length ?? 0) + answers + rows
}

const newEntry = ({ cell, state, oldVersion }: Addition): BatchEntry => ({
  cell,
  state,
  oldVersion,
  newVersion: oldVersion,
  asserted: false,
  jobs: [],
  journal: [],
  actors: new Map(),
  effects: [],
})

const assertionOf = ({ cell, oldVersion }: BatchEntry): Assertion => ({
  id: cell.id,
  version: oldVersion,
})

function changesOf(entry: BatchEntry): AggregateChanges {
  const all = <T>(rows: (effects: Effects) => readonly T[]) => entry.effects.flatMap(rows)
  const timers = new Map(all((effects) => [...effects.timers]))
  return {
    id: entry.cell.id,
    kind: entry.cell.kind,
    oldVersion: entry.oldVersion,
    newVersion: entry.newVersion,
    journal: entry.journal,
    actors: [...entry.actors.values()],
    transfers: all((effects) => effects.transfers),
    calls: all((effects) => effects.calls),
    inbox: all((effects) => effects.inbox),
    absorbed: all((effects) => effects.absorbed),
    events: all((effects) => effects.events),
    rows: all((effects) => effects.rows),
    timersGone: [...timers.keys()],
    timers: [...timers.values()].filter((timer) => timer !== null),
  }
}

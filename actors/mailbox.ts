import type { AggregateKind } from '../core/rows.ts'
import { noHolds, type Aggregate, type SoftChanges, type SoftLedger } from './aggregate.ts'
import type { AskOptions, Command } from './command.ts'

/** One run of a command whose commit was interrupted: it may have landed all the same. */
export interface Attempt {
  readonly id: string
  /** Its commit cannot be at or below this version. */
  readonly above: number
  readonly answer: () => void
  readonly soft: SoftChanges | null
}

/** One command on its way: asked, stepped, committed, answered. */
export interface Job {
  /** In the journal; a new one for each attempt after an interrupted commit. */
  id: string
  readonly cell: Cell
  readonly command: Command<unknown, unknown>
  readonly input: unknown
  readonly options: AskOptions
  readonly askedAt: number
  /** Gives the reply the last step computed; called once the commit it stands on is done. */
  answer: () => void
  resolve: (result: unknown) => void
  reject: (error: unknown) => void
  /** What its last step did to the holds in memory: undone if the commit fails. */
  soft: SoftChanges | null
  /** The loaded state its resting actors, or its inbox messages, were fetched for. */
  fetchedFor: Aggregate | null
  /** The loaded state its Idempotency-Key was looked up for. */
  lookedUpFor: Aggregate | null
  /** The Idempotency-Keys of the call rows its last step wrote, whether or not they were named. */
  wrote: readonly string[]
  /** Asked of Postgres before it is ever run again. */
  readonly earlier: Attempt[]
  /** It was part of a batch that the database refused: it travels alone now. */
  suspect: boolean
  /** Its inbox has been absorbed for it, so that it is not asked twice. */
  absorbed: boolean
  attempts: number
  /** The version its last step stood on. */
  above: number
  settled: boolean
}

/** An aggregate's mailbox with its state as this node last knew it. */
export interface Cell {
  readonly id: string
  readonly kind: AggregateKind
  state: Aggregate | null
  /** When the reading of its state had ended, by `clock.mono()`. */
  loadedAt: number
  /** When the database last answered anything about it, by `clock.mono()`. */
  heardAt: number
  /** Answered only by Postgres, not by the cache, after a conflict. */
  distrustCache: boolean
  soft: SoftLedger
  readonly queue: Job[]
  /** Commands asked and not yet answered. */
  open: number
  /** Inbox messages that an open command of this node is absorbing. */
  readonly absorbing: Set<string>
  /** Readings of the inbox under way, each with what has been absorbed since it began. */
  readonly readings: Set<Set<string>>
  /** Loads under way: the queue rests meanwhile. */
  resting: number
  /** Counts evictions: what was loaded before one is not the state after it. */
  epoch: number
}

export const newCell = (id: string, kind: AggregateKind): Cell => ({
  id,
  kind,
  state: null,
  loadedAt: 0,
  heardAt: -Infinity,
  distrustCache: false,
  soft: noHolds(),
  queue: [],
  open: 0,
  absorbing: new Set(),
  readings: new Set(),
  resting: 0,
  epoch: 0,
})

export const newJob = (
  asked: Pick<Job, 'id' | 'cell' | 'command' | 'input' | 'options' | 'askedAt'>,
): Job => ({
  id: asked.id,
  cell: asked.cell,
  command: asked.command,
  input: asked.input,
  options: asked.options,
  askedAt: asked.askedAt,
  resolve: nothing,
  reject: nothing,
  answer: nothing,
  soft: null,
  fetchedFor: null,
  lookedUpFor: null,
  wrote: [],
  earlier: [],
  suspect: false,
  absorbed: false,
  attempts: 0,
  above: 0,
  settled: false,
})

const nothing = (): void => {}

import type { AggregateKind } from '../core/commit-rows.ts'
import {
  createInMemoryHoldBook,
  type Aggregate,
  type InMemoryHoldChanges,
  type InMemoryHoldBook,
} from './aggregate.ts'
import type { CommandOptions, Command } from './command.ts'

/** One run of a command whose commit was interrupted: it may have landed all the same. */
export interface CommandAttempt {
  readonly id: string
  /** Its commit cannot be at or below this version. */
  readonly afterVersion: number
  readonly answer: () => void
  readonly holdChanges: InMemoryHoldChanges | null
}

/** One command on its way: asked, stepped, committed, answered. */
export interface PendingCommand {
  /** In the journal; a new one for each attempt after an interrupted commit. */
  id: string
  readonly mailbox: Mailbox
  readonly command: Command<unknown, unknown>
  readonly input: unknown
  readonly options: CommandOptions
  readonly askedAt: number
  /** Gives the reply the last step computed; called once the commit it stands on is done. */
  answer: () => void
  resolve: (result: unknown) => void
  reject: (error: unknown) => void
  /** What its last step did to the holds in memory: undone if the commit fails. */
  holdChanges: InMemoryHoldChanges | null
  /** The loaded state its resting actors, or its inbox messages, were fetched for. */
  fetchedFor: Aggregate | null
  /** The loaded state its Idempotency-Key was looked up for. */
  lookedUpFor: Aggregate | null
  /** The Idempotency-Keys of the call rows its last step wrote, whether or not they were named. */
  writtenKeys: readonly string[]
  /** Asked of Postgres before it is ever run again. */
  readonly earlierAttempts: CommandAttempt[]
  /** It was part of a batch that the database refused: it travels alone now. */
  commitsAlone: boolean
  /** Its inbox has been absorbed for it, so that it is not asked twice. */
  absorbed: boolean
  attempts: number
  /** The version its last step stood on. */
  afterVersion: number
  settled: boolean
}

/** An aggregate's mailbox with its state as this node last knew it. */
export interface Mailbox {
  readonly id: string
  readonly kind: AggregateKind
  state: Aggregate | null
  /** When the reading of its state had ended, by `clock.mono()`. */
  loadedAt: number
  /** When the database last answered anything about it, by `clock.mono()`. */
  lastAnsweredAt: number
  /** Answered only by Postgres, not by the cache, after a conflict. */
  bypassCache: boolean
  inMemoryHolds: InMemoryHoldBook
  readonly queue: PendingCommand[]
  /** Commands asked and not yet answered. */
  openCommands: number
  /** Inbox messages that an open command of this node is absorbing. */
  readonly absorbing: Set<string>
  /** Readings of the inbox under way, each with what has been absorbed since it began. */
  readonly inboxReads: Set<Set<string>>
  /** Loads under way: the queue rests meanwhile. */
  pendingLoads: number
  /** Counts evictions: what was loaded before one is not the state after it. */
  epoch: number
}

export const createMailbox = (id: string, kind: AggregateKind): Mailbox => ({
  id,
  kind,
  state: null,
  loadedAt: 0,
  lastAnsweredAt: -Infinity,
  bypassCache: false,
  inMemoryHolds: createInMemoryHoldBook(),
  queue: [],
  openCommands: 0,
  absorbing: new Set(),
  inboxReads: new Set(),
  pendingLoads: 0,
  epoch: 0,
})

export const createPendingCommand = (
  asked: Pick<PendingCommand, 'id' | 'mailbox' | 'command' | 'input' | 'options' | 'askedAt'>,
): PendingCommand => ({
  id: asked.id,
  mailbox: asked.mailbox,
  command: asked.command,
  input: asked.input,
  options: asked.options,
  askedAt: asked.askedAt,
  resolve: noop,
  reject: noop,
  answer: noop,
  holdChanges: null,
  fetchedFor: null,
  lookedUpFor: null,
  writtenKeys: [],
  earlierAttempts: [],
  commitsAlone: false,
  absorbed: false,
  attempts: 0,
  afterVersion: 0,
  settled: false,
})

const noop = (): void => {}

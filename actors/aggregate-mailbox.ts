import type { AggregateKind } from '../core/aggregate-commit-row-types.ts'
import {
  createInMemoryHoldBook,
  type LoadedAggregateActors,
  type InMemoryHoldChanges,
  type InMemoryHoldBook,
} from './loaded-aggregate-state.ts'
import type { AggregateCommandOptions, AggregateCommand } from './aggregate-command-types.ts'
import type { RecordedActorStep } from './inspection/command-recorder.ts'

/** One run of a command with an interrupted commit. The commit may have landed. */
export interface InterruptedCommitAttempt {
  readonly id: string
  /** The commit cannot be at or below this version. */
  readonly afterVersion: number
  readonly answer: () => void
  readonly holdChanges: InMemoryHoldChanges | null
}

/** A command that is queued, running or waiting for its commit. */
export interface PendingCommand {
  /** The id in the journal. Changes after each interrupted commit. */
  id: string
  readonly mailbox: AggregateMailbox
  readonly command: AggregateCommand<unknown, unknown>
  readonly input: unknown
  readonly options: AggregateCommandOptions
  readonly askedAt: number
  /** Resolves or rejects with the result of the last run. Called after its commit. */
  answer: () => void
  resolve: (result: unknown) => void
  reject: (error: unknown) => void
  /** Changes of the last run to in-memory holds. Reverted if the commit fails. */
  holdChanges: InMemoryHoldChanges | null
  /** The loaded state for which resting actors were fetched. */
  fetchedFor: LoadedAggregateActors | null
  /** The loaded state for which the Idempotency-Key was looked up. */
  lookedUpFor: LoadedAggregateActors | null
  /** Idempotency-Keys in the call rows of the last run. */
  writtenKeys: readonly string[]
  /** Looked up in Postgres before the command runs again. */
  readonly earlierAttempts: InterruptedCommitAttempt[]
  /** The database rejected its batch: the command is now committed alone. */
  commitsAlone: boolean
  /** The inbox was absorbed for this command already. */
  absorbed: boolean
  attempts: number
  /** The version its last run started from. */
  afterVersion: number
  settled: boolean
  /** The request it came from, if somebody watches. */
  readonly requestId: string | null
  /** The steps of its last run, if somebody watches. */
  recorded: { readonly at: number; version: number; readonly steps: RecordedActorStep[] } | null
}

/** The queue of an aggregate, with its last known state. */
export interface AggregateMailbox {
  readonly id: string
  readonly kind: AggregateKind
  state: LoadedAggregateActors | null
  /** End of the last load, by `clock.mono()`. */
  loadedAt: number
  /** Last database response about this aggregate, by `clock.mono()`. */
  lastAnsweredAt: number
  /** After a conflict, load from Postgres only. */
  bypassCache: boolean
  inMemoryHolds: InMemoryHoldBook
  readonly queue: PendingCommand[]
  /** Commands not yet answered. */
  openCommands: number
  /** Inbox messages that an open command of this node is absorbing. */
  readonly absorbing: Set<string>
  /** The database refused this node's last commit of the inbox. */
  isInboxRefused: boolean
  /** Inbox reads under way, each with the messages absorbed since it began. */
  readonly inboxReads: Set<Set<string>>
  /** Loads under way. The queue pauses while there are any. */
  pendingLoads: number
  /** Counts evictions. A load from an earlier epoch is stale. */
  epoch: number
}

export const createAggregateMailbox = (id: string, kind: AggregateKind): AggregateMailbox => ({
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
  isInboxRefused: false,
  inboxReads: new Set(),
  pendingLoads: 0,
  epoch: 0,
})

export const createPendingCommand = (
  fields: Pick<
    PendingCommand,
    'id' | 'mailbox' | 'command' | 'input' | 'options' | 'askedAt' | 'requestId'
  >,
): PendingCommand => ({
  id: fields.id,
  mailbox: fields.mailbox,
  command: fields.command,
  input: fields.input,
  options: fields.options,
  askedAt: fields.askedAt,
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
  requestId: fields.requestId,
  recorded: null,
})

const noop = (): void => {}

import { AsyncLocalStorage } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'
import type { Clock } from '../../core/clock.ts'
import type { MessageBus } from '../../persistence/message-bus.ts'
import type { ActorNames } from './inspector-actor-names.ts'
import {
  findCallIdOfSteps,
  type CommandRecorder,
  type RecordedCommand,
} from './command-recorder.ts'
import {
  createRemoteInspectionWatch,
  type JournalActorStateReader,
} from './cross-node-inspection-watch.ts'

/** The commands of all nodes, told to the watchers of the inspector after their commits. */

/** A watcher of this node. */
export interface InspectionFeedWatcher {
  heard(command: RecordedCommand): void
  /** Commands were left out. */
  missed(commands: number): void
}

export interface InspectionFeedDeps {
  readonly bus: Pick<MessageBus, 'publish' | 'subscribe'>
  readonly clock: Clock
  readonly readStates: JournalActorStateReader
  readonly names: Pick<ActorNames, 'learn'>
  readonly log: (message: string, error: unknown) => void
}

export interface InspectionFeed extends CommandRecorder {
  /** The name of this node. */
  readonly node: string
  /** Remembers the request while the code after it runs, if somebody watches. */
  enterRequest(requestId: string): void
  /** Returns a function that ends the watch. */
  watch(listener: InspectionFeedWatcher): () => void
  stop(): void
}

/** Commands that wait to be told; more are left out. */
const MAX_WAITING = 2_000
/** Telling makes room for requests after this time. */
const MAX_TURN_MS = 4
/** Commands of this time are told together: a write costs more than what is written. */
const TELL_MS = 25
/** So many are told without waiting. */
const MANY_WAITING = 200

/**
 * Nothing is recorded while `watched` is false. Commands are told in later turns of the event loop, in
 * order and some at a time, so that replies do not wait for watchers.
 */
export function createInspectionFeed(parts: InspectionFeedDeps): InspectionFeed {
  const node = randomUUID().slice(0, 8)
  const listeners = new Set<InspectionFeedWatcher>()
  const requests = new AsyncLocalStorage<string | null>()
  let waiting: RecordedCommand[] = []
  let leftOut = 0
  let timer: NodeJS.Timeout | undefined
  let telling = false
  const others = createRemoteInspectionWatch({ ...parts, node, heard, missed, changed: update })

  function update(): void {
    const watched = listeners.size > 0 || others.isWatching()
    if (feed.watched && !watched) requests.disable()
    feed.watched = watched
  }

  /** A command for the watchers of this node. */
  function heard(command: RecordedCommand): void {
    if (listeners.size === 0) return
    if (waiting.length >= MAX_WAITING) leftOut += 1
    else waiting.push(command)
    if (telling) return
    if (waiting.length < MANY_WAITING) timer ??= setTimeout(tellSoon, TELL_MS).unref()
    else tellSoon()
  }

  function tellSoon(): void {
    clearTimeout(timer)
    timer = undefined
    telling = true
    const named = waiting.length
    const learnt = parts.names.learn(waiting)
    if (learnt === null) setImmediate(tellWaiting, named)
    else void learnt.then(() => tellWaiting(named))
  }

  /** Tells the first commands, whose actors have their names. */
  function tellWaiting(named: number): void {
    const until = parts.clock.mono() + MAX_TURN_MS
    let told = 0
    for (const command of waiting.slice(0, named)) {
      for (const listener of listeners) guarded(() => listener.heard(command))
      told += 1
      if (parts.clock.mono() >= until) break
    }
    waiting = waiting.slice(told)
    if (told < named) return void setImmediate(tellWaiting, named - told)
    if (waiting.length > 0) return tellSoon()
    telling = false
    const gone = leftOut
    leftOut = 0
    if (gone > 0) missed(gone)
  }

  function missed(commands: number): void {
    for (const listener of listeners) guarded(() => listener.missed(commands))
  }

  function guarded(work: () => void): void {
    try {
      work()
    } catch (error) {
      parts.log('a watcher failed', error)
    }
  }

  const feed = {
    node,
    watched: false,
    requestId: () => requests.getStore() ?? null,
    withoutRequest: (work: () => void) => (feed.watched ? requests.run(null, work) : work()),
    enterRequest: (requestId: string) => requests.enterWith(requestId),
    tell(command: Omit<RecordedCommand, 'node' | 'callId'>) {
      if (command.steps.length === 0) return
      const told = { ...command, node, callId: findCallIdOfSteps(command.steps) }
      heard(told)
      others.tell(told)
    },
    watch(listener: InspectionFeedWatcher) {
      listeners.add(listener)
      if (listeners.size === 1) others.start()
      update()
      return () => {
        if (!listeners.delete(listener)) return
        if (listeners.size === 0) others.end()
        update()
      }
    },
    stop() {
      listeners.clear()
      clearTimeout(timer)
      others.stop()
      update()
    },
  }
  return feed
}

import type { Duplex } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import type { WebSocket } from 'ws'
import type {
  InspectionFeedWatcher,
  InspectionFeed,
} from '../../actors/inspection/inspection-feed.ts'
import {
  actorSessionIdOf,
  toInspectorActorFrame,
  type InspectorShownActor,
  type InspectorStepFrames,
} from '../../actors/inspection/inspector-frames.ts'
import { isActorKind, machineRegistry } from '../../actors/machine-registry.ts'
import type { RecordedCommand } from '../../actors/inspection/command-recorder.ts'
import { SECOND, type Clock } from '../../core/clock.ts'
import type {
  ActorSearchStore,
  ActorSearchResult,
} from '../../persistence/inspector/actor-search-store.ts'
import { matchesInspectorFilter, type InspectorFilter } from './inspector-filter.ts'
import {
  encodeActorStepFrames,
  type SharedInspectorStepFrames,
} from './shared-inspector-step-frames.ts'

/** One watcher of the inspector: what it has seen, what it is sent, and how far behind it is. */

export interface InspectorWatcherDeps {
  readonly clock: Clock
  readonly feed: Pick<InspectionFeed, 'watch'>
  readonly directory: Pick<ActorSearchStore, 'newest' | 'countByKind'>
  readonly framesOf: SharedInspectorStepFrames
  readonly log: (message: string, error: unknown) => void
}

/** The socket of a watcher and the connection below it. */
export interface InspectorWatcherSocket {
  readonly socket: WebSocket
  readonly connection: Pick<Duplex, 'write' | 'cork' | 'uncork'>
}

/** Actors that a watcher is sent when it joins. */
const MAX_JOINED = 200
/** A join waits for its reader above this, which leaves room for what happens meanwhile. */
const MAX_BUFFERED_BY_JOIN_BYTES = 262_144
const JOIN_PAUSE_MS = 20
/** Above this nothing more is sent until the reader has caught up. */
const MAX_BUFFERED_BYTES = 1_048_576
const MAX_BEHIND_MS = 30 * SECOND
const CHECK_MS = 250
/** Actors a watcher is known to have seen; then it is told of them again. */
const MAX_SEEN = 20_000
const TRY_AGAIN_LATER = 1013

/** Sends the stored actors of the filter, then what happens to them. */
export function startInspectorWatcher(
  { clock, feed, directory, framesOf, log }: InspectorWatcherDeps,
  { socket, connection }: InspectorWatcherSocket,
  first: InspectorFilter,
): { setFilter(filter: InspectorFilter): void } {
  let filter = first
  let isJoining = false
  let missed = 0
  let behindSince: number | null = null
  let checking: NodeJS.Timeout | undefined
  let isCorked = false
  const seen = new Set<string>()
  const defined = new Set<string>()
  /** Told of since the stored actors were read: what is stored may be older. */
  const changed = new Set<string>()

  /** Whether there is room for so many frames; else they are left out, and counted. */
  function hasRoom(frames: number): boolean {
    if (socket.readyState !== socket.OPEN) return false
    const isLate = isBehind()
    if (isLate) missed += frames
    tellMissed()
    return !isLate
  }

  function send(frame: string): boolean {
    const isSent = hasRoom(1)
    if (isSent) socket.send(frame)
    return isSent
  }

  /** Writes what is encoded once for all watchers; what is told in one turn goes out together. */
  function sendStep(frames: InspectorStepFrames): boolean {
    if (!hasRoom(FRAMES_A_STEP)) return false
    if (!isCorked) {
      isCorked = true
      connection.cork()
      process.nextTick(() => {
        isCorked = false
        connection.uncork()
      })
    }
    connection.write(encodeActorStepFrames(frames))
    return true
  }

  function isBehind(): boolean {
    if (socket.bufferedAmount <= MAX_BUFFERED_BYTES) behindSince = null
    else behindSince ??= clock.mono()
    return behindSince !== null
  }

  /** Tells how much was left out, as soon as the reader has caught up: no frame may follow. */
  function tellMissed(): void {
    if (missed === 0 || socket.readyState !== socket.OPEN) return
    if (isBehind()) {
      if (clock.mono() - (behindSince ?? 0) > MAX_BEHIND_MS) return end('too slow')
      checking ??= setTimeout(() => {
        checking = undefined
        tellMissed()
      }, CHECK_MS).unref()
      return
    }
    const frames = missed
    missed = 0
    socket.send(JSON.stringify({ type: 'gas.missed', frames }))
  }

  /** A reader that does not read does not answer a close either. */
  function end(reason: string): void {
    socket.close(TRY_AGAIN_LATER, reason)
    setTimeout(() => socket.terminate(), 2 * SECOND).unref()
  }

  function introduce(kind: string, session: string, frame: (full: boolean) => string): void {
    if (seen.has(session)) return
    if (seen.size >= MAX_SEEN) seen.clear()
    if (!send(frame(!defined.has(kind)))) return
    seen.add(session)
    defined.add(kind)
  }

  function tellStep(command: RecordedCommand, frames: InspectorStepFrames): void {
    if (!matchesInspectorFilter(filter, frames.actor, command.aggregateId)) return
    introduce(frames.actor.kind, frames.session, frames.actorFrame)
    if (sendStep(frames) && isJoining) changed.add(frames.session)
  }

  const listener: InspectionFeedWatcher = {
    heard(command) {
      for (const frames of framesOf(command)) tellStep(command, frames)
    },
    missed(commands) {
      missed += commands
      tellMissed()
    },
  }

  /** Sends the stored actors of a filter; stops when it is replaced. */
  async function join(wanted: InspectorFilter): Promise<void> {
    changed.clear()
    const { counts, actors } = await readJoined(directory, wanted)
    const shown = actors.flatMap((actor) => toShownActor(actor) ?? [])
    framesOf.remember(shown)
    const at = Math.floor(clock.now())
    for (const actor of shown) {
      await caughtUp()
      if (wanted !== filter) return
      const session = actorSessionIdOf(actor.kind, actor.id)
      if (changed.has(session)) continue
      seen.delete(session)
      introduce(actor.kind, session, (full) => toInspectorActorFrame(actor, at, full))
    }
    if (wanted !== filter) return
    const matched = Object.values(counts).reduce((sum, n) => sum + n, 0)
    send(JSON.stringify({ type: 'gas.joined', matched, sent: shown.length, counts }))
  }

  /** Waits for a slow reader, as long as it may be behind. */
  async function caughtUp(): Promise<void> {
    const until = clock.mono() + MAX_BEHIND_MS
    while (
      socket.readyState === socket.OPEN &&
      socket.bufferedAmount > MAX_BUFFERED_BY_JOIN_BYTES
    ) {
      if (clock.mono() > until) return end('too slow')
      await pause(JOIN_PAUSE_MS, undefined, { ref: false })
    }
  }

  /** One join at a time: a filter that is replaced meanwhile is joined afterwards. */
  async function startJoin(): Promise<void> {
    if (isJoining) return
    isJoining = true
    let wanted: InspectorFilter | null = null
    while (wanted !== filter && socket.readyState === socket.OPEN) {
      wanted = filter
      await join(wanted).catch((error: unknown) => {
        log('inspector: actors not read', error)
        send(JSON.stringify({ type: 'gas.error', code: 'unavailable', detail: 'Reload the page.' }))
      })
    }
    isJoining = false
  }

  // Before the stored actors are read, so that no change between is missed.
  const leave = feed.watch(listener)
  socket.once('close', leave)
  void startJoin()
  return {
    setFilter(next) {
      filter = next
      seen.clear()
      void startJoin()
    },
  }
}

/** What a watcher with this filter is sent first. */
async function readJoined(
  directory: Pick<ActorSearchStore, 'newest' | 'countByKind'>,
  filter: InspectorFilter,
) {
  const kinds = filter.machine === undefined ? Object.keys(machineRegistry) : [filter.machine]
  const query = toDirectoryQuery(filter)
  const each = Math.ceil(MAX_JOINED / kinds.length)
  const [counts, actors] = await Promise.all([
    directory.countByKind(query),
    directory.newest(kinds, query, Math.max(each, MAX_JOINED_OF_KIND)),
  ])
  return { counts, actors: actors.slice(0, MAX_JOINED) }
}

const MAX_JOINED_OF_KIND = 40
/** `@xstate.event` and `@xstate.snapshot`. */
const FRAMES_A_STEP = 2

function toShownActor(actor: ActorSearchResult): InspectorShownActor | null {
  const { kind } = actor
  return isActorKind(kind) ? { ...actor, kind } : null
}

const toDirectoryQuery = ({ machine, q, actor, agent }: InspectorFilter) => ({
  kind: actor?.kind ?? machine,
  actorId: actor?.id,
  text: q,
  agentId: agent,
})

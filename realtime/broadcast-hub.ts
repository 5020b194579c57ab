import { SECOND, type Clock } from '../core/clock.ts'
import { createRoundRobinScheduler } from './round-robin-scheduler.ts'
import {
  createEventBundle,
  type EventBundle,
  type EncodedEvents,
  type EventEncoder,
} from './event-bundle.ts'

export interface BroadcastHubDeps<R> {
  readonly clock: Clock
  readonly channelOf: (row: R) => string
  readonly encoder: EventEncoder<R>
  readonly log: (message: string, error: unknown) => void
}

/** One stream that listens. It is told in its turn, and then all that has come for it since the last. */
export interface HubSubscriber {
  /** What is passed on from now on; what waits is told before. Answers what ends it. */
  listen(channel: string): () => void
  /** Everything up to here on its channels has been told. */
  cursor(): bigint
  /** Tells what waits. */
  flush(): void
  /** Nothing more is told, not even what waits. */
  end(): void
}

/** Who listens to what on this node, and the turns in which they are told. */
export interface BroadcastHub<R> {
  /**
   * One that throws is told nothing more, and `failed`: what it missed it must ask for anew. Of what is
   * passed on it is told the rows that it `wants`, all of them by default.
   */
  addSubscriber(
    tell: (told: EncodedEvents) => void,
    failed: () => void,
    wants?: (row: R) => boolean,
  ): HubSubscriber
  /** Rows in the order of their ids, for all who listen now; there are none besides up to `through`. */
  pass(rows: readonly R[], through: bigint): void
  /** Everything up to here has been told or waits with its listeners; replays never go beyond it. */
  mark(): bigint
  /** Seconds from the birth of a row that was told lately to the end of the lap. */
  lag(): number
  /** Resolves when few enough wait that more may be passed on. */
  room(): Promise<void>
  /** Whether anybody listens to a channel. */
  has(channel: string): boolean
  /** What waits is dropped. */
  stop(): void
}

interface QueuedSubscriber<R> {
  readonly tell: (told: EncodedEvents) => void
  readonly failed: () => void
  readonly wants: ((row: R) => boolean) | undefined
  readonly channels: Set<string>
  bundles: EventBundle<R>[]
}

/** Their frames, of 32 KiB at most, wait in each connection. */
const MAX_EVENTS_PER_BUNDLE = 8
/** Bundles that wait for one listener. */
const MAX_WAITING_BUNDLES = 8

/**
 * What comes while a lap is under way goes to those who have had their turn with the next one, and to
 * the others at once: so nobody waits longer than for two laps, and the more there is to tell, the more of
 * it goes out together.
 */
export function createBroadcastHub<R extends { readonly at: Date }>(
  parts: BroadcastHubDeps<R>,
): BroadcastHub<R> {
  const { clock, channelOf, encoder, log } = parts
  const channels = new Map<string, Set<QueuedSubscriber<R>>>()
  let mark = 0n
  /**
   * No listener has more bundles waiting, but for one: what is handed over in the middle of a lap is
   * counted down with its end.
   */
  let deepest = 0
  let latest: R | null = null
  let seconds = 0
  const { enqueue, start, waitForRoundEnd, stop } = createRoundRobinScheduler(
    clock,
    tellNext,
    () => {
      deepest = Math.max(0, deepest - 1)
      if (latest !== null) count(latest)
      latest = null
    },
  )

  function pass(rows: readonly R[], through: bigint): void {
    for (const row of rows) {
      const listeners = channels.get(channelOf(row))
      if (listeners === undefined) count(row)
      else hand(row, listeners)
    }
    mark = through
    start()
  }

  /** Who waits for the same gets the same bundle, made once. */
  function hand(row: R, listeners: Iterable<QueuedSubscriber<R>>): void {
    const grown = new Map<EventBundle<R> | null, EventBundle<R>>()
    for (const listener of listeners) {
      const { bundles } = listener
      const last = bundles.at(-1)
      const open = last !== undefined && last.rows.length < MAX_EVENTS_PER_BUNDLE ? last : null
      const next = grown.get(open) ?? open?.append(row) ?? createEventBundle([row], encoder)
      grown.set(open, next)
      bundles[open === null ? bundles.length : bundles.length - 1] = next
      deepest = Math.max(deepest, bundles.length)
      enqueue(listener)
    }
  }

  /** One bundle a turn: who has far more to hear than others does not hold them up. */
  function tellNext(listener: QueuedSubscriber<R>): void {
    const next = listener.bundles.shift()
    if (next === undefined) return
    if (listener.bundles.length > 0) enqueue(listener)
    latest = next.rows[0] ?? null
    tell(listener, next)
  }

  function tell(listener: QueuedSubscriber<R>, next: EventBundle<R>): void {
    const told = listener.wants === undefined ? next : next.filter(listener.wants)
    if (told === null) return
    try {
      listener.tell(told)
    } catch (error) {
      log('a listener has failed', error)
      end(listener)
      listener.failed()
    }
  }

  function count({ at }: R): void {
    seconds = Math.max(0, clock.now() - at.getTime()) / SECOND
  }

  function join(listener: QueuedSubscriber<R>, channel: string): void {
    listener.channels.add(channel)
    const listeners = channels.get(channel) ?? new Set()
    channels.set(channel, listeners.add(listener))
  }

  function leave(listener: QueuedSubscriber<R>, channel: string): void {
    if (!listener.channels.delete(channel)) return
    const listeners = channels.get(channel)
    listeners?.delete(listener)
    if (listeners?.size === 0) channels.delete(channel)
    const isOther = (row: R) => channelOf(row) !== channel
    listener.bundles = listener.bundles.flatMap((each) => each.filter(isOther) ?? [])
  }

  function end(listener: QueuedSubscriber<R>): void {
    listener.bundles = []
    for (const channel of listener.channels) leave(listener, channel)
  }

  function flush(listener: QueuedSubscriber<R>): void {
    for (let next = listener.bundles.shift(); next !== undefined; next = listener.bundles.shift())
      tell(listener, next)
  }

  function listenerOf(listener: QueuedSubscriber<R>): HubSubscriber {
    return {
      listen(channel) {
        flush(listener)
        join(listener, channel)
        return () => leave(listener, channel)
      },
      cursor() {
        const [first] = listener.bundles
        return first === undefined ? mark : first.from - 1n
      },
      flush: () => flush(listener),
      end: () => end(listener),
    }
  }

  return {
    pass,
    stop,
    addSubscriber: (told, failed, wants) =>
      listenerOf({ tell: told, failed, wants, channels: new Set(), bundles: [] }),
    mark: () => mark,
    has: (channel) => channels.has(channel),
    lag: () => seconds,
    async room() {
      while (deepest >= MAX_WAITING_BUNDLES && (await waitForRoundEnd()));
    },
  }
}

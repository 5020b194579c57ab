import { SECOND, type Clock } from '../core/clock.ts'
import { createRoundRobinScheduler } from './round-robin-scheduler.ts'
import {
  createWebSocketAndSseEventBatch,
  type EncodedWebSocketAndSseEventBatch,
  type EncodedWebSocketAndSseEvents,
  type WebSocketAndSseEventEncoder,
} from './encoded-websocket-and-sse-events.ts'

/** Distributes new rows to the streams of this node. */

export interface BroadcastHubDeps<R> {
  readonly clock: Clock
  readonly channelOf: (row: R) => string
  readonly encoder: WebSocketAndSseEventEncoder<R>
  readonly log: (message: string, error: unknown) => void
}

/** A stream that receives events. They are bundled until its turn. */
export interface HubSubscriber {
  /**
   * Delivers future events of a channel, after what is queued. Returns the unsubscribe function.
   */
  listen(channel: string): () => void
  /** All events of its channels up to this id have been delivered. */
  cursor(): bigint
  /** Delivers what is queued. */
  flush(): void
  /** Drops what is queued and unsubscribes. */
  end(): void
}

/** The subscriptions of this node and the order of delivery. */
export interface BroadcastHub<R> {
  /**
   * Adds a subscriber. If `deliver` throws, the subscriber is removed and `failed` is called; it must
   * replay what it missed. `wants` filters rows; default all.
   */
  addSubscriber(
    deliver: (events: EncodedWebSocketAndSseEvents) => void,
    failed: () => void,
    wants?: (row: R) => boolean,
  ): HubSubscriber
  /**
   * Queues rows in the order of their ids for current subscribers. There are no other rows up to
   * `through`.
   */
  pass(rows: readonly R[], through: bigint): void
  /** All rows up to this id are delivered or queued. Replays never go beyond it. */
  mark(): bigint
  /** Seconds from the creation of a recently delivered row to the end of its round. */
  lag(): number
  /** Resolves when queues are short enough for more rows. */
  room(): Promise<void>
  /** Whether a channel has subscribers. */
  has(channel: string): boolean
  /** Drops what is queued. */
  stop(): void
}

interface QueuedSubscriber<R> {
  readonly tell: (events: EncodedWebSocketAndSseEvents) => void
  readonly failed: () => void
  readonly wants: ((row: R) => boolean) | undefined
  readonly channels: Set<string>
  bundles: EncodedWebSocketAndSseEventBatch<R>[]
}

/** At most 32 KiB each in the send buffer of a connection. */
const MAX_EVENTS_PER_BUNDLE = 8
/** Queued bundles per subscriber. */
const MAX_WAITING_BUNDLES = 8

/**
 * Delivers in rounds. Rows that arrive during a round go to subscribers that had their turn in the
 * next round, and to the others at once. A row waits for at most two rounds, and bundles grow with
 * the load.
 */
export function createBroadcastHub<R extends { readonly at: Date }>(
  parts: BroadcastHubDeps<R>,
): BroadcastHub<R> {
  const { clock, channelOf, encoder, log } = parts
  const channels = new Map<string, Set<QueuedSubscriber<R>>>()
  let mark = 0n
  /** Upper bound of the longest queue. Bundles added during a round are subtracted at its end. */
  let deepest = 0
  let latest: R | null = null
  let seconds = 0
  const { enqueue, start, waitForRoundEnd, stop } = createRoundRobinScheduler(
    clock,
    deliverNext,
    () => {
      deepest = Math.max(0, deepest - 1)
      if (latest !== null) count(latest)
      latest = null
    },
  )

  function pass(rows: readonly R[], through: bigint): void {
    for (const row of rows) {
      const subscribers = channels.get(channelOf(row))
      if (subscribers === undefined) count(row)
      else enqueueRow(row, subscribers)
    }
    mark = through
    start()
  }

  /** Subscribers with equal queues share one bundle, encoded once. */
  function enqueueRow(row: R, subscribers: Iterable<QueuedSubscriber<R>>): void {
    const grown = new Map<
      EncodedWebSocketAndSseEventBatch<R> | null,
      EncodedWebSocketAndSseEventBatch<R>
    >()
    for (const subscriber of subscribers) {
      const { bundles } = subscriber
      const last = bundles.at(-1)
      const open = last !== undefined && last.rows.length < MAX_EVENTS_PER_BUNDLE ? last : null
      const next =
        grown.get(open) ?? open?.append(row) ?? createWebSocketAndSseEventBatch([row], encoder)
      grown.set(open, next)
      bundles[open === null ? bundles.length : bundles.length - 1] = next
      deepest = Math.max(deepest, bundles.length)
      enqueue(subscriber)
    }
  }

  /** One bundle per turn, so that a long queue does not delay other subscribers. */
  function deliverNext(subscriber: QueuedSubscriber<R>): void {
    const next = subscriber.bundles.shift()
    if (next === undefined) return
    if (subscriber.bundles.length > 0) enqueue(subscriber)
    latest = next.rows[0] ?? null
    deliver(subscriber, next)
  }

  function deliver(
    subscriber: QueuedSubscriber<R>,
    next: EncodedWebSocketAndSseEventBatch<R>,
  ): void {
    const events = subscriber.wants === undefined ? next : next.filter(subscriber.wants)
    if (events === null) return
    try {
      subscriber.tell(events)
    } catch (error) {
      log('a subscriber has failed', error)
      end(subscriber)
      subscriber.failed()
    }
  }

  function count({ at }: R): void {
    seconds = Math.max(0, clock.now() - at.getTime()) / SECOND
  }

  function join(subscriber: QueuedSubscriber<R>, channel: string): void {
    subscriber.channels.add(channel)
    const subscribers = channels.get(channel) ?? new Set()
    channels.set(channel, subscribers.add(subscriber))
  }

  function leave(subscriber: QueuedSubscriber<R>, channel: string): void {
    if (!subscriber.channels.delete(channel)) return
    const subscribers = channels.get(channel)
    subscribers?.delete(subscriber)
    if (subscribers?.size === 0) channels.delete(channel)
    const isOther = (row: R) => channelOf(row) !== channel
    subscriber.bundles = subscriber.bundles.flatMap((each) => each.filter(isOther) ?? [])
  }

  function end(subscriber: QueuedSubscriber<R>): void {
    subscriber.bundles = []
    for (const channel of subscriber.channels) leave(subscriber, channel)
  }

  function flush(subscriber: QueuedSubscriber<R>): void {
    for (
      let next = subscriber.bundles.shift();
      next !== undefined;
      next = subscriber.bundles.shift()
    )
      deliver(subscriber, next)
  }

  function listenerOf(subscriber: QueuedSubscriber<R>): HubSubscriber {
    return {
      listen(channel) {
        flush(subscriber)
        join(subscriber, channel)
        return () => leave(subscriber, channel)
      },
      cursor() {
        const [first] = subscriber.bundles
        return first === undefined ? mark : first.from - 1n
      },
      flush: () => flush(subscriber),
      end: () => end(subscriber),
    }
  }

  return {
    pass,
    stop,
    addSubscriber: (tell, failed, wants) =>
      listenerOf({ tell, failed, wants, channels: new Set(), bundles: [] }),
    mark: () => mark,
    has: (channel) => channels.has(channel),
    lag: () => seconds,
    async room() {
      while (deepest >= MAX_WAITING_BUNDLES && (await waitForRoundEnd()));
    },
  }
}

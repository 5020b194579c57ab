import { SECOND, type Clock } from '../core/clock.ts'
import { laps } from './laps.ts'
import { bundle, type Bundle, type Told, type Wording } from './told.ts'

export interface HubParts<R> {
  readonly clock: Clock
  readonly channelOf: (row: R) => string
  readonly words: Wording<R>
  readonly log: (message: string, error: unknown) => void
}

/** One stream that listens. It is told in its turn, and then all that has come for it since the last. */
export interface Listener {
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
export interface Hub<R> {
  /**
   * One that throws is told nothing more, and `failed`: what it missed it must ask for anew. Of what is
   * passed on it is told the rows that it `wants`, all of them by default.
   */
  listener(tell: (told: Told) => void, failed: () => void, wants?: (row: R) => boolean): Listener
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

interface Waiting<R> {
  readonly tell: (told: Told) => void
  readonly failed: () => void
  readonly wants: ((row: R) => boolean) | undefined
  readonly channels: Set<string>
  bundles: Bundle<R>[]
}

/** Their frames, of 32 KiB at most, wait in each connection. */
const MOST_TOGETHER = 8
/** Bundles that wait for one listener. */
const MOST_WAITING = 8

/**
 * What comes while a lap is under way goes to those who have had their turn with the next one, and to
 * the others at once: so nobody waits longer than for two laps, and the more there is to tell, the more of
 * it goes out together.
 */
export function hub<R extends { readonly at: Date }>(parts: HubParts<R>): Hub<R> {
  const { clock, channelOf, words, log } = parts
  const channels = new Map<string, Set<Waiting<R>>>()
  let mark = 0n
  /**
   * No listener has more bundles waiting, but for one: what is handed over in the middle of a lap is
   * counted down with its end.
   */
  let deepest = 0
  let latest: R | null = null
  let seconds = 0
  const { enqueue, start, lapEnds, stop } = laps(clock, tellNext, () => {
    deepest = Math.max(0, deepest - 1)
    if (latest !== null) count(latest)
    latest = null
  })

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
  function hand(row: R, listeners: Iterable<Waiting<R>>): void {
    const grown = new Map<Bundle<R> | null, Bundle<R>>()
    for (const listener of listeners) {
      const { bundles } = listener
      const last = bundles.at(-1)
      const open = last !== undefined && last.rows.length < MOST_TOGETHER ? last : null
      const next = grown.get(open) ?? open?.with(row) ?? bundle([row], words)
      grown.set(open, next)
      bundles[open === null ? bundles.length : bundles.length - 1] = next
      deepest = Math.max(deepest, bundles.length)
      enqueue(listener)
    }
  }

  /** One bundle a turn: who has far more to hear than others does not hold them up. */
  function tellNext(listener: Waiting<R>): void {
    const next = listener.bundles.shift()
    if (next === undefined) return
    if (listener.bundles.length > 0) enqueue(listener)
    latest = next.rows[0] ?? null
    tell(listener, next)
  }

  function tell(listener: Waiting<R>, next: Bundle<R>): void {
    const told = listener.wants === undefined ? next : next.only(listener.wants)
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

  function join(listener: Waiting<R>, channel: string): void {
    listener.channels.add(channel)
    const listeners = channels.get(channel) ?? new Set()
    channels.set(channel, listeners.add(listener))
  }

  function leave(listener: Waiting<R>, channel: string): void {
    if (!listener.channels.delete(channel)) return
    const listeners = channels.get(channel)
    listeners?.delete(listener)
    if (listeners?.size === 0) channels.delete(channel)
    const isOther = (row: R) => channelOf(row) !== channel
    listener.bundles = listener.bundles.flatMap((each) => each.only(isOther) ?? [])
  }

  function end(listener: Waiting<R>): void {
    listener.bundles = []
    for (const channel of listener.channels) leave(listener, channel)
  }

  function flush(listener: Waiting<R>): void {
    for (let next = listener.bundles.shift(); next !== undefined; next = listener.bundles.shift())
      tell(listener, next)
  }

  function listenerOf(listener: Waiting<R>): Listener {
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
    listener: (told, failed, wants) =>
      listenerOf({ tell: told, failed, wants, channels: new Set(), bundles: [] }),
    mark: () => mark,
    has: (channel) => channels.has(channel),
    lag: () => seconds,
    async room() {
      while (deepest >= MOST_WAITING && (await lapEnds()));
    },
  }
}

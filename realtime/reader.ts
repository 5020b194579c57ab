import { setImmediate as turn } from 'node:timers/promises'
import { SECOND, type Clock } from '../core/clock.ts'
import { AT_ONCE, type Tail } from '../persistence/tail.ts'
import { within } from '../persistence/within.ts'

interface Row {
  readonly id: bigint
  readonly at: Date
}

export interface ReaderParts<R extends Row> {
  readonly clock: Clock
  readonly tail: Tail<R>
  readonly channelOf: (row: R) => string
  /**
   * Passes rows of one channel on, which have come at once, to all that listen to it, to one in each
   * step. Who begins to listen meanwhile is among them.
   */
  readonly passing: (channel: string, rows: readonly R[]) => Iterable<void>
  readonly log: (message: string, error: unknown) => void
}

/** The one reader of a table on this node. */
export interface Reader {
  /** Something may be new. */
  wake(): void
  /** Everything up to here has been passed on to all; replays and cursors never go beyond it. */
  mark(): bigint
  /**
   * Resolves once the row of this id has been passed on, where there is one: another node may have told
   * of it before this one has read it. After two seconds at most.
   */
  reached(id: bigint): Promise<void>
  /** Seconds from a row's birth to its being passed on, the latest; rows that wait for a hole. */
  lag(): { seconds: number; waiting: number }
  stop(): Promise<void>
}

/** A wake that got lost costs so much. */
const LOOK_EVERY_MS = 2 * SECOND
/** Under load rows are read in bundles: the first one at once, the next not before this. */
const LEAST_GAP_MS = 5
/** Of the time it took to tell many, so much is left to everything else before the next reading. */
const REST_SHARE = 0.5
const MOST_GAP_MS = 25
/** A hole closes with the commit that made it, mostly in milliseconds. */
const HOLE_LOOK_MS = [5, 10, 25, 50, 100, 250] as const
/** So long others wait for their turn, whether many listeners take it or many rows. */
const LONG_MS = 1
const REACH_MS = 2 * SECOND
/** Their frames, of 32 KiB at most, wait in each connection. */
const MOST_TOGETHER = 8
const STOP_MS = SECOND

/**
 * Reads on each wake and every two seconds, and passes the rows on in order. What has become many
 * meanwhile goes together, so that a reader that has fallen behind is faster than they come.
 */
export function reader<R extends Row>(parts: ReaderParts<R>): Reader {
  const { clock, tail, channelOf, passing, log } = parts
  let mark = tail.mark()
  let seconds = 0
  let stopped = false
  let running: Promise<void> | null = null
  let again = false
  let holeLooks = 0
  let nextRead = -Infinity
  let pause: NodeJS.Timeout | undefined
  let [told, sinceTurn] = [0, 0]
  const toBeRead: (() => void)[] = []

  function wake(): void {
    again = true
    if (running !== null || stopped) return
    clearTimeout(pause)
    const gap = nextRead - clock.mono()
    if (gap > 0) pause = setTimeout(run, gap)
    else run()
  }

  function run(): void {
    if (running !== null || stopped) return
    const asked = toBeRead.splice(0)
    running = drain()
      .catch((error: unknown) => log('new events were not read', error))
      .finally(() => {
        running = null
        for (const read of asked) read()
        if (!stopped) rest()
      })
  }

  async function drain(): Promise<void> {
    again = false
    ;[told, sinceTurn] = [0, 0]
    nextRead = clock.mono() + LEAST_GAP_MS
    let rows: R[]
    do {
      rows = await tail.read()
      if (rows.length > 0) holeLooks = 0
      for (const [channel, some] of runsOf(rows, channelOf)) await passOn(channel, some)
      mark = tail.mark()
    } while (rows.length === AT_ONCE && !stopped)
    nextRead = Math.max(nextRead, clock.mono() + Math.min(told * REST_SHARE, MOST_GAP_MS))
  }

  /** The mark moves in the very turn in which the last one was told: nobody can come in between. */
  async function passOn(channel: string, rows: readonly R[]): Promise<void> {
    const last = rows.at(-1) as R
    let begun = clock.mono()
    for (const _ of passing(channel, rows)) {
      if (sinceTurn + clock.mono() - begun < LONG_MS) continue
      count(begun)
      sinceTurn = 0
      await turn()
      begun = clock.mono()
    }
    mark = last.id
    seconds = Math.max(0, clock.now() - last.at.getTime()) / SECOND
    count(begun)
  }

  function count(begun: number): void {
    const took = clock.mono() - begun
    told += took
    sinceTurn += took
  }

  /** Resolves after a reading that begins now or later. */
  const readAnew = () =>
    new Promise<void>((resolve) => {
      toBeRead.push(resolve)
      wake()
    })

  async function reached(id: bigint): Promise<void> {
    let late = false
    const reach = async () => {
      while (mark < id && !late && !stopped) {
        await readAnew()
        // It was there to be read, or waits for a hole, or nobody has ever seen it.
        if (id > mark + tail.waiting()) return
      }
    }
    await within(reach(), REACH_MS)
    late = true
  }

  function rest(): void {
    if (again) return wake()
    const hole = tail.waiting() > 0n
    const look = hole ? HOLE_LOOK_MS[Math.min(holeLooks++, HOLE_LOOK_MS.length - 1)] : undefined
    pause = setTimeout(run, look ?? LOOK_EVERY_MS)
    pause.unref()
  }

  run()
  return {
    wake,
    mark: () => mark,
    reached,
    lag: () => ({ seconds, waiting: Number(tail.waiting()) }),
    async stop() {
      stopped = true
      clearTimeout(pause)
      for (const read of toBeRead.splice(0)) read()
      // A database that hangs must not keep the service from stopping.
      if (running !== null) await within(running, STOP_MS)
    },
  }
}

/** Rows that follow each other on one channel: the order of all is the order of each. */
function* runsOf<R>(
  rows: readonly R[],
  channelOf: (row: R) => string,
): Generator<[channel: string, rows: R[]]> {
  let run: [string, R[]] | null = null
  for (const row of rows) {
    const channel = channelOf(row)
    if (run !== null && run[0] === channel && run[1].length < MOST_TOGETHER) run[1].push(row)
    else {
      if (run !== null) yield run
      run = [channel, [row]]
    }
  }
  if (run !== null) yield run
}

import { setImmediate as turn } from 'node:timers/promises'
import { SECOND, type Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { TAIL_PAGE_ROWS, type TableTail } from '../persistence/table-tail.ts'
import { succeedsWithin } from '../persistence/query-timeout.ts'
import type { BroadcastHub } from './broadcast-hub.ts'
import { createStreamReplayRowBuffer } from './stream-replay-row-buffer.ts'

/** Reads new rows of a table and hands them to its hub. */

interface TableRow {
  readonly id: bigint
  readonly at: Date
}

export interface NewRowReaderDeps<R extends TableRow> {
  readonly clock: Clock
  readonly tail: TableTail<R>
  readonly hub: Pick<BroadcastHub<R>, 'pass' | 'mark' | 'room' | 'lag'>
  /** Whether anybody waits for rows. */
  readonly isNeeded: () => boolean
  readonly log: (message: string, error: unknown) => void
}

/** The only reader of a table on this node. */
export interface NewRowReader<R> {
  /** Cached rows after an id; null if it is too old for the cache. */
  recent(after: bigint): readonly R[] | null
  /** There may be new rows. */
  wake(): void
  /**
   * Resolves once the row with this id was handed on, if it exists: another node may have delivered
   * it before this node has read it. Throws `unavailable` after two seconds.
   */
  waitUntilPassed(id: bigint): Promise<void>
  /** Seconds from the creation of the latest row to its delivery; rows waiting for an id gap. */
  lag(): { seconds: number; waiting: number }
  stop(): Promise<void>
}

/** Maximum delay after a lost wake-up. */
const POLL_INTERVAL_MS = 2 * SECOND
/** The same while nobody waits for rows. */
const IDLE_POLL_INTERVAL_MS = 30 * SECOND
/** Minimum time between reads, so that reads return several rows under load. */
const MIN_READ_GAP_MS = 5
/** An id gap closes with its commit, usually within milliseconds. */
const ID_GAP_POLL_MS = [5, 10, 25, 50, 100, 250] as const
/** Milliseconds of hand-over before yielding to other work. */
const MAX_SLICE_MS = 1
const REACH_TIMEOUT_MS = 2 * SECOND
const STOP_TIMEOUT_MS = SECOND

/**
 * Reads at every wake-up and, while rows are needed, every two seconds, and hands them on in order. Pauses
 * while too many rows are queued for delivery. Wake it when rows begin to be needed.
 */
export function createNewRowReader<R extends TableRow>(
  parts: NewRowReaderDeps<R>,
): NewRowReader<R> {
  const { clock, tail, hub, isNeeded, log } = parts
  const recent = createStreamReplayRowBuffer<R>(tail.mark())
  let stopped = false
  let running: Promise<void> | null = null
  let again = false
  let gapPolls = 0
  let nextRead = -Infinity
  let pause: NodeJS.Timeout | undefined
  /** Called with whether the read succeeded. */
  const toBeRead: ((read: boolean) => void)[] = []

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
    running = tryToDrain().then((read) => {
      running = null
      for (const notify of asked) notify(read)
      if (!stopped) rest()
    })
  }

  const tryToDrain = () =>
    drain().then(
      () => true,
      (error: unknown) => {
        log('new events were not read', error)
        return false
      },
    )

  async function drain(): Promise<void> {
    again = false
    nextRead = clock.mono() + MIN_READ_GAP_MS
    let rows: R[]
    do {
      rows = await tail.read()
      if (rows.length > 0) gapPolls = 0
      await hub.room()
      await passOn(rows)
      if (!stopped) hub.pass([], tail.mark())
    } while (rows.length === TAIL_PAGE_ROWS && !stopped)
  }

  /** Yields regularly and waits for room in the queues. */
  async function passOn(rows: readonly R[]): Promise<void> {
    let begun = clock.mono()
    for (const row of rows) {
      if (stopped) return
      recent.add(row)
      hub.pass([row], row.id)
      if (clock.mono() - begun < MAX_SLICE_MS) continue
      await turn()
      await hub.room()
      begun = clock.mono()
    }
  }

  /** Starts a read and resolves to whether it succeeded. */
  const readAnew = () =>
    new Promise<boolean>((resolve) => {
      toBeRead.push(resolve)
      wake()
    })

  async function reached(id: bigint): Promise<void> {
    let late = false
    const readUntilReached = async () => {
      while (hub.mark() < id && !late && !stopped) {
        if (!(await readAnew())) throw new Error('nothing could be read')
        // The row has been read, waits for an id gap, or does not exist.
        if (id > hub.mark() + tail.waiting()) return
      }
    }
    const known = await succeedsWithin(readUntilReached(), REACH_TIMEOUT_MS)
    late = true
    // An unknown row is not lost: a gap would make the client reload everything.
    if (!known && hub.mark() < id) throw new ServiceError('unavailable', { retry_after: 2 })
  }

  function rest(): void {
    if (again) return wake()
    const hole = tail.waiting() > 0n
    const look = hole ? ID_GAP_POLL_MS[Math.min(gapPolls++, ID_GAP_POLL_MS.length - 1)] : undefined
    pause = setTimeout(run, look ?? (isNeeded() ? POLL_INTERVAL_MS : IDLE_POLL_INTERVAL_MS))
    pause.unref()
  }

  hub.pass([], tail.mark())
  run()
  return {
    wake,
    recent: recent.after,
    waitUntilPassed: reached,
    lag: () => ({ seconds: hub.lag(), waiting: Number(tail.waiting()) }),
    async stop() {
      stopped = true
      clearTimeout(pause)
      for (const notify of toBeRead.splice(0)) notify(true)
      // A database that hangs must not delay the shutdown.
      if (running !== null) await succeedsWithin(running, STOP_TIMEOUT_MS)
    },
  }
}

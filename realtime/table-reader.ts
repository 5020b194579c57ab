import { setImmediate as turn } from 'node:timers/promises'
import { SECOND, type Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { TAIL_PAGE_ROWS, type TableTail } from '../persistence/table-tail.ts'
import { succeedsWithin } from '../persistence/query-timeout.ts'
import type { BroadcastHub } from './broadcast-hub.ts'
import { createRecentRows } from './recent-rows.ts'

interface TableRow {
  readonly id: bigint
  readonly at: Date
}

export interface TableReaderDeps<R extends TableRow> {
  readonly clock: Clock
  readonly tail: TableTail<R>
  readonly hub: Pick<BroadcastHub<R>, 'pass' | 'mark' | 'room' | 'lag'>
  readonly log: (message: string, error: unknown) => void
}

/** The one reader of a table on this node. */
export interface TableReader<R> {
  /** What was passed on after this row; null where that is too long ago to know without a reading. */
  recent(after: bigint): readonly R[] | null
  /** Something may be new. */
  wake(): void
  /**
   * Resolves once the row of this id has been passed on, where there is one: another node may have told
   * of it before this one has read it. Refuses with `unavailable` where that cannot be read now, after
   * two seconds at most.
   */
  waitUntilPassed(id: bigint): Promise<void>
  /** Seconds from a row's birth to its being told, the latest; rows that wait for a hole. */
  lag(): { seconds: number; waiting: number }
  stop(): Promise<void>
}

/** A wake that got lost costs so much. */
const POLL_INTERVAL_MS = 2 * SECOND
/** Under load rows are read in bundles: the first one at once, the next not before this. */
const MIN_READ_GAP_MS = 5
/** A hole closes with the commit that made it, mostly in milliseconds. */
const ID_GAP_POLL_MS = [5, 10, 25, 50, 100, 250] as const
/** So long others wait for their turn while rows are handed to many. */
const MAX_SLICE_MS = 1
const REACH_TIMEOUT_MS = 2 * SECOND
const STOP_TIMEOUT_MS = SECOND

/**
 * Reads on each wake and every two seconds, and passes the rows on in order. It does not go on reading
 * as long as too much of it waits to be told.
 */
export function createTableReader<R extends TableRow>(parts: TableReaderDeps<R>): TableReader<R> {
  const { clock, tail, hub, log } = parts
  const recent = createRecentRows<R>(tail.mark())
  let stopped = false
  let running: Promise<void> | null = null
  let again = false
  let holeLooks = 0
  let nextRead = -Infinity
  let pause: NodeJS.Timeout | undefined
  /** Told whether it was read. */
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
      for (const told of asked) told(read)
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
      if (rows.length > 0) holeLooks = 0
      await hub.room()
      await passOn(rows)
      if (!stopped) hub.pass([], tail.mark())
    } while (rows.length === TAIL_PAGE_ROWS && !stopped)
  }

  /** Everything else has its turns, and what waits to be told does not become too much. */
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

  /** Resolves after a reading that begins now or later: whether it succeeded. */
  const readAnew = () =>
    new Promise<boolean>((resolve) => {
      toBeRead.push(resolve)
      wake()
    })

  async function reached(id: bigint): Promise<void> {
    let late = false
    const reach = async () => {
      while (hub.mark() < id && !late && !stopped) {
        if (!(await readAnew())) throw new Error('nothing could be read')
        // It was there to be read, or waits for a hole, or nobody has ever seen it.
        if (id > hub.mark() + tail.waiting()) return
      }
    }
    const known = await succeedsWithin(reach(), REACH_TIMEOUT_MS)
    late = true
    // Not known is not gone: told so, its reader would read everything anew.
    if (!known && hub.mark() < id) throw new ServiceError('unavailable', { retry_after: 2 })
  }

  function rest(): void {
    if (again) return wake()
    const hole = tail.waiting() > 0n
    const look = hole ? ID_GAP_POLL_MS[Math.min(holeLooks++, ID_GAP_POLL_MS.length - 1)] : undefined
    pause = setTimeout(run, look ?? POLL_INTERVAL_MS)
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
      for (const told of toBeRead.splice(0)) told(true)
      // A database that hangs must not keep the service from stopping.
      if (running !== null) await succeedsWithin(running, STOP_TIMEOUT_MS)
    },
  }
}

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
  /** Passes one row on; answers how many were told, so that many do not block everything else. */
  readonly pass: (row: R) => number
  readonly log: (message: string, error: unknown) => void
}

/** The one reader of a table on this node. */
export interface Reader {
  /** Something may be new. */
  wake(): void
  /** Everything up to here has been passed on; replays and cursors never go beyond it. */
  mark(): bigint
  /** Seconds from a row's birth to its being passed on, the latest; rows that wait for a hole. */
  lag(): { seconds: number; waiting: number }
  stop(): Promise<void>
}

/** A wake that got lost costs so much. */
const LOOK_EVERY_MS = 2 * SECOND
/** Under load rows are read in bundles: the first one at once, the next not before this. */
const LEAST_GAP_MS = 5
/** A hole closes with the commit that made it, mostly in milliseconds. */
const HOLE_LOOK_MS = [5, 10, 25, 50, 100, 250] as const
const MANY_TOLD = 500
const STOP_MS = SECOND

/** Reads on each wake and every two seconds, and passes the rows on one after the other, in order. */
export function reader<R extends Row>({ clock, tail, pass, log }: ReaderParts<R>): Reader {
  let mark = tail.mark()
  let seconds = 0
  let stopped = false
  let running: Promise<void> | null = null
  let again = false
  let holeLooks = 0
  let lastRead = -Infinity
  let pause: NodeJS.Timeout | undefined

  function wake(): void {
    again = true
    if (running !== null || stopped) return
    clearTimeout(pause)
    const gap = lastRead + LEAST_GAP_MS - clock.mono()
    if (gap > 0) pause = setTimeout(run, gap)
    else run()
  }

  function run(): void {
    if (running !== null || stopped) return
    running = drain()
      .catch((error: unknown) => log('new events were not read', error))
      .finally(() => {
        running = null
        if (!stopped) rest()
      })
  }

  async function drain(): Promise<void> {
    again = false
    lastRead = clock.mono()
    let rows: R[]
    do {
      rows = await tail.read()
      if (rows.length > 0) holeLooks = 0
      for (const row of rows) await passOn(row)
      mark = tail.mark()
    } while (rows.length === AT_ONCE && !stopped)
  }

  async function passOn(row: R): Promise<void> {
    mark = row.id
    const count = pass(row)
    seconds = Math.max(0, clock.now() - row.at.getTime()) / SECOND
    if (count >= MANY_TOLD) await turn()
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
    lag: () => ({ seconds, waiting: Number(tail.waiting()) }),
    async stop() {
      stopped = true
      clearTimeout(pause)
      // A database that hangs must not keep the service from stopping.
      if (running !== null) await within(running, STOP_MS)
    },
  }
}

import { MINUTE, SECOND, type Clock } from '../core/clock.ts'
import type { Target } from '../persistence/postgres/connect.ts'
import type { RedisAddress } from '../persistence/redis-address.ts'
import { within } from '../persistence/within.ts'
import {
  MOST_QUEUES,
  postgresBackend,
  redisBackend,
  type Backend,
  type BackendQueue,
} from './backends.ts'
import { workLines, type Handler, type JobData } from './lines.ts'

export interface Hint {
  /** Names the work: a word and what it is about, as `schedule-<id>-<slot>`; no colons. */
  readonly id: string
  readonly data: JobData
}

export interface HintOptions {
  readonly delayMs?: number
}

export interface WorkOptions {
  /** How many of one queue a node does at once; 10 unless told. */
  readonly concurrency?: number
}

export interface JobCounts {
  readonly waiting: number
  readonly active: number
  readonly delayed: number
  readonly failed: number
}

/**
 * Spreads work over the nodes. The rows in Postgres are the truth, a job is a hint that one of them
 * wants work: what is lost is found by the sweeper of its rows, and what comes twice finds nothing
 * left to do.
 */
export interface Jobs {
  readonly kind: 'redis' | 'postgres'
  /**
   * Says that a row wants work. The same id is queued once at a time. Never rejects and never
   * waits; where the queue cannot be reached, this node does it itself if it has a worker for it.
   */
  hint(queue: string, id: string, data: JobData, options?: HintOptions): void
  hintMany(queue: string, hints: readonly Hint[], options?: HintOptions): void
  /**
   * One worker a queue and node. What throws is tried again with growing pauses, five times in all;
   * then the job is gone, and the row says what is left. The signal ends when the node stops.
   */
  work(queue: string, handle: Handler, options?: WorkOptions): void
  /** What waits in the queues this node has named; of a queue that does not answer, nothing. */
  counts(): Promise<Record<string, JobCounts>>
  /** The connections to Postgres that there are will never be answered: it works on with new ones. */
  renew(): void
  /** Takes no more, lets what runs end, and aborts it after ten seconds. */
  stop(): Promise<void>
}

export interface JobsParts {
  readonly clock: Clock
  /** Where Postgres is; its schema is ready (`migrateJobs`). */
  readonly target: Target
  /** Null where the plane has no Redis. */
  readonly redis: RedisAddress | null
  /** Keeps databases that share a Redis apart. */
  readonly prefix: string
  readonly log: (message: string, error: unknown) => void
}

/** A hint that has not been taken by then is done here, or left to the sweeper. */
const HINT_MS = SECOND
const COUNT_MS = SECOND
const CLOSE_MS = SECOND
/** Tries to connect come at least once in two seconds. */
const AWAY_MS = 5 * SECOND

/** BullMQ on Redis where there is one, else on Postgres. */
export function startJobs(parts: JobsParts): Jobs {
  const { clock, log } = parts
  const backend = backendOf(parts, quietly(clock, log))
  const lines = workLines(backend, log)
  const queues = new Map<string, BackendQueue>()
  let stopped = false

  function queueOf(name: string): BackendQueue {
    const known = queues.get(name)
    if (known !== undefined) return known
    if (queues.size >= MOST_QUEUES) throw new Error(`more than ${MOST_QUEUES} queues`)
    const made = backend.queue(name)
    queues.set(name, made)
    return made
  }

  function hintMany(name: string, hints: readonly Hint[], { delayMs = 0 }: HintOptions = {}) {
    if (stopped || hints.length === 0) return
    const queue = queueOf(name)
    const added = queue.add(hints.map((hint) => ({ ...hint, delayMs })))
    void within(added, HINT_MS).then((taken) => {
      if (taken || stopped) return
      // Postgres is away, and the rows with it. Its first connection may have failed, and that a
      // queue never forgets: the next hint takes a new one.
      if (backend.kind === 'postgres') void forget(name, queue)
      else for (const { id, data } of hints) lines.doHere(name, id, data, delayMs)
    })
  }

  function forget(name: string, queue: BackendQueue): Promise<boolean> {
    if (queues.get(name) === queue) queues.delete(name)
    return within(queue.close(), CLOSE_MS)
  }

  return {
    kind: backend.kind,
    hint: (queue, id, data, options) => hintMany(queue, [{ id, data }], options),
    hintMany,
    work(name, handle, options) {
      queueOf(name)
      lines.open(name, handle, options?.concurrency)
    },
    async counts() {
      const counted: Record<string, JobCounts> = {}
      const count = async (name: string, queue: BackendQueue) => {
        const { waiting = 0, active = 0, delayed = 0, failed = 0 } = await queue.counts()
        counted[name] = { waiting, active, delayed, failed }
      }
      await Promise.all([...queues].map(([name, queue]) => within(count(name, queue), COUNT_MS)))
      return { ...counted }
    },
    renew: () => backend.renew(),
    async stop() {
      if (stopped) return
      stopped = true
      await lines.stop()
      await within(Promise.allSettled([...queues.values()].map((queue) => queue.close())), CLOSE_MS)
      await within(backend.close(), CLOSE_MS)
    },
  }
}

function backendOf(
  { redis, target, prefix }: JobsParts,
  failed: (error: unknown) => void,
): Backend {
  return redis === null ? postgresBackend(target, failed) : redisBackend(redis, prefix, failed)
}

/**
 * A queue that is away says so with every try: once a minute is enough. That a line is not there is
 * told only when it stays away: at a busy start the first try may come too late for its answer.
 */
function quietly(clock: Clock, log: JobsParts['log']): (error: unknown) => void {
  let next = -Infinity
  let [awaySince, lastAway] = [-Infinity, -Infinity]

  function isAwayForLong(now: number): boolean {
    if (now - lastAway > AWAY_MS) awaySince = now
    lastAway = now
    return now - awaySince >= AWAY_MS
  }

  return (error) => {
    const now = clock.mono()
    if ((isOfTheLine(error) && !isAwayForLong(now)) || now < next) return
    next = now + MINUTE
    log('the queue of the jobs fails', error)
  }
}

/** What the operating system says of a connection, and not the server behind it. */
const isOfTheLine = (error: unknown): boolean =>
  /^E[A-Z]+/.test((error as NodeJS.ErrnoException | null)?.code ?? '')

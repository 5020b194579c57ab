import { MINUTE, SECOND, type Clock } from '../../core/clock.ts'
import type { DatabaseAddress } from '../../persistence/postgres/connection-pool.ts'
import type { RedisAddress } from '../../persistence/redis/redis-address.ts'
import { succeedsWithin } from '../../persistence/query-timeout.ts'
import {
  MAX_QUEUES,
  createPostgresQueueBackend,
  createRedisQueueBackend,
  type QueueBackend,
  type BackendQueue,
} from './bullmq-backends.ts'
import { createQueueWorkers, type JobHandler, type JobData } from './queue-workers.ts'

export interface JobHint {
  /** Names the work: a word and what it is about, as `schedule-<id>-<slot>`; no colons. */
  readonly id: string
  readonly data: JobData
}

export interface JobHintOptions {
  readonly delayMs?: number
}

export interface JobWorkerOptions {
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
export interface JobQueues {
  readonly kind: 'redis' | 'postgres'
  /**
   * Says that a row wants work. The same id is queued once at a time. Never rejects and never
   * waits; where the queue cannot be reached, this node does it itself if it has a worker for it.
   */
  hint(queue: string, id: string, data: JobData, options?: JobHintOptions): void
  hintMany(queue: string, hints: readonly JobHint[], options?: JobHintOptions): void
  /**
   * One worker a queue and node. What throws is tried again with growing pauses, five times in all;
   * then the job is gone, and the row says what is left. The signal ends when the node stops.
   */
  work(queue: string, handle: JobHandler, options?: JobWorkerOptions): void
  /** What waits in the queues this node has named; of a queue that does not answer, nothing. */
  counts(): Promise<Record<string, JobCounts>>
  /** The connections to Postgres that there are will never be answered: it works on with new ones. */
  renew(): void
  /** Takes no more, lets what runs end, and aborts it after ten seconds. */
  stop(): Promise<void>
}

export interface JobQueuesDeps {
  readonly clock: Clock
  /** Where Postgres is; its schema is ready (`migrateBullmqSchema`). */
  readonly target: DatabaseAddress
  /** Null where the plane has no Redis. */
  readonly redis: RedisAddress | null
  /** Keeps databases that share a Redis apart. */
  readonly prefix: string
  readonly log: (message: string, error: unknown) => void
}

/** A hint that has not been taken by then is done here, or left to the sweeper. */
const ENQUEUE_TIMEOUT_MS = SECOND
const COUNT_TIMEOUT_MS = SECOND
const CLOSE_TIMEOUT_MS = SECOND
/** Tries to connect come at least once in two seconds. */
const OUTAGE_LOG_DELAY_MS = 5 * SECOND

/** BullMQ on Redis where there is one, else on Postgres. */
export function startJobQueues(parts: JobQueuesDeps): JobQueues {
  const { clock, log } = parts
  const backend = createQueueBackend(parts, createThrottledErrorLog(clock, log))
  const lines = createQueueWorkers(backend, log)
  const queues = new Map<string, BackendQueue>()
  let stopped = false

  function queueOf(name: string): BackendQueue {
    const known = queues.get(name)
    if (known !== undefined) return known
    if (queues.size >= MAX_QUEUES) throw new Error(`more than ${MAX_QUEUES} queues`)
    const made = backend.queue(name)
    queues.set(name, made)
    return made
  }

  function hintMany(name: string, hints: readonly JobHint[], { delayMs = 0 }: JobHintOptions = {}) {
    if (stopped || hints.length === 0) return
    const queue = queueOf(name)
    const added = queue.add(hints.map((hint) => ({ ...hint, delayMs })))
    void succeedsWithin(added, ENQUEUE_TIMEOUT_MS).then((taken) => {
      if (taken || stopped) return
      // Postgres is away, and the rows with it. Its first connection may have failed, and that a
      // queue never forgets: the next hint takes a new one.
      if (backend.kind === 'postgres') void forget(name, queue)
      else for (const { id, data } of hints) lines.doHere(name, id, data, delayMs)
    })
  }

  function forget(name: string, queue: BackendQueue): Promise<boolean> {
    if (queues.get(name) === queue) queues.delete(name)
    return succeedsWithin(queue.close(), CLOSE_TIMEOUT_MS)
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
      await Promise.all(
        [...queues].map(([name, queue]) => succeedsWithin(count(name, queue), COUNT_TIMEOUT_MS)),
      )
      return { ...counted }
    },
    renew: () => backend.renew(),
    async stop() {
      if (stopped) return
      stopped = true
      await lines.stop()
      await succeedsWithin(
        Promise.allSettled([...queues.values()].map((queue) => queue.close())),
        CLOSE_TIMEOUT_MS,
      )
      await succeedsWithin(backend.close(), CLOSE_TIMEOUT_MS)
    },
  }
}

function createQueueBackend(
  { redis, target, prefix }: JobQueuesDeps,
  failed: (error: unknown) => void,
): QueueBackend {
  return redis === null
    ? createPostgresQueueBackend(target, failed)
    : createRedisQueueBackend(redis, prefix, failed)
}

/**
 * A queue that is away says so with every try: once a minute is enough. That a line is not there is
 * told only when it stays away: at a busy start the first try may come too late for its answer.
 */
function createThrottledErrorLog(
  clock: Clock,
  log: JobQueuesDeps['log'],
): (error: unknown) => void {
  let next = -Infinity
  let [awaySince, lastAway] = [-Infinity, -Infinity]

  function isAwayForLong(now: number): boolean {
    if (now - lastAway > OUTAGE_LOG_DELAY_MS) awaySince = now
    lastAway = now
    return now - awaySince >= OUTAGE_LOG_DELAY_MS
  }

  return (error) => {
    const now = clock.mono()
    if ((isSocketError(error) && !isAwayForLong(now)) || now < next) return
    next = now + MINUTE
    log('the queue of the jobs fails', error)
  }
}

/** What the operating system says of a connection, and not the server behind it. */
const isSocketError = (error: unknown): boolean =>
  /^E[A-Z]+/.test((error as NodeJS.ErrnoException | null)?.code ?? '')

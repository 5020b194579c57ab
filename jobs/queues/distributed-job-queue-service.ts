import { MINUTE, SECOND, type Clock } from '../../core/clock.ts'
import type { DatabaseAddress } from '../../persistence/postgres/database-address.ts'
import type { RedisAddress } from '../../persistence/redis/redis-address.ts'
import { succeedsWithin } from '../../persistence/query-timeout.ts'
import {
  MAX_JOB_QUEUES_PER_NODE,
  createPostgresQueueBackend,
  createRedisQueueBackend,
  type BullmqQueueBackend,
  type BullmqBackendQueue,
} from './bullmq-backends.ts'
import { createQueueWorkers, type JobHandler, type JobPayload } from './queue-workers.ts'

/** Distributes jobs over nodes. */

export interface DueWorkJobHint {
  /** Names the work, as `schedule-<id>-<slot>`. Must not contain colons. */
  readonly id: string
  readonly data: JobPayload
}

export interface JobHintOptions {
  readonly delayMs?: number
}

export interface JobWorkerOptions {
  /** Concurrent jobs of a queue on one node. Default 10. */
  readonly concurrency?: number
}

export interface JobCounts {
  readonly waiting: number
  readonly active: number
  readonly delayed: number
  readonly failed: number
}

/**
 * Distributes work over nodes. Rows in Postgres define the work; a job is only a hint that a row is
 * due. A sweeper finds lost hints, and a repeated hint finds nothing to do.
 */
export interface JobQueues {
  readonly kind: 'redis' | 'postgres'
  /**
   * Queues a hint; the same id is queued once at a time. Never rejects or blocks. If the queue is
   * unreachable, this node runs the job if it has a worker.
   */
  hint(queue: string, id: string, data: JobPayload, options?: JobHintOptions): void
  hintMany(queue: string, hints: readonly DueWorkJobHint[], options?: JobHintOptions): void
  /**
   * Starts the only worker of a queue on this node. Failed jobs are retried with backoff, five
   * attempts in all. The signal aborts at shutdown.
   */
  work(queue: string, handle: JobHandler, options?: JobWorkerOptions): void
  /** Job counts of this node's queues, without queues that do not respond. */
  counts(): Promise<Record<string, JobCounts>>
  /** Drops all Postgres connections, because they hang, and continues with new ones. */
  renew(): void
  /** Stops taking jobs, waits ten seconds for running ones, then aborts them. */
  stop(): Promise<void>
}

export interface JobQueuesDeps {
  readonly clock: Clock
  /** The Postgres database with a migrated schema (`migrateBullmqSchema`). */
  readonly target: DatabaseAddress
  /** Null without Redis. */
  readonly redis: RedisAddress | null
  /** Separates databases that share a Redis. */
  readonly prefix: string
  readonly log: (message: string, error: unknown) => void
}

/** A hint not accepted in this time is run here or left to the sweeper. */
const ENQUEUE_TIMEOUT_MS = SECOND
const COUNT_TIMEOUT_MS = SECOND
const CLOSE_TIMEOUT_MS = SECOND
/** Longer than the two seconds between connection attempts. */
const OUTAGE_LOG_DELAY_MS = 5 * SECOND

/** Starts queues with BullMQ on Redis if configured, else on Postgres. */
export function startJobQueues(parts: JobQueuesDeps): JobQueues {
  const { clock, log } = parts
  const backend = createQueueBackend(parts, createThrottledErrorLog(clock, log))
  const queueWorkers = createQueueWorkers(backend, log)
  const queues = new Map<string, BullmqBackendQueue>()
  let stopped = false

  function queueOf(name: string): BullmqBackendQueue {
    const known = queues.get(name)
    if (known !== undefined) return known
    if (queues.size >= MAX_JOB_QUEUES_PER_NODE)
      throw new Error(`more than ${MAX_JOB_QUEUES_PER_NODE} queues`)
    const made = backend.queue(name)
    queues.set(name, made)
    return made
  }

  function hintMany(
    name: string,
    hints: readonly DueWorkJobHint[],
    { delayMs = 0 }: JobHintOptions = {},
  ) {
    if (stopped || hints.length === 0) return
    const queue = queueOf(name)
    const added = queue.add(hints.map((hint) => ({ ...hint, delayMs })))
    void succeedsWithin(added, ENQUEUE_TIMEOUT_MS).then((taken) => {
      if (taken || stopped) return
      // Without Postgres there are no rows. A queue never recovers from a failed first connection,
      // so the next hint creates a new queue.
      if (backend.kind === 'postgres') void forget(name, queue)
      else for (const { id, data } of hints) queueWorkers.doHere(name, id, data, delayMs)
    })
  }

  function forget(name: string, queue: BullmqBackendQueue): Promise<boolean> {
    if (queues.get(name) === queue) queues.delete(name)
    return succeedsWithin(queue.close(), CLOSE_TIMEOUT_MS)
  }

  return {
    kind: backend.kind,
    hint: (queue, id, data, options) => hintMany(queue, [{ id, data }], options),
    hintMany,
    work(name, handle, options) {
      queueOf(name)
      queueWorkers.open(name, handle, options?.concurrency)
    },
    async counts() {
      const counted: Record<string, JobCounts> = {}
      const count = async (name: string, queue: BullmqBackendQueue) => {
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
      await queueWorkers.stop()
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
): BullmqQueueBackend {
  return redis === null
    ? createPostgresQueueBackend(target, failed)
    : createRedisQueueBackend(redis, prefix, failed)
}

/**
 * Logs errors at most once per minute, connection errors only during a longer outage: at a busy
 * start the first attempt may time out.
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

/** Whether the operating system reports the error, or ioredis a silence, and not the server. */
const isSocketError = (error: unknown): boolean => {
  const { code = '', message = '' } = (error ?? {}) as Partial<NodeJS.ErrnoException>
  return /^E[A-Z]+/.test(code) || /^Socket timeout|^connect ETIMEDOUT/.test(message)
}

import { createPostgresBackend, Queue, Worker, type JobsOptions } from 'bullmq'
import { SECOND } from '../core/clock.ts'
import { hintingRedis, jobsPool, workingRedis } from '../persistence/jobs-backend.ts'
import type { Target } from '../persistence/postgres/connect.ts'
import type { RedisAddress } from '../persistence/redis-address.ts'

type Data = Record<string, unknown>

export interface Wanted {
  readonly id: string
  readonly data: Data
  readonly delayMs: number
}

/** The few things of BullMQ that the jobs use, alike on both of its backends. */
export interface Backend {
  readonly kind: 'redis' | 'postgres'
  queue(name: string): BackendQueue
  worker(name: string, handle: (data: Data) => Promise<void>, concurrency: number): BackendWorker
  /** Gives up the connections to Postgres that there are: they will never be answered. */
  renew(): void
  close(): Promise<void>
}

export interface BackendQueue {
  add(wanted: readonly Wanted[]): Promise<unknown>
  counts(): Promise<Record<string, number>>
  close(): Promise<void>
}

export interface BackendWorker {
  ready(): Promise<unknown>
  /** Takes no more and waits for what runs. */
  close(): Promise<void>
}

type Failed = (error: unknown) => void

/** A kept job would block its id for the sweeper's next hint. */
const JOB: JobsOptions = {
  attempts: 5,
  backoff: { type: 'exponential', delay: SECOND },
  removeOnComplete: true,
  removeOnFail: true,
}

/** The same on all nodes: the first worker of a queue sets the pace of the check for all others. */
const PACE = {
  lockDuration: 10 * SECOND,
  stalledInterval: 2 * SECOND,
  maxStalledCount: 5,
  runRetryDelay: SECOND,
}

const COUNTED = ['waiting', 'active', 'delayed', 'failed'] as const

/** The queues this node names and the workers among them are at most so many. */
export const MOST_QUEUES = 8
const CONNECTIONS_BESIDE = 4

/** BullMQ on Postgres, over a pool of its own: each worker listens on one connection for good. */
export function postgresBackend(target: Target, failed: Failed): Backend {
  const connection = jobsPool(target, MOST_QUEUES + CONNECTIONS_BESIDE)
  return {
    kind: 'postgres',
    queue: (name) => queueOf(new Queue(name, { connection }, createPostgresBackend), failed),
    worker(name, handle, concurrency) {
      const options = { connection, concurrency, ...PACE }
      const work = (job: { data: unknown }) => handle(job.data as Data)
      const worker = new Worker(name, work, options, createPostgresBackend)
      return workerOf(worker, failed, () => true)
    },
    renew: () => connection.renew(),
    close: () => connection.end(),
  }
}

/** BullMQ on Redis: one connection for hints, one for the workers, and one for each to wait on. */
export function redisBackend(address: RedisAddress, prefix: string, failed: Failed): Backend {
  const [hinting, working] = [hintingRedis(address), workingRedis(address)]
  return {
    kind: 'redis',
    queue: (name) => queueOf(new Queue(name, { connection: hinting, prefix }), failed),
    worker(name, handle, concurrency) {
      const options = { connection: working.redis, prefix, concurrency, ...PACE }
      const worker = new Worker(name, (job) => handle(job.data as Data), options)
      return workerOf(worker, failed, () => working.redis.status === 'ready')
    },
    renew() {}, // it has none
    async close() {
      hinting.disconnect()
      working.disconnect()
    },
  }
}

interface AnyQueue {
  on(event: 'error', heard: Failed): unknown
  addBulk(jobs: { name: string; data: Data; opts: JobsOptions }[]): Promise<unknown>
  getJobCounts(...types: string[]): Promise<Record<string, number>>
  close(): Promise<void>
}

function queueOf(queue: AnyQueue, failed: Failed): BackendQueue {
  queue.on('error', failed) // without a listener the process would end
  return {
    add: (wanted) =>
      queue.addBulk(
        wanted.map(({ id, data, delayMs }) => ({
          name: 'hint',
          data,
          opts: { ...JOB, jobId: id, delay: delayMs },
        })),
      ),
    counts: () => queue.getJobCounts(...COUNTED),
    close: () => queue.close(),
  }
}

interface AnyWorker {
  on(event: 'error', heard: Failed): unknown
  waitUntilReady(): Promise<unknown>
  close(force: boolean): Promise<void>
}

function workerOf(worker: AnyWorker, failed: Failed, answers: () => boolean): BackendWorker {
  worker.on('error', failed)
  return {
    ready: () => worker.waitUntilReady(),
    // BullMQ waits for good for the end of a connection that is away.
    close: () => worker.close(!answers()),
  }
}

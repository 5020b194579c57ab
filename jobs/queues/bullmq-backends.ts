import { createPostgresBackend, Queue, Worker, type JobsOptions } from 'bullmq'
import { SECOND } from '../../core/clock.ts'
import {
  connectBullmqProducerRedis,
  createBullmqPostgresPool,
  connectBullmqWorkerRedis,
} from '../../persistence/bullmq-connections.ts'
import type { DatabaseAddress } from '../../persistence/postgres/database-address.ts'
import type { RedisAddress } from '../../persistence/redis/redis-address.ts'

/** BullMQ on Redis or Postgres, behind one interface. */

type QueuedJobData = Record<string, unknown>

export interface QueuedJobRequest {
  readonly id: string
  readonly data: QueuedJobData
  readonly delayMs: number
}

/** The parts of BullMQ that jobs use, equal on both backends. */
export interface BullmqQueueBackend {
  readonly kind: 'redis' | 'postgres'
  queue(name: string): BullmqBackendQueue
  worker(
    name: string,
    handle: (data: QueuedJobData) => Promise<void>,
    concurrency: number,
  ): BullmqBackendWorker
  /** Drops all Postgres connections, because they hang. */
  renew(): void
  close(): Promise<void>
}

export interface BullmqBackendQueue {
  add(wanted: readonly QueuedJobRequest[]): Promise<unknown>
  counts(): Promise<Record<string, number>>
  close(): Promise<void>
}

export interface BullmqBackendWorker {
  ready(): Promise<unknown>
  /** Takes no more jobs and waits for running ones. */
  close(): Promise<void>
}

type QueueErrorHandler = (error: unknown) => void

/** A stored job would block its id for later hints. */
const DEFAULT_JOB_OPTIONS: JobsOptions = {
  attempts: 5,
  backoff: { type: 'exponential', delay: SECOND },
  removeOnComplete: true,
  removeOnFail: true,
}

/**
 * Equal on all nodes: the first worker of a queue sets the check interval for all. The job of a killed node is
 * taken over within the sum of both.
 */
const WORKER_TIMING = {
  lockDuration: 8 * SECOND,
  stalledInterval: 4 * SECOND,
  maxStalledCount: 5,
  runRetryDelay: SECOND,
}

/** Seconds between polls while Postgres sends no notification. */
const IDLE_POLL_SECONDS = 30

const COUNTED_JOB_STATES = ['waiting', 'active', 'delayed', 'failed'] as const

/** Maximum queues per node, and workers among them. */
export const MAX_JOB_QUEUES_PER_NODE = 8
const EXTRA_CONNECTIONS = 4

/** BullMQ on Postgres, with its own pool: each worker keeps one connection for LISTEN. */
export function createPostgresQueueBackend(
  target: DatabaseAddress,
  failed: QueueErrorHandler,
): BullmqQueueBackend {
  const connection = createBullmqPostgresPool(target, MAX_JOB_QUEUES_PER_NODE + EXTRA_CONNECTIONS)
  return {
    kind: 'postgres',
    queue: (name) =>
      wrapBullmqQueue(new Queue(name, { connection }, createPostgresBackend), failed),
    worker(name, handle, concurrency) {
      const options = { connection, concurrency, drainDelay: IDLE_POLL_SECONDS, ...WORKER_TIMING }
      const work = (job: { data: unknown }) => handle(job.data as QueuedJobData)
      const worker = new Worker(name, work, options, createPostgresBackend)
      return wrapBullmqWorker(worker, failed, () => true)
    },
    renew: () => connection.renew(),
    close: () => connection.end(),
  }
}

/** BullMQ on Redis: one connection for hints, one for workers, and a blocking one per worker. */
export function createRedisQueueBackend(
  address: RedisAddress,
  prefix: string,
  failed: QueueErrorHandler,
): BullmqQueueBackend {
  const [hinting, working] = [
    connectBullmqProducerRedis(address),
    connectBullmqWorkerRedis(address),
  ]
  return {
    kind: 'redis',
    queue: (name) => wrapBullmqQueue(new Queue(name, { connection: hinting, prefix }), failed),
    worker(name, handle, concurrency) {
      const options = { connection: working.redis, prefix, concurrency, ...WORKER_TIMING }
      const worker = new Worker(name, (job) => handle(job.data as QueuedJobData), options)
      return wrapBullmqWorker(worker, failed, () => working.redis.status === 'ready')
    },
    renew() {}, // no Postgres connections
    async close() {
      hinting.disconnect()
      working.disconnect()
    },
  }
}

interface BullmqQueue {
  on(event: 'error', heard: QueueErrorHandler): unknown
  addBulk(jobs: { name: string; data: QueuedJobData; opts: JobsOptions }[]): Promise<unknown>
  getJobCounts(...types: string[]): Promise<Record<string, number>>
  close(): Promise<void>
}

function wrapBullmqQueue(queue: BullmqQueue, failed: QueueErrorHandler): BullmqBackendQueue {
  queue.on('error', failed) // an unhandled `error` event would end the process
  return {
    add: (wanted) =>
      queue.addBulk(
        wanted.map(({ id, data, delayMs }) => ({
          name: 'hint',
          data,
          opts: { ...DEFAULT_JOB_OPTIONS, jobId: id, delay: delayMs },
        })),
      ),
    counts: () => queue.getJobCounts(...COUNTED_JOB_STATES),
    close: () => queue.close(),
  }
}

interface BullmqWorker {
  on(event: 'error', heard: QueueErrorHandler): unknown
  waitUntilReady(): Promise<unknown>
  close(force: boolean): Promise<void>
}

function wrapBullmqWorker(
  worker: BullmqWorker,
  failed: QueueErrorHandler,
  answers: () => boolean,
): BullmqBackendWorker {
  worker.on('error', failed)
  return {
    ready: () => worker.waitUntilReady(),
    // Without force, BullMQ waits forever for a lost connection.
    close: () => worker.close(!answers()),
  }
}

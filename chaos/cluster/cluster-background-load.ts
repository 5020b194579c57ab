import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { createDatabaseAdjustedClock } from '../../core/clock.ts'
import { startJobQueues } from '../../jobs/queues/distributed-job-queue-service.ts'
import { parseDatabaseUrl } from '../../persistence/postgres/database-url.ts'
import { parseRedisUrl } from '../../persistence/redis/redis-address.ts'
import type { Sql } from '../../persistence/postgres/postgres-connection-pool.ts'
import {
  apiKeyHeader,
  expectSuccessReply,
  onboardAgents,
  CHAOS_PAID_TOOL_REQUEST_BODY,
  type AgentIdAndApiKey,
} from '../station-http-client.ts'
import type { ClusterEnvironment } from './start-three-station-cluster.ts'
import { CLUSTER_PROOF_SIGNAL_CHANNEL } from './cluster-client-load.ts'
import { openSignalReader, type SignalStreamReader } from '../chaos-proof-signal-sse-reader.ts'

/** Load through all rounds: schedules, webhooks and stream readers. */
export interface BackgroundLoad {
  readonly readers: readonly SignalStreamReader[]
  readonly schedules: number
  /** Makes the next slot of every schedule due. */
  makeSlotsDue(): Promise<void>
  /** Waits until every due slot has ended; returns the number of those that have not. */
  waitForSlots(): Promise<number>
  close(): Promise<void>
}

const BACKGROUND_AGENTS = 4
const SCHEDULES_PER_AGENT = 5
const SLOTS_TIMEOUT_MS = 60_000
const SWEEP_MS = 250

export async function startBackgroundLoad(ground: ClusterEnvironment): Promise<BackgroundLoad> {
  const { client, nginx, receiver, sql } = ground
  const agents = await onboardAgents(client, BACKGROUND_AGENTS)
  const post = (agent: AgentIdAndApiKey, path: string, body: object) =>
    expectSuccessReply(client.send('POST', path, apiKeyHeader(agent), body))
  const { tool, ...params } = CHAOS_PAID_TOOL_REQUEST_BODY
  for (const agent of agents) {
    await post(agent, '/api/webhook/register', { url: receiver.url, events: ['all'] })
    for (let made = 0; made < SCHEDULES_PER_AGENT; made++)
      await post(agent, '/api/task/schedule', { interval: '5m', tool, params })
  }
  const readers = await Promise.all(
    agents.map((agent) => openSignalReader(nginx.url, agent, CLUSTER_PROOF_SIGNAL_CHANNEL)),
  )
  const hints = await connectJobQueue(ground)

  async function sweep(): Promise<number> {
    const due = await listDueSlots(sql)
    hints.hintMany(
      'schedules',
      due.map((one) => ({ id: `schedule-${one.scheduleId}-${one.slot}`, data: { ...one } })),
    )
    return due.length
  }
  return {
    readers,
    schedules: BACKGROUND_AGENTS * SCHEDULES_PER_AGENT,
    async makeSlotsDue() {
      await sql`update timers set due_at = clock_timestamp() where command = 'schedule.run'`
      await sweep()
    },
    async waitForSlots() {
      const until = performance.now() + SLOTS_TIMEOUT_MS
      let left = await sweep()
      while (left > 0 && performance.now() < until) {
        await sleep(SWEEP_MS)
        left = await sweep()
      }
      return left
    },
    async close() {
      await hints.stop()
      for (const reader of readers) await reader.close()
    },
  }
}

/** Enqueues the work that the stations' own sweep would find within 30 seconds. */
async function connectJobQueue({ databaseUrl, redis }: ClusterEnvironment) {
  const client = new Redis(redis.url)
  const [key = ''] = await client.keys('gas:*jobs:schedules:*')
  client.disconnect()
  const [prefix = ''] = key.split(':schedules:')
  const target = parseDatabaseUrl(databaseUrl)
  return startJobQueues({
    target,
    redis: parseRedisUrl(redis.url),
    prefix,
    clock: createDatabaseAdjustedClock(),
    log: () => {},
  })
}

const listDueSlots = (sql: Sql) =>
  sql<{ agentId: string; scheduleId: string; slot: number }[]>`
    select aggregate_id as "agentId", input->>'scheduleId' as "scheduleId",
           (input->>'slot')::float8 as slot
      from timers where command = 'schedule.run' and due_at <= clock_timestamp()`

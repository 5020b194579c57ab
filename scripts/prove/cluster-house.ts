import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { systemClock } from '../../core/clock.ts'
import { startJobs } from '../../jobs/jobs.ts'
import { targetOf } from '../../persistence/postgres/connect.ts'
import type { Sql } from '../../persistence/postgres/connect.ts'
import { as, must, onboard, PAID, type Agent } from './agents.ts'
import type { Ground } from './cluster-ground.ts'
import { CHANNEL } from './cluster-load.ts'
import { readSignals, type SignalReader } from './signal-reader.ts'

/** What goes on through all rounds: schedules that run, webhooks that wait, readers that listen. */
export interface House {
  readonly readers: readonly SignalReader[]
  readonly schedules: number
  /** Makes the next slot of every schedule due. */
  passTime(): Promise<void>
  /** Waits until every slot that is due has ended; how many have not. */
  slotsEnded(): Promise<number>
  close(): Promise<void>
}

const AGENTS = 4
const EACH = 5
const PATIENCE_MS = 60_000
const SWEEP_MS = 250

export async function openHouse(ground: Ground): Promise<House> {
  const { client, nginx, receiver, sql } = ground
  const agents = await onboard(client, AGENTS)
  const post = (agent: Agent, path: string, body: object) =>
    must(client.send('POST', path, as(agent), body))
  const { tool, ...params } = PAID
  for (const agent of agents) {
    await post(agent, '/api/webhook/register', { url: receiver.url, events: ['all'] })
    for (let made = 0; made < EACH; made++)
      await post(agent, '/api/task/schedule', { interval: '5m', tool, params })
  }
  const readers = await Promise.all(agents.map((agent) => readSignals(nginx.url, agent, CHANNEL)))
  const hints = await hintsFor(ground)

  async function sweep(): Promise<number> {
    const due = await dueSlots(sql)
    hints.hintMany(
      'schedules',
      due.map((one) => ({ id: `schedule-${one.scheduleId}-${one.slot}`, data: { ...one } })),
    )
    return due.length
  }
  return {
    readers,
    schedules: AGENTS * EACH,
    async passTime() {
      await sql`update timers set due_at = clock_timestamp() where command = 'schedule.run'`
      await sweep()
    },
    async slotsEnded() {
      const until = performance.now() + PATIENCE_MS
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

/** Says to the queue of the stations what their own sweep would find within 30 seconds. */
async function hintsFor({ databaseUrl, redis }: Ground) {
  const client = new Redis(redis.url)
  const [key = ''] = await client.keys('gas:*jobs:schedules:*')
  client.disconnect()
  const [prefix = ''] = key.split(':schedules:')
  const target = targetOf(databaseUrl)
  return startJobs({
    target,
    redis: { url: redis.url },
    prefix,
    clock: systemClock(),
    log: () => {},
  })
}

const dueSlots = (sql: Sql) =>
  sql<{ agentId: string; scheduleId: string; slot: number }[]>`
    select aggregate_id as "agentId", input->>'scheduleId' as "scheduleId",
           (input->>'slot')::float8 as slot
      from timers where command = 'schedule.run' and due_at <= clock_timestamp()`

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import {
  spawnProcessEndingWithParent,
  type ProcessEndingWithParent,
} from '../persistence/postgres/spawn-process-ending-with-parent.ts'
import { isPortListening, findInstalledProgram } from './nginx-process.ts'

/** Starts a Redis or Valkey server for a proof. */

const READY_MS = 10_000
const POLL_MS = 10

/** A Redis server shared by stations; it ends with this process. */
export interface RedisServerProcess {
  readonly url: string
  /** Kills it with SIGKILL. */
  kill(): Promise<void>
  /** Restarts it with its persisted data. */
  start(): Promise<void>
  /** Deletes all data. */
  flush(): Promise<void>
  stop(): Promise<void>
}

/** Path of an installed Redis or Valkey server; null when there is none. */
export const findRedisProgram = (): string | null =>
  findInstalledProgram('redis-server') ?? findInstalledProgram('valkey-server')

/** Uses the settings of docker-compose.yml. */
export async function startRedisServer(dir: string, port: number): Promise<RedisServerProcess> {
  const program = findRedisProgram()
  if (program === null) throw new Error('no redis-server is installed')
  mkdirSync(dir, { recursive: true })
  const address = ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir]
  const kept = ['--appendonly', 'yes', '--maxmemory-policy', 'noeviction']
  const args = [...address, ...kept, '--daemonize', 'no', '--loglevel', 'warning']
  let running: ProcessEndingWithParent | null = null

  async function start(): Promise<void> {
    const watched = spawnProcessEndingWithParent(program as string, args, {
      identity: null,
      logFile: join(dir, 'redis.log'),
    })
    running = watched
    const until = performance.now() + READY_MS
    while (!(await isPortListening(port))) {
      if (performance.now() > until) throw new Error(`redis does not start, see ${dir}/redis.log`)
      await sleep(POLL_MS)
    }
  }

  await start()
  return {
    url: `redis://127.0.0.1:${port}`,
    start,
    async kill() {
      if (running === null) return
      process.kill(await running.pid, 'SIGKILL')
      await running.exited
    },
    async flush() {
      const client = new Redis(port, '127.0.0.1', { maxRetriesPerRequest: 1 })
      await client.flushall()
      client.disconnect()
    },
    stop: async () => running?.stop(),
  }
}

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { Redis } from 'ioredis'
import type { TeardownScope } from '../upstreams/fixture-server.ts'

/** A Redis server behind a proxy that can delay, block and kill it. */

const START_TIMEOUT_MS = 20_000

/** Path of the installed server, if any. */
export const redisServerPath = (process.env['PATH'] ?? '')
  .split(delimiter)
  .map((dir) => join(dir, 'redis-server'))
  .find((file) => existsSync(file))

/** Starts Redis without persistence behind a proxy. */
export async function startRedisBehindProxy(t: TeardownScope) {
  const dir = mkdtempSync(join(tmpdir(), 'gas-station-redis-front-'))
  const path = join(dir, 'r.sock')
  const pairs = new Set<Socket>()
  const dead = new Set<Socket>()
  let lateMs = 0
  let mood: 'open' | 'cut' | 'silent' = 'open'
  let child: ChildProcess = start()

  function start(): ChildProcess {
    rmSync(path, { force: true })
    const args = ['--port', '0', '--unixsocket', path, '--save', '', '--appendonly', 'no']
    return spawn(redisServerPath ?? '', args, { cwd: dir, stdio: 'ignore' })
  }
  async function ready(): Promise<Redis> {
    const end = performance.now() + START_TIMEOUT_MS
    while (!existsSync(path)) {
      if (performance.now() > end) throw new Error('Redis does not start')
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    return new Redis(path)
  }

  const server = createServer((near) => {
    near.on('error', () => {})
    if (mood === 'cut') return void near.destroy()
    const far = connect(path)
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      pairs.add(socket)
      socket.on('error', () => {})
      socket.on('data', (data) => {
        if (lateMs === 0) other.write(data)
        else setTimeout(() => other.write(data), lateMs)
      })
      socket.on('close', () => {
        pairs.delete(socket)
        dead.delete(socket)
        other.destroy()
      })
      if (mood === 'silent') socket.pause()
    }
  })
  await (await ready()).quit()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    for (const socket of pairs) socket.destroy()
    server.close()
    child.kill('SIGKILL')
    rmSync(dir, { recursive: true, force: true })
  })

  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** Delays every later request and reply. */
    delay(ms: number): void {
      lateMs = ms
    },
    connections: () => (pairs.size - dead.size) / 2,
    /** Silences the current connections; new ones work. */
    deaden(): void {
      for (const socket of pairs) dead.add(socket.pause())
    },
    /** Rejects connections, silences them, or passes everything on. */
    set(next: typeof mood): void {
      mood = next
      for (const socket of pairs) {
        if (dead.has(socket)) continue
        if (next === 'cut') socket.destroy()
        else if (next === 'silent') socket.pause()
        else socket.resume()
      }
    },
    async flush(): Promise<void> {
      const redis = await ready()
      await redis.flushall()
      await redis.quit()
    },
    /** Replaces the server with an empty one. */
    async kill(): Promise<void> {
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
      child = start()
      await (await ready()).quit()
    },
  }
}

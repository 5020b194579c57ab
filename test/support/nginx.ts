import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { programPath, startNginx, type Nginx } from '../../scripts/prove/nginx.ts'
import { freePort } from '../../scripts/prove/ports.ts'
import { redisProgram, startRedis, type RedisServer } from '../../scripts/prove/redis.ts'
import type { Teardown } from './upstreams/serve.ts'

/** Why tests of the balancer are left out; false where nothing is missing. */
export const lacksNginx: string | false =
  programPath('nginx') === null ? 'no nginx is installed' : false

/** nginx with the committed configuration in front of these stations; it goes with the test. */
export async function balancer(t: Teardown, urls: readonly string[]): Promise<Nginx> {
  const stations = urls.map((url) => Number(new URL(url).port))
  const dir = folder(t, 'nginx')
  const nginx = await startNginx({ dir, port: await freePort(), stations })
  t.teardown(nginx.stop)
  return nginx
}

/** A Redis server for several stations; null where none is installed. */
export async function sharedRedis(t: Teardown): Promise<RedisServer | null> {
  if (redisProgram() === null) return null
  const redis = await startRedis(folder(t, 'redis'), await freePort())
  t.teardown(redis.stop)
  return redis
}

function folder(t: Teardown, what: string): string {
  const dir = mkdtempSync(join(tmpdir(), `gas-station-${what}-`))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  findInstalledProgram,
  startNginxProcess,
  type NginxProcess,
} from '../../../chaos/nginx-process.ts'
import { findFreePort } from '../../../chaos/free-port.ts'
import {
  findRedisProgram,
  startRedisServer,
  type RedisServerProcess,
} from '../../../chaos/redis-server.ts'
import type { TeardownScope } from '../upstreams/fixture-server.ts'

/** Why tests of the balancer are left out; false where nothing is missing. */
export const nginxSkipReason: string | false =
  findInstalledProgram('nginx') === null ? 'no nginx is installed' : false

/** nginx with the committed configuration in front of these stations, for one test. */
export async function startTestNginxBalancer(
  t: TeardownScope,
  urls: readonly string[],
): Promise<NginxProcess> {
  const stations = urls.map((url) => Number(new URL(url).port))
  const dir = createTestFolder(t, 'nginx')
  const nginx = await startNginxProcess({ dir, port: await findFreePort(), stations })
  t.teardown(nginx.stop)
  return nginx
}

/** A Redis server for several stations; null where none is installed. */
export async function startSharedTestRedis(t: TeardownScope): Promise<RedisServerProcess | null> {
  if (findRedisProgram() === null) return null
  const redis = await startRedisServer(createTestFolder(t, 'redis'), await findFreePort())
  t.teardown(redis.stop)
  return redis
}

function createTestFolder(t: TeardownScope, what: string): string {
  const dir = mkdtempSync(join(tmpdir(), `gas-station-${what}-`))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

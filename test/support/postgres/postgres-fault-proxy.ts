import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseDatabaseUrl } from '../../../persistence/postgres/database-url.ts'
import { postgresSocketPath } from '../../../persistence/postgres/postmaster-pid-file.ts'
import type { TeardownScope } from '../upstreams/fixture-server.ts'

/**
 * A socket in front of the database that can be cut, and can stop answering: on all connections, or on
 * those there are while new ones work.
 */
export async function startPostgresFaultProxy(t: TeardownScope, databaseUrl: string) {
  const target = parseDatabaseUrl(databaseUrl)
  if (!('socketDir' in target)) throw new Error('the test cluster is behind a socket')
  const dir = mkdtempSync(join(tmpdir(), 'gas-station-cut-'))
  const pairs = new Set<Socket>()
  const dead = new Set<Socket>()
  let mood: 'open' | 'cut' | 'silent' = 'open'
  const server = createServer((near) => {
    near.on('error', () => {})
    if (mood === 'cut') return void near.destroy()
    const far = connect(postgresSocketPath(target.socketDir()))
    for (const socket of [near, far]) {
      pairs.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        pairs.delete(socket)
        dead.delete(socket)
        near.destroy()
        far.destroy()
      })
    }
    near.on('data', (data) => far.write(data))
    far.on('data', (data) => near.write(data))
    if (mood === 'silent') near.pause()
  })
  await new Promise<void>((listening) => server.listen(postgresSocketPath(dir), listening))
  t.teardown(() => {
    for (const socket of pairs) socket.destroy()
    server.close()
    rmSync(dir, { recursive: true, force: true })
  })
  return {
    databaseUrl: `socket://${dir}?db=${target.database}&user=${target.user}`,
    connections: () => (pairs.size - dead.size) / 2,
    /** Requests on open connections are never answered again. */
    kill() {
      for (const socket of pairs) dead.add(socket.pause())
    },
    set(next: typeof mood) {
      mood = next
      for (const socket of pairs) {
        if (dead.has(socket)) continue
        if (next === 'cut') socket.destroy()
        else if (next === 'silent') socket.pause()
        else socket.resume()
      }
    },
  }
}

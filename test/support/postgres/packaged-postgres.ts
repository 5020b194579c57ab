import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { chooseDatabaseOsUser } from '../../../persistence/postgres/database-os-user.ts'
import {
  acceptsPostgresConnections,
  postgresSocketPath,
} from '../../../persistence/postgres/postmaster-pid-file.ts'

/** PostgreSQL as a distribution packages it: unlike the embedded one it compiles statements (`jit`). */

const PACKAGES = '/usr/lib/postgresql'
const MIN_MAJOR_VERSION = 15
const START_POLL_MS = 50
/** Nothing that changes plans or locks: a cluster for tests may lose its data. */
const SETTINGS = [
  'listen_addresses=',
  'max_connections=300',
  'fsync=off',
  'synchronous_commit=off',
  'full_page_writes=off',
  'checkpoint_timeout=1h',
]

/** The folder with the programs of the newest installed server; null without one. */
export function findPackagedPostgres(): string | null {
  if (!existsSync(PACKAGES)) return null
  const newest = readdirSync(PACKAGES)
    .map(Number)
    .filter((major) => major >= MIN_MAJOR_VERSION)
    .sort((a, b) => b - a)
    .map((major) => join(PACKAGES, String(major), 'bin'))
    .find((bin) => existsSync(join(bin, 'postgres')))
  return newest ?? null
}

/** Starts a new cluster below `home`; throws if the server ends before it accepts connections. */
export async function startPackagedPostgres(
  bin: string,
  home: string,
): Promise<{ socketDir(): string; stop(): Promise<void> }> {
  const user = chooseDatabaseOsUser()
  const [data, socketDir] = [join(home, 'packaged'), join(home, 'socket')]
  for (const folder of [data, socketDir]) {
    mkdirSync(folder, { mode: 0o700 })
    if (user !== null) chownSync(folder, user.uid, user.gid)
  }
  const initdb = ['-D', data, '-U', 'gas', '--auth=trust', '--no-sync', '-E', 'UTF8']
  const as = { ...user, cwd: '/', stdio: ['ignore', 'ignore', 'inherit'] as const }
  execFileSync(join(bin, 'initdb'), [...initdb, '--locale=C.UTF-8'], {
    ...as,
    stdio: [...as.stdio],
  })
  const settings = SETTINGS.flatMap((setting) => ['-c', setting])
  const server = spawn(join(bin, 'postgres'), ['-D', data, '-k', socketDir, ...settings], {
    ...as,
    stdio: [...as.stdio],
  })
  const exited = once(server, 'exit')
  while (!(await acceptsPostgresConnections(postgresSocketPath(socketDir)))) {
    if (server.exitCode !== null) throw new Error(`${bin}/postgres ended with ${server.exitCode}`)
    await sleep(START_POLL_MS)
  }
  return {
    socketDir: () => socketDir,
    async stop() {
      server.kill('SIGINT')
      await exited
    },
  }
}

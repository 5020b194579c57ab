import { createHash } from 'node:crypto'
import { accessSync, constants, lstatSync, mkdirSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeFolder } from '../make-folder.ts'
import { acceptsPostgresConnections } from '../postgres/postmaster-pid-file.ts'
import { withMachineWideStartupLock } from '../postgres/same-host-process-startup-lock.ts'
import {
  removeDirectoryIfEmpty,
  spawnProcessEndingWithParent,
} from '../postgres/spawn-process-ending-with-parent.ts'
import type { ProcessEndingWithParent } from '../postgres/spawn-process-ending-with-parent.ts'

/** A Redis child process on a unix socket, kept running until `stop`. */
export interface RedisChildProcess {
  readonly path: string
  stop(): Promise<void>
}

export interface RedisChildProcessOptions {
  readonly dataDir: string
  readonly searchPath: string
  readonly log: (line: string, level?: 'info' | 'warn') => void
}

const REDIS_READY_POLL_MS = 10
const FOLLOW_POLL_MS = 500
const RESTART_DELAY_MS = 200

/**
 * Null if no server is installed or it does not start: the service works without it, only slower.
 */
export async function startRedisChildProcess({
  dataDir,
  searchPath,
  log,
}: RedisChildProcessOptions): Promise<RedisChildProcess | null> {
  const program = findRedisServer(searchPath)
  if (program === null) return null
  const home = resolve(dataDir, 'redis')
  makeFolder(home, 0o700)
  const path = join(ensureRedisSocketDir(home), 'r.sock')
  const args = [
    '--port',
    '0',
    '--unixsocket',
    path,
    '--unixsocketperm',
    '700',
    '--dir',
    home,
    '--appendonly',
    'yes',
    '--appendfsync',
    'everysec',
    '--save',
    '',
    '--maxmemory-policy',
    'noeviction',
    '--daemonize',
    'no',
    '--loglevel',
    'warning',
  ]
  let child: ProcessEndingWithParent | null = null
  let stopping = false
  let stopped = (): void => undefined
  const end = new Promise<void>((done) => (stopped = done))

  /** Joins the server of another process with this data directory, or starts one. */
  const raise = (): Promise<boolean> =>
    withMachineWideStartupLock(path, async () => {
      child = null
      if (await acceptsPostgresConnections(path)) return true
      const started = spawnProcessEndingWithParent(program, args, {
        identity: null,
        logFile: join(home, 'redis.log'),
      })
      child = started
      let ended = false
      void started.exited.then(() => (ended = true))
      while (!ended && !stopping) {
        if (await acceptsPostgresConnections(path)) return true
        await sleep(REDIS_READY_POLL_MS)
      }
      return false
    })
  const lost = async (): Promise<void> => {
    if (child !== null) return child.exited
    while (!stopping && (await acceptsPostgresConnections(path)))
      await Promise.race([sleep(FOLLOW_POLL_MS, undefined, { ref: false }), end])
  }
  async function supervise(): Promise<void> {
    for (;;) {
      await Promise.race([lost(), end])
      if (stopping) return
      log('redis: the server is gone, starting it again')
      await Promise.race([sleep(RESTART_DELAY_MS, undefined, { ref: false }), end])
      if (!stopping) await raise()
    }
  }
  if (!(await raise())) {
    log(`redis: ${program} does not start, see ${join(home, 'redis.log')}; going on without`)
    return null
  }
  const supervised = supervise()
  return {
    path,
    async stop() {
      stopping = true
      stopped()
      await supervised
      if (child === null) return
      await child.stop()
      removeDirectoryIfEmpty(dirname(path))
    },
  }
}

function findRedisServer(searchPath: string): string | null {
  for (const name of ['redis-server', 'valkey-server']) {
    for (const dir of searchPath.split(delimiter)) {
      if (dir !== '' && isExecutable(join(dir, name))) return join(dir, name)
    }
  }
  return null
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

function ensureRedisSocketDir(home: string): string {
  const base = Buffer.byteLength(tmpdir()) < 60 ? tmpdir() : '/tmp'
  const dir = join(
    base,
    `gas-station-redis-${createHash('sha1').update(home).digest('hex').slice(0, 8)}`,
  )
  const found = lstatSync(dir, { throwIfNoEntry: false })
  if (found === undefined) mkdirSync(dir, { mode: 0o700 })
  else if (!found.isDirectory() || found.uid !== process.geteuid?.() || (found.mode & 0o077) !== 0)
    return mkdtempSync(join(base, 'gas-station-redis-'))
  return dir
}

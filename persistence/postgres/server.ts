import { readFileSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { findCluster, initCluster, socketDirOf } from './cluster.ts'
import type { Cluster } from './cluster.ts'
import { answers, isAlive, pidFilePath, readPidFile, socketPath, whoHas } from './pid-file.ts'
import type { PidFile } from './pid-file.ts'
import { exclusively } from './start-lock.ts'
import { removeIfEmpty, spawnWatched } from './watchdog.ts'

export interface ServerOptions {
  readonly dataDir: string
  readonly log: (line: string) => void
  /** For tests only: nothing is flushed to disk. */
  readonly throwAway?: boolean
}

/** A PostgreSQL that is kept running, by us or by another process that we follow. */
export interface Server {
  readonly version: string
  /** The directory of its unix socket; ask anew for each connection. */
  socketDir(): string
  owned(): boolean
  /** Ends the server if we own it. */
  stop(): Promise<void>
}

interface Running {
  readonly socketDir: string
  readonly owned: boolean
  readonly gone: Promise<void>
  stop(): Promise<void>
}

const READY_POLL_MS = 5
const FOLLOW_MS = 200
const START_ATTEMPTS = 40

const SETTINGS = [
  'listen_addresses=',
  'unix_socket_permissions=0700',
  'max_connections=60',
  'shared_buffers=128MB',
  'wal_compression=on',
  'io_method=sync',
  'max_wal_size=1GB',
  'log_min_messages=warning',
  'idle_in_transaction_session_timeout=30s',
  'timezone=UTC',
  'log_timezone=UTC',
]
const THROW_AWAY = [
  'fsync=off',
  'synchronous_commit=off',
  'full_page_writes=off',
  'max_connections=300',
  'autovacuum=off',
]

/** Starts the embedded PostgreSQL, or joins the one that already serves this data directory. */
export async function startServer(options: ServerOptions): Promise<Server> {
  const cluster = findCluster(options.dataDir, options.log)
  let stopping = false
  const throwAway = options.throwAway === true
  const bringUp = (): Promise<Running> =>
    exclusively(cluster.dir, () => raise(cluster, throwAway, () => stopping))
  let running = await exclusively(cluster.dir, () => {
    initCluster(cluster, throwAway)
    return raise(cluster, throwAway, () => stopping)
  })
  let stopped = (): void => undefined
  const end = new Promise<void>((resolve) => (stopped = resolve))

  async function supervise(): Promise<void> {
    for (;;) {
      await Promise.race([running.gone, end])
      if (stopping) return
      options.log('postgres: the server is gone, starting it again')
      running = await insist()
      if (!stopping)
        options.log(
          `postgres: ${running.owned ? 'running again' : 'following the one another process started'}`,
        )
    }
  }
  async function insist(): Promise<Running> {
    for (;;) {
      try {
        return await bringUp()
      } catch (error) {
        if (stopping) return running
        options.log(`postgres: ${(error as Error).message}`)
        await Promise.race([sleep(1000, undefined, { ref: false }), end])
      }
    }
  }
  const supervised = supervise()
  return {
    version: cluster.binaries.version,
    socketDir: () => running.socketDir,
    owned: () => running.owned,
    async stop() {
      stopping = true
      stopped()
      await supervised
      await running.stop()
    },
  }
}

/** Adopts a server that answers, else starts one; a start fails while backends of a killed one live. */
async function raise(
  cluster: Cluster,
  throwAway: boolean,
  stopping: () => boolean,
): Promise<Running> {
  for (let attempt = 1, wait = 50; !stopping(); attempt += 1, wait = Math.min(wait * 2, 500)) {
    const found = readPidFile(cluster.dir)
    if (found !== null && isAlive(found.pid)) {
      if (await servesHere(found, cluster)) return follow(found, cluster)
      if (whoHas(found.pid, cluster.dir) === 'other')
        rmSync(pidFilePath(cluster.dir), { force: true })
    }
    const started = await launch(cluster, throwAway, found?.text)
    if (started !== null) return started
    if (attempt === START_ATTEMPTS)
      throw new Error(`PostgreSQL does not start: ${lastWords(cluster.logFile)}`)
    await sleep(wait)
  }
  throw new Error('stopped while starting')
}

const servesHere = async (found: PidFile, cluster: Cluster): Promise<boolean> =>
  found.ready &&
  whoHas(found.pid, cluster.dir) !== 'other' &&
  (await answers(socketPath(found.socketDir)))

function follow(found: PidFile, cluster: Cluster): Running {
  let timer: NodeJS.Timeout
  const gone = new Promise<void>((resolve) => {
    timer = setInterval(() => {
      if (readPidFile(cluster.dir)?.text === found.text && isAlive(found.pid)) return
      clearInterval(timer)
      resolve()
    }, FOLLOW_MS).unref()
  })
  const stop = async (): Promise<void> => clearInterval(timer)
  return { socketDir: found.socketDir, owned: false, gone, stop }
}

/** Null when the server ended before it was ready. */
async function launch(
  cluster: Cluster,
  throwAway: boolean,
  stale: string | undefined,
): Promise<Running | null> {
  const socketDir = socketDirOf(cluster)
  const settings = throwAway ? [...SETTINGS, ...THROW_AWAY] : SETTINGS
  const args = [
    '-D',
    cluster.dir,
    '-k',
    socketDir,
    ...settings.flatMap((setting) => ['-c', setting]),
  ]
  const child = spawnWatched(cluster.binaries.postgres, args, cluster)
  let ended = false
  void child.gone.then(() => (ended = true))
  const pid = await child.pid.catch(() => null)
  while (!ended) {
    const file = readPidFile(cluster.dir)
    // a stale file still says "ready", and after a reboot its pid may even be ours
    if (file !== null && file.pid === pid && file.text !== stale && file.ready) {
      const stop = async (): Promise<void> => {
        await child.stop()
        removeIfEmpty(socketDir) // a follower may have started a server there meanwhile
      }
      return { socketDir, owned: true, gone: child.gone, stop }
    }
    await sleep(READY_POLL_MS)
  }
  return null
}

function lastWords(logFile: string): string {
  return (
    readFileSync(logFile, 'utf8').trimEnd().split('\n').slice(-3).join(' | ') || `see ${logFile}`
  )
}

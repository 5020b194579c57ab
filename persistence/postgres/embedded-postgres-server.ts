import { readFileSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { SettingError } from '../../core/setting-error.ts'
import {
  locateDatabaseCluster,
  initDatabaseCluster,
  ensurePostgresSocketDir,
} from './embedded-postgres-cluster.ts'
import type { DatabaseClusterLocation } from './embedded-postgres-cluster.ts'
import {
  acceptsPostgresConnections,
  isProcessAlive,
  postmasterPidFilePath,
  readPostmasterPidFile,
  postgresSocketPath,
  identifyPidHolder,
} from './postmaster-pid-file.ts'
import type { PostmasterPidFile } from './postmaster-pid-file.ts'
import { withMachineWideStartupLock } from './same-host-process-startup-lock.ts'
import {
  removeDirectoryIfEmpty,
  spawnProcessEndingWithParent,
} from './spawn-process-ending-with-parent.ts'

/** Runs the embedded PostgreSQL server. */

export interface EmbeddedPostgresOptions {
  readonly dataDir: string
  readonly log: (line: string, level?: 'info' | 'warn') => void
  /** For tests only: without fsync. */
  readonly throwAway?: boolean
}

/** A running PostgreSQL, kept up by this process or by another one that we follow. */
export interface EmbeddedPostgres {
  readonly version: string
  /** The directory of its unix socket; call it for each connection. */
  socketDir(): string
  isOwned(): boolean
  /** Stops the server if this process owns it. */
  stop(): Promise<void>
}

interface RunningPostgres {
  readonly socketDir: string
  readonly isOwned: boolean
  readonly exited: Promise<void>
  stop(): Promise<void>
}

const READY_POLL_MS = 5
const FOLLOW_POLL_MS = 200
const MAX_START_ATTEMPTS = 40

/** Eight nodes: each opens some 40 connections at most, 12 of them for jobs without Redis. */
const MAX_CONNECTIONS = 400
const POSTGRES_SETTINGS = [
  'listen_addresses=',
  'unix_socket_permissions=0700',
  `max_connections=${MAX_CONNECTIONS}`,
  'shared_buffers=128MB',
  'wal_compression=on',
  'io_method=sync',
  'max_wal_size=1GB',
  'log_min_messages=warning',
  'idle_in_transaction_session_timeout=30s',
  'timezone=UTC',
  'log_timezone=UTC',
]
const EPHEMERAL_SETTINGS = [
  'fsync=off',
  'synchronous_commit=off',
  'full_page_writes=off',
  'wal_level=minimal',
  'max_wal_senders=0',
  'wal_compression=off',
  'checkpoint_timeout=1h',
  'bgwriter_lru_maxpages=0',
  'max_parallel_workers_per_gather=0',
  'autovacuum=off',
]

/** Starts the embedded PostgreSQL, or joins the one that already serves this data directory. */
export async function startEmbeddedPostgres(
  options: EmbeddedPostgresOptions,
): Promise<EmbeddedPostgres> {
  const cluster = locateDatabaseCluster(options.dataDir, options.log)
  let stopping = false
  const throwAway = options.throwAway === true
  const bringUp = (): Promise<RunningPostgres> =>
    withMachineWideStartupLock(cluster.dir, () =>
      adoptOrStartServer(cluster, throwAway, () => stopping),
    )
  let running = await withMachineWideStartupLock(cluster.dir, () => {
    initDatabaseCluster(cluster, throwAway)
    return adoptOrStartServer(cluster, throwAway, () => stopping)
  })
  let stopped = (): void => undefined
  const end = new Promise<void>((resolve) => (stopped = resolve))

  async function supervise(): Promise<void> {
    for (;;) {
      await Promise.race([running.exited, end])
      if (stopping) return
      options.log('postgres: the server is gone, starting it again')
      running = await insist()
      if (!stopping)
        options.log(
          `postgres: ${running.isOwned ? 'running again' : 'following the one another process started'}`,
          'info',
        )
    }
  }
  async function insist(): Promise<RunningPostgres> {
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
    isOwned: () => running.isOwned,
    async stop() {
      stopping = true
      stopped()
      await supervised
      await running.stop()
    },
  }
}

/**
 * Adopts a responding server, else starts one; a start fails while backends of a killed server
 * live.
 */
async function adoptOrStartServer(
  cluster: DatabaseClusterLocation,
  throwAway: boolean,
  stopping: () => boolean,
): Promise<RunningPostgres> {
  for (let attempt = 1, wait = 50; !stopping(); attempt += 1, wait = Math.min(wait * 2, 500)) {
    const found = readPostmasterPidFile(cluster.dir)
    if (found !== null && isProcessAlive(found.pid)) {
      if (await isServingCluster(found, cluster)) return followServer(found, cluster)
      if (identifyPidHolder(found.pid, cluster.dir) === 'other')
        rmSync(postmasterPidFilePath(cluster.dir), { force: true })
    }
    const started = await launchServer(cluster, throwAway, found?.text)
    if (started !== null) return started
    if (attempt === MAX_START_ATTEMPTS)
      throw new SettingError(
        `DATA_DIR cannot be used: PostgreSQL does not start in ${cluster.dir}: ${lastLogLines(cluster.logFile)}`,
      )
    await sleep(wait)
  }
  throw new Error('stopped while starting')
}

const isServingCluster = async (
  found: PostmasterPidFile,
  cluster: DatabaseClusterLocation,
): Promise<boolean> =>
  found.ready &&
  identifyPidHolder(found.pid, cluster.dir) !== 'other' &&
  (await acceptsPostgresConnections(postgresSocketPath(found.socketDir)))

function followServer(found: PostmasterPidFile, cluster: DatabaseClusterLocation): RunningPostgres {
  let timer: NodeJS.Timeout
  const exited = new Promise<void>((resolve) => {
    timer = setInterval(() => {
      if (readPostmasterPidFile(cluster.dir)?.text === found.text && isProcessAlive(found.pid))
        return
      clearInterval(timer)
      resolve()
    }, FOLLOW_POLL_MS).unref()
  })
  const stop = async (): Promise<void> => clearInterval(timer)
  return { socketDir: found.socketDir, isOwned: false, exited, stop }
}

/** Null if the server ended before it was ready. */
async function launchServer(
  cluster: DatabaseClusterLocation,
  throwAway: boolean,
  stale: string | undefined,
): Promise<RunningPostgres | null> {
  const socketDir = ensurePostgresSocketDir(cluster)
  const settings = throwAway ? [...POSTGRES_SETTINGS, ...EPHEMERAL_SETTINGS] : POSTGRES_SETTINGS
  const args = [
    '-D',
    cluster.dir,
    '-k',
    socketDir,
    ...settings.flatMap((setting) => ['-c', setting]),
  ]
  const child = spawnProcessEndingWithParent(cluster.binaries.postgres, args, cluster)
  let ended = false
  void child.exited.then(() => (ended = true))
  const pid = await child.pid.catch(() => null)
  while (!ended) {
    const file = readPostmasterPidFile(cluster.dir)
    // A stale file still says "ready", and after a reboot its pid may even be ours.
    if (file !== null && file.pid === pid && file.text !== stale && file.ready) {
      const stop = async (): Promise<void> => {
        await child.stop()
        removeDirectoryIfEmpty(socketDir) // a follower may have started a server there meanwhile
      }
      return { socketDir, isOwned: true, exited: child.exited, stop }
    }
    await sleep(READY_POLL_MS)
  }
  return null
}

function lastLogLines(logFile: string): string {
  return (
    readFileSync(logFile, 'utf8').trimEnd().split('\n').slice(-3).join(' | ') || `see ${logFile}`
  )
}

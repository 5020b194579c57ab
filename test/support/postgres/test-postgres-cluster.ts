import { spawn } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { migrateBullmqSchema } from '../../../persistence/bullmq-connections.ts'
import { migrateSchema } from '../../../persistence/migrate-schema.ts'
import { openPostgresPool } from '../../../persistence/postgres/postgres-connection-pool.ts'
import type { Sql } from '../../../persistence/postgres/postgres-connection-pool.ts'
import { isProcessAlive } from '../../../persistence/postgres/postmaster-pid-file.ts'
import { startEmbeddedPostgres } from '../../../persistence/postgres/embedded-postgres-server.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { startPackagedPostgres } from './packaged-postgres.ts'
import { typescriptLoaderArgs } from '../station/node-args-to-spawn-service-or-cli.ts'

/**
 * tap's `before`: one throw-away cluster for the run, migrated once into the database `tmpl`. A keeper
 * of its own holds it and ends it, with its files, when the process it was started for has ended. It
 * drops the databases of test processes that have ended: a whole run creates some 800 of 14 MB, mostly
 * in memory.
 */
export interface TestPostgresCluster {
  readonly socketDir: string
}

const TEMPLATE = 'tmpl'
/** Name of the database of a test: its file, the id of its process, its number in that process. */
export const testDatabaseName = (file: string, pid: number, count: number): string =>
  `t_${file}_${pid}_${count}`
const TEST_DATABASE_PID = '^t_.*_([0-9]+)_[0-9]+$'
const THIS_FILE = fileURLToPath(import.meta.url)
const POLL_MS = 200
/** How often databases of ended processes are dropped, in polls: each costs a checkpoint. */
const DROP_EVERY_POLLS = 25
const CLUSTER_PREFIX = 'gas-station-test-'
const KEEPER_PID_FILE = 'keeper.pid'

/** The programs of the server for this run; without it the embedded one. */
const packagedPostgres = process.env['TEST_POSTGRES_BIN']

/** File with the cluster of a run, named by the process id of the run. */
export const postgresClusterNotePath = (runPid: number): string =>
  join(
    tmpdir(),
    `gas-station-test-${runPid}${packagedPostgres === undefined ? '' : '-packaged'}.json`,
  )

export function readPostgresClusterNote(runPid: number): TestPostgresCluster | null {
  try {
    const note = JSON.parse(
      readFileSync(postgresClusterNotePath(runPid), 'utf8'),
    ) as TestPostgresCluster & {
      error?: string
    }
    if (note.error !== undefined) throw new Error(note.error)
    return note
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** Room for the databases of the processes that run at the same time, and for their logs. */
const MIN_FREE_BYTES = 4 * 2 ** 30
const MEMORY_FOLDER = '/dev/shm'

/** Parent folder of the cluster: in memory if there is room, since its data ends with the run. */
function clusterParentFolder(): string {
  try {
    const { bavail, bsize } = statfsSync(MEMORY_FOLDER)
    return bavail * bsize >= MIN_FREE_BYTES ? MEMORY_FOLDER : tmpdir()
  } catch {
    return tmpdir()
  }
}

/** Starts a keeper for that run and waits until its cluster can be used. */
export async function startTestRunPostgresCluster(runPid: number): Promise<TestPostgresCluster> {
  for (const parent of [MEMORY_FOLDER, tmpdir()]) removeAbandonedClusters(parent)
  const home = mkdtempSync(join(clusterParentFolder(), CLUSTER_PREFIX))
  chmodSync(home, 0o755) // as root the database runs as another user
  const log = openSync(join(home, 'keeper.log'), 'a')
  const keeper = spawn(
    process.execPath,
    [...typescriptLoaderArgs(THIS_FILE), THIS_FILE, 'keep', String(runPid), home],
    {
      detached: true,
      stdio: ['ignore', log, log],
      env: { ...process.env, TAP: '0', TAP_CHILD_ID: '', NODE_V8_COVERAGE: '' },
    },
  )
  let ended = false
  keeper.once('exit', () => (ended = true))
  keeper.unref()
  for (;;) {
    const note = readPostgresClusterNote(runPid)
    if (note !== null) return note
    if (ended)
      throw new Error(
        `the test cluster did not start: ${readFileSync(join(home, 'keeper.log'), 'utf8')}`,
      )
    await sleep(10)
  }
}

/** Removes the clusters of keepers that were killed: their files would fill the memory of later runs. */
function removeAbandonedClusters(parent: string): void {
  if (!existsSync(parent)) return
  for (const name of readdirSync(parent)) {
    const pidFile = join(parent, name, KEEPER_PID_FILE)
    if (!name.startsWith(CLUSTER_PREFIX) || !existsSync(pidFile)) continue
    if (!isProcessAlive(Number(readFileSync(pidFile, 'utf8'))))
      rmSync(join(parent, name), { recursive: true, force: true })
  }
}

async function runClusterKeeper(runPid: number, home: string): Promise<void> {
  writeFileSync(join(home, KEEPER_PID_FILE), String(process.pid))
  const log = (line: string): void => console.log(line)
  const server =
    packagedPostgres === undefined
      ? await startEmbeddedPostgres({ dataDir: home, log, throwAway: true })
      : await startPackagedPostgres(packagedPostgres, home)
  const note = postgresClusterNotePath(runPid)
  try {
    writeClusterNote(note, await prepareTemplate(server.socketDir()))
    for (let poll = 1; isProcessAlive(runPid); poll += 1) {
      await sleep(POLL_MS)
      if (poll % DROP_EVERY_POLLS === 0) await dropDatabasesOfEndedProcesses(server.socketDir())
    }
  } finally {
    await server.stop()
    rmSync(home, { recursive: true, force: true })
    rmSync(server.socketDir(), { recursive: true, force: true })
    rmSync(note, { force: true })
  }
}

async function prepareTemplate(socketDir: string): Promise<object> {
  const open = (database: string): Sql =>
    openPostgresPool({ socketDir: () => socketDir, database, user: 'gas' }, { max: 1 })
  const admin = open('postgres')
  await admin`create database ${admin(TEMPLATE)}`
  await admin.end()
  const template = open(TEMPLATE)
  try {
    if (readdirSync(join(REPOSITORY_ROOT, 'persistence/migrations')).length > 0)
      await migrateSchema(template).then(() => migrateBullmqSchema(template))
    await dropOtherMonths(template)
    return { socketDir }
  } catch (error) {
    return { error: `the migrations fail: ${(error as Error).message}` }
  } finally {
    await template.end()
  }
}

async function dropDatabasesOfEndedProcesses(socketDir: string): Promise<void> {
  const admin = openPostgresPool(
    { socketDir: () => socketDir, database: 'postgres', user: 'gas' },
    { max: 1 },
  )
  try {
    const rows = await admin<{ name: string; pid: number }[]>`
      select datname as name, substring(datname from ${TEST_DATABASE_PID})::int as pid
        from pg_database where datname ~ ${TEST_DATABASE_PID} and dattablespace = 1663`
    for (const { name, pid } of rows)
      if (!isProcessAlive(pid)) await admin`drop database ${admin(name)} with (force)`
  } finally {
    await admin.end()
  }
}

/**
 * Keeps the partitions of this month and the default ones: each partition costs planning time in every
 * statement, and every new connection loads its catalogue entries.
 */
async function dropOtherMonths(template: Sql): Promise<void> {
  const rows = await template<{ part: string }[]>`
    select inhrelid::regclass::text as part from pg_inherits
     where inhparent in ('journal'::regclass, 'ledger'::regclass, 'calls'::regclass)
       and inhrelid::regclass::text !~ ('_(default|' || to_char(now() at time zone 'UTC', 'YYYY_MM') || ')$')`
  for (const { part } of rows) await template`drop table ${template(part)}`
}

function writeClusterNote(note: string, content: object): void {
  writeFileSync(`${note}.part`, JSON.stringify(content))
  renameSync(`${note}.part`, note)
}

if (process.argv[1] === THIS_FILE) {
  const [, , role, runPid, home] = process.argv
  if (role === 'keep' && runPid !== undefined && home !== undefined)
    await runClusterKeeper(Number(runPid), home)
  else await startTestRunPostgresCluster(process.ppid)
}

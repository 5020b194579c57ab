import { spawn } from 'node:child_process'
import {
  chmodSync,
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
import { openPostgresPool } from '../../../persistence/postgres/connection-pool.ts'
import type { Sql } from '../../../persistence/postgres/connection-pool.ts'
import { isProcessAlive } from '../../../persistence/postgres/postmaster-pid-file.ts'
import { startEmbeddedPostgres } from '../../../persistence/postgres/embedded-postgres-server.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { typescriptLoaderArgs } from '../station/service-program-arguments.ts'

/**
 * tap's `before`: one throw-away cluster for the run, migrated once into the database `tmpl`. A keeper
 * of its own holds it and ends it, with its files, when the process it was started for has ended.
 */
export interface TestPostgresCluster {
  readonly socketDir: string
}

const TEMPLATE = 'tmpl'
const THIS_FILE = fileURLToPath(import.meta.url)
const POLL_MS = 200

/** Where the cluster of a run is written down: by the process that the run is. */
export const postgresClusterNotePath = (runPid: number): string =>
  join(tmpdir(), `gas-station-test-${runPid}.json`)

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

/** Room for the databases of a whole run: some 250 of 12 MB. */
const MIN_FREE_BYTES = 8 * 2 ** 30
const MEMORY_FOLDER = '/dev/shm'

/** Where the cluster lives: in memory where there is room, since nothing of it outlives the run. */
function clusterParentFolder(): string {
  try {
    const { bavail, bsize } = statfsSync(MEMORY_FOLDER)
    return bavail * bsize >= MIN_FREE_BYTES ? MEMORY_FOLDER : tmpdir()
  } catch {
    return tmpdir()
  }
}

/** Starts a keeper for that run and waits until its cluster can be used. */
export async function startPostgresClusterKeeper(runPid: number): Promise<TestPostgresCluster> {
  const home = mkdtempSync(join(clusterParentFolder(), 'gas-station-test-'))
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

async function runClusterKeeper(runPid: number, home: string): Promise<void> {
  const server = await startEmbeddedPostgres({
    dataDir: home,
    log: (line) => console.log(line),
    throwAway: true,
  })
  const note = postgresClusterNotePath(runPid)
  try {
    writeClusterNote(note, await prepareTemplate(server.socketDir()))
    while (isProcessAlive(runPid)) await sleep(POLL_MS)
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
    return { socketDir }
  } catch (error) {
    return { error: `the migrations fail: ${(error as Error).message}` }
  } finally {
    await template.end()
  }
}

function writeClusterNote(note: string, content: object): void {
  writeFileSync(`${note}.part`, JSON.stringify(content))
  renameSync(`${note}.part`, note)
}

if (process.argv[1] === THIS_FILE) {
  const [, , role, runPid, home] = process.argv
  if (role === 'keep' && runPid !== undefined && home !== undefined)
    await runClusterKeeper(Number(runPid), home)
  else await startPostgresClusterKeeper(process.ppid)
}

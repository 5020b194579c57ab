import { spawn } from 'node:child_process'
import {
  chmodSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { migrateJobs } from '../../persistence/jobs-backend.ts'
import { migrate } from '../../persistence/migrate.ts'
import { openPool } from '../../persistence/postgres/connect.ts'
import type { Sql } from '../../persistence/postgres/connect.ts'
import { isAlive } from '../../persistence/postgres/pid-file.ts'
import { startServer } from '../../persistence/postgres/server.ts'
import { ROOT } from '../../scripts/root.ts'
import { nodeArgsOf } from './program.ts'

/**
 * tap's `before`: one throw-away cluster for the run, migrated once into the database `tmpl`. A keeper
 * of its own holds it and ends it, with its files, when the process it was started for has ended.
 */
export interface TestCluster {
  readonly socketDir: string
}

const TEMPLATE = 'tmpl'
const HERE = fileURLToPath(import.meta.url)
const POLL_MS = 200

/** Where the cluster of a run is written down: by the process that the run is. */
export const noteOf = (runPid: number): string => join(tmpdir(), `gas-station-test-${runPid}.json`)

export function readNote(runPid: number): TestCluster | null {
  try {
    const note = JSON.parse(readFileSync(noteOf(runPid), 'utf8')) as TestCluster & {
      error?: string
    }
    if (note.error !== undefined) throw new Error(note.error)
    return note
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** Starts a keeper for that run and waits until its cluster can be used. */
export async function startKeeper(runPid: number): Promise<TestCluster> {
  const home = mkdtempSync(join(tmpdir(), 'gas-station-test-'))
  chmodSync(home, 0o755) // as root the database runs as another user
  const log = openSync(join(home, 'keeper.log'), 'a')
  const keeper = spawn(
    process.execPath,
    [...nodeArgsOf(HERE), HERE, 'keep', String(runPid), home],
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
    const note = readNote(runPid)
    if (note !== null) return note
    if (ended)
      throw new Error(
        `the test cluster did not start: ${readFileSync(join(home, 'keeper.log'), 'utf8')}`,
      )
    await sleep(10)
  }
}

async function keep(runPid: number, home: string): Promise<void> {
  const server = await startServer({
    dataDir: home,
    log: (line) => console.log(line),
    throwAway: true,
  })
  const note = noteOf(runPid)
  try {
    writeNote(note, await prepare(server.socketDir()))
    while (isAlive(runPid)) await sleep(POLL_MS)
  } finally {
    await server.stop()
    rmSync(home, { recursive: true, force: true })
    rmSync(server.socketDir(), { recursive: true, force: true })
    rmSync(note, { force: true })
  }
}

async function prepare(socketDir: string): Promise<object> {
  const open = (database: string): Sql =>
    openPool({ socketDir: () => socketDir, database, user: 'gas' }, { max: 1 })
  const admin = open('postgres')
  await admin`create database ${admin(TEMPLATE)}`
  await admin.end()
  const template = open(TEMPLATE)
  try {
    if (readdirSync(join(ROOT, 'persistence/migrations')).length > 0)
      await migrate(template).then(() => migrateJobs(template))
    return { socketDir }
  } catch (error) {
    return { error: `the migrations fail: ${(error as Error).message}` }
  } finally {
    await template.end()
  }
}

function writeNote(note: string, content: object): void {
  writeFileSync(`${note}.part`, JSON.stringify(content))
  renameSync(`${note}.part`, note)
}

if (process.argv[1] === HERE) {
  const [, , role, runPid, home] = process.argv
  if (role === 'keep' && runPid !== undefined && home !== undefined)
    await keep(Number(runPid), home)
  else await startKeeper(process.ppid)
}

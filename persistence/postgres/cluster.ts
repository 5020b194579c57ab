import { spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { locateBinaries } from './binaries.ts'
import type { Binaries } from './binaries.ts'
import { databaseIdentity, ownerOf, reaches } from './identity.ts'
import type { Identity } from './identity.ts'

/** A place for a database cluster, with the user and the programs that serve it. */
export interface Cluster {
  readonly dir: string
  readonly logFile: string
  readonly identity: Identity
  readonly binaries: Binaries
}

const MAJOR = 18
const NAME = `pg${MAJOR}`
const ELSEWHERE = '/var/lib/gas-station'
/** The kernel's bound on a unix socket path, with room for `/.s.PGSQL.5432`. */
const SOCKET_DIR_BYTES = 90

/** Decides where the cluster lives and as whom it runs; touches no data. */
export function findCluster(dataDir: string, log: (line: string) => void): Cluster {
  const home = resolve(dataDir)
  ensureDir(home)
  const fallback = databaseIdentity()
  const dir = placeOf(home, fallback, log)
  const identity = existsSync(dir) ? ownerOf(dir) : fallback
  if (!reaches(identity, dirname(dir)))
    throw new Error(`the database's user cannot enter ${dirname(dir)}: choose another DATA_DIR`)
  return { dir, identity, logFile: join(home, 'postgres.log'), binaries: locateBinaries(identity) }
}

/** Where root's checkout is closed to others, `DATA_DIR/pg18` is a link to a place that is not. */
function placeOf(home: string, identity: Identity, log: (line: string) => void): string {
  const inside = join(home, NAME)
  const found = lstatSync(inside, { throwIfNoEntry: false })
  if (found?.isSymbolicLink() === true) return resolve(home, readlinkSync(inside))
  if (found !== undefined) return realpathSync(inside)
  if (reaches(identity, home)) return join(realpathSync(home), NAME)
  const outside = join(ELSEWHERE, createHash('sha1').update(home).digest('hex').slice(0, 8), NAME)
  ensureDir(ELSEWHERE)
  ensureDir(dirname(outside))
  symlinkSync(outside, inside)
  log(`postgres: the database's user cannot enter ${home}, so its files are in ${outside}`)
  return outside
}

function ensureDir(dir: string): void {
  if (existsSync(dir)) return
  mkdirSync(dir, { recursive: true })
  chmodSync(dir, 0o755)
}

/** Makes the cluster if there is none. It appears under its name only when it is complete. */
export function initCluster(cluster: Cluster, throwAway: boolean): void {
  const { dir, identity, binaries } = cluster
  if (existsSync(dir)) return checkVersion(dir)
  removeHalfMade(dir)
  const making = `${dir}.init-${randomBytes(4).toString('hex')}`
  mkdirSync(making, { mode: 0o700 })
  if (identity !== null) chownSync(making, identity.uid, identity.gid)
  const args = [
    '-D',
    making,
    '-U',
    'gas',
    '-A',
    'trust',
    '-E',
    'UTF8',
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--no-instructions',
  ]
  if (throwAway) args.push('-N')
  const made = spawnSync(binaries.initdb, args, {
    ...identity,
    cwd: '/',
    encoding: 'utf8',
    env: { PATH: '/usr/bin:/bin', TZ: 'UTC', LC_ALL: 'C' },
  })
  if (made.status !== 0) {
    rmSync(making, { recursive: true, force: true })
    throw new Error(`initdb failed in ${dir}: ${made.error?.message ?? made.stderr.trim()}`)
  }
  renameSync(making, dir)
}

/** Called with the start lock held: whatever is half made has no maker any more. */
function removeHalfMade(dir: string): void {
  for (const name of readdirSync(dirname(dir))) {
    if (name.startsWith(`${basename(dir)}.init-`))
      rmSync(join(dirname(dir), name), { recursive: true, force: true })
  }
}

function checkVersion(dir: string): void {
  const version = readFileSync(join(dir, 'PG_VERSION'), 'utf8').trim()
  if (version !== String(MAJOR))
    throw new Error(
      `${dir} was made by PostgreSQL ${version}, this is ${MAJOR}: move it away or set DATABASE_URL`,
    )
}

/**
 * The directory of the unix socket, closed to everybody but the database's user: the door is the
 * file system, so there is no port and no password. The same path at every start, unless a stranger
 * holds it.
 */
export function socketDirOf(cluster: Cluster): string {
  const base = socketBase(cluster.identity)
  const dir = join(
    base,
    `gas-station-pg-${createHash('sha1').update(cluster.dir).digest('hex').slice(0, 8)}`,
  )
  const owner = cluster.identity?.uid ?? process.geteuid?.()
  const found = lstatSync(dir, { throwIfNoEntry: false })
  if (
    found !== undefined &&
    found.isDirectory() &&
    found.uid === owner &&
    (found.mode & 0o077) === 0
  )
    return dir
  if (found === undefined) mkdirSync(dir, { mode: 0o700 })
  const made = found === undefined ? dir : mkdtempSync(join(base, 'gas-station-pg-'))
  if (cluster.identity !== null) chownSync(made, cluster.identity.uid, cluster.identity.gid)
  return made
}

function socketBase(identity: Identity): string {
  const base = tmpdir()
  return Buffer.byteLength(base) + 30 <= SOCKET_DIR_BYTES && reaches(identity, base) ? base : '/tmp'
}

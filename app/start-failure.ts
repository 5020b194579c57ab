import { tmpdir } from 'node:os'
import { resolve, sep } from 'node:path'
import { SettingError } from '../core/setting-error.ts'
import type { Config } from './config.ts'

/** Says which setting a failed start is about. */

type Folders = Pick<Config, 'dataDir' | 'journalArchiveDir'>

const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'may not be written by this user',
  EPERM: 'may not be written by this user',
  EROFS: 'is on a read-only file system',
  ENOTDIR: 'is a file, or below one',
  EEXIST: 'is a file, or below one',
  EISDIR: 'holds a folder where a file is needed',
  ENOENT: 'does not exist and cannot be created',
  ENOSPC: 'has no space left',
  EDQUOT: 'has no space left',
  ENAMETOOLONG: 'is too long',
  ELOOP: 'is a link to itself',
}

/** The error in terms of the setting whose folder cannot be used, if it is one of a file. */
export function toFolderSettingError(
  error: unknown,
  { dataDir, journalArchiveDir }: Folders,
): unknown {
  if (error instanceof SettingError || !(error instanceof Error)) return error
  const { code = '', path, dest } = error as NodeJS.ErrnoException & { dest?: string }
  const reason = REASONS[code]
  const touched = [path, dest].filter((one) => one !== undefined).map((one) => resolve(one))
  const data = ['DATA_DIR', dataDir] as const
  const archive = ['JOURNAL_ARCHIVE_DIR', journalArchiveDir] as const
  const temporary = ['TMPDIR', tmpdir()] as const
  const isInside = ([, folder]: readonly [string, string]) =>
    touched.some((one) => isWithin(one, folder))
  const isBelow = ([, folder]: readonly [string, string]) =>
    touched.some((one) => isWithin(folder, one))
  // The folders of the station may themselves be below TMPDIR.
  const found =
    [archive, data].find(isInside) ??
    [data, archive].find(isBelow) ??
    [temporary].find((one) => isInside(one) || isBelow(one))
  if (reason === undefined || found === undefined) return error
  const [name, folder] = found
  return new SettingError(`${name} cannot be used: ${folder} ${reason} (${code} at ${touched[0]})`)
}

/** The other way round too: a folder that cannot be made fails at the nearest parent. */
const isWithin = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder + sep)

/** The error in terms of the setting whose address cannot be listened on. */
export function toListenSettingError(error: unknown, host: string, port: number): unknown {
  const { code = '' } = error as NodeJS.ErrnoException
  const where = `cannot listen on ${host.includes(':') ? `[${host}]` : host}:${port}`
  if (code === 'EADDRINUSE')
    return new SettingError(
      `${where}: the port is in use (${code}): set PORT, or stop what uses it`,
    )
  if (code === 'EACCES')
    return new SettingError(
      `${where}: this user may not use the port (${code}): set PORT to 1024 or more`,
    )
  if (['EADDRNOTAVAIL', 'ENOTFOUND', 'EAI_AGAIN', 'EINVAL', 'EAFNOSUPPORT'].includes(code))
    return new SettingError(`${where}: this machine has no such address (${code}): set HOST`)
  return error
}

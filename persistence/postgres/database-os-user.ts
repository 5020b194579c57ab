import { spawnSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { SettingError } from '../../core/setting-error.ts'

/** The user of a database process; null is our own. */
export type DatabaseOsUser = { readonly uid: number; readonly gid: number } | null

/** PostgreSQL refuses to run as root: then it runs as `postgres`, else as `nobody`. */
export function chooseDatabaseOsUser(): DatabaseOsUser {
  if (process.geteuid?.() !== 0) return null
  const users = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
  for (const name of ['postgres', 'nobody']) {
    const [, , uid, gid] = users.find(([user]) => user === name) ?? []
    if (uid !== undefined && gid !== undefined) return { uid: Number(uid), gid: Number(gid) }
  }
  throw new SettingError(
    'as root the embedded PostgreSQL needs the user postgres or nobody; set DATABASE_URL instead',
  )
}

/** An existing cluster keeps its owner. */
export function readDirectoryOwner(dir: string): DatabaseOsUser {
  const { uid, gid } = statSync(dir)
  const self = process.geteuid?.()
  if (uid === self) return null
  if (self === 0) return { uid, gid }
  throw new SettingError(`DATA_DIR cannot be used: ${dir} belongs to another user (uid ${uid})`)
}

/** Whether the identity can enter the directory, by trying. */
export const canOsUserEnterDirectory = (identity: DatabaseOsUser, dir: string): boolean =>
  identity === null || runsSuccessfullyAsOsUser(identity, '/bin/sh', ['-c', 'cd -- "$0"', dir])

/** Whether a program runs successfully as that identity. */
export function runsSuccessfullyAsOsUser(
  identity: DatabaseOsUser,
  program: string,
  args: string[],
): boolean {
  return spawnSync(program, args, { ...identity, cwd: '/', stdio: 'ignore' }).status === 0
}

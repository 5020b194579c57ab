import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'

/** The content of a running PostgreSQL's `postmaster.pid`. */
export interface PostmasterPidFile {
  readonly pid: number
  readonly socketDir: string
  readonly ready: boolean
  /** The whole text: unique for each server start. */
  readonly text: string
}

export const postmasterPidFilePath = (dir: string): string => join(dir, 'postmaster.pid')

export function readPostmasterPidFile(dir: string): PostmasterPidFile | null {
  try {
    const text = readFileSync(postmasterPidFilePath(dir), 'utf8')
    const lines = text.split('\n')
    const pid = Number(lines[0])
    if (!Number.isInteger(pid) || pid <= 0) return null
    return { pid, socketDir: lines[4] ?? '', ready: lines[7]?.trim() === 'ready', text }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

export function isProcessAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/**
 * After a crash another program may have the pid in the file, and PostgreSQL would never start.
 * Returns `other` only if that process is certainly not PostgreSQL.
 */
export function identifyPidHolder(pid: number, dir: string): 'ours' | 'other' | 'unclear' {
  const command = readProcessCommand(pid)
  if (command === '') return 'unclear'
  if (!command.includes('postgres')) return 'other'
  return command.includes(dir) ? 'ours' : 'unclear'
}

function readProcessCommand(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
  } catch {
    return (
      spawnSync('ps', ['-ww', '-o', 'command=', '-p', String(pid)], { encoding: 'utf8' }).stdout ??
      ''
    )
  }
}

export const postgresSocketPath = (socketDir: string, port = 5432): string =>
  join(socketDir, `.s.PGSQL.${port}`)

/** Whether a server listens on the unix socket. */
export function acceptsPostgresConnections(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    const settle = (answer: boolean): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.once('connect', () => settle(true))
    socket.once('error', () => settle(false))
  })
}

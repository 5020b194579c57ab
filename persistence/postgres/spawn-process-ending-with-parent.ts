import { spawn } from 'node:child_process'
import type { ChildProcessByStdio } from 'node:child_process'
import { closeSync, openSync, rmdirSync, statSync, truncateSync } from 'node:fs'
import { Socket } from 'node:net'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import type { DatabaseOsUser } from './database-os-user.ts'

/** Runs a child process that ends with its parent. */

export interface ProcessEndingWithParent {
  /** The process id of the program itself, not of its watchdog. */
  readonly pid: Promise<number>
  /** Resolves once the program has ended, for any reason. */
  readonly exited: Promise<void>
  /** Requests a clean shutdown and waits for it. */
  stop(): Promise<void>
}

const MAX_LOG_BYTES = 10 * 1024 * 1024

/**
 * Prints the program's pid, then waits for it. A reader holds our pipe: when this process ends,
 * even by kill -9, it reads EOF and sends the program SIGINT, a fast but clean shutdown.
 */
const WATCHDOG_SCRIPT = `
exec 3<&0 </dev/null
"$@" >&2 3<&- & p=$!
{ read -r _ <&3; kill -INT $p; } >/dev/null 2>&1 & w=$!
trap 'kill -INT $p 2>/dev/null' TERM INT HUP
echo $p
exec >/dev/null 3<&-
wait $p; s=$?
while kill -0 $p 2>/dev/null; do wait $p; s=$?; done
kill $w 2>/dev/null
exit $s`

/**
 * Runs a program that ends with this process; detached, so that Ctrl-C reaches this process first.
 */
export function spawnProcessEndingWithParent(
  program: string,
  args: string[],
  options: { identity: DatabaseOsUser; logFile: string },
): ProcessEndingWithParent {
  const log = openLog(options.logFile)
  const child = spawn('/bin/sh', ['-c', WATCHDOG_SCRIPT, 'gas-station-watch', program, ...args], {
    ...options.identity,
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'pipe', log],
    env: { PATH: '/usr/local/bin:/usr/bin:/bin', TZ: 'UTC', LC_ALL: 'C' },
  }) as ChildProcessByStdio<Writable, Readable, null>
  closeSync(log)
  child.stdin.on('error', () => undefined)
  child.unref()
  if (child.stdin instanceof Socket) child.stdin.unref()
  const lines = createInterface(child.stdout)
  const pid = new Promise<number>((resolve, reject) => {
    lines.once('line', (line) => resolve(Number(line)))
    child.once('error', reject)
    child.once('exit', () => reject(new Error(`${program} did not start`)))
  })
  pid.catch(() => undefined)
  const exited = new Promise<void>((resolve) => {
    child.once('exit', () => resolve())
    child.once('error', () => resolve())
  })
  return {
    pid,
    exited,
    async stop() {
      child.ref()
      child.stdin.end()
      await exited
    },
  }
}

function openLog(file: string): number {
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) > MAX_LOG_BYTES) truncateSync(file)
  return openSync(file, 'a', 0o600)
}

/** Removes an empty socket directory; does nothing if it is in use or gone. */
export function removeDirectoryIfEmpty(dir: string): void {
  try {
    rmdirSync(dir)
  } catch (error) {
    if (!['ENOTEMPTY', 'EEXIST', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? ''))
      throw error
  }
}

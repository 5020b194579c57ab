import { spawn } from 'node:child_process'
import { once } from 'node:events'

/** What a program printed, and how it ended. */
export interface ProgramResult {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

interface ProgramOptions {
  readonly cwd: string
  /** All of its environment but PATH. */
  readonly env?: Readonly<Record<string, string>>
  /** Another user, if root asks. */
  readonly user?: { readonly uid: number; readonly gid: number } | undefined
}

const TIMEOUT_MS = 240_000

/** What package managers say when no registry answers. */
export const REGISTRY_UNREACHABLE =
  /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|network/

/** Runs a program to its end. */
export async function runProgram(
  program: string,
  args: readonly string[],
  { cwd, env = {}, user }: ProgramOptions,
): Promise<ProgramResult> {
  const child = spawn(program, args, {
    cwd,
    ...user,
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: TIMEOUT_MS,
  })
  let [out, err] = ['', '']
  child.stdout.on('data', (bytes) => (out += String(bytes)))
  child.stderr.on('data', (bytes) => (err += String(bytes)))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, out, err }
}

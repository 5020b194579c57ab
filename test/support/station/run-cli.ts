import { execFile } from 'node:child_process'
import { serviceProgramArgs } from './node-args-to-spawn-service-or-cli.ts'

/** What a verb of `gas` answered. */
export interface CliRun {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs a verb of `gas` as a program, with nothing of this process's environment but PATH. */
export function runCli(
  args: readonly string[],
  settings: Readonly<Record<string, string>> = {},
): Promise<CliRun> {
  const env = { PATH: process.env['PATH'], ...settings }
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [...serviceProgramArgs('cli'), ...args],
      { env, maxBuffer: 16e6 },
      (error, stdout, stderr) =>
        resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr }),
    )
  })
}

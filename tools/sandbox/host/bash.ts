import { Bash, getCommandNames, type CommandName } from 'just-bash'
import { short, type Ended, type HostJob, type Interpreter, type Output } from './wire.ts'

/** The exit code of what ran out of time. */
const LATE = 124
const WARM_UP_MS = 10_000
const MANY = 100_000
/** Time ends a long loop; these bounds are only there for what time comes too late for. */
const LIMITS = {
  maxCommandCount: MANY,
  maxLoopIterations: MANY,
  maxAwkIterations: MANY,
  maxSedIterations: MANY,
  maxJqIterations: MANY,
  maxFileSystemBytes: 32 * 1024 * 1024,
  maxOutputSize: 1024 * 1024,
}
/** They would want threads. */
const ABSENT = new Set(['sqlite3', 'python', 'python3', 'js-exec', 'node'])

/** Makes shells over a file system of their own, in memory; none knows a network or a binary. */
export async function bashMaker(): Promise<() => Promise<Interpreter>> {
  const commands = getCommandNames().filter((name) => !ABSENT.has(name)) as CommandName[]
  const fresh = (maxExecutionTimeMs: number) =>
    new Bash({
      executionLimitProfile: 'hardened',
      executionLimits: { ...LIMITS, maxExecutionTimeMs },
      commands,
      cwd: '/home/user',
    })
  // Its parts are loaded on first use: the commonest before somebody waits for them.
  await fresh(WARM_UP_MS).exec('x=$((1+1)); echo a | grep a | sed s/a/b/ | wc -l >/dev/null')
  return async () => (next, output) => {
    const job = next()
    return runBash(fresh(job.timeoutMs), job, output)
  }
}

async function runBash(shell: Bash, { code, timeoutMs }: HostJob, output: Output): Promise<Ended> {
  const late = process.uptime() + timeoutMs / 1_000
  const { stdout, stderr, exitCode } = await shell.exec(code, { rawScript: true })
  output.text(stdout)
  output.problem(stderr)
  if (exitCode === 0) return { result: 0, error: null }
  if (exitCode === LATE && process.uptime() >= late) {
    return { result: null, error: `timed out after ${timeoutMs} ms` }
  }
  return { result: exitCode, error: short(stderr.trim()) || `exit code ${exitCode}` }
}

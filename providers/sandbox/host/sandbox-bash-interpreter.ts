import { Bash, getCommandNames, type CommandName } from 'just-bash'
import {
  truncateToJsonBytes,
  type SandboxInterpreterResult,
  type SandboxHostJob,
  type SandboxJobInterpreter,
  type SandboxJobOutputCollector,
} from './sandbox-job-protocol.ts'

/** The bash interpreter of a sandbox host. */

/** Exit code of a timeout. */
const TIMEOUT_EXIT_CODE = 124
const WARM_UP_MS = 10_000
const MAX_BASH_ITERATIONS = 100_000
/** The deadline ends long loops; these limits stop what would exceed memory before it. */
const BASH_LIMITS = {
  maxCommandCount: MAX_BASH_ITERATIONS,
  maxLoopIterations: MAX_BASH_ITERATIONS,
  maxAwkIterations: MAX_BASH_ITERATIONS,
  maxSedIterations: MAX_BASH_ITERATIONS,
  maxJqIterations: MAX_BASH_ITERATIONS,
  maxFileSystemBytes: 32 * 1024 * 1024,
  maxOutputSize: 1024 * 1024,
}
/** They need threads. */
const EXCLUDED_COMMANDS = new Set(['sqlite3', 'python', 'python3', 'js-exec', 'node'])

/** Creates shells with an in-memory file system and without network or binaries. */
export async function createBashInterpreterFactory(): Promise<
  () => Promise<SandboxJobInterpreter>
> {
  const commands = getCommandNames().filter((name) => !EXCLUDED_COMMANDS.has(name)) as CommandName[]
  const fresh = (maxExecutionTimeMs: number) =>
    new Bash({
      executionLimitProfile: 'hardened',
      executionLimits: { ...BASH_LIMITS, maxExecutionTimeMs },
      commands,
      cwd: '/home/user',
    })
  // Loads the most common modules, which are otherwise loaded on first use.
  await fresh(WARM_UP_MS).exec('x=$((1+1)); echo a | grep a | sed s/a/b/ | wc -l >/dev/null')
  return async () => (next, output) => {
    const job = next()
    return runBash(fresh(job.timeoutMs), job, output)
  }
}

async function runBash(
  shell: Bash,
  { code, timeoutMs }: SandboxHostJob,
  output: SandboxJobOutputCollector,
): Promise<SandboxInterpreterResult> {
  const late = process.uptime() + timeoutMs / 1_000
  const { stdout, stderr, exitCode } = await shell.exec(code, { rawScript: true })
  output.text(stdout)
  output.problem(stderr)
  if (exitCode === 0) return { result: 0, error: null }
  if (exitCode === TIMEOUT_EXIT_CODE && process.uptime() >= late) {
    return { result: null, error: `timed out after ${timeoutMs} ms` }
  }
  return { result: exitCode, error: truncateToJsonBytes(stderr.trim()) || `exit code ${exitCode}` }
}

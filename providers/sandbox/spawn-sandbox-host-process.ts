import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import {
  isWithinJsonDepth,
  type SandboxHostJob,
  type SandboxHostResult,
  type SandboxHostMessage,
} from './host/sandbox-job-protocol.ts'
import { NOBODY_UID, type SandboxLauncher } from './sandbox-launchers.ts'
import type { SandboxLanguage, SandboxListener } from './sandbox-port.ts'

/**
 * Outcome of a job. `late` and `memory` are ended by the station; `died` is a host that ended during the
 * program, `lost` one that ended before.
 */
export type SandboxJobOutcome =
  | ({ readonly kind: 'done' } & SandboxHostResult)
  | { readonly kind: 'late' | 'memory' | 'died' | 'lost' }

const NO_LISTENER: SandboxListener = { onStart() {}, onOutput() {} }

/** A host process, which runs one job at a time. */
export interface SandboxHostProcess {
  readonly language: SandboxLanguage
  /** Resolves to true once it waits for a job, to false where it ended before. */
  ready(): Promise<boolean>
  run(job: SandboxHostJob, listener: SandboxListener): Promise<SandboxJobOutcome>
  kill(): void
  readonly ended: Promise<void>
  readonly isAlive: () => boolean
  /** Returns why it ended before it was ready. */
  readStartFailure(): Promise<SandboxStartFailure>
  /** Number of jobs it was given. */
  readonly jobCount: () => number
  /** Resident memory in bytes; zero where it is unavailable. */
  readMemoryBytes(): number
}

/** Why a host did not start. */
export interface SandboxStartFailure {
  /** A public description, without local paths. */
  readonly reason: string
  /** Its error output, for the operator. */
  readonly detail: string
}

const MIB = 1024 * 1024
const MAX_HOST_MEMORY_BYTES = 600 * MIB
const HOST_MEMORY_POLL_MS = 25
/** These languages can stop a program at its deadline themselves and keep their host. */
const DEADLINE_GRACE_MS: Record<SandboxLanguage, number> = { javascript: 300, bash: 300, python: 0 }
const START_MS = 20_000
/** A host is untrusted too: it may send no more than a job can print. */
const MAX_HOST_OUTPUT_BYTES = 4 * MIB
const PROC_PAGE_BYTES = 4_096
/** Limit of its error output during the start. */
const MAX_START_STDERR_CHARS = 2_000
const STREAM_DRAIN_MS = 200
/** Exit codes of Node with a full heap, directly or as bwrap reports them. */
const HEAP_EXHAUSTED_EXITS = new Set<string | number>([
  'SIGABRT',
  'SIGTRAP',
  'SIGILL',
  'SIGSEGV',
  132,
  133,
  134,
  139,
])

export function startSandboxHostProcess(
  launch: SandboxLauncher,
  language: SandboxLanguage,
): SandboxHostProcess {
  const [file, ...args] = launch.command(language)
  const child = spawn(file, args, {
    cwd: '/',
    env: {},
    stdio: ['pipe', 'pipe', 'pipe', launch.reportsPid === true ? 'pipe' : 'ignore'],
    ...(launch.nobody === true ? { uid: NOBODY_UID, gid: NOBODY_UID } : {}),
  })
  // Without free file descriptors there are no streams, but the error is still emitted.
  child.on('error', () => {})
  if (child.stdio === undefined) throw noFileDescriptorsError()
  const [stdin, stdout, stderr, telling] = child.stdio as unknown as readonly [
    Writable,
    Readable,
    Readable,
    Readable | null,
  ]
  let pid = launch.reportsPid === true ? null : (child.pid ?? null)
  let [alive, waiting, begun, crashed, jobs, outputBytes] = [true, false, false, false, 0, 0]
  let [reason, complaint, tooLate] = ['', '', false]
  let onReady: () => void = () => {}
  let hearing = NO_LISTENER
  let onDone: (outcome: SandboxJobOutcome) => void = () => {}
  const kill = () => void child.kill('SIGKILL')

  const ended = new Promise<void>((resolve) => {
    const end = (code: number | null, signal: string | null, how: string) => {
      alive = false
      crashed = HEAP_EXHAUSTED_EXITS.has(signal ?? code ?? 0)
      reason = tooLate ? `it did not come up within ${START_MS / 1_000} s` : how
      resolve()
    }
    child.once('exit', (code, signal) => end(code, signal, describeExit(code, signal)))
    child.once('error', (error) => end(null, null, describeSpawnError(error)))
  })
  // The host may end during a write; its exit reports that.
  stdin.on('error', () => {})
  stdout.on('error', () => {})
  stderr.on('error', () => {})
  // Read to its end, so that the host never blocks on a write; kept only until the host is ready.
  stderr.on('data', (data: Buffer) => {
    if (!waiting && jobs === 0)
      complaint = (complaint + data.toString()).slice(0, MAX_START_STDERR_CHARS)
  })
  telling?.on('data', (data: Buffer) => (pid ??= parseBwrapPid(data.toString())))

  eachLine(stdout, (line, size) => {
    outputBytes += size
    const message = outputBytes > MAX_HOST_OUTPUT_BYTES ? null : parseHostMessage(line)
    if (message?.type === 'ready') {
      waiting = true
      onReady()
    } else if (message?.type === 'begun') {
      begun = true
      hearing.onStart()
    } else if (message?.type === 'text') hearing.onOutput(message.delta)
    else if (message?.type === 'done') onDone({ kind: 'done', ...message })
    else kill()
  })

  // The exit may arrive before the last output. One promise for all jobs, since each would add listeners.
  const allSaid = ended.then(() => drainStream(stdout))
  const readMemoryBytes = () => (pid === null || !alive ? 0 : readHostResidentBytes(pid))

  function ready(): Promise<boolean> {
    if (waiting || !alive) return Promise.resolve(waiting && alive)
    const late = setTimeout(() => {
      tooLate = true
      kill()
    }, START_MS)
    const told = new Promise<void>((resolve) => (onReady = resolve))
    return Promise.race([told, ended]).then(() => {
      clearTimeout(late)
      return waiting && alive
    })
  }

  async function run(job: SandboxHostJob, listener: SandboxListener): Promise<SandboxJobOutcome> {
    ;[waiting, begun, outputBytes] = [false, false, 0]
    jobs += 1
    let killed: 'late' | 'memory' | null = null
    const end = (why: 'late' | 'memory') => {
      killed ??= why
      kill()
    }
    const deadline = setTimeout(end, job.timeoutMs + DEADLINE_GRACE_MS[language], 'late')
    const look = setInterval(() => {
      if (readMemoryBytes() > MAX_HOST_MEMORY_BYTES) end('memory')
    }, HOST_MEMORY_POLL_MS)
    hearing = listener
    const done = new Promise<SandboxJobOutcome>((resolve) => (onDone = resolve))
    const dead = allSaid.then((): SandboxJobOutcome => {
      if (!begun) return { kind: 'lost' }
      return { kind: killed ?? (crashed ? 'memory' : 'died') }
    })
    stdin.write(`${JSON.stringify(job)}\n`)
    try {
      return await Promise.race([done, dead])
    } finally {
      clearTimeout(deadline)
      clearInterval(look)
      hearing = NO_LISTENER
    }
  }

  /** The last output may arrive after the exit. */
  async function why(): Promise<SandboxStartFailure> {
    await drainStream(stderr)
    return { reason, detail: complaint.trim() }
  }

  return {
    language,
    ready,
    run,
    kill,
    ended,
    isAlive: () => alive,
    readStartFailure: why,
    jobCount: () => jobs,
    readMemoryBytes,
  }
}

async function drainStream(stream: Readable): Promise<void> {
  if (!stream.closed) await Promise.race([once(stream, 'close'), pause(STREAM_DRAIN_MS)])
}

const noFileDescriptorsError = () =>
  Object.assign(new Error('no file descriptor is left to start it'), { code: 'EMFILE' })

const describeExit = (code: number | null, signal: string | null): string =>
  signal === null ? `it ended with exit code ${code}` : `it was ended by ${signal}`

/** Describes why a process did not start, without local paths. */
function describeSpawnError(error: unknown): string {
  const { code } = error as { code?: unknown }
  if (code === 'ENOENT') return 'its interpreter is missing (ENOENT)'
  if (code === 'EACCES' || code === 'EPERM') return `it may not be started (${code})`
  return `it cannot be started (${typeof code === 'string' ? code : 'unknown reason'})`
}

/** Formats a failure in one line, for the operator. */
export const formatSandboxStartFailure = ({ reason, detail }: SandboxStartFailure): string =>
  detail === '' ? reason : `${reason}: ${detail}`

/** A failure before a host could be started. */
export const toSandboxStartFailure = (error: unknown): SandboxStartFailure => ({
  reason: describeSpawnError(error),
  detail: error instanceof Error ? error.message : String(error),
})

function eachLine(stream: Readable, listener: (line: string, size: number) => void): void {
  let pending: Buffer[] = []
  stream.on('data', (data: Buffer) => {
    let from = 0
    for (let end = data.indexOf(10); end >= 0; end = data.indexOf(10, from)) {
      const line = Buffer.concat([...pending, data.subarray(from, end)])
      ;[pending, from] = [[], end + 1]
      listener(line.toString(), line.length)
    }
    pending.push(data.subarray(from))
    // A line without an end is no message.
    if (pending.reduce((sum, { length }) => sum + length, 0) > MAX_HOST_OUTPUT_BYTES)
      listener('', MAX_HOST_OUTPUT_BYTES + 1)
  })
}

function parseHostMessage(line: string): SandboxHostMessage | null {
  try {
    const message = JSON.parse(line) as SandboxHostMessage
    if (message.type === 'ready' || message.type === 'begun') return message
    if (message.type === 'text') return typeof message.delta === 'string' ? message : null
    const { stderr, result, error, truncated } = message
    const texts = typeof stderr === 'string' && (error === null || typeof error === 'string')
    const sound = texts && isWithinJsonDepth(result)
    return message.type === 'done' && sound && typeof truncated === 'boolean' ? message : null
  } catch {
    return null
  }
}

const parseBwrapPid = (told: string): number | null => {
  const [, pid] = /"child-pid":\s*(\d+)/.exec(told) ?? []
  return pid === undefined ? null : Number(pid)
}

function readHostResidentBytes(pid: number): number {
  try {
    const [, resident = '0'] = readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ')
    return Number(resident) * PROC_PAGE_BYTES
  } catch {
    return 0
  }
}

import type { Clock } from '../../core/clock.ts'
import { createFairLeaseQueue, type FairQueueLease } from '../../core/concurrency/fair-queue.ts'
import {
  toSandboxStartFailure,
  type SandboxHostProcess,
  type SandboxJobOutcome,
  type SandboxStartFailure,
} from './spawn-sandbox-host-process.ts'
import type { SandboxHostJob } from './host/sandbox-job-protocol.ts'
import type { SandboxListener } from './sandbox-port.ts'
import { sandboxBusyError, sandboxUnavailableError } from './sandbox-errors.ts'

/** The pool of sandbox hosts of one language. */

export interface SandboxHostPoolDeps {
  readonly clock: Pick<Clock, 'mono'>
  readonly size: number
  /** Starts a host, or returns why it failed. */
  readonly start: () => Promise<SandboxHostProcess | SandboxStartFailure>
  /** Called after every start; null where the host came up. */
  readonly onStart: (failure: SandboxStartFailure | null) => void
  /** Delay of a retry without a job after a failed start. */
  readonly againMs?: number
}

export interface SandboxHostPool {
  run(job: PooledSandboxJob, listener: SandboxListener): Promise<SandboxJobOutcome>
  close(): Promise<void>
}

export interface PooledSandboxJob extends SandboxHostJob {
  /** Hosts are shared by owner. */
  readonly owner: string
  /** Ends the program in any state. */
  readonly signal: AbortSignal
  /** Removes it from the queue; a running program continues. */
  readonly waiting: AbortSignal | undefined
}

const MAX_JOBS_PER_HOST = 50
const MAX_IDLE_HOST_MEMORY_BYTES = 250 * 1024 * 1024
/** Limits of the queue of one language: in total, and per owner. */
const MAX_WAITING = 256
const MAX_WAITING_PER_OWNER = 16
/** Four programs of maximum duration; together with the program it fits the deadline of the tool. */
const SANDBOX_QUEUE_TIMEOUT_MS = 45_000
/** A program that may take longer than one does by default leaves the last host to shorter ones (decision 485). */
const LONG_PROGRAM_MS = 5_000
/** An idle host is ended to free its memory. */
const IDLE_MS = 60_000
const HOST_RETRY_MS = 30_000

/** Creates a pool of hosts that start on demand, run one job at a time, and are replaced early. */
export function createSandboxHostPool({
  clock,
  size,
  start,
  onStart,
  againMs = HOST_RETRY_MS,
}: SandboxHostPoolDeps): SandboxHostPool {
  const idle = new Map<SandboxHostProcess, NodeJS.Timeout>()
  const all = new Set<SandboxHostProcess>()
  let failure: string | null = null
  let again: NodeJS.Timeout | undefined
  const queue = createFairLeaseQueue<SandboxHostProcess>({
    clock,
    places: size,
    longMs: LONG_PROGRAM_MS,
    maxWaiting: MAX_WAITING,
    maxWaitingPerOwner: MAX_WAITING_PER_OWNER,
    createRejection: () =>
      failure === null || closed ? sandboxBusyError() : sandboxUnavailableError(failure),
  })
  /** Hosts including starting ones; starting ones; whether the pool is closed. */
  let [count, starting, closed] = [0, 0, false]

  /** Serves the queue whenever a host starts or ends. */
  function serve(): void {
    for (const [child, rest] of idle) {
      // Those that wait may have their share already.
      if (!queue.offer(child)) return
      clearTimeout(rest)
      idle.delete(child)
    }
    const wanted = Math.min(queue.waiting() - starting, size - count)
    for (let n = 0; n < wanted && !closed; n += 1) void begin()
  }

  /** Starts a host. When it fails, the next program in the queue is rejected. */
  async function begin(): Promise<void> {
    count += 1
    starting += 1
    const child = await start().catch(toSandboxStartFailure)
    if ('reason' in child) count -= 1
    else watch(child)
    const wrong = await readHostFailure(child)
    starting -= 1
    if (!closed) onStart(wrong)
    failure = wrong?.reason ?? null
    clearTimeout(again)
    if (wrong === null) return rest(child as SandboxHostProcess)
    if (!closed) again = setTimeout(tryAgain, againMs).unref()
    queue.rejectNext()
    serve()
  }

  /** Retries without a job: a broken sandbox gets no requests that would retry. */
  function tryAgain(): void {
    if (count < size) void begin()
  }

  function watch(child: SandboxHostProcess): void {
    all.add(child)
    if (closed) child.kill()
    void child.ended.then(() => {
      all.delete(child)
      count -= 1
      clearTimeout(idle.get(child))
      idle.delete(child)
      serve()
    })
  }

  /** A host becomes idle once it has a fresh interpreter. */
  async function rest(child: SandboxHostProcess): Promise<void> {
    if (!(await child.ready())) return
    if (
      closed ||
      child.jobCount() >= MAX_JOBS_PER_HOST ||
      child.readMemoryBytes() > MAX_IDLE_HOST_MEMORY_BYTES
    )
      return child.kill()
    const leave = () => {
      idle.delete(child)
      child.kill()
    }
    idle.set(child, setTimeout(leave, IDLE_MS).unref())
    serve()
  }

  /** Takes a host for one job, fairly by owner. */
  function take({
    owner,
    timeoutMs: holdMs,
    signal,
    waiting,
  }: PooledSandboxJob): Promise<FairQueueLease<SandboxHostProcess>> {
    if (closed) return Promise.reject(sandboxBusyError())
    const either = waiting === undefined ? signal : AbortSignal.any([signal, waiting])
    const timeoutMs = SANDBOX_QUEUE_TIMEOUT_MS
    const given = queue.wait(owner, { signal: either, timeoutMs, holdMs })
    serve()
    return given
  }

  async function run(job: PooledSandboxJob, listener: SandboxListener): Promise<SandboxJobOutcome> {
    const { code, timeoutMs, signal } = job
    const { value: child, release } = await take(job)
    const stop = () => child.kill()
    signal.addEventListener('abort', stop, { once: true })
    try {
      if (signal.aborted) child.kill()
      const outcome = await child.run({ code, timeoutMs }, listener)
      signal.throwIfAborted()
      if (closed) throw sandboxBusyError()
      return outcome
    } finally {
      signal.removeEventListener('abort', stop)
      release()
      void rest(child)
    }
  }

  return {
    run,
    async close() {
      closed = true
      clearTimeout(again)
      while (queue.rejectNext());
      await Promise.all([...all].map((child) => (child.kill(), child.ended)))
    },
  }
}

async function readHostFailure(
  started: SandboxHostProcess | SandboxStartFailure,
): Promise<SandboxStartFailure | null> {
  if ('reason' in started) return started
  return (await started.ready()) ? null : started.readStartFailure()
}

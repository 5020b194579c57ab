import type { Clock } from '../../core/clock.ts'
import { createFairQueue, type FairQueueLease } from '../../core/concurrency/fair-queue.ts'
import {
  toStartFailure,
  type SandboxHostProcess,
  type SandboxJobOutcome,
  type SandboxStartFailure,
} from './sandbox-host-process.ts'
import type { SandboxHostJob } from './host/job-protocol.ts'
import type { SandboxListener } from './port.ts'
import { sandboxBusyError, sandboxUnavailableError } from './sandbox-errors.ts'

export interface SandboxHostPoolDeps {
  readonly clock: Pick<Clock, 'mono'>
  readonly size: number
  /** Starts a host, or tells why none can be started. */
  readonly start: () => Promise<SandboxHostProcess | SandboxStartFailure>
  /** Hears how every start went: null where the host came up. */
  readonly onStart: (fault: SandboxStartFailure | null) => void
  /** After a start that failed, one is tried without a job. */
  readonly againMs?: number
}

export interface SandboxHostPool {
  run(job: PooledSandboxJob, hear: SandboxListener): Promise<SandboxJobOutcome>
  close(): Promise<void>
}

export interface PooledSandboxJob extends SandboxHostJob {
  /** Hosts are shared out by owner. */
  readonly owner: string
  /** Ends the program wherever it is. */
  readonly signal: AbortSignal
  /** Takes it out of the queue; a program that has begun goes on. */
  readonly waiting: AbortSignal | undefined
}

const MAX_JOBS_PER_HOST = 50
const MAX_IDLE_HOST_MEMORY_BYTES = 250 * 1024 * 1024
/** Programs that wait for a host of one language: of all owners, and of one. */
const MAX_WAITING = 256
const MAX_WAITING_PER_OWNER = 16
/** Four programs of the longest time; with the program itself it is within the deadline of the tool. */
const SANDBOX_QUEUE_TIMEOUT_MS = 45_000
/** An idle host gives its memory back. */
const IDLE_MS = 60_000
const HOST_RETRY_MS = 30_000

/** Hosts of one language: started when they are needed, one job each at a time, thrown away early. */
export function createSandboxHostPool({
  clock,
  size,
  start,
  onStart,
  againMs = HOST_RETRY_MS,
}: SandboxHostPoolDeps): SandboxHostPool {
  const idle = new Map<SandboxHostProcess, NodeJS.Timeout>()
  const all = new Set<SandboxHostProcess>()
  let fault: string | null = null
  let again: NodeJS.Timeout | undefined
  const queue = createFairQueue<SandboxHostProcess>({
    clock,
    maxWaiting: MAX_WAITING,
    maxWaitingPerOwner: MAX_WAITING_PER_OWNER,
    createRejection: () =>
      fault === null || closed ? sandboxBusyError() : sandboxUnavailableError(fault),
  })
  /** Hosts there are or will be; those of them that have yet to come up. */
  let [count, starting, closed] = [0, 0, false]

  /** Nothing that waits is left behind: whenever a host ends or starts, the queue is looked at. */
  function serve(): void {
    for (const [child, rest] of idle) {
      if (queue.waiting() === 0) return
      clearTimeout(rest)
      idle.delete(child)
      queue.offer(child)
    }
    const wanted = Math.min(queue.waiting() - starting, size - count)
    for (let n = 0; n < wanted && !closed; n += 1) void begin()
  }

  /** One more host. Where it does not come up, the program whose turn it is is refused. */
  async function begin(): Promise<void> {
    count += 1
    starting += 1
    const child = await start().catch(toStartFailure)
    if ('reason' in child) count -= 1
    else watch(child)
    const wrong = await readHostFailure(child)
    starting -= 1
    if (!closed) onStart(wrong)
    fault = wrong?.reason ?? null
    clearTimeout(again)
    if (wrong === null) return rest(child as SandboxHostProcess)
    if (!closed) again = setTimeout(tryAgain, againMs).unref()
    queue.rejectNext()
    serve()
  }

  /** One accident is not for good, and nobody may ask for what counts as broken. */
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

  /** A host is idle once it has a fresh interpreter. */
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

  /** A host for one job, in a fair turn of its owner. */
  function take({
    owner,
    signal,
    waiting,
  }: PooledSandboxJob): Promise<FairQueueLease<SandboxHostProcess>> {
    if (closed) return Promise.reject(sandboxBusyError())
    const either = waiting === undefined ? signal : AbortSignal.any([signal, waiting])
    const given = queue.wait(owner, { signal: either, timeoutMs: SANDBOX_QUEUE_TIMEOUT_MS })
    serve()
    return given
  }

  async function run(job: PooledSandboxJob, hear: SandboxListener): Promise<SandboxJobOutcome> {
    const { code, timeoutMs, signal } = job
    const { value: child, release } = await take(job)
    const stop = () => child.kill()
    signal.addEventListener('abort', stop, { once: true })
    try {
      if (signal.aborted) child.kill()
      const outcome = await child.run({ code, timeoutMs }, hear)
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

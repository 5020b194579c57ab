import type { Clock } from '../../core/clock.ts'
import { createFairQueue, type Lease } from '../../core/fair-queue.ts'
import { startFault, type Child, type Outcome, type StartFault } from './child.ts'
import type { HostJob } from './host/wire.ts'
import type { SandboxHearing } from './port.ts'
import { busy, unavailable } from './refusals.ts'

export interface PoolParts {
  readonly clock: Pick<Clock, 'mono'>
  readonly size: number
  /** Starts a host, or tells why none can be started. */
  readonly start: () => Promise<Child | StartFault>
  /** Hears how every start went: null where the host came up. */
  readonly note: (fault: StartFault | null) => void
  /** After a start that failed, one is tried without a job. */
  readonly againMs?: number
}

export interface Pool {
  run(job: PoolJob, hear: SandboxHearing): Promise<Outcome>
  close(): Promise<void>
}

export interface PoolJob extends HostJob {
  /** Hosts are shared out by owner. */
  readonly owner: string
  /** Ends the program wherever it is. */
  readonly signal: AbortSignal
  /** Takes it out of the queue; a program that has begun goes on. */
  readonly waiting: AbortSignal | undefined
}

const MOST_JOBS = 50
const MOST_IDLE_MEMORY = 250 * 1024 * 1024
/** Programs that wait for a host of one language: of all owners, and of one. */
const MAX_WAITING = 256
const MAX_WAITING_PER_OWNER = 16
/** Four programs of the longest time; with the program itself it is within the deadline of the tool. */
const PATIENCE_MS = 45_000
/** An idle host gives its memory back. */
const IDLE_MS = 60_000
const AGAIN_MS = 30_000

/** Hosts of one language: started when they are needed, one job each at a time, thrown away early. */
export function createPool({ clock, size, start, note, againMs = AGAIN_MS }: PoolParts): Pool {
  const idle = new Map<Child, NodeJS.Timeout>()
  const all = new Set<Child>()
  let fault: string | null = null
  let again: NodeJS.Timeout | undefined
  const line = createFairQueue<Child>({
    clock,
    maxWaiting: MAX_WAITING,
    maxWaitingPerOwner: MAX_WAITING_PER_OWNER,
    refusal: () => (fault === null || closed ? busy() : unavailable(fault)),
  })
  /** Hosts there are or will be; those of them that have yet to come up. */
  let [count, starting, closed] = [0, 0, false]

  /** Nothing that waits is left behind: whenever a host ends or starts, the queue is looked at. */
  function serve(): void {
    for (const [child, rest] of idle) {
      if (line.waiting() === 0) return
      clearTimeout(rest)
      idle.delete(child)
      line.give(child)
    }
    const wanted = Math.min(line.waiting() - starting, size - count)
    for (let n = 0; n < wanted && !closed; n += 1) void begin()
  }

  /** One more host. Where it does not come up, the program whose turn it is is refused. */
  async function begin(): Promise<void> {
    count += 1
    starting += 1
    const child = await start().catch(startFault)
    if ('reason' in child) count -= 1
    else watch(child)
    const wrong = await faultOf(child)
    starting -= 1
    if (!closed) note(wrong)
    fault = wrong?.reason ?? null
    clearTimeout(again)
    if (wrong === null) return rest(child as Child)
    if (!closed) again = setTimeout(tryAgain, againMs).unref()
    line.refuseNext()
    serve()
  }

  /** One accident is not for good, and nobody may ask for what counts as broken. */
  function tryAgain(): void {
    if (count < size) void begin()
  }

  function watch(child: Child): void {
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
  async function rest(child: Child): Promise<void> {
    if (!(await child.ready())) return
    if (closed || child.jobs() >= MOST_JOBS || child.memory() > MOST_IDLE_MEMORY)
      return child.kill()
    const leave = () => {
      idle.delete(child)
      child.kill()
    }
    idle.set(child, setTimeout(leave, IDLE_MS).unref())
    serve()
  }

  /** A host for one job, in a fair turn of its owner. */
  function take({ owner, signal, waiting }: PoolJob): Promise<Lease<Child>> {
    if (closed) return Promise.reject(busy())
    const either = waiting === undefined ? signal : AbortSignal.any([signal, waiting])
    const given = line.wait(owner, { signal: either, patienceMs: PATIENCE_MS })
    serve()
    return given
  }

  async function run(job: PoolJob, hear: SandboxHearing): Promise<Outcome> {
    const { code, timeoutMs, signal } = job
    const { value: child, release } = await take(job)
    const stop = () => child.kill()
    signal.addEventListener('abort', stop, { once: true })
    try {
      if (signal.aborted) child.kill()
      const outcome = await child.run({ code, timeoutMs }, hear)
      signal.throwIfAborted()
      if (closed) throw busy()
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
      while (line.refuseNext());
      await Promise.all([...all].map((child) => (child.kill(), child.ended)))
    },
  }
}

async function faultOf(started: Child | StartFault): Promise<StartFault | null> {
  if ('reason' in started) return started
  return (await started.ready()) ? null : started.why()
}

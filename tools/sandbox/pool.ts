import { startFault, type Child, type Outcome, type StartFault } from './child.ts'
import type { HostJob } from './host/wire.ts'
import { busy, createLine, unavailable } from './line.ts'

export interface PoolParts {
  readonly size: number
  /** Starts a host, or tells why none can be started. */
  readonly start: () => Promise<Child | StartFault>
  /** Hears how every start went: null where the host came up. */
  readonly note: (fault: StartFault | null) => void
  /** After a start that failed, one is tried without a job. */
  readonly againMs?: number
}

export interface Pool {
  run(job: HostJob, signal: AbortSignal, hear: Hearing): Promise<Outcome>
  close(): Promise<void>
}

export interface Hearing {
  /** A host has it: what came before was waiting. */
  begun(): void
  text(delta: string): void
}

const MOST_JOBS = 50
const MOST_IDLE_MEMORY = 250 * 1024 * 1024
const WAIT_MS = 5_000
/** An idle host gives its memory back. */
const IDLE_MS = 60_000
const AGAIN_MS = 30_000

/** Hosts of one language: started when they are needed, one job each at a time, thrown away early. */
export function createPool({ size, start, note, againMs = AGAIN_MS }: PoolParts): Pool {
  const idle = new Map<Child, NodeJS.Timeout>()
  const all = new Set<Child>()
  let fault: string | null = null
  let again: NodeJS.Timeout | undefined
  const line = createLine<Child>(() => (fault === null || closed ? busy() : unavailable(fault)))
  /** Hosts there are or will be; those of them that have yet to come up, or to get ready once more. */
  let [count, starting, resting, closed] = [0, 0, 0, false]

  /** Nothing that waits is left behind: whenever a host ends or starts, the queue is looked at. */
  function serve(): void {
    for (const [child, rest] of idle) {
      if (line.length() === 0) return
      clearTimeout(rest)
      idle.delete(child)
      line.give(child)
    }
    const wanted = Math.min(line.length() - starting, size - count)
    for (let n = 0; n < wanted && !closed; n += 1) void begin()
  }

  /** One more host. Where it does not come up, whoever has waited longest is told, not the host again. */
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
    line.give(null)
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
    resting += 1
    const ready = await child.ready()
    resting -= 1
    if (!ready) return
    if (closed || child.jobs() >= MOST_JOBS || child.memory() > MOST_IDLE_MEMORY)
      return child.kill()
    const leave = () => {
      idle.delete(child)
      child.kill()
    }
    idle.set(child, setTimeout(leave, IDLE_MS).unref())
    serve()
  }

  /** A host for one job. Waits behind other jobs for so long; a host that gets ready has its own time. */
  function take(signal: AbortSignal): Promise<Child> {
    const free = idle.size + starting + resting + size - count
    if (closed || line.length() >= free + 2 * size) return Promise.reject(busy())
    const given = line.wait(signal, line.length() < free ? null : WAIT_MS)
    serve()
    return given
  }

  async function run(job: HostJob, signal: AbortSignal, hear: Hearing): Promise<Outcome> {
    const child = await take(signal)
    const stop = () => child.kill()
    signal.addEventListener('abort', stop, { once: true })
    try {
      if (signal.aborted) child.kill()
      hear.begun()
      const outcome = await child.run(job, hear.text)
      signal.throwIfAborted()
      return outcome
    } finally {
      signal.removeEventListener('abort', stop)
      void rest(child)
    }
  }

  return {
    run,
    async close() {
      closed = true
      clearTimeout(again)
      while (line.length() > 0) line.give(null)
      await Promise.all([...all].map((child) => (child.kill(), child.ended)))
    },
  }
}

async function faultOf(started: Child | StartFault): Promise<StartFault | null> {
  if ('reason' in started) return started
  return (await started.ready()) ? null : started.why()
}

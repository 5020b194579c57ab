import { readSync, writeSync } from 'node:fs'

/** What the station sends a host: one line of JSON a job. */
export interface HostJob {
  readonly code: string
  readonly timeoutMs: number
}

/** What a host says, one line of JSON each. */
export type HostWord =
  | { readonly type: 'ready' }
  /** It has the job: whatever ends the host from here on, the program has done. */
  | { readonly type: 'begun' }
  | { readonly type: 'text'; readonly delta: string }
  | ({ readonly type: 'done' } & HostResult)

export interface HostResult {
  readonly stderr: string
  readonly result: unknown
  readonly error: string | null
  readonly truncated: boolean
}

/** One fresh interpreter: it asks for a job once it is ready, runs it, and is thrown away. */
export type Interpreter = (next: () => HostJob, output: Output) => Promise<Ended>
export type Ended = Pick<HostResult, 'result' | 'error'>

/** Bytes of JSON, so that what is kept always fits into one answer. */
const MOST = { stdout: 512 * 1024, stderr: 64 * 1024, result: 128 * 1024, error: 32 * 1024 }
const CUT = '…'
/** So many pieces leave at once; then they leave together, or their envelopes would be the most of it. */
const PROMPT_PIECES = 1_000
const LARGE_PIECE = 1_024

let pending = Buffer.alloc(0)

/** The next line from the station; the process ends where the station has gone. */
export function readLine(): string {
  const chunk = Buffer.alloc(64 * 1024)
  for (;;) {
    const end = pending.indexOf(10)
    if (end >= 0) {
      const line = pending.subarray(0, end).toString()
      pending = Buffer.from(pending.subarray(end + 1))
      return line
    }
    const size = patiently(() => readSync(0, chunk, 0, chunk.length, null))
    if (size === 0) process.exit(0)
    pending = Buffer.concat([pending, chunk.subarray(0, size)])
  }
}

/** Blocks until the station has it: what was printed before a kill is not lost. */
export function say(word: HostWord): void {
  const line = Buffer.from(`${JSON.stringify(word)}\n`)
  for (let at = 0; at < line.length;) at += patiently(() => writeSync(1, line, at))
}

const STILL = new Int32Array(new SharedArrayBuffer(4))

/** A pipe may be set not to block, by whoever shares it. */
function patiently(work: () => number): number {
  for (;;) {
    try {
      return work()
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
      Atomics.wait(STILL, 0, 0, 1)
    }
  }
}

export interface Output {
  /** What an interpreter says of itself before there is a job is not the job's. */
  open(): void
  text(delta: string): void
  problem(delta: string): void
  flush(): void
  readonly stderr: () => string
  readonly truncated: () => boolean
}

/** What one job prints, cut at its limits. */
export function createOutput(): Output {
  let [truncated, stderr, held, writes] = [false, '', '', 0]
  const left = { stdout: 0, stderr: 0 }
  const take = (name: keyof typeof left, delta: string): string => {
    const kept = left[name] === 0 ? '' : fitting(delta, left[name])
    if (kept.length < delta.length) [truncated, left[name]] = [true, 0]
    else left[name] -= sizeOf(delta)
    return kept
  }
  const flush = () => {
    if (held !== '') say({ type: 'text', delta: held })
    held = ''
  }
  return {
    open() {
      Object.assign(left, { stdout: MOST.stdout, stderr: MOST.stderr })
      ;[truncated, stderr, held, writes] = [false, '', '', 0]
    },
    text(delta) {
      held += take('stdout', delta)
      writes += 1
      if (writes < PROMPT_PIECES || held.length >= LARGE_PIECE) flush()
    },
    flush,
    problem(delta) {
      stderr += take('stderr', delta)
    },
    stderr: () => stderr,
    truncated: () => truncated,
  }
}

const sizeOf = (text: string): number => Buffer.byteLength(JSON.stringify(text)) - 2

/** As much of the beginning as has at most `most` bytes in JSON. */
function fitting(text: string, most: number): string {
  const start = text.slice(0, most)
  if (sizeOf(start) <= most) return start
  let [low, high] = [0, start.length]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (sizeOf(start.slice(0, middle)) <= most) low = middle
    else high = middle - 1
  }
  return start.slice(0, low)
}

export const short = (text: string, most = MOST.error): string =>
  text.length <= most && sizeOf(text) <= most ? text : fitting(text, most) + CUT

/** Writing JSON is recursive: a value that nests deeper could end whoever writes it. */
const MAX_DEPTH = 200

/** Whether a value nests at most so deep that it can be written as JSON. */
export function isShallow(value: unknown, depth = MAX_DEPTH): boolean {
  if (typeof value !== 'object' || value === null) return true
  return depth > 0 && Object.values(value).every((one) => isShallow(one, depth - 1))
}

/**
 * A value given as JSON; as text where it is too long or too deep for an answer. Throws a SyntaxError
 * for what is no JSON.
 */
export function valueOf(json: string | null): unknown {
  if (json === null) return null
  if (json.length > MOST.result || Buffer.byteLength(json) > MOST.result) {
    return short(json, MOST.result)
  }
  const value = JSON.parse(json) as unknown
  return isShallow(value) ? value : short(json, MOST.result)
}

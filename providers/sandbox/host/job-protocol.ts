import { readSync, writeSync } from 'node:fs'

/** What the station sends a host: one line of JSON a job. */
export interface SandboxHostJob {
  readonly code: string
  readonly timeoutMs: number
}

/** What a host says, one line of JSON each. */
export type SandboxHostMessage =
  | { readonly type: 'ready' }
  /** It has the job: whatever ends the host from here on, the program has done. */
  | { readonly type: 'begun' }
  | { readonly type: 'text'; readonly delta: string }
  | ({ readonly type: 'done' } & SandboxHostResult)

export interface SandboxHostResult {
  readonly stderr: string
  readonly result: unknown
  readonly error: string | null
  readonly truncated: boolean
}

/** One fresh interpreter: it asks for a job once it is ready, runs it, and is thrown away. */
export type JobInterpreter = (
  next: () => SandboxHostJob,
  output: JobOutput,
) => Promise<InterpreterResult>
export type InterpreterResult = Pick<SandboxHostResult, 'result' | 'error'>

/** Bytes of JSON, so that what is kept always fits into one answer. */
const MAX_OUTPUT_JSON_BYTES = {
  stdout: 512 * 1024,
  stderr: 64 * 1024,
  result: 128 * 1024,
  error: 32 * 1024,
}
const TRUNCATION_MARK = '…'
/** So many pieces leave at once; then they leave together, or their envelopes would be the most of it. */
const MAX_UNBUFFERED_WRITES = 1_000
const OUTPUT_FLUSH_CHARS = 1_024

let pending = Buffer.alloc(0)

/** The next line from the station; the process ends where the station has gone. */
export function readProtocolLine(): string {
  const chunk = Buffer.alloc(64 * 1024)
  for (;;) {
    const end = pending.indexOf(10)
    if (end >= 0) {
      const line = pending.subarray(0, end).toString()
      pending = Buffer.from(pending.subarray(end + 1))
      return line
    }
    const size = retryWhileBlocked(() => readSync(0, chunk, 0, chunk.length, null))
    if (size === 0) process.exit(0)
    pending = Buffer.concat([pending, chunk.subarray(0, size)])
  }
}

/** Blocks until the station has it: what was printed before a kill is not lost. */
export function writeHostMessage(word: SandboxHostMessage): void {
  const line = Buffer.from(`${JSON.stringify(word)}\n`)
  for (let at = 0; at < line.length;) at += retryWhileBlocked(() => writeSync(1, line, at))
}

const WAIT_BUFFER = new Int32Array(new SharedArrayBuffer(4))

/** A pipe may be set not to block, by whoever shares it. */
function retryWhileBlocked(work: () => number): number {
  for (;;) {
    try {
      return work()
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
      Atomics.wait(WAIT_BUFFER, 0, 0, 1)
    }
  }
}

export interface JobOutput {
  /** What an interpreter says of itself before there is a job is not the job's. */
  open(): void
  text(delta: string): void
  problem(delta: string): void
  flush(): void
  readonly stderr: () => string
  readonly truncated: () => boolean
}

/** What one job prints, cut at its limits. */
export function createJobOutput(): JobOutput {
  let [truncated, stderr, held, writes] = [false, '', '', 0]
  const left = { stdout: 0, stderr: 0 }
  const take = (name: keyof typeof left, delta: string): string => {
    const kept = left[name] === 0 ? '' : longestFittingPrefix(delta, left[name])
    if (kept.length < delta.length) [truncated, left[name]] = [true, 0]
    else left[name] -= jsonByteLength(delta)
    return kept
  }
  const flush = () => {
    if (held !== '') writeHostMessage({ type: 'text', delta: held })
    held = ''
  }
  return {
    open() {
      Object.assign(left, {
        stdout: MAX_OUTPUT_JSON_BYTES.stdout,
        stderr: MAX_OUTPUT_JSON_BYTES.stderr,
      })
      ;[truncated, stderr, held, writes] = [false, '', '', 0]
    },
    text(delta) {
      held += take('stdout', delta)
      writes += 1
      if (writes < MAX_UNBUFFERED_WRITES || held.length >= OUTPUT_FLUSH_CHARS) flush()
    },
    flush,
    problem(delta) {
      stderr += take('stderr', delta)
    },
    stderr: () => stderr,
    truncated: () => truncated,
  }
}

const jsonByteLength = (text: string): number => Buffer.byteLength(JSON.stringify(text)) - 2

/** As much of the beginning as has at most `most` bytes in JSON. */
function longestFittingPrefix(text: string, most: number): string {
  const start = text.slice(0, most)
  if (jsonByteLength(start) <= most) return start
  let [low, high] = [0, start.length]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (jsonByteLength(start.slice(0, middle)) <= most) low = middle
    else high = middle - 1
  }
  return start.slice(0, low)
}

export const truncateToJsonBytes = (text: string, most = MAX_OUTPUT_JSON_BYTES.error): string =>
  text.length <= most && jsonByteLength(text) <= most
    ? text
    : longestFittingPrefix(text, most) + TRUNCATION_MARK

/** Writing JSON is recursive: a value that nests deeper could end whoever writes it. */
const MAX_RESULT_JSON_DEPTH = 200

/** Whether a value nests at most so deep that it can be written as JSON. */
export function isWithinJsonDepth(value: unknown, depth = MAX_RESULT_JSON_DEPTH): boolean {
  if (typeof value !== 'object' || value === null) return true
  return depth > 0 && Object.values(value).every((one) => isWithinJsonDepth(one, depth - 1))
}

/**
 * A value given as JSON; as text where it is too long or too deep for an answer. Throws a SyntaxError
 * for what is no JSON.
 */
export function parseBoundedJson(json: string | null): unknown {
  if (json === null) return null
  if (
    json.length > MAX_OUTPUT_JSON_BYTES.result ||
    Buffer.byteLength(json) > MAX_OUTPUT_JSON_BYTES.result
  ) {
    return truncateToJsonBytes(json, MAX_OUTPUT_JSON_BYTES.result)
  }
  const value = JSON.parse(json) as unknown
  return isWithinJsonDepth(value) ? value : truncateToJsonBytes(json, MAX_OUTPUT_JSON_BYTES.result)
}

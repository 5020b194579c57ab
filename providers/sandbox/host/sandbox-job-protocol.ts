import { readSync, writeSync } from 'node:fs'

/** A job for a host: one line of JSON. */
export interface SandboxHostJob {
  readonly code: string
  readonly timeoutMs: number
}

/** A message of a host: one line of JSON. */
export type SandboxHostMessage =
  | { readonly type: 'ready' }
  /** The host has the job; if it ends from here on, the program caused it. */
  | { readonly type: 'begun' }
  | { readonly type: 'text'; readonly delta: string }
  | ({ readonly type: 'done' } & SandboxHostResult)

export interface SandboxHostResult {
  readonly stderr: string
  readonly result: unknown
  readonly error: string | null
  readonly truncated: boolean
}

/** A fresh interpreter: requests a job once it is ready, runs it, and is discarded. */
export type SandboxJobInterpreter = (
  next: () => SandboxHostJob,
  output: SandboxJobOutputCollector,
) => Promise<SandboxInterpreterResult>
export type SandboxInterpreterResult = Pick<SandboxHostResult, 'result' | 'error'>

/** Bytes of JSON, so that stored output always fits into a response. */
const MAX_OUTPUT_JSON_BYTES = {
  stdout: 512 * 1024,
  stderr: 64 * 1024,
  result: 128 * 1024,
  error: 32 * 1024,
}
const TRUNCATION_MARK = '…'
/** Writes that are sent at once; later ones are batched, or their envelopes would dominate. */
const MAX_UNBUFFERED_WRITES = 1_000
const OUTPUT_FLUSH_CHARS = 1_024

let pending = Buffer.alloc(0)

/** Reads the next line from the station; exits where the station has ended. */
export function readSandboxProtocolLine(): string {
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

/** Blocks until the message is written, so that output before a kill is not lost. */
export function writeSandboxHostMessage(message: SandboxHostMessage): void {
  const line = Buffer.from(`${JSON.stringify(message)}\n`)
  for (let at = 0; at < line.length;) at += retryWhileBlocked(() => writeSync(1, line, at))
}

const WAIT_BUFFER = new Int32Array(new SharedArrayBuffer(4))

/** A pipe may be set to non-blocking by another process that shares it. */
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

export interface SandboxJobOutputCollector {
  /** Starts recording: earlier output belongs to the interpreter, not the job. */
  open(): void
  text(delta: string): void
  problem(delta: string): void
  flush(): void
  readonly stderr: () => string
  readonly truncated: () => boolean
}

/** Collects the output of a job, cut at its limits. */
export function createSandboxJobOutputCollector(): SandboxJobOutputCollector {
  let [truncated, stderr, held, writes] = [false, '', '', 0]
  const left = { stdout: 0, stderr: 0 }
  const take = (name: keyof typeof left, delta: string): string => {
    const kept = left[name] === 0 ? '' : longestFittingPrefix(delta, left[name])
    if (kept.length < delta.length) [truncated, left[name]] = [true, 0]
    else left[name] -= jsonByteLength(delta)
    return kept
  }
  const flush = () => {
    if (held !== '') writeSandboxHostMessage({ type: 'text', delta: held })
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

/** Returns the longest prefix of at most `maxBytes` bytes in JSON. */
function longestFittingPrefix(text: string, maxBytes: number): string {
  const start = text.slice(0, maxBytes)
  if (jsonByteLength(start) <= maxBytes) return start
  let [low, high] = [0, start.length]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (jsonByteLength(start.slice(0, middle)) <= maxBytes) low = middle
    else high = middle - 1
  }
  return start.slice(0, low)
}

export const truncateToJsonBytes = (text: string, maxBytes = MAX_OUTPUT_JSON_BYTES.error): string =>
  text.length <= maxBytes && jsonByteLength(text) <= maxBytes
    ? text
    : longestFittingPrefix(text, maxBytes) + TRUNCATION_MARK

/** JSON serialization is recursive: deeper nesting could overflow the stack. */
const MAX_RESULT_JSON_DEPTH = 200

/** Returns whether a value nests shallowly enough to serialize. */
export function isWithinJsonDepth(value: unknown, depth = MAX_RESULT_JSON_DEPTH): boolean {
  if (typeof value !== 'object' || value === null) return true
  return depth > 0 && Object.values(value).every((one) => isWithinJsonDepth(one, depth - 1))
}

/**
 * Parses a JSON value; returns its text where it is too long or too deep for a response. Throws a SyntaxError
 * for invalid JSON.
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

import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { quantile } from '../chaos/quantiles-host-hardware-and-text-tables.ts'

/** The plan of one load generator process. */
export interface HttpLoadPlan {
  readonly port: number
  readonly path: string
  /** Sent with POST; without it the requests are GET. */
  readonly body?: object
  /** API keys, used in rotation; without any, one request without a key. */
  readonly keys: readonly string[]
  /** Lines of all requests, as `Accept-Encoding: br`. */
  readonly headerLines?: readonly string[]
  /** The status that counts as success; default 200. */
  readonly status?: number
  /** The header that carries the key; default `X-API-Key`. */
  readonly header?: string
  /** Uses each key for one request; the run fails when the keys run out. */
  readonly once?: true
  readonly connections: number
  readonly warmUpMs: number
  readonly measureMs: number
  /** Requests per second at a fixed rate; without it each response triggers the next request. */
  readonly rate?: number
  /** Stops after this number of requests. */
  readonly total?: number
}

export interface HttpLoadResult {
  readonly rate: number
  readonly p50: number
  readonly p99: number
  readonly answers: number
  /** Responses of another status. */
  readonly failed: number
  /** Bytes of a response, heads included; the mean. */
  readonly bytes: number
  /**
   * Successes, including those outside the measured period, and the time they took together.
   */
  readonly all: { readonly good: number; readonly ms: number }
}

type OnResponseStatus = (status: number) => void

/** The end of a body in chunks. */
const LAST_CHUNK = '0\r\n\r\n'
/** An event stream answers 200 before its tool runs; a failure is an event. */
const FAILED_EVENT = 'event: error\n'
const FAILED_STREAM_STATUS = 500

/** A keep-alive connection that parses only the necessary part of a response. */
class Connection {
  bytesRead = 0
  private socket: Socket
  private rest: Buffer = Buffer.alloc(0)
  private answered: OnResponseStatus | null = null
  /** Status of a body in chunks that is not complete yet. */
  private chunkedStatus = 0
  /** Bytes of the body that are still to come, and its status; the head is known. */
  private body: { left: number; readonly status: number } | null = null

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1').setNoDelay(true)
    this.socket.on('data', (chunk: Buffer) => this.read(chunk))
    this.socket.on('close', () => this.answered?.(0))
    this.socket.on('error', () => {})
  }

  get busy(): boolean {
    return this.answered !== null
  }

  send(request: Buffer, answered: OnResponseStatus): void {
    this.answered = answered
    this.socket.write(request)
  }

  close(): void {
    this.answered = null
    this.socket.destroy()
  }

  private read(chunk: Buffer): void {
    this.bytesRead += chunk.length
    if (this.chunkedStatus !== 0) return this.readChunks(chunk)
    if (this.body === null) {
      this.rest = this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk])
      const head = this.rest.indexOf('\r\n\r\n')
      if (head < 0) return
      const text = this.rest.toString('latin1', 0, head)
      if (/transfer-encoding: chunked/i.test(text)) {
        this.chunkedStatus = Number(text.slice(9, 12))
        const body = this.rest.subarray(head + 4)
        this.rest = Buffer.alloc(0)
        return this.readChunks(body)
      }
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0)
      this.body = { left: length, status: Number(text.slice(9, 12)) }
      chunk = this.rest.subarray(head + 4)
    }
    this.body.left -= chunk.length
    if (this.body.left > 0) return
    const { answered, body } = this
    this.rest = Buffer.alloc(0)
    this.answered = null
    this.body = null
    answered?.(body.status)
  }

  private readChunks(chunk: Buffer): void {
    this.rest = this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk])
    if (
      this.rest.toString('latin1', Math.max(0, this.rest.length - LAST_CHUNK.length)) !== LAST_CHUNK
    )
      return
    const status = this.rest.includes(FAILED_EVENT) ? FAILED_STREAM_STATUS : this.chunkedStatus
    const { answered } = this
    this.rest = Buffer.alloc(0)
    this.answered = null
    this.chunkedStatus = 0
    answered?.(status)
  }
}

function requestsOf(plan: HttpLoadPlan): Buffer[] {
  const { path, body, keys, header = 'X-API-Key', headerLines = [] } = plan
  const text = body === undefined ? '' : JSON.stringify(body)
  const common = [
    `${body === undefined ? 'GET' : 'POST'} ${path} HTTP/1.1`,
    'Host: 127.0.0.1',
    ...headerLines,
    ...(body === undefined
      ? []
      : ['Content-Type: application/json', `Content-Length: ${Buffer.byteLength(text)}`]),
  ]
  const form = (lines: readonly string[]) => Buffer.from(`${lines.join('\r\n')}\r\n\r\n${text}`)
  if (keys.length === 0) return [form(common)]
  return keys.map((key) => form([...common, `${header}: ${key}`]))
}

async function run(plan: HttpLoadPlan): Promise<HttpLoadResult> {
  const requests = requestsOf(plan)
  const connections = Array.from({ length: plan.connections }, () => new Connection(plan.port))
  const from = performance.now() + plan.warmUpMs
  const until = from + plan.measureMs
  const { total = Number.POSITIVE_INFINITY, status: expected = 200 } = plan
  const times: number[] = []
  let [next, failed, good, answered] = [0, 0, 0, 0]
  const request = () => {
    if (plan.once === true && next === requests.length) throw new Error('the keys did not last')
    return requests[next++ % requests.length] as Buffer
  }
  const begunAt = performance.now()
  const note = (startedAt: number, status: number): void => {
    const at = performance.now()
    answered += 1
    if (status === expected) good += 1
    if (startedAt < from || at > until) return
    times.push(at - startedAt)
    if (status !== expected) failed += 1
  }
  const over = () => next >= total || (plan.total === undefined && performance.now() > until)
  if (plan.rate === undefined) await closedLoop(connections, request, over, note)
  else await openLoop(connections, request, plan.rate, until, note)
  const all = { good, ms: performance.now() - begunAt }
  const bytes = connections.reduce((sum, { bytesRead }) => sum + bytesRead, 0) / answered
  for (const connection of connections) connection.close()
  return {
    rate: times.length / (plan.measureMs / 1000),
    p50: quantile(times, 0.5),
    p99: quantile(times, 0.99),
    answers: times.length,
    failed,
    bytes,
    all,
  }
}

type Note = (startedAt: number, status: number) => void

function closedLoop(
  connections: Connection[],
  request: () => Buffer,
  over: () => boolean,
  note: Note,
): Promise<unknown> {
  const loop = (connection: Connection) =>
    new Promise<void>((done) => {
      const step = (): void => {
        if (over()) return done()
        const startedAt = performance.now()
        connection.send(request(), (status) => {
          note(startedAt, status)
          if (status === 0) done()
          else step()
        })
      }
      step()
    })
  return Promise.all(connections.map(loop))
}

/**
 * Latency counts from the scheduled time of a request, so it includes the wait for a connection.
 */
async function openLoop(
  connections: Connection[],
  request: () => Buffer,
  rate: number,
  until: number,
  note: Note,
): Promise<void> {
  let due = performance.now()
  const waiting: number[] = []
  const start = (): void => {
    for (const connection of connections) {
      if (connection.busy) continue
      const dueAt = waiting.shift()
      if (dueAt === undefined) return
      connection.send(request(), (status) => {
        note(dueAt, status)
        start()
      })
    }
  }
  while (performance.now() < until) {
    for (; due <= performance.now(); due += 1000 / rate) waiting.push(due)
    start()
    await new Promise((done) => setTimeout(done, 1))
  }
}

const [, program = '', file] = process.argv
if (program.endsWith('http-load-generator.ts') && file !== undefined) {
  console.log(JSON.stringify(await run(JSON.parse(readFileSync(file, 'utf8')) as HttpLoadPlan)))
}

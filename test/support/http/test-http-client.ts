import { Agent as Pool, request } from 'undici'

/** Fields of replies that tests read; missing fields are undefined. */
export interface TestReplyBody {
  readonly [name: string]: unknown
  readonly code: string
  readonly agent_id: string
  readonly api_key: string
  readonly task_id: string
  readonly backpack_id: string
  readonly fund_url: string
  readonly balance_usdc: number
  readonly spent_usdc: number
  readonly retry_after: number
  readonly errors: readonly { pointer: string; detail: string }[]
  readonly _meta: Readonly<{
    call_id: string
    cost_usdc: number
    balance_usdc: number | null
    rail: string
    receipt: string
  }>
}

export interface SseFrame {
  /** Null for an event without an id. */
  readonly id: string | null
  readonly event: string
  readonly data: TestReplyBody
}

export interface TestReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: TestReplyBody
  readonly text: string
  /** Milliseconds until the last byte. */
  readonly ms: number
  /** The events of a stream. */
  readonly frames: readonly SseFrame[]
}

export interface TestRequestOptions {
  readonly key?: string | undefined
  /** Sent as JSON. */
  readonly json?: unknown
  /** Sent unchanged. */
  readonly raw?: string | Buffer
  readonly headers?: Readonly<Record<string, string>>
}

export type TestHttpClient = (
  method: string,
  path: string,
  asked?: TestRequestOptions,
) => Promise<TestReply>

/** An HTTP client of one station without a connection limit. */
export function createTestHttpClient(
  t: { teardown(work: () => unknown): unknown },
  base: string,
): TestHttpClient {
  const pool = new Pool({ headersTimeout: 60_000, bodyTimeout: 60_000 })
  t.teardown(() => pool.destroy())
  return async (method, path, { key, json, raw, headers = {} } = {}) => {
    const body = json === undefined ? raw : JSON.stringify(json)
    const started = performance.now()
    const reply = await request(`${base}${path}`, {
      method: method as 'POST',
      dispatcher: pool,
      headers: {
        ...(key === undefined ? {} : { 'x-api-key': key }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body }),
    })
    const text = await reply.body.text()
    const type = String(reply.headers['content-type'] ?? '')
    return {
      status: reply.statusCode,
      headers: reply.headers as Record<string, string>,
      body: (/json/.test(type) ? JSON.parse(text) : {}) as TestReplyBody,
      text,
      ms: performance.now() - started,
      frames: type.startsWith('text/event-stream') ? parseSseFrames(text) : [],
    }
  }
}

/** One frame of an event stream. */
export const SSE_FRAME_PATTERN = /^(?:id: (.+)\n)?event: (.+)\ndata: (.+)$/

function parseSseFrames(text: string): SseFrame[] {
  return text.split('\n\n').flatMap((block) => {
    const [, id = null, event, data] = SSE_FRAME_PATTERN.exec(block) ?? []
    return event === undefined || data === undefined
      ? []
      : [{ id, event, data: JSON.parse(data) as TestReplyBody }]
  })
}

/** Counts replies by status and code: `{ '200': 33, '402 payment_required': 31 }`. */
export function countReplies(answers: readonly TestReply[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const answer of answers) {
    const kind = answer.status === 200 ? '200' : `${answer.status} ${answer.body.code}`
    counts[kind] = (counts[kind] ?? 0) + 1
  }
  return counts
}

import { Pool } from 'undici'

export interface Answer {
  readonly status: number
  /** The error code of a refusal, else the empty string. */
  readonly code: string
  readonly body: Record<string, unknown>
  readonly replayed: boolean
}

/** A client of one station over keep-alive connections of loopback. */
export interface Client {
  /** Rejects when the connection is lost: the outcome is unknown then. */
  send(method: 'GET' | 'POST', path: string, headers: Headers, body?: object): Promise<Answer>
  close(): Promise<void>
}
type Headers = Readonly<Record<string, string>>

export interface Agent {
  readonly id: string
  readonly key: string
}

const ANSWER_MS = 10_000

export function clientOf(url: string, connections: number, answerMs = ANSWER_MS): Client {
  const pool = new Pool(url, { connections, bodyTimeout: answerMs, headersTimeout: answerMs })
  return {
    async send(method, path, headers, body) {
      const {
        statusCode: status,
        headers: answered,
        body: stream,
      } = await pool.request({
        method,
        path,
        headers: {
          ...headers,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const text = await stream.text()
      const events = String(answered['content-type']).startsWith('text/event-stream')
      const parsed = events ? lastOf(text) : (JSON.parse(text) as Record<string, unknown>)
      const failed = typeof parsed['code'] === 'string' && typeof parsed['status'] === 'number'
      return {
        status: failed ? Number(parsed['status']) : status,
        code: failed ? String(parsed['code']) : '',
        body: parsed,
        replayed: answered['idempotency-replayed'] === 'true',
      }
    },
    close: () => pool.destroy(),
  }
}

/** The result or the error of a stream; one that was cut off has neither. */
function lastOf(text: string): Record<string, unknown> {
  const [, data] = /^event: (?:result|error)\ndata: (.*)$/m.exec(text) ?? []
  if (data === undefined) throw new Error('the stream was cut off')
  return JSON.parse(data) as Record<string, unknown>
}

/** Registers agents; each starts with the credits the station gives. */
export async function onboard(client: Client, count: number): Promise<Agent[]> {
  const agents = Array.from({ length: count }, (_, at) => ({ name: `agent-${at}` }))
  const { status, body } = await client.send('POST', '/api/onboard/bulk', {}, { agents })
  if (status !== 200) throw new Error(`agents could not be made: ${JSON.stringify(body)}`)
  const made = body['agents'] as { agent_id: string; api_key: string }[]
  return made.map(({ agent_id: id, api_key: key }) => ({ id, key }))
}

export const as = ({ key }: Agent): Headers => ({ 'x-api-key': key })

/** Something that must not be refused: what the proof itself needs. */
export async function must(answer: Promise<Answer>): Promise<Record<string, unknown>> {
  const { status, body } = await answer
  if (status >= 400) throw new Error(`refused: ${JSON.stringify(body)}`)
  return body
}

/** The price of the paid tool the proofs call: it reads, and asks nobody outside. */
export const PRICE = 0.005
export const PAID = { tool: 'hive_trending', limit: 1 }

/** Decimals of USDC as whole micros: sums of floats would prove nothing. */
export const micro = (usdc: unknown): number => Math.round(Number(usdc) * 1_000_000)

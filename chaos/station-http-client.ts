import { Pool } from 'undici'

/** HTTP client of a station for proofs and benchmarks. */

export interface StationReply {
  readonly status: number
  /** The error code of a rejection, else an empty string. */
  readonly code: string
  readonly body: Record<string, unknown>
  readonly replayed: boolean
}

/** A client of one station over keep-alive loopback connections. */
export interface StationHttpClient {
  /** Rejects when the connection is lost: the outcome is then unknown. */
  send(method: 'GET' | 'POST', path: string, headers: Headers, body?: object): Promise<StationReply>
  close(): Promise<void>
}
type Headers = Readonly<Record<string, string>>

export interface AgentIdAndApiKey {
  readonly id: string
  readonly key: string
}

const REPLY_TIMEOUT_MS = 10_000

export function createStationHttpClient(
  url: string,
  connections: number,
  answerMs = REPLY_TIMEOUT_MS,
): StationHttpClient {
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
      const parsed = events ? parseFinalEvent(text) : (JSON.parse(text) as Record<string, unknown>)
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

/** The result or error of a stream; an interrupted stream has neither. */
function parseFinalEvent(text: string): Record<string, unknown> {
  const [, data] = /^event: (?:result|error)\ndata: (.*)$/m.exec(text) ?? []
  if (data === undefined) throw new Error('the stream was cut off')
  return JSON.parse(data) as Record<string, unknown>
}

/** Registers agents with the station's starter credits. */
export async function onboardAgents(
  client: StationHttpClient,
  count: number,
): Promise<AgentIdAndApiKey[]> {
  const agents = Array.from({ length: count }, (_, at) => ({ name: `agent-${at}` }))
  const { status, body } = await client.send('POST', '/api/onboard/bulk', {}, { agents })
  if (status !== 200) throw new Error(`agents could not be made: ${JSON.stringify(body)}`)
  const made = body['agents'] as { agent_id: string; api_key: string }[]
  return made.map(({ agent_id: id, api_key: key }) => ({ id, key }))
}

export const apiKeyHeader = ({ key }: AgentIdAndApiKey): Headers => ({ 'x-api-key': key })

/** Throws unless the reply is a success; for requests that the proof depends on. */
export async function expectSuccessReply(
  answer: Promise<StationReply>,
): Promise<Record<string, unknown>> {
  const { status, body } = await answer
  if (status >= 400) throw new Error(`refused: ${JSON.stringify(body)}`)
  return body
}

/** The price of the paid tool of the proofs, which reads only local data. */
export const CHAOS_PAID_TOOL_PRICE_USDC = 0.005
export const CHAOS_PAID_TOOL_REQUEST_BODY = { tool: 'hive_trending', limit: 1 }

/** Converts USDC decimals to whole micros, because sums of floats are inexact. */
export const usdcToMicros = (usdc: unknown): number => Math.round(Number(usdc) * 1_000_000)

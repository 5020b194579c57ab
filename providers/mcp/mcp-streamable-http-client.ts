import { ServiceError } from '../../core/errors.ts'
import type { EgressClient, SingleHopReply } from '../egress/egress-client-port.ts'

/** A client of MCP servers over streamable HTTP: one session for each use, since sessions may keep state. */

const PROTOCOL_VERSION = '2025-11-25'
const CLIENT_INFO = { name: 'gas-station', version: '1.0.0' }
const INITIALIZE_ID = 1
const REQUEST_ID = 2
const MAX_LIST_PAGES = 20

export interface McpConnection {
  readonly url: string
  /** Set by the station: the credential of the server. */
  readonly headers: Readonly<Record<string, string>>
  readonly maxBytes: number
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/** A tool as the server lists it; untrusted. */
export interface ListedMcpTool {
  readonly name: string
  readonly title: string | null
  readonly description: string | null
  readonly inputSchema: Readonly<Record<string, unknown>>
  readonly outputSchema: Readonly<Record<string, unknown>> | null
}

type JsonObject = Readonly<Record<string, unknown>>
type Egress = Pick<EgressClient, 'sendSingleHop'>

/** Returns the name of the server and its tools; at most `most`, then it throws `import_refused`. */
export async function listMcpTools(
  egress: Egress,
  connection: McpConnection,
  most: number,
): Promise<{ readonly server: string; readonly tools: readonly ListedMcpTool[] }> {
  return withMcpSession(egress, connection, async (session) => {
    const tools: ListedMcpTool[] = []
    let cursor: unknown
    for (let page = 0; page < MAX_LIST_PAGES; page += 1) {
      const params = cursor === undefined ? {} : { cursor }
      const result = await session.request(REQUEST_ID + page, 'tools/list', params)
      const listed = Array.isArray(result['tools']) ? result['tools'] : []
      tools.push(...listed.flatMap(toListedTool))
      if (tools.length > most) throw tooManyToolsError(most)
      cursor = result['nextCursor']
      if (typeof cursor !== 'string') return { server: session.server, tools }
    }
    throw tooManyToolsError(most)
  })
}

const tooManyToolsError = (most: number) =>
  new ServiceError('import_refused', { detail: `The server lists more than ${most} tools.` })

/** Calls a tool; returns the result of `tools/call`. */
export async function callRemoteMcpTool(
  egress: Egress,
  connection: McpConnection,
  name: string,
  input: JsonObject,
): Promise<JsonObject> {
  return withMcpSession(egress, connection, (session) =>
    session.request(REQUEST_ID, 'tools/call', { name, arguments: input }),
  )
}

interface McpSession {
  /** The name that the server gives itself. */
  readonly server: string
  request(id: number, method: string, params: JsonObject): Promise<JsonObject>
}

async function withMcpSession<T>(
  egress: Egress,
  connection: McpConnection,
  use: (session: McpSession) => Promise<T>,
): Promise<T> {
  const { timeoutMs } = connection
  const timeout = AbortSignal.timeout(timeoutMs)
  const signal = AbortSignal.any([connection.signal, timeout])
  try {
    return await runMcpSession(egress, { ...connection, signal }, use)
  } catch (error) {
    // The time of all requests of a session together.
    if (!timeout.aborted || connection.signal.aborted) throw error
    throw new ServiceError('upstream_timeout', { host: new URL(connection.url).hostname }, error)
  }
}

async function runMcpSession<T>(
  egress: Egress,
  connection: McpConnection,
  use: (session: McpSession) => Promise<T>,
): Promise<T> {
  const { url, maxBytes, timeoutMs, signal } = connection
  const own: Record<string, string> = {}
  const send = (method: 'POST' | 'DELETE', message?: JsonObject) =>
    egress.sendSingleHop({
      url,
      method,
      headers: {
        ...connection.headers,
        ...own,
        accept: 'application/json, text/event-stream',
        ...(message === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(message === undefined ? {} : { body: JSON.stringify(message) }),
      maxBytes,
      timeoutMs,
      signal,
    })
  const request = async (id: number, method: string, params: JsonObject) => {
    const reply = await send('POST', { jsonrpc: '2.0', id, method, params })
    return { reply, result: readResult(reply, id) }
  }

  const { reply, result } = await request(INITIALIZE_ID, 'initialize', {
    protocolVersion: PROTOCOL_VERSION,
    capabilities: {},
    clientInfo: CLIENT_INFO,
  })
  const version = result['protocolVersion']
  own['mcp-protocol-version'] = typeof version === 'string' ? version : PROTOCOL_VERSION
  const session = reply.headers['mcp-session-id']
  if (session !== undefined) own['mcp-session-id'] = session
  try {
    await send('POST', { jsonrpc: '2.0', method: 'notifications/initialized' })
    const info = isObject(result['serverInfo']) ? result['serverInfo'] : {}
    return await use({
      server: typeof info['name'] === 'string' ? info['name'] : '',
      request: async (id, method, params) => (await request(id, method, params)).result,
    })
  } finally {
    // The server may forget what it kept for this use; whether it does changes nothing here.
    if (session !== undefined) void send('DELETE').catch(() => {})
  }
}

/** Returns the result of a JSON-RPC request from JSON or from an event stream. */
function readResult({ status, headers, body }: SingleHopReply, id: number): JsonObject {
  if (status < 200 || status > 299)
    throw new ServiceError('upstream_error', {
      upstream_status: status,
      detail: `The MCP server answers ${status}.`,
    })
  const text = body.toString('utf8')
  const messages = /^text\/event-stream\b/i.test(headers['content-type'] ?? '')
    ? readEvents(text)
    : [text]
  for (const message of messages) {
    const answer = parseObject(message)
    if (answer?.['id'] !== id) continue
    if (isObject(answer['result'])) return answer['result']
    const error = isObject(answer['error']) ? answer['error'] : {}
    const said = typeof error['message'] === 'string' ? toLine(error['message']) : 'an error'
    throw new ServiceError('upstream_error', {
      reason: 'mcp_error',
      detail: `The MCP server answers: ${said}`,
    })
  }
  throw new ServiceError('upstream_schema', { detail: 'The MCP server gives no answer.' })
}

const readEvents = (text: string): string[] =>
  text.split(/\r?\n\r?\n/).map((event) =>
    event
      .split(/\r?\n/)
      .filter((line) => line.startsWith('data:'))
      .map((line) => line.slice(5))
      .join('\n'),
  )

function toListedTool(given: unknown): ListedMcpTool[] {
  if (!isObject(given) || typeof given['name'] !== 'string') return []
  const text = (value: unknown) => (typeof value === 'string' ? value : null)
  return [
    {
      name: given['name'],
      title: text(given['title']),
      description: text(given['description']),
      inputSchema: isObject(given['inputSchema']) ? given['inputSchema'] : { type: 'object' },
      outputSchema: isObject(given['outputSchema']) ? given['outputSchema'] : null,
    },
  ]
}

const toLine = (text: string): string => text.replace(/[\p{C}\p{Z}]+/gu, ' ').slice(0, 300)

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : null
  } catch {
    return null
  }
}

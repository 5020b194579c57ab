import { ServiceError } from '../../core/errors.ts'
import type { EgressClient } from '../egress/egress-client-port.ts'

/** A client of MCP servers over streamable HTTP: one session for each use, since sessions may keep state. */

const PROTOCOL_VERSION = '2025-11-25'
const CLIENT_INFO = { name: 'gas-station', version: '1.0.0' }
/** Of the answers that say who the server is. */
const MAX_WELCOME_BYTES = 64 * 1_024
/** Progress and notifications come before the answer. */
const MAX_EVENTS = 1_000
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
}

/** A page of `tools/list`; each tool is the JSON text of a `ListedMcpTool`. */
export interface ListedMcpToolsPage {
  readonly tools: readonly { readonly operation: string; readonly text: string }[]
  readonly nextCursor: string | null
}

/** An answer of a server, as it arrived. */
export interface McpReply {
  /** Of the request, within its session. */
  readonly id: number
  readonly status: number
  readonly contentType: string
  readonly body: Uint8Array
}

type JsonObject = Readonly<Record<string, unknown>>
type Egress = Pick<EgressClient, 'sendSingleHop'>

/**
 * Returns the name of the server and its tools; at most `most`, and all pages together as large as one answer, then
 * it throws `import_refused`. `readPage` reads a page outside of this thread.
 */
export async function listMcpTools(
  egress: Egress,
  connection: McpConnection,
  most: number,
  readPage: (reply: McpReply) => Promise<ListedMcpToolsPage>,
): Promise<{ readonly server: string; readonly tools: ListedMcpToolsPage['tools'] }> {
  return withMcpSession(egress, connection, async (session) => {
    const tools: ListedMcpToolsPage['tools'][number][] = []
    let cursor: string | null = null
    let left = connection.maxBytes
    for (let page = 0; page < MAX_LIST_PAGES; page += 1) {
      const params: JsonObject = cursor === null ? {} : { cursor }
      const reply = await session.request('tools/list', params, left)
      left -= reply.body.length
      const listed = await readPage(reply)
      tools.push(...listed.tools)
      if (tools.length > most) throw tooManyToolsError(most)
      cursor = listed.nextCursor
      if (cursor === null) return { server: session.server, tools }
      if (left <= 0) break
    }
    throw tooManyToolsError(most)
  })
}

/** Reads a page of `tools/list`. */
export function readMcpToolsPage(reply: McpReply): ListedMcpToolsPage {
  const { tools, nextCursor } = readMcpResult(reply)
  const listed = Array.isArray(tools) ? tools.flatMap(toListedTool) : []
  return {
    tools: listed.map((tool) => ({ operation: tool.name, text: JSON.stringify(tool) })),
    nextCursor: typeof nextCursor === 'string' ? nextCursor : null,
  }
}

const tooManyToolsError = (most: number) =>
  new ServiceError('import_refused', {
    detail: `The server lists more than ${most} tools, or more than an import may have.`,
  })

/** Calls a tool; returns the answer to `tools/call` for `readMcpResult`. */
export async function callRemoteMcpTool(
  egress: Egress,
  connection: McpConnection,
  name: string,
  input: JsonObject,
): Promise<McpReply> {
  return withMcpSession(egress, connection, (session) =>
    session.request('tools/call', { name, arguments: input }, connection.maxBytes),
  )
}

interface McpSession {
  /** The name that the server gives itself. */
  readonly server: string
  request(method: string, params: JsonObject, maxBytes: number): Promise<McpReply>
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
  const { url, timeoutMs, signal } = connection
  const own: Record<string, string> = {}
  let lastId = 0
  const send = (method: 'POST' | 'DELETE', maxBytes: number, message?: JsonObject) =>
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
  const request = async (method: string, params: JsonObject, maxBytes: number) => {
    const id = (lastId += 1)
    const message = { jsonrpc: '2.0', id, method, params }
    const { status, headers, body } = await send('POST', maxBytes, message)
    return { id, status, headers, contentType: headers['content-type'] ?? '', body }
  }

  const begun = await request(
    'initialize',
    { protocolVersion: PROTOCOL_VERSION, capabilities: {}, clientInfo: CLIENT_INFO },
    MAX_WELCOME_BYTES,
  )
  const result = readMcpResult(begun)
  const version = result['protocolVersion']
  own['mcp-protocol-version'] = typeof version === 'string' ? version : PROTOCOL_VERSION
  const session = begun.headers['mcp-session-id']
  if (session !== undefined) own['mcp-session-id'] = session
  try {
    await send('POST', MAX_WELCOME_BYTES, {
      jsonrpc: '2.0',
      method: 'notifications/initialized',
    })
    const info = isObject(result['serverInfo']) ? result['serverInfo'] : {}
    return await use({
      server: typeof info['name'] === 'string' ? info['name'] : '',
      request,
    })
  } finally {
    // The server may forget what it kept for this use; whether it does changes nothing here.
    if (session !== undefined) void send('DELETE', MAX_WELCOME_BYTES).catch(() => {})
  }
}

/** Returns the result of a JSON-RPC request from JSON or from an event stream; throws what the server says instead. */
export function readMcpResult(
  { id, status, contentType, body }: McpReply,
  parse: (text: string) => unknown = JSON.parse,
): JsonObject {
  if (status < 200 || status > 299)
    throw new ServiceError('upstream_error', {
      upstream_status: status,
      detail: `The MCP server answers ${status}.`,
    })
  const text = new TextDecoder().decode(body)
  const messages = /^text\/event-stream\b/i.test(contentType) ? readEvents(text) : [text]
  for (const message of messages) {
    const answer = parseObject(message, parse)
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
  text.split(/\r?\n\r?\n/, MAX_EVENTS).map((event) =>
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
    },
  ]
}

const toLine = (text: string): string => text.replace(/[\p{C}\p{Z}]+/gu, ' ').slice(0, 300)

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function parseObject(
  text: string,
  parse: (text: string) => unknown,
): Record<string, unknown> | null {
  try {
    const value = parse(text)
    return isObject(value) ? value : null
  } catch {
    return null
  }
}

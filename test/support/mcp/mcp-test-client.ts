import type { TestReply, TestRequestOptions } from '../http/test-http-client.ts'
import type { TestAgent, TestStation } from '../station/start-test-station.ts'

/** Sends MCP messages as they are on the wire, in both eras. */

export type McpTestProtocolVersion = '2026-07-28' | '2025-11-25'
export const MCP_TEST_PROTOCOL_VERSIONS: readonly McpTestProtocolVersion[] = [
  '2026-07-28',
  '2025-11-25',
]

export interface McpTestResult {
  readonly content: readonly { readonly type: string; readonly text: string }[]
  readonly structuredContent?: Readonly<Record<string, unknown>>
  readonly isError?: boolean
  readonly _meta: Readonly<Record<string, Readonly<Record<string, unknown>> | undefined>>
  readonly [name: string]: unknown
}

/** A JSON-RPC answer; the messages before it came on the same stream. */
export interface McpTestAnswer {
  readonly reply: TestReply
  readonly messages: readonly Readonly<Record<string, unknown>>[]
  readonly result: McpTestResult
  readonly error: { readonly code: number; readonly message: string; readonly data?: unknown }
}

export interface McpTestRequest {
  readonly era?: McpTestProtocolVersion
  readonly guest?: TestAgent | null
  readonly path?: string
  readonly meta?: Readonly<Record<string, unknown>>
  readonly headers?: Readonly<Record<string, string>>
}

/** The headers and fields that a client of 2026 sends with a request. */
export function toMcpTestMessage(
  method: string,
  params: Readonly<Record<string, unknown>>,
  { era = '2026-07-28', meta = {} }: McpTestRequest = {},
): { readonly json: object; readonly headers: Readonly<Record<string, string>> } {
  const accept = 'application/json, text/event-stream'
  if (era !== '2026-07-28') {
    const withMeta = Object.keys(meta).length === 0 ? params : { ...params, _meta: meta }
    return {
      json: { jsonrpc: '2.0', id: 7, method, params: withMeta },
      headers: { accept, 'mcp-protocol-version': era },
    }
  }
  const fields = {
    'io.modelcontextprotocol/protocolVersion': era,
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
    ...meta,
  }
  const { name } = params
  return {
    json: { jsonrpc: '2.0', id: 7, method, params: { ...params, _meta: fields } },
    headers: {
      accept,
      'mcp-protocol-version': era,
      'mcp-method': method,
      ...(typeof name === 'string' ? { 'mcp-name': name } : {}),
    },
  }
}

/** Sends a request and reads its answer. */
export async function askMcp(
  station: Pick<TestStation, 'ask'>,
  method: string,
  params: Readonly<Record<string, unknown>> = {},
  asked: McpTestRequest = {},
): Promise<McpTestAnswer> {
  const message = toMcpTestMessage(method, params, asked)
  return sendToMcp(station, {
    ...message,
    ...(asked.path === undefined ? {} : { path: asked.path }),
    headers: { ...message.headers, ...asked.headers },
    key: asked.guest?.key,
  })
}

/** Sends anything to an MCP endpoint. */
export async function sendToMcp(
  station: Pick<TestStation, 'ask'>,
  { path = '/mcp', ...asked }: TestRequestOptions & { readonly path?: string },
): Promise<McpTestAnswer> {
  const reply = await station.ask('POST', path, asked)
  const messages =
    reply.frames.length > 0 || reply.text.startsWith('retry:')
      ? eventsOf(reply.text)
      : [reply.body as Readonly<Record<string, unknown>>]
  const last = messages.at(-1) ?? {}
  return {
    reply,
    messages,
    result: last['result'] as McpTestResult,
    error: last['error'] as McpTestAnswer['error'],
  }
}

const eventsOf = (text: string): Readonly<Record<string, unknown>>[] =>
  [...text.matchAll(/^data: (.+)$/gm)].map(
    ([, data = '{}']) => JSON.parse(data) as Record<string, unknown>,
  )

/** Calls a tool; `args` are its arguments. */
export const callMcpTool = (
  station: Pick<TestStation, 'ask'>,
  name: string,
  args: object = {},
  asked: McpTestRequest = {},
): Promise<McpTestAnswer> => askMcp(station, 'tools/call', { name, arguments: args }, asked)

/** The problem document of a refused call. */
export const problemOfRefusedMcpCall = ({
  result,
}: McpTestAnswer): Readonly<Record<string, unknown>> => result._meta['gas/problem'] ?? {}

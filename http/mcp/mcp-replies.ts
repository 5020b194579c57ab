import type { FastifyReply } from 'fastify'
import type { ToolProgress } from '../../calls/call-request-and-reply-types.ts'
import type { HttpConfig } from '../http-config-and-service-types.ts'
import { openSseStream, type SseStream } from '../sse/sse-stream.ts'
import { MCP_META_KEYS, toJsonRpcError } from './mcp-protocol.ts'
import type { McpRequest } from './parse-mcp-message.ts'

/** Sends replies of MCP: one JSON document, or an event stream once there is progress to report. */

/** The name and version of the server, in every result of the stateless protocol. */
export const toMcpServerInfo = ({ version }: Pick<HttpConfig, 'version'>) => ({
  name: 'gas-station',
  title: 'Gas Station',
  version,
})

/** Completes a result for its era. */
export function completeMcpResultForEra(
  { era }: Pick<McpRequest, 'era'>,
  result: Readonly<Record<string, unknown>>,
  config: Pick<HttpConfig, 'version'>,
): Record<string, unknown> {
  if (era === 'legacy') return { ...result }
  const meta = {
    ...(result['_meta'] as object),
    [MCP_META_KEYS.serverInfo]: toMcpServerInfo(config),
  }
  return { resultType: 'complete', ...result, _meta: meta }
}

/** One answer to a request. */
export interface McpReplyWriter {
  readonly reply: FastifyReply
  /** Tells a step, if the client asked for progress and reads streams. */
  progress(step: ToolProgress): void
  /** Sends a JSON-RPC message as text, and ends the reply. */
  send(text: string): void
}

/** Steps of every call, which say nothing about its tool. */
const COMMON_STEPS = new Set(['run', 'settle'])

export function createMcpReplyWriter(
  reply: FastifyReply,
  { meta }: Pick<McpRequest, 'meta'>,
  accept: string | undefined,
): McpReplyWriter {
  const { progressToken: token } = meta
  const streams = (accept ?? '').includes('text/event-stream')
  const reports = streams && (typeof token === 'string' || Number.isSafeInteger(token))
  let stream: SseStream | null = null
  let [count, answered] = [0, false]
  const write = (text: string) => stream?.write(toSseMessage(text))
  return {
    reply,
    progress({ step, note }) {
      // A tool that timed out may still run.
      if (!reports || answered || COMMON_STEPS.has(step)) return
      stream ??= openSseStream(reply, { resumes: false })
      // A slow reader misses steps, never its result.
      if (stream.isBehind()) return
      count += 1
      const message = note === undefined ? step : `${step}: ${note}`
      const params = { progressToken: token, progress: count, message }
      write(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params }))
    },
    send(text) {
      answered = true
      if (stream === null) return sendMcpMessage(reply, 200, text)
      write(text)
      stream.end()
    },
  }
}

const toSseMessage = (text: string): string => `event: message\ndata: ${text}\n\n`

const acceptsOnlyStreams = (accept: string): boolean =>
  accept.includes('text/event-stream') && !/application\/(json|\*)|\*\/\*/.test(accept)

/** Sends a whole JSON-RPC message, as an event stream to a client that accepts nothing else. */
function sendMcpMessage(reply: FastifyReply, status: number, text: string): void {
  const isStream =
    reply.request.method === 'POST' && acceptsOnlyStreams(reply.request.headers.accept ?? '')
  const [type, whole] = isStream
    ? ['text/event-stream; charset=utf-8', toSseMessage(text)]
    : ['application/json', text]
  if (isStream) reply.header('cache-control', 'private, no-store').header('x-accel-buffering', 'no')
  void reply.code(status).type(type).serializer(String).send(whole)
}

/** Answers `subscriptions/listen`: the list of tools never changes while a station runs, so nothing follows. */
export function sendEmptyMcpSubscription(
  reply: FastifyReply,
  request: McpRequest,
  config: Pick<HttpConfig, 'version'>,
): void {
  const { id } = request
  const stream = openSseStream(reply, { resumes: false })
  const marked = { [MCP_META_KEYS.subscriptionId]: id }
  const acknowledged = {
    jsonrpc: '2.0',
    method: 'notifications/subscriptions/acknowledged',
    params: { _meta: marked, notifications: {} },
  }
  const ended = {
    jsonrpc: '2.0',
    id,
    result: completeMcpResultForEra(request, { _meta: marked }, config),
  }
  for (const message of [acknowledged, ended])
    stream.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`)
  stream.end()
}

/** Sends a JSON-RPC error. */
export function sendMcpError(
  reply: FastifyReply,
  status: number,
  error: Parameters<typeof toJsonRpcError>,
): void {
  sendMcpMessage(reply, status, JSON.stringify(toJsonRpcError(...error)))
}

import type { IncomingHttpHeaders } from 'node:http'
import {
  JSON_RPC_CODES,
  LEGACY_MCP_VERSIONS,
  McpProtocolError,
  MCP_META_KEYS,
  MODERN_MCP_VERSION,
  type JsonRpcId,
} from './mcp-protocol.ts'

/** Parses MCP messages of both eras and compares their headers with their bodies. */

type JsonObject = Readonly<Record<string, unknown>>

/** A request of either era. */
export interface McpRequest {
  /** `modern`: stateless, of 2026-07-28. `legacy`: after an `initialize` of 2025. */
  readonly era: 'modern' | 'legacy'
  readonly id: JsonRpcId
  readonly method: string
  readonly params: JsonObject
  /** `params._meta`; empty without one. */
  readonly meta: JsonObject
}

/** Parses a message. Returns null for a notification, which gets no answer. Throws `McpProtocolError`. */
export function parseMcpMessage(body: unknown, headers: IncomingHttpHeaders): McpRequest | null {
  const { id, method, params } = parseJsonRpcEnvelope(body)
  const meta = toMeta(params, id)
  const era = eraOf(method, meta, headers)
  if (id === null) return null
  if (era === 'modern') assertModernRequest({ id, method, params, meta }, headers)
  return { era, id, method, params, meta }
}

function parseJsonRpcEnvelope(body: unknown) {
  if (Array.isArray(body))
    throw invalidRequest('Batches are not supported: send each message as a request of its own.')
  if (!isObject(body)) throw invalidRequest('The body must be a JSON-RPC message.')
  const id = readMessageId(body)
  if (body['jsonrpc'] !== '2.0') throw invalidRequest('`jsonrpc` must be "2.0".', id)
  if (typeof body['method'] !== 'string')
    throw invalidRequest('`method` must be a string; responses are not accepted.', id)
  if (body['id'] !== undefined && !isRequestId(body['id']))
    throw invalidRequest('`id` must be a string or an integer.', id)
  const params = body['params'] ?? {}
  if (!isObject(params)) throw invalidParams('`params` must be an object.', id)
  return { id, method: body['method'], params }
}

/**
 * The id that an error names, of a message or of its bytes; null where none can be read. A fraction is named
 * although it is refused; an integer that a double cannot hold is not the id that was sent.
 */
export function readMessageId(message: unknown): JsonRpcId | null {
  const value = Buffer.isBuffer(message) ? parseOrNull(message.toString('utf8')) : message
  const id = isObject(value) ? value['id'] : null
  if (typeof id === 'string') return id
  const isExact = typeof id === 'number' && Math.abs(id) <= Number.MAX_SAFE_INTEGER
  return isExact ? id : null
}

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isRequestId = (id: unknown): id is JsonRpcId =>
  typeof id === 'string' || Number.isSafeInteger(id)

const invalidRequest = (message: string, id: JsonRpcId | null = null) =>
  new McpProtocolError(JSON_RPC_CODES.invalidRequest, message, { id })

const invalidParams = (message: string, id: JsonRpcId | null) =>
  new McpProtocolError(JSON_RPC_CODES.invalidParams, message, { id })

function toMeta(params: JsonObject, id: JsonRpcId | null): JsonObject {
  const given = params['_meta'] ?? {}
  if (!isObject(given)) throw invalidParams('`_meta` must be an object.', id)
  // Null is absence, here and in each of its fields (decision 400).
  const meta = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null))
  const { protocolVersion, clientCapabilities } = MCP_META_KEYS
  if (!['string', 'undefined'].includes(typeof meta[protocolVersion]))
    throw invalidParams(`\`_meta\` must have a string as ${protocolVersion}.`, id)
  if (meta[clientCapabilities] !== undefined && !isObject(meta[clientCapabilities]))
    throw invalidParams(`\`_meta\` must have an object as ${clientCapabilities}.`, id)
  return meta
}

/** `initialize` begins the older protocol, whatever header comes with it. */
function eraOf(method: string, meta: JsonObject, headers: IncomingHttpHeaders): McpRequest['era'] {
  if (meta[MCP_META_KEYS.protocolVersion] !== undefined) return 'modern'
  const header = headers['mcp-protocol-version']
  if (header === undefined || method === 'initialize') return 'legacy'
  return LEGACY_MCP_VERSIONS.includes(String(header)) ? 'legacy' : 'modern'
}

type ModernMessage = Omit<McpRequest, 'era'>

function assertModernRequest(message: ModernMessage, headers: IncomingHttpHeaders): void {
  const { id, method, meta } = message
  assertVersion(message, headers['mcp-protocol-version'])
  assertHeader(id, 'Mcp-Method', headers['mcp-method'], method)
  const named = nameOf(message)
  if (named !== null) assertHeader(id, 'Mcp-Name', decodeHeaderValue(headers['mcp-name']), named)
  for (const field of [MCP_META_KEYS.protocolVersion, MCP_META_KEYS.clientCapabilities])
    if (meta[field] === undefined) throw invalidParams(`\`_meta\` must have ${field}.`, id)
}

function assertVersion({ id, meta }: ModernMessage, header: unknown): void {
  const requested = meta[MCP_META_KEYS.protocolVersion] ?? header
  assertHeader(id, 'MCP-Protocol-Version', header, String(requested))
  if (requested === MODERN_MCP_VERSION) return
  throw new McpProtocolError(
    JSON_RPC_CODES.unsupportedVersion,
    `This server speaks ${MODERN_MCP_VERSION}, and older versions after \`initialize\`.`,
    { id, data: { supported: [MODERN_MCP_VERSION], requested } },
  )
}

const NAME_FIELDS: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
])

/** What `Mcp-Name` repeats; null where the method has no name, or the name is no text. */
function nameOf({ method, params }: ModernMessage): string | null {
  const field = NAME_FIELDS.get(method)
  const name = field === undefined ? null : params[field]
  return typeof name === 'string' ? name : null
}

function assertHeader(id: JsonRpcId, name: string, given: unknown, wanted: string): void {
  if (given === wanted) return
  const fault = given === undefined ? 'is missing' : `is ${JSON.stringify(given)}, but the body has`
  const message = `The header ${name} ${fault}${given === undefined ? '' : ` ${JSON.stringify(wanted)}`}.`
  throw new McpProtocolError(JSON_RPC_CODES.headerMismatch, message, { id })
}

const ENCODED_VALUE = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/

/** Decodes `=?base64?…?=`, the form of values that a header cannot hold. */
function decodeHeaderValue(value: unknown): unknown {
  const [, encoded] = typeof value === 'string' ? (ENCODED_VALUE.exec(value) ?? []) : []
  return encoded === undefined ? value : Buffer.from(encoded, 'base64').toString('utf8')
}

/** Versions, names and errors of the Model Context Protocol. */

/** The stateless protocol: every request carries its version. */
export const MODERN_MCP_VERSION = '2026-07-28'
/** What a client gets whose version is not known. */
export const NEWEST_LEGACY_MCP_VERSION = '2025-11-25'
/** Versions that begin with `initialize`, newest first. */
export const LEGACY_MCP_VERSIONS: readonly string[] = [
  NEWEST_LEGACY_MCP_VERSION,
  '2025-06-18',
  '2025-03-26',
  '2024-11-05',
]

export const MCP_META_KEYS = {
  protocolVersion: 'io.modelcontextprotocol/protocolVersion',
  clientCapabilities: 'io.modelcontextprotocol/clientCapabilities',
  serverInfo: 'io.modelcontextprotocol/serverInfo',
  subscriptionId: 'io.modelcontextprotocol/subscriptionId',
} as const

export const JSON_RPC_CODES = {
  parseError: -32_700,
  invalidRequest: -32_600,
  methodNotFound: -32_601,
  invalidParams: -32_602,
  internalError: -32_603,
  headerMismatch: -32_020,
  unsupportedVersion: -32_022,
} as const

export type JsonRpcId = string | number

/** A protocol error, as opposed to the failure of a tool, which is a result. */
export class McpProtocolError extends Error {
  /** A value of `JSON_RPC_CODES`. */
  readonly code: number
  /** HTTP status of the reply. */
  readonly status: number
  /** The id of the request, where it could be read. */
  readonly id: JsonRpcId | null
  readonly data: unknown
  constructor(
    code: number,
    message: string,
    {
      status = 400,
      id = null,
      data,
    }: { status?: number; id?: JsonRpcId | null; data?: unknown } = {},
  ) {
    super(message)
    this.name = 'McpProtocolError'
    this.code = code
    this.status = status
    this.id = id
    this.data = data
  }
}

/** Builds a JSON-RPC error. One without a readable request has no id. */
export const toJsonRpcError = (
  id: JsonRpcId | null,
  code: number,
  message: string,
  data?: unknown,
) => ({
  jsonrpc: '2.0',
  ...(id === null ? {} : { id }),
  error: { code, message, ...(data === undefined ? {} : { data }) },
})

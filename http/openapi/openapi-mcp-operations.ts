import type { JsonSchema, OpenApiDocument, OpenApiOperation } from './openapi-document-types.ts'
import { openApiJsonContent, openApiSchemaComponentRef } from './openapi-document-types.ts'

/**
 * Documents the messages of the Model Context Protocol. Their routes have no schemas, since they answer every
 * failure as JSON-RPC: what is validated is the message, by the protocol.
 */

/** The operations that take a message. */
const MESSAGE_OPERATIONS: ReadonlySet<string> = new Set(['sendMcpMessage', 'sendDiscoveryMessage'])

const ID: JsonSchema = { anyOf: [{ type: 'string' }, { type: 'integer' }] }
const ANY_OBJECT: JsonSchema = { type: 'object', additionalProperties: true }
const VERSION: JsonSchema = { type: 'string', const: '2.0', description: 'Always `2.0`.' }

const McpMessage: JsonSchema = {
  description: 'A request of JSON-RPC 2.0; without `id` a notification, which has no answer.',
  type: 'object',
  required: ['jsonrpc', 'method'],
  properties: {
    jsonrpc: VERSION,
    id: { ...ID, description: 'Names the request; its answer repeats it.' },
    method: {
      type: 'string',
      description: 'The method, as `initialize`, `tools/list`, `tools/call`.',
    },
    params: { ...ANY_OBJECT, description: 'What the method takes.' },
  },
}

const McpError: JsonSchema = {
  description: 'An error of JSON-RPC 2.0. `data` is the problem, where the service refused.',
  type: 'object',
  required: ['jsonrpc', 'error'],
  properties: {
    jsonrpc: VERSION,
    id: { anyOf: [ID, { type: 'null' }], description: 'That of the request, if it was readable.' },
    error: {
      type: 'object',
      required: ['code', 'message'],
      properties: { code: { type: 'integer' }, message: { type: 'string' }, data: {} },
    },
  },
}

const McpResult: JsonSchema = {
  description: 'The answer to a request.',
  type: 'object',
  required: ['jsonrpc', 'id', 'result'],
  properties: { jsonrpc: VERSION, id: ID, result: ANY_OBJECT },
}

/** Adds the messages, their answers and their errors to the operations of MCP. */
export function describeOpenApiMcpOperations({ components, paths }: OpenApiDocument): void {
  Object.assign(components.schemas, { McpMessage, McpResult, McpError })
  components.responses['McpRefused'] = {
    description: 'The message was refused; `error` says why.',
    content: openApiJsonContent(openApiSchemaComponentRef('McpError')),
  }
  for (const item of Object.values(paths))
    for (const operation of Object.values(item))
      if (MESSAGE_OPERATIONS.has(operation.operationId)) describeMessages(operation)
}

function describeMessages(operation: OpenApiOperation): void {
  const { responses } = operation
  operation.requestBody = {
    required: true,
    content: openApiJsonContent(openApiSchemaComponentRef('McpMessage')),
  }
  const answer = responses['200']
  if (answer !== undefined && !('$ref' in answer)) {
    const either = [openApiSchemaComponentRef('McpResult'), openApiSchemaComponentRef('McpError')]
    answer.content = {
      ...openApiJsonContent({ anyOf: either }),
      'text/event-stream': { schema: { type: 'string' } },
    }
    const { headers = {} } = answer
    responses['202'] = { description: 'The notification was taken.', headers }
  }
  // A call that has to be paid says so in its result.
  for (const status of ['402', '429']) delete responses[status]
  for (const status of ['4XX', '5XX'])
    responses[status] = { $ref: '#/components/responses/McpRefused' }
}

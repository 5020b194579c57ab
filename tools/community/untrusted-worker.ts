import { serveWorkerRequests } from '../../core/concurrency/serve-worker-requests.ts'
import type { CommunityToolDefinition } from '../../domain/community-tool-record.ts'
import { readMcpToolsPage } from '../../providers/mcp/mcp-streamable-http-client.ts'
import { toImportedDefinition } from '../import/imported-definition.ts'
import { toImportedMcpTool } from '../import/imported-mcp-tool.ts'
import {
  readOpenApiDocument,
  selectOperations,
  type OpenApiSource,
} from '../import/imported-openapi-operations.ts'
import { withUnstorableValuesRefused, type SchemaValidator } from '../schema-validator.ts'
import { assertCommunityToolDefinitionAcceptable } from './community-tool-definition-check.ts'
import type { BuilderReply } from './builder-answer.ts'
import { judgeBuilderReply } from './judge-builder-answer.ts'
import { assertToolSchemasBackwardCompatible } from './tool-schema-compatibility.ts'
import { compileUntrustedSchema } from './untrusted-schema-validator.ts'

/** Requests to a process that does strangers' work. Schemas and values travel as JSON text, which is cheap to hand over. */
export type UntrustedWorkRequest =
  | {
      readonly type: 'check'
      readonly definition: CommunityToolDefinition
      /** What the tool said before; null for a new one. */
      readonly before: CommunityToolDefinition | null
    }
  | { readonly type: 'validate'; readonly schema: string; readonly value: string }
  | { readonly type: 'judge'; readonly schema: string; readonly reply: BuilderReply }
  | {
      readonly type: 'list'
      readonly source: OpenApiSource
      readonly include: readonly string[] | null
    }
  | {
      readonly type: 'convert'
      readonly source: OpenApiSource
      readonly at: number
      readonly category: string
    }
  | { readonly type: 'mcp-page'; readonly reply: Omit<BuilderReply, 'kind' | 'secrets'> }
  | {
      readonly type: 'mcp-tool'
      readonly url: string
      readonly tool: string
      readonly category: string
    }

/** A converted tool as JSON text, and how much of its source it used. */
export interface ConvertedDefinition {
  readonly text: string
  readonly sourceChars: number
}

/**
 * What is kept compiled, in characters of schemas. One takes about 25 bytes, and a pattern up to 80 KiB, so that all
 * take a fraction of the heap: a process that reaches its limit would refuse an honest request.
 */
const MAX_KNOWN_CHARS = 2_000_000
const PATTERN_CHARS = 4_000
const known = new Map<string, SchemaValidator>()
let knownChars = 0

const charsOf = (schema: string): number =>
  schema.length + PATTERN_CHARS * (schema.split('"pattern').length - 1)

/** Validators by the text of their schema, the last used ones. */
function validatorOf(schema: string): SchemaValidator {
  const found = known.get(schema)
  const validate = found ?? compileValidator(schema)
  if (!known.delete(schema)) knownChars += charsOf(schema)
  known.set(schema, validate)
  for (const oldest of known.keys()) {
    if (knownChars <= MAX_KNOWN_CHARS) break
    known.delete(oldest)
    knownChars -= charsOf(oldest)
  }
  return validate
}

const compileValidator = (schema: string): SchemaValidator =>
  withUnstorableValuesRefused(
    compileUntrustedSchema(JSON.parse(schema) as Record<string, unknown>, {
      pointer: '/schema',
      reserved: [],
    }),
  )

/** Runs in a process of `createUntrustedWork`, one request at a time. */
serveWorkerRequests((request: UntrustedWorkRequest): unknown => {
  switch (request.type) {
    case 'check':
      return checkDefinition(request.definition, request.before)
    case 'validate':
      return validatorOf(request.schema)(JSON.parse(request.value))
    case 'judge':
      return judgeBuilderReply(request.reply, validatorOf(request.schema))
    case 'list':
      return selectOperations(readOpenApiDocument(request.source), request.include)
    case 'convert': {
      const operation = readOpenApiDocument(request.source).operations[request.at]
      if (operation === undefined) throw new RangeError('no such operation')
      return toConverted(operation.toTool(), request.category)
    }
    case 'mcp-page':
      return readMcpToolsPage(request.reply)
    case 'mcp-tool':
      return toConverted(toImportedMcpTool(request.url, JSON.parse(request.tool)), request.category)
  }
})

function checkDefinition(
  definition: CommunityToolDefinition,
  before: CommunityToolDefinition | null,
): void {
  if (before !== null) {
    assertCommunityToolDefinitionAcceptable({ ...definition, example: null })
    assertToolSchemasBackwardCompatible(before, definition)
  }
  assertCommunityToolDefinitionAcceptable(definition)
}

const toConverted = (
  tool: Parameters<typeof toImportedDefinition>[0],
  category: string,
): ConvertedDefinition => ({
  text: JSON.stringify(toImportedDefinition(tool, category)),
  sourceChars: tool.sourceChars,
})

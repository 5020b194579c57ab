import type { ListedMcpTool } from '../../providers/mcp/mcp-streamable-http-client.ts'
import {
  ImportedSchemaConverter,
  isUntrustedJsonObject,
  type UntrustedJson,
} from './imported-schema-converter.ts'
import { toPlainLine, type ImportedTool } from './imported-tool.ts'

/** Reads the tools of an MCP server as tools of this station. */

const MAX_NAME_CHARS = 64
const MAX_DESCRIPTION_CHARS = 500

/** Throws `import_refused` for schemas with references to other documents or to themselves. */
export function toImportedMcpTool(url: string, tool: ListedMcpTool): ImportedTool {
  const { name, inputSchema } = tool
  const inputs = new ImportedSchemaConverter(definitionsOf(inputSchema), name)
  const converted = inputs.convert({ ...inputSchema, type: 'object' })
  return {
    operation: name,
    alias: null,
    name: toPlainLine(tool.title, name, MAX_NAME_CHARS),
    description: toPlainLine(tool.description, name, MAX_DESCRIPTION_CHARS),
    inputSchema: withDefinitions(
      typeof converted === 'boolean' ? { type: 'object' } : converted,
      inputs,
    ),
    outputSchema: MCP_OUTPUT_SCHEMA,
    sourceChars: inputs.sourceChars,
    forward: { kind: 'mcp-tool', url, tool: name },
  }
}

/** What `tools/call` answers. Servers check their structured content themselves. */
const MCP_OUTPUT_SCHEMA: UntrustedJson = {
  type: 'object',
  properties: {
    content: { type: 'array', items: { type: 'object' } },
    structured_content: true,
  },
  required: ['content'],
}

const definitionsOf = (schema: UntrustedJson): UntrustedJson => ({
  ...(isUntrustedJsonObject(schema['definitions']) ? schema['definitions'] : {}),
  ...(isUntrustedJsonObject(schema['$defs']) ? schema['$defs'] : {}),
})

const withDefinitions = (
  schema: UntrustedJson,
  { definitions }: ImportedSchemaConverter,
): UntrustedJson =>
  Object.keys(definitions).length === 0 ? schema : { ...schema, $defs: definitions }

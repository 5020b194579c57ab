import { ServiceError } from '../../core/errors.ts'
import type { CommunityToolDefinition } from '../../domain/community-tool-record.ts'
import { assertCommunityToolDefinitionAcceptable } from '../community/community-tool-definition-check.ts'
import { toRestOperationOutputSchema } from './imported-openapi-operations.ts'
import type { ImportedTool } from './imported-tool.ts'

/**
 * The definition of an imported tool; throws `import_refused`. An answer whose schema is not acceptable may be
 * anything; an input has to be.
 */
export function toImportedDefinition(
  tool: ImportedTool,
  category: string,
): CommunityToolDefinition {
  const { name, description, inputSchema, outputSchema, forward, operation } = tool
  const definition = { name, description, category, inputSchema, example: null, forward }
  const whole = { ...definition, outputSchema }
  if (isAcceptable(whole)) return whole
  const plain = { ...definition, outputSchema: toRestOperationOutputSchema(true, {}) }
  const safe = forward.kind === 'mcp-tool' ? whole : plain
  try {
    assertCommunityToolDefinitionAcceptable(safe)
    return safe
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    const detail = `${operation}: ${error.message}`
    throw new ServiceError('import_refused', { operation, detail }, error)
  }
}

function isAcceptable(definition: CommunityToolDefinition): boolean {
  try {
    assertCommunityToolDefinitionAcceptable(definition)
    return true
  } catch (error) {
    if (error instanceof ServiceError) return false
    throw error
  }
}

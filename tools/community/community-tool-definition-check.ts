import { invalidInputError } from '../../core/errors.ts'
import {
  RESERVED_COMMUNITY_INPUT_FIELDS,
  RESERVED_COMMUNITY_OUTPUT_FIELDS,
  type CommunityToolDefinition,
} from '../../domain/community-tool-record.ts'
import { assertPatternsAffordable } from './untrusted-pattern-cost.ts'
import { compileUntrustedSchema } from './untrusted-schema-validator.ts'
import { withUnstorableValuesRefused } from '../schema-validator.ts'

/** Checks what a builder says of a tool. */

/** Of imported documents no other check has seen the text. */
const unstorableParts = withUnstorableValuesRefused(() => [])

/** Throws `invalid_input` with a pointer for schemas that are not acceptable, or an example that does not match. */
export function assertCommunityToolDefinitionAcceptable(definition: CommunityToolDefinition): void {
  const { inputSchema, outputSchema, example } = definition
  const [unstorable] = unstorableParts(definition)
  if (unstorable !== undefined) throw invalidInputError(unstorable.pointer, unstorable.detail)
  const validate = compileUntrustedSchema(inputSchema, {
    pointer: '/input_schema',
    reserved: RESERVED_COMMUNITY_INPUT_FIELDS,
  })
  compileUntrustedSchema(outputSchema, {
    pointer: '/output_schema',
    reserved: RESERVED_COMMUNITY_OUTPUT_FIELDS,
  })
  assertPatternsAffordable(inputSchema, '/input_schema')
  assertPatternsAffordable(outputSchema, '/output_schema')
  if (example === null) return
  const [issue] = validate(example)
  if (issue !== undefined)
    throw invalidInputError(`/example${issue.pointer}`, `${issue.detail}, as input_schema says`)
}

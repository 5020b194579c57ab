import { invalidInputError } from '../../core/errors.ts'
import type { CommunityToolDefinition } from '../../domain/community-tool.ts'
import { compileForeignSchema } from './foreign-schema-validator.ts'
import { RESERVED_COMMUNITY_INPUT_FIELDS } from './community-tool.ts'
import { withStorableValues } from '../schema-validator.ts'
import { RESERVED_COMMUNITY_OUTPUT_FIELDS } from './forward-community-call.ts'

/** Checks what a builder says of a tool. */

/** Of imported documents no other check has seen the text. */
const unstorableParts = withStorableValues(() => [])

/** Throws `invalid_input` with a pointer for schemas that are not acceptable, or an example that does not match. */
export function assertDefinitionAcceptable(definition: CommunityToolDefinition): void {
  const { inputSchema, outputSchema, example } = definition
  const [unstorable] = unstorableParts(definition)
  if (unstorable !== undefined) throw invalidInputError(unstorable.pointer, unstorable.detail)
  const validate = compileForeignSchema(inputSchema, {
    pointer: '/input_schema',
    reserved: RESERVED_COMMUNITY_INPUT_FIELDS,
  })
  compileForeignSchema(outputSchema, {
    pointer: '/output_schema',
    reserved: RESERVED_COMMUNITY_OUTPUT_FIELDS,
  })
  if (example === null) return
  const [issue] = validate(example)
  if (issue !== undefined)
    throw invalidInputError(`/example${issue.pointer}`, `${issue.detail}, as input_schema says`)
}

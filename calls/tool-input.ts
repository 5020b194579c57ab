import { invalidInputError } from '../core/errors.ts'
import type { Tool } from '../tools/define-tool.ts'

export type JsonFields = Record<string, unknown>

/** Names of the request itself, which no tool uses as a field. */
const REQUEST_FIELD_NAMES = new Set(['tool', 'dry_run'])

/** Whoever asks what a call would cost must not be charged for it where nobody quotes. */
function assertNoDryRun(fields: JsonFields): void {
  const { dry_run: dry = false } = fields
  if (dry !== false) throw invalidInputError('/dry_run', 'is not taken here: ask /api/quote')
}

/**
 * The fields of a tool: those at the top level, over those in `params`, and the general `query` only
 * where the tool takes one (decision 18). A door that quotes takes `dry_run` out before; what still has
 * it is refused.
 */
export function extractToolInput(body: JsonFields, tool: Tool): JsonFields {
  const named = (tool.input as { properties?: JsonFields }).properties ?? {}
  const { params, ...top } = body
  const merged = 'params' in named || params === undefined ? body : { ...asObject(params), ...top }
  assertNoDryRun(merged)
  return Object.fromEntries(
    Object.entries(merged).filter(
      ([name]) => !REQUEST_FIELD_NAMES.has(name) && (name !== 'query' || 'query' in named),
    ),
  )
}

function asObject(params: unknown): JsonFields {
  if (typeof params === 'object' && params !== null && !Array.isArray(params))
    return params as JsonFields
  throw invalidInputError('/params', 'must be an object with the fields of the tool')
}

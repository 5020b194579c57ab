import { invalidInputError } from '../core/errors.ts'
import { readFields } from '../core/validation/request-fields.ts'
import type { Tool } from '../tools/define-tool.ts'

/** Extracts a tool's input from the request body. */

export type JsonFields = Record<string, unknown>

/** A caller that asks for a dry run must not be charged by a route without quotes. */
function assertNoDryRun(fields: JsonFields): void {
  if ((fields['dry_run'] ?? false) !== false)
    throw invalidInputError('/dry_run', 'is not supported here: use /api/quote')
}

/**
 * The fields of a tool, without those of the request: top-level fields override `params`; `query` only if
 * the tool has it (decision 18). A null that the tool has no use for is no field. Throws if `dry_run` is set: routes with quotes remove it before.
 */
export function extractToolInputFromBody(given: JsonFields, tool: Tool): JsonFields {
  const named = (tool.input as { properties?: JsonFields }).properties ?? {}
  const body = readFields(tool.input, given)
  const merged = 'params' in named ? body : withParams(body, tool)
  assertNoDryRun(merged)
  const { tool: _tool, dry_run: _dryRun, ...input } = merged
  if (!('query' in named)) delete input['query']
  return input
}

function withParams({ params, ...top }: JsonFields, tool: Tool): JsonFields {
  return { ...readFields(tool.input, asObject(params ?? {})), ...top }
}

function asObject(params: unknown): JsonFields {
  if (typeof params === 'object' && params !== null && !Array.isArray(params))
    return params as JsonFields
  throw invalidInputError('/params', 'must be an object with the fields of the tool')
}

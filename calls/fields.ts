import { invalid } from '../core/errors.ts'
import type { Tool } from '../tools/define.ts'

export type AnyJson = Record<string, unknown>

/** Names of the request itself, which no tool uses as a field. */
const STEERING = new Set(['tool', 'dry_run'])

/**
 * The fields of a tool: those at the top level, over those in `params`, and the general `query` only
 * where the tool takes one (decision 18).
 */
export function toolFields(body: AnyJson, tool: Tool): AnyJson {
  const named = (tool.input as { properties?: AnyJson }).properties ?? {}
  const { params, ...top } = body
  const merged = 'params' in named || params === undefined ? body : { ...asObject(params), ...top }
  return Object.fromEntries(
    Object.entries(merged).filter(
      ([name]) => !STEERING.has(name) && (name !== 'query' || 'query' in named),
    ),
  )
}

function asObject(params: unknown): AnyJson {
  if (typeof params === 'object' && params !== null && !Array.isArray(params))
    return params as AnyJson
  throw invalid('/params', 'must be an object with the fields of the tool')
}

import { invalid } from '../core/errors.ts'
import type { Tool } from '../tools/define.ts'

export type AnyJson = Record<string, unknown>

/** Names of the request itself, which no tool uses as a field. */
const STEERING = new Set(['tool', 'dry_run'])

/** Whoever asks what a call would cost must not be charged for it where nobody quotes. */
function demandNoDryRun(fields: AnyJson): void {
  const { dry_run: dry = false } = fields
  if (dry !== false) throw invalid('/dry_run', 'is not taken here: ask /api/quote')
}

/**
 * The fields of a tool: those at the top level, over those in `params`, and the general `query` only
 * where the tool takes one (decision 18). A door that quotes takes `dry_run` out before; what still has
 * it is refused.
 */
export function toolFields(body: AnyJson, tool: Tool): AnyJson {
  const named = (tool.input as { properties?: AnyJson }).properties ?? {}
  const { params, ...top } = body
  const merged = 'params' in named || params === undefined ? body : { ...asObject(params), ...top }
  demandNoDryRun(merged)
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

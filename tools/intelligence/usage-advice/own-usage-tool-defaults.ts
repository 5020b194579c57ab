import Type from 'typebox'
import { DAY } from '../../../core/clock.ts'
import { ServiceError } from '../../../core/errors.ts'
import { llmOptionalToolAvailability } from '../../tool-availability.ts'
import type { ToolPreflightContext } from '../../define-tool.ts'

/** What the tools about an agent's own usage share. */

export const DEFAULT_USAGE_WINDOW_DAYS = 30

/** Defaults of the tools that report on an agent's calls over some days. */
export const OWN_USAGE_TOOL_DEFAULTS = {
  category: 'intelligence',
  examples: [{ days: DEFAULT_USAGE_WINDOW_DAYS }, {}],
  access: 'paid',
  keyRequired: true,
  wholeAgent: true,
  effect: 'none',
  timeoutMs: 30_000,
  input: Type.Object(
    {
      days: Type.Optional(
        Type.Integer({ minimum: 1, maximum: 90, default: DEFAULT_USAGE_WINDOW_DAYS }),
      ),
    },
    { additionalProperties: false },
  ),
  availability: llmOptionalToolAvailability('rules'),
} as const

/** Returns the caller's activity of the last days; throws without any call. */
export async function readOwnUsage(days: number, { caller, facts, now }: ToolPreflightContext) {
  const [agentId, at] = [caller.agentId ?? '', now().getTime()]
  const known = await facts.readActivity(agentId, at - days * DAY)
  if (known.tools.length === 0) {
    throw new ServiceError('no_evidence', { detail: 'There are no calls yet.' })
  }
  return { agentId, at, known }
}

import Type from 'typebox'
import { DAY } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { withModel } from '../availability.ts'
import type { Asking } from '../define.ts'

export const WINDOW_DAYS = 30

/** What tools are alike in that tell an agent about its own calls over so many days. */
export const aboutOwnCalls = {
  category: 'intelligence',
  examples: [{ days: WINDOW_DAYS }, {}],
  access: 'paid',
  keyRequired: true,
  wholeAgent: true,
  effect: 'none',
  timeoutMs: 30_000,
  input: Type.Object(
    { days: Type.Optional(Type.Integer({ minimum: 1, maximum: 90, default: WINDOW_DAYS })) },
    { additionalProperties: false },
  ),
  availability: withModel('rules'),
} as const

/** What is known of the caller's last days; refuses where it has made no call. */
export async function ownCalls(days: number, { caller, facts, now }: Asking) {
  const [agentId, at] = [caller.agentId ?? '', now().getTime()]
  const known = await facts.of(agentId, at - days * DAY)
  if (known.tools.length === 0) {
    throw new ServiceError('no_evidence', { detail: 'There are no calls yet.' })
  }
  return { agentId, at, known }
}

import type { ActorSystem } from '../../actors/aggregate-command-types.ts'
import { addressBounds, type CallerAddress, type CountedCaller } from '../../core/address-bounds.ts'
import { HOUR, type Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { rateLimitError, type RateLimitRule } from '../../core/rate-limit-error.ts'
import {
  countOnboardedAgentsCommand,
  getVisitorOnboardingCountCommand,
  uncountOnboardedAgentsCommand,
} from '../commands/onboarding-count-commands.ts'

/** How many agents an address may onboard, and how many of them get starter credits. */

export interface OnboardingAdmission {
  /** How many of them, from the first on, get starter credits. */
  readonly starters: number
  /** Single agents that may still join in this hour. */
  readonly left: number
  /** When the hour ends, in milliseconds since the epoch. */
  readonly resetsAt: number
}

export interface OnboardingRateLimitDeps {
  readonly actors: ActorSystem
  readonly clock: Clock
  readonly perHour: number
  readonly batch: number
}

/**
 * Counts the agents that join from an address, in Postgres: starter credits are money, so the count
 * is exact over any number of nodes and survives them (decision 155).
 */
export function createOnboardingRateLimit({
  actors,
  clock,
  perHour,
  batch: largest,
}: OnboardingRateLimitDeps) {
  /** Throws `rate_limited` with the limit and the end of the hour. */
  async function count(
    id: string,
    joining: { agents: number; fills: boolean },
    limit: RateLimitRule,
  ) {
    try {
      return await actors.ask(id, countOnboardedAgentsCommand, { ...joining, limit: limit.max })
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code !== 'rate_limited') throw error
      const { since, agents } = await actors.ask(id, getVisitorOnboardingCountCommand, {})
      throw onboardingRateLimitError(limit, joining.agents, agents, secondsUntil(since + HOUR))
    }
  }

  const secondsUntil = (at: number) => Math.max(1, Math.ceil((at - clock.now()) / 1_000))

  return {
    perHour,

    /**
     * Admits agents, several only together. A batch larger than the rest of the hour needs an
     * unused hour. If batches may exceed the hour, each fills it.
     */
    async admit(
      origin: CallerAddress,
      agents: number,
      isBatch: boolean,
    ): Promise<OnboardingAdmission> {
      const fills = isBatch && largest > perHour
      const [address, site] = addressBounds(origin)
      const found = await count(address.id, { agents, fills }, toOnboardingLimit(address, perHour))
      if (site !== undefined) {
        const limit = toOnboardingLimit(site, perHour)
        await count(site.id, { agents, fills: false }, limit).catch(async (error: unknown) => {
          const counted = fills ? Math.max(agents, perHour - found.agents) : agents
          await actors.ask(address.id, uncountOnboardedAgentsCommand, {
            agents: counted,
            since: found.since,
          })
          throw error
        })
      }
      const room = Math.max(0, perHour - found.agents)
      const left = fills ? 0 : Math.max(0, room - agents)
      return { starters: Math.min(agents, room), left, resetsAt: found.since + HOUR }
    },
  }
}
export type OnboardingRateLimit = ReturnType<typeof createOnboardingRateLimit>

const toOnboardingLimit = ({ per, factor }: CountedCaller, perHour: number): RateLimitRule => ({
  ...{ name: 'onboard', subject: 'new agents', windowSeconds: HOUR / 1_000 },
  ...{ per, max: perHour * factor },
})

/** Tells a rejected batch that fewer agents might still join. */
function onboardingRateLimitError(
  limit: RateLimitRule,
  agents: number,
  before: number,
  retryAfter: number,
): ServiceError {
  const refusal = rateLimitError(limit, retryAfter)
  const room = Math.max(0, limit.max - before)
  if (agents > 1 && room > 0)
    refusal.details.detail = `${agents} agents are more than the ${room} that this ${limit.per} may still bring in its hour: bring fewer, or come again in ${retryAfter} s.`
  return refusal
}

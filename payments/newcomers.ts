import type { Actors } from '../actors/command.ts'
import { HOUR, type Clock } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { limited, type Limit } from '../core/limited.ts'
import { LIMITS } from '../core/limits.ts'
import { newcomersJoin, newcomersLast, newcomersLeave } from './commands/newcomers.ts'

/** Where agents join from: an address or IPv6 /64, and the /48 around it where there is one. */
export interface Origin {
  readonly visitorId: string
  readonly siteId: string | null
}

export interface Admitted {
  /** So many of them begin with starter credits, the first ones. */
  readonly starters: number
  /** Single agents that may still join in this hour. */
  readonly left: number
  /** When the hour ends, in milliseconds since the epoch. */
  readonly resetsAt: number
}

export interface NewcomerDeps {
  readonly actors: Actors
  readonly clock: Clock
  readonly perHour: number
  readonly batch: number
}

/**
 * Counts the agents that join from an address, in Postgres: starter credits are money, so the number
 * is exact on any number of nodes and outlives them (decision 155).
 */
export function newcomerCount({ actors, clock, perHour, batch: largest }: NewcomerDeps) {
  /** Refuses with `rate_limited`, which names the limit and when the hour ends. */
  async function count(id: string, joining: { agents: number; fills: boolean }, limit: Limit) {
    try {
      return await actors.ask(id, newcomersJoin, { ...joining, limit: limit.most })
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code !== 'rate_limited') throw error
      const { since, agents } = await actors.ask(id, newcomersLast, {})
      throw refused(limit, joining.agents, agents, secondsUntil(since + HOUR))
    }
  }

  const secondsUntil = (at: number) => Math.max(1, Math.ceil((at - clock.now()) / 1_000))

  return {
    perHour,

    /**
     * Lets agents join, several only together. A batch that is larger than what is left of the hour
     * needs an hour that nobody has begun. Where batches may be larger than the hour, each fills it.
     */
    async admit(
      { visitorId, siteId }: Origin,
      agents: number,
      isBatch: boolean,
    ): Promise<Admitted> {
      const fills = isBatch && largest > perHour
      const found = await count(visitorId, { agents, fills }, limitOf('address', perHour))
      if (siteId !== null) {
        const site = limitOf('network', perHour * LIMITS.siteShares)
        await count(siteId, { agents, fills: false }, site).catch(async (error: unknown) => {
          const counted = fills ? Math.max(agents, perHour - found.agents) : agents
          await actors.ask(visitorId, newcomersLeave, { agents: counted, since: found.since })
          throw error
        })
      }
      const room = Math.max(0, perHour - found.agents)
      const left = fills ? 0 : Math.max(0, room - agents)
      return { starters: Math.min(agents, room), left, resetsAt: found.since + HOUR }
    },
  }
}
export type NewcomerCount = ReturnType<typeof newcomerCount>

const limitOf = (per: 'address' | 'network', most: number): Limit => ({
  ...{ name: 'onboard', what: 'new agents', seconds: HOUR / 1_000 },
  ...{ per, most },
})

/** A batch that does not fit is told so: fewer agents might still join. */
function refused(limit: Limit, agents: number, before: number, retryAfter: number): ServiceError {
  const refusal = limited(limit, retryAfter)
  const room = Math.max(0, limit.most - before)
  if (agents > 1 && room > 0)
    refusal.details.detail = `${agents} agents are more than the ${room} that this ${limit.per} may still bring in its hour: bring fewer, or come again in ${retryAfter} s.`
  return refusal
}

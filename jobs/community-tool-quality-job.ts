import { judgeCommunityToolByMeasuredCallsCommand } from '../actors/commands/community-tool-commands.ts'
import type { ActorSystem } from '../actors/aggregate-command-types.ts'
import { SECOND } from '../core/clock.ts'
import {
  COMMUNITY_TOOL_QUALITY_THRESHOLDS,
  communityToolAggregateId,
  type MeasuredToolQuality,
} from '../domain/community-tool-record.ts'
import { createFailureTransitionLog, createPollingLoop, type PollingLoop } from './polling-loop.ts'

/** Judges community tools by their measured calls: lists good ones and suspends bad ones. */

const EVERY_MS = 20 * SECOND

export interface CommunityToolQualityJobDeps {
  readonly actors: Pick<ActorSystem, 'ask'>
  /** Tools with at least so many counted calls in the last days; empty while another node judges. */
  readonly takeRound: (
    calls: number,
  ) => Promise<ReadonlyMap<string, Omit<MeasuredToolQuality, 'since'> & { readonly since: Date }>>
  /** Tells every node that a tool has changed. */
  readonly announce: (slug: string) => Promise<void>
  readonly log: (message: string, error: unknown) => void
}

/** Creates the loop. One node judges at a time; if two do, the machine decides and a second time changes nothing. */
export function createCommunityToolQualityJob(deps: CommunityToolQualityJobDeps): PollingLoop {
  const judged = new Map<string, string>()
  return createPollingLoop({
    everyMs: EVERY_MS,
    async work(stopping) {
      const tools = await deps.takeRound(COMMUNITY_TOOL_QUALITY_THRESHOLDS.listedAfterCalls)
      for (const [slug, { since, ...measured }] of tools) {
        if (stopping()) return
        const quality = { since: since.getTime(), ...measured }
        const seen = Object.values(quality).join(' ')
        if (judged.get(slug) === seen) continue
        const id = communityToolAggregateId(slug)
        const changed = await deps.actors.ask(id, judgeCommunityToolByMeasuredCallsCommand, quality)
        judged.set(slug, seen)
        if (changed !== null) await deps.announce(slug)
      }
    },
    log: createFailureTransitionLog(
      deps.log,
      'community tools are not judged',
      'community tools are judged again',
    ),
  })
}

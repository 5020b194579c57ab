import type { ActorSystem, AggregateCommandOptions } from '../actors/aggregate-command-types.ts'
import { invalidInputError, ServiceError } from '../core/errors.ts'
import { isUuid } from '../core/ids-and-api-keys.ts'
import type { BountyRecord, BountyStore } from '../persistence/payments/bounty-store.ts'
import { scoreBountyContent, toNormalizedWords } from './bounty-scoring.ts'
import {
  cancelBountyCommand,
  claimBountyCommand,
  postBountyCommand,
  type ClaimBountyResult,
  type PostBountyResult,
  type PostBountyInput,
} from './commands/bounty-commands.ts'

/** Bounties: rewards in escrow that are posted, claimed and cancelled. */

export interface BountyServiceDeps {
  readonly actors: ActorSystem
  readonly store: BountyStore
  /** Whether promotional credits may fund a reward. */
  readonly promoTransferable: boolean
}

/** Creates the service that posts, claims and cancels bounties (decision 36). */
export function createBountyService({ actors, store, promoTransferable }: BountyServiceDeps) {
  return {
    store,

    /** Rejects with `bounty_not_found`, also if `id` is malformed. */
    async find(id: string): Promise<BountyRecord> {
      const found = isUuid(id) ? await store.find(id.toLowerCase()) : null
      if (found === null) throw new ServiceError('bounty_not_found', { bounty_id: id })
      return found
    },

    /** Escrows the reward; rejects with `payment_required` if the poster has too few credits. */
    async post(
      posterId: string,
      wanted: PostBountyInput,
      options: AggregateCommandOptions,
    ): Promise<PostBountyResult> {
      const blank = wanted.requiredKeywords.findIndex(
        (keyword) => toNormalizedWords(keyword).length === 0,
      )
      if (blank !== -1)
        throw invalidInputError(
          `/required_keywords/${blank}`,
          'must have a letter or a digit to look for',
        )
      return actors.ask(posterId, postBountyCommand, { ...wanted, promoTransferable }, options)
    },

    /**
     * Hands in a content. A bounty's terms never change, so the content is scored before the
     * command.
     */
    async claim(
      { bountyId, requiredKeywords }: BountyRecord,
      agentId: string,
      content: string,
      options: AggregateCommandOptions,
    ): Promise<ClaimBountyResult> {
      const appraisal = scoreBountyContent(content, requiredKeywords)
      return actors.ask(bountyId, claimBountyCommand, { agentId, content, appraisal }, options)
    },

    /** Returns the escrow of an open bounty to its poster. */
    cancel: ({ bountyId }: BountyRecord, agentId: string, options: AggregateCommandOptions) =>
      actors.ask(bountyId, cancelBountyCommand, { agentId }, options),
  }
}
export type BountyService = ReturnType<typeof createBountyService>

import type { ActorSystem, CommandOptions } from '../actors/command.ts'
import { invalidInputError, ServiceError } from '../core/errors.ts'
import { isUuid } from '../core/ids.ts'
import type { BountyRecord, BountyStore } from '../persistence/payments/bounty-store.ts'
import { scoreBountyContent, toNormalizedWords } from './bounty-scoring.ts'
import {
  cancelBountyCommand,
  claimBountyCommand,
  postBountyCommand,
  type ClaimBountyResult,
  type PostBountyResult,
  type PostBountyInput,
} from './commands/bounty.ts'

export interface BountyServiceDeps {
  readonly actors: ActorSystem
  readonly store: BountyStore
  /** Whether promotional credits may become a reward. */
  readonly promoTransferable: boolean
}

/** Rewards in escrow: how they are offered, earned and taken back (decision 36). */
export function createBountyService({ actors, store, promoTransferable }: BountyServiceDeps) {
  return {
    store,

    /** Rejects with `bounty_not_found`, whatever the id is. */
    async find(id: string): Promise<BountyRecord> {
      const found = isUuid(id) ? await store.find(id.toLowerCase()) : null
      if (found === null) throw new ServiceError('bounty_not_found', { bounty_id: id })
      return found
    },

    /** Escrows the reward; rejects with `payment_required` where the poster has too little. */
    async post(
      posterId: string,
      wanted: PostBountyInput,
      options: CommandOptions,
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

    /** Hands in a content. What a bounty asks for never changes, so it is weighed before it is its turn. */
    async claim(
      { bountyId, requiredKeywords }: BountyRecord,
      agentId: string,
      content: string,
      options: CommandOptions,
    ): Promise<ClaimBountyResult> {
      const appraisal = scoreBountyContent(content, requiredKeywords)
      return actors.ask(bountyId, claimBountyCommand, { agentId, content, appraisal }, options)
    },

    /** Returns the escrow of an open bounty to its poster. */
    cancel: ({ bountyId }: BountyRecord, agentId: string, options: CommandOptions) =>
      actors.ask(bountyId, cancelBountyCommand, { agentId }, options),
  }
}
export type BountyService = ReturnType<typeof createBountyService>

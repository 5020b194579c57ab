import type { Actors, AskOptions } from '../actors/command.ts'
import { invalid, ServiceError } from '../core/errors.ts'
import { isUuid } from '../core/ids.ts'
import type { Bounty, BountyStore } from '../persistence/bounties.ts'
import { appraise, wordsOf } from './appraisal.ts'
import {
  bountyCancel,
  bountyClaim,
  bountyPost,
  type PaidBounty,
  type Posted,
  type Posting,
} from './commands/bounty.ts'

export interface BountyParts {
  readonly actors: Actors
  readonly store: BountyStore
  /** Whether promotional credits may become a reward. */
  readonly promoTransferable: boolean
}

/** Rewards in escrow: how they are offered, earned and taken back (decision 36). */
export function bounties({ actors, store, promoTransferable }: BountyParts) {
  return {
    store,

    /** Rejects with `bounty_not_found`, whatever the id is. */
    async find(id: string): Promise<Bounty> {
      const found = isUuid(id) ? await store.find(id.toLowerCase()) : null
      if (found === null) throw new ServiceError('bounty_not_found', { bounty_id: id })
      return found
    },

    /** Escrows the reward; rejects with `payment_required` where the poster has too little. */
    async post(posterId: string, wanted: Posting, options: AskOptions): Promise<Posted> {
      const blank = wanted.requiredKeywords.findIndex((keyword) => wordsOf(keyword).length === 0)
      if (blank !== -1)
        throw invalid(`/required_keywords/${blank}`, 'must have a letter or a digit to look for')
      return actors.ask(posterId, bountyPost, { ...wanted, promoTransferable }, options)
    },

    /** Hands in a content. What a bounty asks for never changes, so it is weighed before it is its turn. */
    async claim(
      { bountyId, requiredKeywords }: Bounty,
      agentId: string,
      content: string,
      options: AskOptions,
    ): Promise<PaidBounty> {
      const appraisal = appraise(content, requiredKeywords)
      return actors.ask(bountyId, bountyClaim, { agentId, content, appraisal }, options)
    },

    /** Returns the escrow of an open bounty to its poster. */
    cancel: ({ bountyId }: Bounty, agentId: string, options: AskOptions) =>
      actors.ask(bountyId, bountyCancel, { agentId }, options),
  }
}
export type Bounties = ReturnType<typeof bounties>

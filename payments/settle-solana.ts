import { FacilitatorDown, type Facilitator } from '../chain/x402/facilitator.ts'
import type { Clock } from '../core/clock.ts'
import { lastLookAt, type Next, type SettleRail, type Tell, type Work } from './settle-rail.ts'

/**
 * Settles on Solana by a facilitator, the only one who can say what became of a transaction. Only a
 * refusal of the first request that says it was never sent is final at once. Everything else leaves
 * it open: the facilitator is asked again, which settles a transaction once however often it is
 * asked, and its no is believed when the transaction cannot land any more. Its blockhash is good for
 * 150 blocks, 60 to 90 seconds; `lastLookAt` is six minutes after the payment was read.
 */
export function solanaRail(facilitator: Facilitator, clock: Clock, tell: Tell): SettleRail {
  /** `first`: nobody has asked before, so nothing can be on its way. */
  async function settle(work: Work, first: boolean): Promise<Next> {
    const late = clock.now() >= lastLookAt(work.payment)
    const { success, transaction, neverSent } = await facilitator.settle(work.payment)
    if (success) {
      await tell.settled(work, { tx: transaction, logIndex: 0, block: 0n })
      return 'on'
    }
    if (work.money !== 'unknown') await tell.unknown(work)
    if ((first && neverSent) || late) {
      await tell.lost(work, null)
      return 'on'
    }
    await keepName(work, transaction)
    return 'later'
  }

  /** A transaction that was named may be looked up by whoever asks for its settlement. */
  async function keepName(work: Work, transaction: string): Promise<void> {
    if (transaction === '' || transaction === work.txHash) return
    await tell.submitted(work, transaction)
    await tell.unknown(work)
  }

  async function submit(work: Work): Promise<Next> {
    if (!facilitator.available()) return 'later'
    if ((await tell.submitted(work, null)) !== 'submitted') return 'on'
    try {
      return await settle({ ...work, money: 'submitted' }, true)
    } catch (error) {
      await tell.unknown(work)
      // Nobody was asked, so nothing has been done.
      if (error instanceof FacilitatorDown && !error.asked) await tell.retry(work)
      throw error
    }
  }

  return {
    advance: (work) => (work.money === 'due' ? submit(work) : settle(work, false)),
  }
}

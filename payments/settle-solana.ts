import { FacilitatorDown, type Facilitator } from '../chain/x402/facilitator.ts'
import type { Clock } from '../core/clock.ts'
import { lastLookAt, type Next, type SettleRail, type Tell, type Work } from './settle-rail.ts'

/**
 * Settles on Solana by a facilitator, the only one who can say what became of a transaction. After
 * an answer was missed, its no may mean that the money has moved already: it is believed at the end.
 */
export function solanaRail(facilitator: Facilitator, clock: Clock, tell: Tell): SettleRail {
  async function settle(work: Work, certain: boolean): Promise<Next> {
    const { success, transaction } = await facilitator.settle(work.payment)
    if (success) {
      await tell.settled(work, { tx: transaction, logIndex: 0, block: 0n })
      return 'on'
    }
    if (work.money !== 'unknown') await tell.unknown(work)
    if (!certain && clock.now() < lastLookAt(work.payment)) return 'later'
    await tell.lost(work, null)
    return 'on'
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

import { SolanaDown } from '../chain/solana-rpc.ts'
import type { Landed, SolanaLook } from '../chain/solana-look.ts'
import { FACILITATOR_MS, FacilitatorDown, type Facilitator } from '../chain/x402/facilitator.ts'
import { SECOND, type Clock } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import { lastLookAt, type Next, type SettleRail, type Tell, type Work } from './settle-rail.ts'
import { since } from './settle-since.ts'

export interface SolanaRailParts {
  readonly facilitator: Facilitator
  /** The chain itself; null where no node of it is configured. */
  readonly look: SolanaLook | null
  readonly clock: Clock
  readonly tell: Tell
  readonly log: (message: string, error: unknown) => void
}

/** Longer than a facilitator is waited for: whoever has asked it has been answered by then. */
const ASKED_MS = FACILITATOR_MS + 5 * SECOND

/**
 * Settles on Solana by a facilitator. Its yes is believed, and its no where it says on the first
 * request that nothing was sent. Everything else leaves it open: the final blocks are asked, where a
 * node is configured, and the facilitator again, which settles a transaction once however often it is
 * asked. Lost is then what the chain says is lost, and nothing else: without a node it stays open
 * until an operator says what became of it (`gas settlement`).
 */
export function solanaRail({ facilitator, look, clock, tell, log }: SolanaRailParts): SettleRail {
  const beingAsked = since(clock, ASKED_MS)

  /** `first`: nobody has asked before, so nothing can be on its way. */
  async function settle(work: Work, first: boolean): Promise<Next> {
    const { success, transaction, neverSent } = await facilitator.settle(work.payment)
    if (success) return on(tell.settled(work, { tx: transaction, logIndex: 0, block: 0n }))
    if (work.money !== 'unknown') await tell.unknown(work)
    if (first && neverSent) return on(tell.lost(work, lastLookWith(look, work)))
    await keepName(work, transaction)
    return waits(work)
  }

  /** A transaction that was named may be looked up by whoever asks for its settlement. */
  async function keepName(work: Work, transaction: string): Promise<void> {
    if (transaction === '' || transaction === work.txHash) return
    await tell.submitted(work, transaction)
    await tell.unknown(work)
  }

  function waits({ id, payment }: Work): Next {
    if (look !== null || clock.now() < lastLookAt(payment)) return 'later'
    log(`nobody can say whether settlement ${id} arrived: see gas settlement`, null)
    return STUCK
  }

  async function submit(work: Work): Promise<Next> {
    if (!facilitator.available()) return 'later'
    if ((await tell.submitted(work, null)) !== 'submitted') return 'on'
    try {
      return await settle({ ...work, money: 'submitted' }, true)
    } catch (error) {
      await tell.unknown(work)
      // Nobody was asked, so nothing has been done.
      if (error instanceof FacilitatorDown && !error.asked) await tell.retry(work, false)
      throw error
    }
  }

  async function reconcile(work: Work): Promise<Next> {
    const landed = await onChain(work)
    if (landed.state === 'paid')
      return on(tell.settled(work, { tx: landed.signature, logIndex: 0, block: landed.slot }))
    if (landed.state === 'gone') return lost(work)
    if (landed.state === 'unpaid') return unpaid(work, landed)
    if (work.money === 'lost') return 'later'
    // Asked beside another node it may send, and that one be told that its own was never sent.
    if (work.money === 'submitted' && !beingAsked.forLong(work.id)) return { restMs: ASKED_MS }
    beingAsked.end(work.id)
    return settle(work, false)
  }

  /** A node that is down says nothing, and the facilitator may still know. */
  async function onChain({ payment, txHash, id }: Work): Promise<Landed> {
    if (look === null) return { state: 'open' }
    try {
      return await look({ payment, named: txHash, now: clock.now() })
    } catch (error) {
      if (!(error instanceof SolanaDown)) throw error
      log(`the chain cannot be asked for settlement ${id}`, error)
      return { state: 'open' }
    }
  }

  async function unpaid(
    work: Work,
    { signature, arrived }: Extract<Landed, { state: 'unpaid' }>,
  ): Promise<Next> {
    log(`${signature} has brought ${arrived} for settlement ${work.id}: see gas settlement`, null)
    if (arrived <= 0n) return lost(work)
    // Something has arrived, and not what was asked for: nobody is told to pay again for that.
    if (work.money === 'submitted') await tell.unknown(work)
    return STUCK
  }

  async function lost(work: Work): Promise<Next> {
    if (work.money === 'submitted') await tell.unknown(work)
    return on(tell.lost(work, null))
  }

  return {
    advance: (work) => (work.money === 'due' ? submit(work) : reconcile(work)),
  }
}

/** The payer may have gone to the facilitator himself: the chain would know. */
const lastLookWith = (look: SolanaLook | null, { payment }: Work): number | null =>
  look === null ? null : lastLookAt(payment)

const STUCK = { restMs: LIMITS.settleStuckMs } as const

/** Where there is nothing left to do, nobody has to look again. */
async function on(told: Promise<string>): Promise<Next> {
  const money = await told
  return money === 'settled' || money === 'lost' ? 'done' : 'on'
}

import { decodePayment, shownAgain, type Offer, type Payment } from '../chain/payment.ts'
import type { Actors } from '../actors/command.ts'
import { newId } from '../core/ids.ts'
import { LIMITS } from '../core/limits.ts'
import { toUsdc, type Micros } from '../core/money.ts'
import { ServiceError } from '../core/errors.ts'
import type { SettlementView as Stored } from '../persistence/settlements.ts'
import type { PaymentRef } from './admission.ts'
import { claiming, refOf, type ClaimParts } from './claiming.ts'
import { paymentDeliver, paymentFail, touching } from './commands/payment.ts'
import { offers, type OfferParts } from './offers.ts'
import type { Delivery, Door, Paying, SettlementView, ToppedUp } from './paying.ts'
import { Unpaid } from './unpaid.ts'

export interface PayParts extends Omit<ClaimParts, 'settlementUrl'>, OfferParts {
  readonly actors: Actors & { wake(id: string, kind: 'payer'): Promise<void> }
  readonly log: (message: string, error: unknown) => void
}

/** The ways to pay from outside, over the payers' own aggregates and the settler. */
export function paying(parts: PayParts): Paying {
  const { settlements, publicUrl } = parts
  const words = offers(parts)
  const claims = claiming({ ...parts, settlementUrl: words.settlementUrl })

  /** A payment that was used before is known by its nonce, whatever is offered now. */
  async function known(door: Door): Promise<Payment | null> {
    const shown = await words.presented(door)
    if (shown === null) return null
    const seen = await claims.look({ payment: shown, door, buyer: NOBODY })
    const proof = seen === null ? null : await settlements.proof(refOf(shown).settlement)
    return proof === null ? null : shownAgain(decodePayment(proof.payment), shown)
  }

  async function read(door: Door, offer: Offer | null): Promise<Payment> {
    try {
      return await words.read(door, offer)
    } catch (error) {
      const payment = error instanceof ServiceError ? await known(door) : null
      if (payment === null) throw error
      return payment
    }
  }

  async function topUp(door: Door, agentId: string, amount: Micros): Promise<ToppedUp> {
    const item = { description: `${toUsdc(amount)} USDC of credits`, price: amount, deadlineMs: 0 }
    const offer = words.offer(door.path, item)
    const fund = { agent_id: agentId, fund_url: `${publicUrl}/fund/${agentId}` }
    const brings = words.brings(door)
    if (offer === null && !brings) throw new ServiceError('rail_disabled', fund)
    if (!brings)
      throw new Unpaid('payment_required', { price_usdc: toUsdc(amount), ...fund }, offer)
    const payment = await read(door, offer)
    const ref = refOf(payment)
    const buyer = { agentId, callId: newId(parts.clock.now()), patienceMs: LIMITS.settleWaitMs }
    const use = { payment, door, buyer, offer, purpose: { kind: 'topup', agentId } as const }
    const { tx, again } = await claims.claim(use)
    // The credit lies in the agent's inbox: whoever asks for the balance next has it.
    return {
      settlementId: ref.settlement,
      tx: tx ?? '',
      replayed: again,
      headers: words.replyHeaders(payment, ref, tx),
    }
  }

  return {
    ...words,
    read,
    known,
    refOf,
    earlier: (payment, door, agentId, offer) =>
      claims.earlier({ payment, door, offer, buyer: { ...NOBODY, agentId } }),
    claim: (payment, door, buyer, offer) =>
      claims.claim({ payment, door, buyer, offer, purpose: { kind: 'call' } }),
    ...telling(parts),
    topUp,
    settlement: async (id) => viewOf(await settlements.view(id)),
  }
}

type Tells = Pick<Paying, 'deliver' | 'release' | 'told' | 'abandon'>

/** What a payer's aggregate is told of its call. */
function telling({ actors, settler, log }: PayParts): Tells {
  /** A caller without a key: the payment's own commit keeps the call, or lets the payment go. */
  async function deliver({ ref, callId, calls, ...staged }: Delivery): Promise<void> {
    const made = calls.map(
      (row) =>
        ({ at }: { at: number }) =>
          row(at),
    )
    const told = { settlement: ref.settlement, callId, calls: made, ...staged }
    await actors.ask(ref.payer, paymentDeliver, told, touching(ref.settlement))
    settler.kick(ref.settlement)
  }

  async function release(ref: PaymentRef, callId: string, row: Delivery['calls'][number] | null) {
    const kept = row === null ? null : ({ at }: { at: number }) => row(at)
    const asked = { settlement: ref.settlement, callId, row: kept }
    const { money } = await actors.ask(ref.payer, paymentFail, asked, touching(ref.settlement))
    return money === 'released' ? 'free' : 'kept'
  }

  /** What an agent's commit has left in the payer's inbox is absorbed now; else a sweep finds it. */
  async function told(ref: PaymentRef): Promise<void> {
    try {
      await actors.wake(ref.payer, 'payer')
      settler.kick(ref.settlement)
    } catch (error) {
      log('payer not woken', error)
    }
  }

  /** What the agent's commits have said lies in the inbox, and is heard first. */
  async function abandon(ref: PaymentRef, callId: string): Promise<void> {
    await actors.wake(ref.payer, 'payer')
    const asked = { settlement: ref.settlement, callId, row: null }
    try {
      await actors.ask(ref.payer, paymentFail, asked, touching(ref.settlement))
    } catch (error) {
      if (!(error instanceof ServiceError && error.code === 'call_settled')) throw error
    }
  }

  return { deliver, release, told, abandon }
}

/** Whoever only looks. */
const NOBODY = { agentId: null, callId: '', patienceMs: 0 }

function viewOf(stored: Stored | null): SettlementView | null {
  if (stored === null) return null
  const { id, money, delivery, chain, asset, payer, amount, price, txHash, claimedAt } = stored
  return {
    id,
    state: money,
    delivery,
    chain,
    asset,
    payer,
    amount,
    price,
    tx: txHash,
    createdAt: new Date(claimedAt),
  }
}

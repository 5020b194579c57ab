import { setTimeout as pause } from 'node:timers/promises'
import { credentialHash, PaymentProblem } from '../chain/payment.ts'
import type { Offer, Payment, Presented } from '../chain/payment.ts'
import type { Actors } from '../actors/command.ts'
import type { Clock } from '../core/clock.ts'
import { ServiceError, type Details } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import { ZERO, type Micros } from '../core/money.ts'
import { OPTIMISTIC_CALL } from '../core/prices.ts'
import type { CallLog } from '../persistence/call-log.ts'
import type { SettlementStore } from '../persistence/settlements.ts'
import type { PaymentRef } from './admission.ts'
import { chainNameOf } from './chains.ts'
import { payerOf, paymentClaim, settlementOf, touching } from './commands/payment.ts'
import type {
  Claim,
  Claimed as Answer,
  SettlementMode,
  SettlementPurpose,
} from './commands/payment.ts'
import { exposureMeter, type Place } from './exposure.ts'
import { paymentLook, type Seen } from './commands/payment-look.ts'
import { marksOf } from './marks-of.ts'
import type { Buyer, Claimed, Door, Earlier } from './paying.ts'
import { refusedPayment, Unpaid } from './unpaid.ts'
import type { Funds } from './verification.ts'

export interface ClaimParts {
  readonly clock: Clock
  readonly actors: Actors
  readonly verify: (payment: Payment) => Promise<Funds>
  readonly settlements: Pick<SettlementStore, 'view' | 'exposure' | 'proof'>
  readonly callLog: Pick<CallLog, 'answerTo'>
  readonly settler: {
    kick(settlement: string): void
    /** How a settlement ended; `pending` after the given time. */
    settled(settlement: string, timeoutMs: number): Promise<'settled' | 'lost' | 'pending'>
    /** False while nothing may run before it is paid for. */
    optimistic(chain: PaymentRef['chain']): boolean
  }
  /** What may be at stake at once by all payers together. */
  readonly exposure: Micros
  readonly settlementUrl: (ref: PaymentRef) => string
}

/** One payment with the request that brought it. */
export interface Use {
  readonly payment: Payment
  readonly door: Door
  readonly buyer: Buyer
  readonly purpose: SettlementPurpose
  readonly offer: Offer | null
}

/** The same before it is known to be any good. */
type Shown = Pick<Use, 'door' | 'buyer'> & { readonly payment: Presented }

/** `again`: these credits had been bought with it before, perhaps a moment ago on another node. */
interface Bought extends Claimed {
  readonly again: boolean
}

const bought = ({ payment }: Use, ref: PaymentRef, { txHash }: Pick<Seen, 'txHash'>): Bought => ({
  payment,
  ref,
  tx: txHash,
  again: true,
})

export const refOf = (payment: Presented): PaymentRef => ({
  payer: payerOf(payment),
  settlement: settlementOf(payment),
  chain: chainNameOf(payment.chain),
})

/** How often a balance is read for one claim. */
const READINGS = 4
/** How long, and how often, settlements under way are waited for before a payer counts as short. */
const SETTLING_MS = 300
const SETTLING_WAITS = 8

/** A payment that nobody has verified now, since it was when it was claimed first. */
const VERIFIED_BEFORE: Funds = { balance: null, block: 0n, plainKey: false }

/** From a payment that was read to a claim that holds: known ones first, then crypto, then the claim. */
export function claiming(parts: ClaimParts) {
  const { actors, settlements, settler } = parts
  const { look, earlier, repeated } = knownPayments(parts)
  const toldOf = (ref: PaymentRef) => detailsOf(parts, ref)
  const meter = exposureMeter(() => settlements.exposure(), parts.clock)

  /** Claims the payment; where it has to settle first, resolves when it has. */
  async function claim(use: Use): Promise<Bought> {
    const { payment, offer } = use
    const ref = refOf(payment)
    const seen = await look(use)
    if (seen !== null && hasBought(use, seen)) return bought(use, ref, seen)
    if (seen !== null) await repeated(use, seen)
    const claimed = await asked(use, ref, seen).catch(unlessClaimed(use))
    if (claimed.claim === 'prepaid') return { payment, ref, tx: claimed.txHash, again: false }
    if (claimed.claim === 'known' && hasBought(use, claimed)) return bought(use, ref, claimed)
    if (claimed.claim === 'known')
      throw new ServiceError('payment_in_progress', { ...toldOf(ref), retry_after: 1 })
    const tx = claimed.mode === 'first' ? await settledFirst(ref, offer) : null
    return { payment, ref, tx, again: false }
  }

  /**
   * Sent twice at once, and the other one was quicker: what the chain or the reservation refuses now
   * is what that one did. Only a payment nobody has claimed is answered with a new 402.
   */
  const unlessClaimed =
    (use: Use) =>
    async (error: unknown): Promise<{ claim: 'known' } & Seen> => {
      const seen = error instanceof Unpaid ? await look(use) : null
      if (seen === null) throw error
      return { claim: 'known', ...seen }
    }

  /**
   * A payment of the same payer that is in a block and not in its books yet counts twice, too: it is
   * waited for. When it was really spent, the chain says so at the next reading.
   *
   * A balance from before the payer's last settled block counts the same money twice: it is read
   * again. Where the payer's payments settle faster than that, the fault is ours, not its own.
   */
  async function asked(
    use: Use,
    ref: PaymentRef,
    seen: Seen | null,
    tries = READINGS,
    waits = SETTLING_WAITS,
  ): Promise<Answer> {
    const { payment, offer } = use
    const funds = seen === null ? await verified(parts, payment, offer) : VERIFIED_BEFORE
    const { place, ...room } = await modeFor(parts, meter, use, funds)
    const claim = claimOf(parts.clock, use, funds, { ...room, isFirst: seen === null })
    try {
      return await actors.ask(ref.payer, paymentClaim, claim, touching(ref.settlement))
    } catch (error) {
      if (waits > 0 && isReserved(error, payment, funds)) {
        await pause(SETTLING_MS)
        return asked(use, ref, seen, tries, waits - 1)
      }
      if (!isStale(error)) throw offered(error, offer)
      if (tries > 1) return asked(use, ref, seen, tries - 1, waits)
      throw new ServiceError('rail_unavailable', { retry_after: 1 })
    } finally {
      place?.end()
    }
  }

  /** Unknown is not failed: whoever is told to pay again pays twice (decision 33). */
  async function settledFirst(ref: PaymentRef, offer: Offer | null): Promise<string | null> {
    settler.kick(ref.settlement)
    const outcome = await settler.settled(ref.settlement, LIMITS.settleWaitMs)
    if (outcome === 'lost') throw lost(toldOf(ref), offer)
    if (outcome === 'pending') throw unknown(toldOf(ref))
    return (await settlements.view(ref.settlement))?.txHash ?? null
  }

  return { earlier, claim, look }
}

/** What is known of a payment before anything is verified. */
function knownPayments(parts: ClaimParts) {
  function look({ payment, door, buyer }: Shown): Promise<Seen | null> {
    const { payer, settlement } = refOf(payment)
    const { agentId } = buyer
    const { fingerprint } = door
    const credential = credentialHash(payment)
    const marks = marksOf(door, credential, null)
    const asked = { settlement, fingerprint, credential, marks, agentId }
    return parts.actors.ask(payer, paymentLook, asked, touching(settlement))
  }

  /** What the payment has bought before; null when it is free, or settled and still unused. */
  async function earlier(use: Shown & Pick<Use, 'offer'>): Promise<Earlier | null> {
    const seen = await look(use)
    return seen === null ? null : repeated(use, seen)
  }

  async function repeated({ payment, offer }: Shown & Pick<Use, 'offer'>, seen: Seen) {
    const ref = refOf(payment)
    const at = detailsOf(parts, ref)
    const { money, delivery } = seen
    if (money === 'lost' && delivery !== 'delivered') throw lost(at, offer)
    if (!seen.sameRequest) throw usedBefore(at)
    if (delivery === 'failed')
      throw new ServiceError('payment_credited', { ...at, call_id: seen.callId })
    if (delivery === 'delivered') return answerOf(ref, seen)
    if (money === 'settled') return null
    if (money === 'claimed')
      throw new ServiceError('payment_in_progress', { ...at, retry_after: 1 })
    throw unknown(at)
  }

  async function answerOf(ref: PaymentRef, { callId, agentId, money, txHash }: Seen) {
    const stored = await parts.callLog.answerTo(agentId ?? ref.payer, callId)
    if (stored !== null) return { callId, ...stored, tx: money === 'settled' ? txHash : null }
    const detail = 'Its answer is no longer kept.'
    throw new ServiceError('payment_already_used', {
      ...detailsOf(parts, ref),
      call_id: callId,
      detail,
    })
  }

  return { look, earlier, repeated }
}

interface Room {
  readonly mode: SettlementMode
  readonly globalRoom: boolean
}

/** A small payment of a plain key may settle after the call, as long as little is at stake. */
async function modeFor(
  { settler, exposure }: ClaimParts,
  meter: ReturnType<typeof exposureMeter>,
  { payment, buyer }: Pick<Use, 'payment' | 'buyer'>,
  { plainKey }: Funds,
): Promise<Room & { place: Place | null }> {
  const { chain } = refOf(payment)
  const small = payment.price <= OPTIMISTIC_CALL && buyer.sharesPrice !== true
  const may = plainKey && small && settler.optimistic(chain)
  const asks = may && exposure !== ZERO
  const place = asks ? await meter.room(payment.price, exposure) : null
  const globalRoom = place !== null
  return { mode: globalRoom ? 'optimistic' : 'first', globalRoom, place }
}

const claimOf = (
  clock: Clock,
  { payment, door, buyer, purpose }: Use,
  funds: Funds,
  { isFirst, ...room }: Room & { isFirst: boolean },
): Claim => ({
  payment,
  chain: refOf(payment).chain,
  fingerprint: door.fingerprint,
  credential: credentialHash(payment),
  marks: marksOf(door, credentialHash(payment), isFirst ? clock.now() : null),
  callId: buyer.callId,
  agentId: buyer.agentId,
  purpose,
  balance: funds.balance,
  balanceBlock: funds.block,
  expiresAt: Math.floor(clock.now()) + buyer.patienceMs,
  claimBy: buyer.claimBy ?? null,
  ...room,
})

async function verified(
  { verify }: ClaimParts,
  payment: Payment,
  offer: Offer | null,
): Promise<Funds> {
  try {
    return await verify(payment)
  } catch (error) {
    throw error instanceof PaymentProblem ? refusedPayment(error, offer) : error
  }
}

const detailsOf = ({ settlementUrl }: ClaimParts, ref: PaymentRef): Details => ({
  settlement_id: ref.settlement,
  settlement_url: settlementUrl(ref),
})

/** Credits are delivered with the settlement itself: there is no call to look for. */
const hasBought = (
  { purpose }: Use,
  { money, sameRequest }: Pick<Seen, 'money' | 'sameRequest'>,
): boolean => purpose.kind === 'topup' && money === 'settled' && sameRequest

/** The same words whatever differs: whoever finds a payment on a chain learns nothing of its request. */
const usedBefore = (at: Details) =>
  new ServiceError('payment_already_used', { ...at, detail: REPEATED_TO })
const REPEATED_TO =
  'It has been used. Its answer is repeated for the same request with what the first one had: its API key, its Idempotency-Key, the `accepted` of its 402 or its address.'

const unknown = (at: Details) => new ServiceError('settlement_unknown', { ...at, retry_after: 5 })

const lost = (at: Details, offer: Offer | null) =>
  new Unpaid('payment_invalid', { ...at, reason: 'settlement_failed' }, offer)

/** The chain has the money for this payment; what is refused is what others of the payer may take. */
const isReserved = (error: unknown, { amount }: Payment, { balance }: Funds): boolean =>
  error instanceof ServiceError &&
  error.details['reason'] === 'insufficient_balance' &&
  error.details['stale_balance'] !== true &&
  balance !== null &&
  balance >= amount

const isStale = (error: unknown): boolean =>
  error instanceof ServiceError && error.details['stale_balance'] === true

/** A payer without the funds is refused by its chart, which knows no offers. */
function offered(error: unknown, offer: Offer | null): unknown {
  const refused = error instanceof ServiceError && error.code === 'payment_invalid'
  return refused ? new Unpaid('payment_invalid', error.details, offer) : error
}

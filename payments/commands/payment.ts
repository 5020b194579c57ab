import { createHash } from 'node:crypto'
import { encodePayment, type Payment } from '../../chain/payment.ts'
import { SECOND } from '../../core/clock.ts'
import { ServiceError, type ErrorCode } from '../../core/errors.ts'
import type { DomainEvent } from '../../core/events.ts'
import { isRepetition, type Marks } from '../../core/marks.ts'
import { sum } from '../../core/money.ts'
import type { CallRow, PriceShare } from '../../core/rows.ts'
import type { AskOptions, Command, Turn } from '../../actors/command.ts'
import type { InputOf, SnapshotOf } from '../../actors/registry.ts'
import { Refusal } from '../../actors/turn.ts'
import { owedOf, type ChainName } from '../ledger.ts'
import { takePrice } from '../shares.ts'
import { bookDelivery, bookRelease } from './settlement.ts'

export type SettlementMode = InputOf<'settlement'>['mode']
export type SettlementPurpose = InputOf<'settlement'>['purpose']
type SettlementValue = SnapshotOf<'settlement'>['value']
export type Money = SettlementValue['money']
export type Delivery = SettlementValue['delivery']

/** The aggregate a payment belongs to: CAIP-10. */
export const payerOf = ({ chain, from }: Pick<Payment, 'chain' | 'from'>): string =>
  `${chain}:${from}`

/** One id for one (chain, asset, payer, nonce): a payment has one settlement, whatever its dialect. */
export function settlementOf({ chain, asset, from, nonce }: PaymentKey): string {
  const digest = createHash('sha256').update(`${chain}|${asset}|${from}|${nonce}`).digest('hex')
  return `stl_${digest.slice(0, 32)}`
}
type PaymentKey = Pick<Payment, 'chain' | 'asset' | 'from' | 'nonce'>

/** The settlement a command names may be at rest: it is loaded first. */
export const touching = (settlement: string): Pick<AskOptions, 'touch'> => ({
  touch: [{ kind: 'settlement', id: settlement }],
})

/** A verified payment that is to pay for one call, or for credits. */
export interface Claim {
  readonly payment: Payment
  readonly chain: ChainName
  /** Of method, path and raw body. */
  readonly fingerprint: string
  /** `credentialHash` of the payment. */
  readonly credential: string
  readonly marks: Marks
  readonly callId: string
  /** The agent whose own aggregate holds the call; null for a caller without a key. */
  readonly agentId: string | null
  readonly purpose: SettlementPurpose
  /** What is wanted: beyond a cap every payment settles first. */
  readonly mode: SettlementMode
  /** Atomic units of the asset that the payer has; null where nobody can say. */
  readonly balance: bigint | null
  /** When it was read; the payment is not looked for in earlier blocks. */
  readonly balanceBlock: bigint
  /** Whether all payers together leave room for one more call that runs first. */
  readonly globalRoom: boolean
  /** When a call that never came back is given up, in milliseconds. */
  readonly expiresAt: number
  /** The hold of its call is there until later than this, in milliseconds; null without a hold. */
  readonly claimBy?: number | null
}

/** What is known of a payment that was claimed before. */
export interface Known {
  readonly claim: 'known'
  /** The chart's no; null where the first answer is to be repeated. */
  readonly refusal: ErrorCode | null
  readonly money: Money
  readonly delivery: Delivery
  /** Of the call it pays for. */
  readonly callId: string
  readonly agentId: string | null
  readonly txHash: string | null
  /** Same request, same credential, same sender. */
  readonly sameRequest: boolean
}

export type Claimed =
  | { readonly claim: 'new'; readonly mode: SettlementMode }
  /** It has settled and nothing was delivered: this call, and no other one, may run now. */
  | { readonly claim: 'prepaid'; readonly txHash: string | null }
  | Known

/**
 * Claims a payment for one call: claim row, reservation and expiry in one commit. Only a payer
 * without the funds is refused (`payment_invalid`); what was claimed before is told as it stands.
 */
export const paymentClaim: Command<Claim, Claimed> = {
  name: 'payment.claim',
  kind: 'payer',
  creates: true,
  apply(turn, claim) {
    // A hold that has ended has said so already: nobody would ever say it of a later claim.
    if (turn.now > (claim.claimBy ?? Infinity))
      throw new ServiceError('rail_unavailable', { retry_after: 1 })
    const id = settlementOf(claim.payment)
    const before = turn.has('settlement', id) ? turn.peek('settlement', id) : null
    if (before !== null && before.value.money !== 'released') return again(turn, id, before, claim)
    const mode = reserve(turn, id, claim)
    if (before === null) turn.create('settlement', id, { ...inputOf(turn, id, claim), mode })
    else turn.step('settlement', id, { type: 'CLAIM', ...factsOf(turn, claim), mode })
    stageProof(turn, id, claim)
    if (mode === 'optimistic') setExpiry(turn, id, claim)
    return { claim: 'new', mode }
  },
  note: ({ payment, callId, agentId, mode }) => ({
    settlement: settlementOf(payment),
    callId,
    agentId,
    mode,
  }),
}

/** Asks the chart; a repetition that settled and was never delivered may run now. */
function again(turn: Turn, id: string, before: SnapshotOf<'settlement'>, claim: Claim): Claimed {
  let refusal: ErrorCode | null = null
  try {
    const event = { type: 'CLAIM', ...factsOf(turn, claim), mode: 'first' } as const
    const { context } = turn.step('settlement', id, event)
    if (context !== before.context) return { claim: 'prepaid', txHash: context.txHash }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    refusal = error.code
  }
  const { callId, agentId, txHash } = before.context
  const { money, delivery } = before.value
  const sameRequest = isRepetition(before.context, claim)
  return { claim: 'known', refusal, money, delivery, callId, agentId, txHash, sameRequest }
}

/** Keeps the price of the payer's balance, and decides whether the call may run first. */
function reserve(turn: Turn, settlement: string, claim: Claim): SettlementMode {
  const payer = turn.aggregateId
  if (!turn.has('payer', payer)) turn.create('payer', payer, { payer })
  const { payment, mode, balance, balanceBlock, globalRoom, purpose } = claim
  const { asset, amount, price } = payment
  const { context } = turn.step('payer', payer, {
    type: 'RESERVE',
    settlement,
    asset,
    amount,
    price,
    mode: purpose.kind === 'call' ? mode : 'first',
    balance,
    balanceBlock,
    globalRoom,
  })
  return context.reservations[settlement]?.mode ?? 'first'
}

const factsOf = (turn: Turn, claim: Claim) => ({
  amount: claim.payment.amount,
  price: claim.payment.price,
  validBefore: Number(claim.payment.validBefore),
  purpose: claim.purpose,
  agentId: claim.agentId,
  callId: claim.callId,
  fingerprint: claim.fingerprint,
  credential: claim.credential,
  marks: claim.marks,
  expiresAt: claim.expiresAt,
  at: turn.now,
})

const inputOf = (turn: Turn, settlementId: string, claim: Claim) => ({
  ...factsOf(turn, claim),
  settlementId,
  chain: claim.chain,
  asset: claim.payment.asset,
  payer: turn.aggregateId,
})

/** What the settler works from: one row for each time the payment was claimed. */
function stageProof(turn: Turn, id: string, claim: Claim): void {
  const { payment, chain, agentId, purpose, balanceBlock } = claim
  const { claims } = turn.peek('settlement', id).context
  turn.row('settlements', {
    id,
    claim: claims,
    payer: turn.aggregateId,
    chain,
    asset: payment.asset,
    nonce: payment.nonce,
    amount: payment.amount.toString(),
    price_micros: payment.price.toString(),
    from_block: earliest(balanceBlock).toString(),
    payment: encodePayment(payment),
    agent_id: agentId,
    purpose: purpose.kind,
    created_at: new Date(turn.now).toISOString(),
  })
}

/** After a reorganisation it may stand in a block below the one its balance was read at. */
export const REORG_BLOCKS = 64n
const earliest = (block: bigint): bigint => (block > REORG_BLOCKS ? block - REORG_BLOCKS : 0n)

const timerOf = (settlement: string) => `claim:${settlement}`
/** The chain's time may lag behind ours: what has expired there is certain only so much later. */
const EXPIRED_FOR_SURE_MS = 60 * SECOND

/** An agent's own hold says when its call has ended: here the payment itself has to be void first. */
function setExpiry(turn: Turn, settlement: string, claim: Claim): void {
  const { agentId, callId, expiresAt, payment } = claim
  const voidAt = Number(payment.validBefore) * SECOND + EXPIRED_FOR_SURE_MS
  turn.timer({
    id: timerOf(settlement),
    dueAt: agentId === null ? expiresAt : voidAt,
    command: paymentExpire.name,
    input: { settlement, callId, ...touching(settlement) },
  })
}

/** The timer of a claim whose call never came back: nothing was sent, nothing is charged. */
export const paymentExpire: Command<{ settlement: string; callId: string }, void> = {
  name: 'payment.expire',
  kind: 'payer',
  apply(turn, { settlement, callId }) {
    turn.cancelTimer(timerOf(settlement))
    if (!turn.has('settlement', settlement)) return
    const before = turn.peek('settlement', settlement).value.money
    const { value } = turn.step('settlement', settlement, { type: 'EXPIRE', callId })
    if (before !== value.money)
      turn.step('payer', turn.aggregateId, { type: 'RELEASE', settlement })
  },
  note: ({ settlement, callId }) => ({ settlement, callId }),
}

/** A finished call of a caller without a key: it lives in the payer's own aggregate. */
export interface Outcome {
  readonly settlement: string
  /** The one that claimed the payment. */
  readonly callId: string
  /** What was bought: their costs add up to the price. */
  readonly calls: readonly ((money: { at: number }) => CallRow)[]
  readonly rows: readonly { table: string; row: Record<string, unknown> }[]
  readonly events: readonly DomainEvent[]
  /** Parts of the prices that are other agents', by the call. */
  readonly shares?: readonly (PriceShare & { readonly callId: string })[]
}

/** Where a payment stands, for the reply. */
export interface Standing {
  readonly money: Money
  readonly delivery: Delivery
  readonly txHash: string | null
}

/**
 * Keeps the result of a call without an agent, with everything the tool staged; from here on the
 * payment is due. A result that comes after the claim was given up is refused (`call_settled`).
 */
export const paymentDeliver: Command<Outcome, Standing> = {
  name: 'payment.deliver',
  kind: 'payer',
  apply(turn, { settlement, callId, calls, rows, events, shares = [] }) {
    const { chain, price, claimedAt } = turn.peek('settlement', settlement).context
    deliver(turn, settlement, callId)
    const made = calls.map((row) => row({ at: claimedAt }))
    if (sum(made.map(({ cost }) => cost)) !== price)
      throw new Error(`settlement ${settlement} pays another price than its calls cost`)
    for (const row of made) {
      const { cost, callId: id } = row
      const own = shares.filter((share) => share.callId === id)
      const payers = [{ account: owedOf(chain), amount: cost }]
      // A chain pays in cash: there is nothing promotional in it.
      const sharing = { referrer: null, shares: own, promoTransferable: false }
      takePrice(turn, { payers, cost, callId: id, ...sharing })
      turn.call(row)
    }
    for (const staged of rows) turn.row(staged.table, staged.row)
    for (const event of events) turn.event(event)
    return standingOf(turn, settlement)
  },
  note: ({ settlement, callId }) => ({ settlement, callId }),
}

/**
 * The call of a claim has failed: an unspent payment may be used again, one that is on its way is
 * kept for this very request. `row` is the record of a call without an agent.
 */
export const paymentFail: Command<
  Pick<Outcome, 'settlement' | 'callId'> & { row: Outcome['calls'][number] | null },
  Standing
> = {
  name: 'payment.fail',
  kind: 'payer',
  apply(turn, { settlement, callId, row }) {
    const { claimedAt } = turn.peek('settlement', settlement).context
    release(turn, settlement, callId)
    if (row !== null) turn.call(row({ at: claimedAt }))
    return standingOf(turn, settlement)
  },
  note: ({ settlement, callId }) => ({ settlement, callId }),
}

function standingOf(turn: Turn, settlement: string): Standing {
  const { value, context } = turn.peek('settlement', settlement)
  return { money: value.money, delivery: value.delivery, txHash: context.txHash }
}

function deliver(turn: Turn, settlement: string, callId: string): void {
  turn.step('settlement', settlement, { type: 'DELIVER', callId })
  turn.cancelTimer(timerOf(settlement))
  bookDelivery(turn, settlement)
}

function release(turn: Turn, settlement: string, callId: string): void {
  const before = turn.peek('settlement', settlement).value
  turn.step('settlement', settlement, { type: 'RELEASE', callId })
  turn.cancelTimer(timerOf(settlement))
  bookRelease(turn, settlement, before)
}

/** What an agent's commit says of a call that this payer pays for. */
export interface Told {
  readonly settlement: string
  readonly callId: string
}

/** Only the runner's word counts: a call whose claim was refused lets its hold go as well. */
const runs = (turn: Turn, { settlement, callId }: Told): boolean =>
  turn.has('settlement', settlement) &&
  turn.peek('settlement', settlement).context.runner?.callId === callId

export function absorbDelivered(turn: Turn, told: Told): void {
  if (runs(turn, told)) deliver(turn, told.settlement, told.callId)
}

export function absorbReleased(turn: Turn, told: Told): void {
  if (runs(turn, told)) release(turn, told.settlement, told.callId)
}

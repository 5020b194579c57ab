import { createHash } from 'node:crypto'
import { encodePayment, type OnchainPayment } from '../../chain/payment.ts'
import { SECOND } from '../../core/clock.ts'
import { ServiceError, type ErrorCode } from '../../core/errors.ts'
import type { DomainEvent } from '../../core/domain-events.ts'
import {
  isRepeatedPaymentRequest,
  type RequesterIdentity,
} from '../../domain/requester-identity.ts'
import { sumMicros } from '../../core/money.ts'
import type { CallRow, PriceShare } from '../../core/commit-rows.ts'
import type { CommandOptions, Command, CommandContext } from '../../actors/command.ts'
import type { ActorInput, ActorSnapshot } from '../../actors/machine-registry.ts'
import { CommandRejectedError } from '../../actors/command-context.ts'
import { paymentClearingAccount, type PaymentChainName } from '../ledger-accounts.ts'
import { bookCallPrice } from '../price-split.ts'
import { bookPaymentDelivery, bookPaymentRelease } from './settlement.ts'

export type PaymentClaimMode = ActorInput<'settlement'>['mode']
export type PaymentClaimPurpose = ActorInput<'settlement'>['purpose']
type SettlementStateValue = ActorSnapshot<'settlement'>['value']
export type SettlementMoneyState = SettlementStateValue['money']
export type SettlementDeliveryState = SettlementStateValue['delivery']

/** The aggregate a payment belongs to: CAIP-10. */
export const toPayerAggregateId = ({
  chain,
  from,
}: Pick<OnchainPayment, 'chain' | 'from'>): string => `${chain}:${from}`

/** One id for one (chain, asset, payer, nonce): a payment has one settlement, whatever its dialect. */
export function toSettlementId({ chain, asset, from, nonce }: PaymentKey): string {
  const digest = createHash('sha256').update(`${chain}|${asset}|${from}|${nonce}`).digest('hex')
  return `stl_${digest.slice(0, 32)}`
}
type PaymentKey = Pick<OnchainPayment, 'chain' | 'asset' | 'from' | 'nonce'>

/** The settlement a command names may be at rest: it is loaded first. */
export const settlementLoadOptions = (settlement: string): Pick<CommandOptions, 'touch'> => ({
  touch: [{ kind: 'settlement', id: settlement }],
})

/** A verified payment that is to pay for one call, or for credits. */
export interface PaymentClaimInput {
  readonly payment: OnchainPayment
  readonly chain: PaymentChainName
  /** Of method, path and raw body. */
  readonly fingerprint: string
  /** `hashPaymentCredential` of the payment. */
  readonly credential: string
  readonly marks: RequesterIdentity
  readonly callId: string
  /** The agent whose own aggregate holds the call; null for a caller without a key. */
  readonly agentId: string | null
  readonly purpose: PaymentClaimPurpose
  /** What is wanted: beyond a cap every payment settles first. */
  readonly mode: PaymentClaimMode
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
export interface KnownPaymentClaim {
  readonly claim: 'known'
  /** The chart's no; null where the first answer is to be repeated. */
  readonly refusal: ErrorCode | null
  readonly money: SettlementMoneyState
  readonly delivery: SettlementDeliveryState
  /** Of the call it pays for. */
  readonly callId: string
  readonly agentId: string | null
  readonly txHash: string | null
  /** Same request, same credential, same sender. */
  readonly sameRequest: boolean
}

export type PaymentClaimResult =
  | { readonly claim: 'new'; readonly mode: PaymentClaimMode }
  /** It has settled and nothing was delivered: this call, and no other one, may run now. */
  | { readonly claim: 'prepaid'; readonly txHash: string | null }
  | KnownPaymentClaim

/**
 * Claims a payment for one call: claim row, reservation and expiry in one commit. Only a payer
 * without the funds is refused (`payment_invalid`); what was claimed before is told as it stands.
 */
export const claimPaymentCommand: Command<PaymentClaimInput, PaymentClaimResult> = {
  name: 'payment.claim',
  kind: 'payer',
  creates: true,
  apply(ctx, claim) {
    // A hold that has ended has said so already: nobody would ever say it of a later claim.
    if (ctx.now > (claim.claimBy ?? Infinity))
      throw new ServiceError('rail_unavailable', { retry_after: 1 })
    const id = toSettlementId(claim.payment)
    const before = ctx.has('settlement', id) ? ctx.snapshotOf('settlement', id) : null
    if (before !== null && before.value.money !== 'released')
      return repeatClaim(ctx, id, before, claim)
    const mode = reservePayerBalance(ctx, id, claim)
    if (before === null)
      ctx.create('settlement', id, { ...toSettlementInput(ctx, id, claim), mode })
    else ctx.send('settlement', id, { type: 'CLAIM', ...toClaimFields(ctx, claim), mode })
    stageSettlementRow(ctx, id, claim)
    if (mode === 'optimistic') setClaimExpiry(ctx, id, claim)
    return { claim: 'new', mode }
  },
  note: ({ payment, callId, agentId, mode }) => ({
    settlement: toSettlementId(payment),
    callId,
    agentId,
    mode,
  }),
}

/** Asks the chart; a repetition that settled and was never delivered may run now. */
function repeatClaim(
  ctx: CommandContext,
  id: string,
  before: ActorSnapshot<'settlement'>,
  claim: PaymentClaimInput,
): PaymentClaimResult {
  let refusal: ErrorCode | null = null
  try {
    const event = { type: 'CLAIM', ...toClaimFields(ctx, claim), mode: 'first' } as const
    const { context } = ctx.send('settlement', id, event)
    if (context !== before.context) return { claim: 'prepaid', txHash: context.txHash }
  } catch (error) {
    if (!(error instanceof CommandRejectedError)) throw error
    refusal = error.code
  }
  const { callId, agentId, txHash } = before.context
  const { money, delivery } = before.value
  const sameRequest = isRepeatedPaymentRequest(before.context, claim)
  return { claim: 'known', refusal, money, delivery, callId, agentId, txHash, sameRequest }
}

/** Keeps the price of the payer's balance, and decides whether the call may run first. */
function reservePayerBalance(
  ctx: CommandContext,
  settlement: string,
  claim: PaymentClaimInput,
): PaymentClaimMode {
  const payer = ctx.aggregateId
  if (!ctx.has('payer', payer)) ctx.create('payer', payer, { payer })
  const { payment, mode, balance, balanceBlock, globalRoom, purpose } = claim
  const { asset, amount, price } = payment
  const { context } = ctx.send('payer', payer, {
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

const toClaimFields = (ctx: CommandContext, claim: PaymentClaimInput) => ({
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
  at: ctx.now,
})

const toSettlementInput = (
  ctx: CommandContext,
  settlementId: string,
  claim: PaymentClaimInput,
) => ({
  ...toClaimFields(ctx, claim),
  settlementId,
  chain: claim.chain,
  asset: claim.payment.asset,
  payer: ctx.aggregateId,
})

/** What the settler works from: one row for each time the payment was claimed. */
function stageSettlementRow(ctx: CommandContext, id: string, claim: PaymentClaimInput): void {
  const { payment, chain, agentId, purpose, balanceBlock } = claim
  const { claims } = ctx.snapshotOf('settlement', id).context
  ctx.row('settlements', {
    id,
    claim: claims,
    payer: ctx.aggregateId,
    chain,
    asset: payment.asset,
    nonce: payment.nonce,
    amount: payment.amount.toString(),
    price_micros: payment.price.toString(),
    from_block: earliestSettlementBlock(balanceBlock).toString(),
    payment: encodePayment(payment),
    agent_id: agentId,
    purpose: purpose.kind,
    created_at: new Date(ctx.now).toISOString(),
  })
}

/** After a reorganisation it may stand in a block below the one its balance was read at. */
export const MAX_REORG_BLOCKS = 64n
const earliestSettlementBlock = (block: bigint): bigint =>
  block > MAX_REORG_BLOCKS ? block - MAX_REORG_BLOCKS : 0n

const claimTimerId = (settlement: string) => `claim:${settlement}`
/** The chain's time may lag behind ours: what has expired there is certain only so much later. */
const CHAIN_CLOCK_MARGIN_MS = 60 * SECOND

/** An agent's own hold says when its call has ended: here the payment itself has to be void first. */
function setClaimExpiry(ctx: CommandContext, settlement: string, claim: PaymentClaimInput): void {
  const { agentId, callId, expiresAt, payment } = claim
  const voidAt = Number(payment.validBefore) * SECOND + CHAIN_CLOCK_MARGIN_MS
  ctx.timer({
    id: claimTimerId(settlement),
    dueAt: agentId === null ? expiresAt : voidAt,
    command: expirePaymentClaimCommand.name,
    input: { settlement, callId, ...settlementLoadOptions(settlement) },
  })
}

/** The timer of a claim whose call never came back: nothing was sent, nothing is charged. */
export const expirePaymentClaimCommand: Command<{ settlement: string; callId: string }, void> = {
  name: 'payment.expire',
  kind: 'payer',
  apply(ctx, { settlement, callId }) {
    ctx.cancelTimer(claimTimerId(settlement))
    if (!ctx.has('settlement', settlement)) return
    const before = ctx.snapshotOf('settlement', settlement).value.money
    const { value } = ctx.send('settlement', settlement, { type: 'EXPIRE', callId })
    if (before !== value.money) ctx.send('payer', ctx.aggregateId, { type: 'RELEASE', settlement })
  },
  note: ({ settlement, callId }) => ({ settlement, callId }),
}

/** A finished call of a caller without a key: it lives in the payer's own aggregate. */
export interface DeliverPaymentInput {
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
export interface PaymentSettlementState {
  readonly money: SettlementMoneyState
  readonly delivery: SettlementDeliveryState
  readonly txHash: string | null
}

/**
 * Keeps the result of a call without an agent, with everything the tool staged; from here on the
 * payment is due. A result that comes after the claim was given up is refused (`call_settled`).
 */
export const deliverPaymentCommand: Command<DeliverPaymentInput, PaymentSettlementState> = {
  name: 'payment.deliver',
  kind: 'payer',
  apply(ctx, { settlement, callId, calls, rows, events, shares = [] }) {
    const { chain, price, claimedAt } = ctx.snapshotOf('settlement', settlement).context
    deliverSettlement(ctx, settlement, callId)
    const made = calls.map((row) => row({ at: claimedAt }))
    if (sumMicros(made.map(({ cost }) => cost)) !== price)
      throw new Error(`settlement ${settlement} pays another price than its calls cost`)
    for (const row of made) {
      const { cost, callId: id } = row
      const own = shares.filter((share) => share.callId === id)
      const payers = [{ account: paymentClearingAccount(chain), amount: cost }]
      // A chain pays in cash: there is nothing promotional in it.
      const sharing = { referrer: null, shares: own, promoTransferable: false }
      bookCallPrice(ctx, { payers, cost, callId: id, ...sharing })
      ctx.call(row)
    }
    for (const staged of rows) ctx.row(staged.table, staged.row)
    for (const event of events) ctx.event(event)
    return readPaymentState(ctx, settlement)
  },
  note: ({ settlement, callId }) => ({ settlement, callId }),
}

/**
 * The call of a claim has failed: an unspent payment may be used again, one that is on its way is
 * kept for this very request. `row` is the record of a call without an agent.
 */
export const failPaymentCommand: Command<
  Pick<DeliverPaymentInput, 'settlement' | 'callId'> & {
    row: DeliverPaymentInput['calls'][number] | null
  },
  PaymentSettlementState
> = {
  name: 'payment.fail',
  kind: 'payer',
  apply(ctx, { settlement, callId, row }) {
    const { claimedAt } = ctx.snapshotOf('settlement', settlement).context
    releaseSettlement(ctx, settlement, callId)
    if (row !== null) ctx.call(row({ at: claimedAt }))
    return readPaymentState(ctx, settlement)
  },
  note: ({ settlement, callId }) => ({ settlement, callId }),
}

function readPaymentState(ctx: CommandContext, settlement: string): PaymentSettlementState {
  const { value, context } = ctx.snapshotOf('settlement', settlement)
  return { money: value.money, delivery: value.delivery, txHash: context.txHash }
}

function deliverSettlement(ctx: CommandContext, settlement: string, callId: string): void {
  ctx.send('settlement', settlement, { type: 'DELIVER', callId })
  ctx.cancelTimer(claimTimerId(settlement))
  bookPaymentDelivery(ctx, settlement)
}

function releaseSettlement(ctx: CommandContext, settlement: string, callId: string): void {
  const before = ctx.snapshotOf('settlement', settlement).value
  ctx.send('settlement', settlement, { type: 'RELEASE', callId })
  ctx.cancelTimer(claimTimerId(settlement))
  bookPaymentRelease(ctx, settlement, before)
}

/** What an agent's commit says of a call that this payer pays for. */
export interface PayerCallMessage {
  readonly settlement: string
  readonly callId: string
}

/** Only the runner's word counts: a call whose claim was refused lets its hold go as well. */
const isRunnerOf = (ctx: CommandContext, { settlement, callId }: PayerCallMessage): boolean =>
  ctx.has('settlement', settlement) &&
  ctx.snapshotOf('settlement', settlement).context.runner?.callId === callId

export function applyCallDeliveredMessage(ctx: CommandContext, told: PayerCallMessage): void {
  if (isRunnerOf(ctx, told)) deliverSettlement(ctx, told.settlement, told.callId)
}

export function applyCallReleasedMessage(ctx: CommandContext, told: PayerCallMessage): void {
  if (isRunnerOf(ctx, told)) releaseSettlement(ctx, told.settlement, told.callId)
}

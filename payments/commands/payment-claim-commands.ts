import { createHash } from 'node:crypto'
import {
  encodePaymentForStorage,
  type NormalizedPayment,
} from '../../chain/onchain-payment-types.ts'
import { SECOND } from '../../core/clock.ts'
import { ServiceError, type ErrorCode } from '../../core/errors.ts'
import type { DomainEvent } from '../../core/domain-events.ts'
import {
  isSamePaymentRequest,
  type RequesterIdentity,
} from '../../domain/repeated-payment-request-check.ts'
import { sumMicros } from '../../core/money.ts'
import type { CallRow, PriceShare } from '../../core/aggregate-commit-row-types.ts'
import type {
  AggregateCommandOptions,
  AggregateCommand,
  CommandContext,
} from '../../actors/aggregate-command-types.ts'
import type { ActorInput, ActorSnapshot } from '../../actors/machine-registry.ts'
import { CommandRejectedError } from '../../actors/command-context.ts'
import type { PaymentChainName } from '../ledger-accounts.ts'
import {
  bookPaidCallsFromClearingAccount,
  storeAnswerUntilPaymentSettled,
} from '../keyless-caller-paid-answer.ts'
import {
  bookLossIfDeliveredPaymentIsLost,
  bookReleaseOrRefundOfUndeliveredPayment,
} from './settlement-commands.ts'

/** Commands of a payer's aggregate that claim, deliver and release a payment. */

export type PaymentClaimMode = ActorInput<'settlement'>['mode']
export type PaymentClaimPurpose = ActorInput<'settlement'>['purpose']
type SettlementStateValue = ActorSnapshot<'settlement'>['value']
export type SettlementMoneyState = SettlementStateValue['money']
export type SettlementDeliveryState = SettlementStateValue['delivery']

/** The CAIP-10 id of the payer's aggregate. */
export const toPayerAggregateId = ({
  chain,
  from,
}: Pick<NormalizedPayment, 'chain' | 'from'>): string => `${chain}:${from}`

/** One id for (chain, asset, payer, nonce): a payment has one settlement in any dialect. */
export function toSettlementId({ chain, asset, from, nonce }: PaymentKey): string {
  const digest = createHash('sha256').update(`${chain}|${asset}|${from}|${nonce}`).digest('hex')
  return `stl_${digest.slice(0, 32)}`
}
type PaymentKey = Pick<NormalizedPayment, 'chain' | 'asset' | 'from' | 'nonce'>

/** The named settlement may not be loaded: it is loaded first. */
export const settlementLoadOptions = (
  settlement: string,
): Pick<AggregateCommandOptions, 'touch'> => ({
  touch: [{ kind: 'settlement', id: settlement }],
})

/** A verified payment to claim for one call, or for credits. */
export interface PaymentClaimInput {
  readonly payment: NormalizedPayment
  readonly chain: PaymentChainName
  /** Of method, path and raw body. */
  readonly fingerprint: string
  /** `hashPaymentCredential` of the payment. */
  readonly credential: string
  readonly marks: RequesterIdentity
  readonly callId: string
  /** The agent whose aggregate holds the call; null for a keyless caller. */
  readonly agentId: string | null
  readonly purpose: PaymentClaimPurpose
  /** The requested mode; above a cap every payment settles first. */
  readonly mode: PaymentClaimMode
  /** The payer's balance in atomic units of the asset; null if unknown. */
  readonly balance: bigint | null
  /** The block of the balance; the payment is not searched in earlier blocks. */
  readonly balanceBlock: bigint
  /** Whether the limit over all payers leaves room for one more call that runs first. */
  readonly globalRoom: boolean
  /** When an unfinished call is given up, in milliseconds. */
  readonly expiresAt: number
  /**
   * Latest time to claim, in milliseconds, while the hold of the call still exists; null without a
   * hold.
   */
  readonly claimBy?: number | null
}

/** An earlier claim of a payment. */
export interface KnownPaymentClaim {
  readonly claim: 'known'
  /** The machine's rejection; null if the first reply is to be repeated. */
  readonly refusal: ErrorCode | null
  readonly money: SettlementMoneyState
  readonly delivery: SettlementDeliveryState
  /** Id of the call it pays for. */
  readonly callId: string
  readonly agentId: string | null
  readonly txHash: string | null
  /** Same request, same credential, same sender. */
  readonly sameRequest: boolean
}

export type PaymentClaimResult =
  | { readonly claim: 'new'; readonly mode: PaymentClaimMode }
  /** It has settled without a delivery: only this call may run now. */
  | { readonly claim: 'prepaid'; readonly txHash: string | null }
  | KnownPaymentClaim

/**
 * Claims a payment for one call: claim row, reservation and expiry in one commit. Throws
 * `payment_invalid` only if the payer lacks the funds; an earlier claim is returned with its state.
 */
export const claimPaymentCommand: AggregateCommand<PaymentClaimInput, PaymentClaimResult> = {
  name: 'payment.claim',
  kind: 'payer',
  creates: true,
  apply(ctx, claim) {
    // A hold that has ended has notified the payer already and will not notify a later claim.
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
    if (mode !== 'first') setClaimExpiry(ctx, id, claim)
    return { claim: 'new', mode }
  },
  note: ({ payment, callId, agentId, mode }) => ({
    settlement: toSettlementId(payment),
    callId,
    agentId,
    mode,
  }),
}

/** Sends the repetition to the machine; a payment settled but never delivered may run now. */
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
  const sameRequest = isSamePaymentRequest(before.context, claim)
  return { claim: 'known', refusal, money, delivery, callId, agentId, txHash, sameRequest }
}

/** Reserves the price of the payer's balance and decides whether the call may run first. */
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

/** The settler's work: one row for each claim of the payment. */
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
    payment: encodePaymentForStorage(payment),
    agent_id: agentId,
    purpose: purpose.kind,
    created_at: new Date(ctx.now).toISOString(),
  })
}

/** After a reorganisation the payment may be in a block below the one of its balance. */
export const MAX_REORG_BLOCKS = 64n
const earliestSettlementBlock = (block: bigint): bigint =>
  block > MAX_REORG_BLOCKS ? block - MAX_REORG_BLOCKS : 0n

const claimTimerId = (settlement: string) => `claim:${settlement}`
/**
 * The chain's clock may lag behind ours: a payment counts as expired there only after this margin.
 */
const CHAIN_CLOCK_MARGIN_MS = 60 * SECOND

/**
 * An agent's hold reports the end of its call, so its claim expires only when the payment is void.
 */
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

/** Expires a claim whose call never returned: nothing was sent, nothing is charged. */
export const expirePaymentClaimCommand: AggregateCommand<
  { settlement: string; callId: string },
  void
> = {
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

/** A finished call of a keyless caller, stored in the payer's aggregate. */
export interface DeliverPaidCallsInput {
  readonly settlement: string
  /** The call that claimed the payment. */
  readonly callId: string
  /** The calls that were bought; their costs add up to the price. */
  readonly calls: readonly ((money: { at: number }) => CallRow)[]
  readonly rows: readonly { table: string; row: Record<string, unknown> }[]
  readonly events: readonly DomainEvent[]
  /** Parts of the prices that go to other agents, by call. */
  readonly shares?: readonly (PriceShare & { readonly callId: string })[]
}

/** The state of a payment, for the reply. */
export interface PaymentSettlementState {
  readonly money: SettlementMoneyState
  readonly delivery: SettlementDeliveryState
  readonly txHash: string | null
}

/**
 * Stores the result of a call without an agent and everything the tool staged; the payment becomes
 * due. A withheld answer becomes a call when the payment settles. Throws `call_settled` if the claim was given up
 * before.
 */
export const deliverPaidCallsCommand: AggregateCommand<
  DeliverPaidCallsInput,
  PaymentSettlementState
> = {
  name: 'payment.deliver',
  kind: 'payer',
  apply(ctx, { settlement, callId, calls, rows, events, shares = [] }) {
    const { chain, price, claimedAt } = ctx.snapshotOf('settlement', settlement).context
    deliverSettlement(ctx, settlement, callId)
    const made = calls.map((row) => row({ at: claimedAt }))
    if (sumMicros(made.map(({ cost }) => cost)) !== price)
      throw new Error(`settlement ${settlement} pays another price than its calls cost`)
    const answer = { calls: made, rows, events, shares }
    const state = readPaymentState(ctx, settlement)
    if (state.delivery === 'withheld') storeAnswerUntilPaymentSettled(ctx, settlement, answer)
    else bookPaidCallsFromClearingAccount(ctx, chain, answer)
    return state
  },
  note: ({ settlement, callId }) => ({ settlement, callId }),
}

/**
 * Ends the claim of a failed call: an unsent payment becomes free, a submitted one is reserved for
 * this request. `row` is the record of a call without an agent.
 */
export const releaseFailedCallPaymentCommand: AggregateCommand<
  Pick<DeliverPaidCallsInput, 'settlement' | 'callId'> & {
    row: DeliverPaidCallsInput['calls'][number] | null
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
  bookLossIfDeliveredPaymentIsLost(ctx, settlement)
}

function releaseSettlement(ctx: CommandContext, settlement: string, callId: string): void {
  const before = ctx.snapshotOf('settlement', settlement).value
  ctx.send('settlement', settlement, { type: 'RELEASE', callId })
  ctx.cancelTimer(claimTimerId(settlement))
  bookReleaseOrRefundOfUndeliveredPayment(ctx, settlement, before)
}

/** The message of an agent's commit about a call that this payer pays for. */
export interface PayerCallMessage {
  readonly settlement: string
  readonly callId: string
}

/**
 * Only messages of the running call count: a call whose claim was rejected also releases its hold.
 */
const isRunnerOf = (ctx: CommandContext, { settlement, callId }: PayerCallMessage): boolean =>
  ctx.has('settlement', settlement) &&
  ctx.snapshotOf('settlement', settlement).context.runner?.callId === callId

export function applyPaidCallDeliveredToSettlement(
  ctx: CommandContext,
  message: PayerCallMessage,
): void {
  if (isRunnerOf(ctx, message)) deliverSettlement(ctx, message.settlement, message.callId)
}

export function applyPaidCallReleasedToSettlement(
  ctx: CommandContext,
  message: PayerCallMessage,
): void {
  if (isRunnerOf(ctx, message)) releaseSettlement(ctx, message.settlement, message.callId)
}

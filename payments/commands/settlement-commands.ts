import { toUsdc, ZERO_MICROS } from '../../core/money.ts'
import type { AggregateCommand, CommandContext } from '../../actors/aggregate-command-types.ts'
import type { ActorMachineEvent, ActorSnapshot } from '../../actors/machine-registry.ts'
import {
  agentCashAccount,
  paymentClearingAccount,
  agentSubMinimumDepositsAccount,
  TREASURY_FEES_ACCOUNT,
  externalChainAccount,
} from '../ledger-accounts.ts'
import {
  recordReversedTransfer,
  trackTransferFinality,
  type ReversedChainTransfer,
} from './track-finality.ts'
import {
  bookPaidCallsFromClearingAccount,
  type PaidCallsToCommit,
} from '../keyless-caller-paid-answer.ts'

/** Commands that record what the chain says about a payment, and book the money. */

type SettlementStateValue = ActorSnapshot<'settlement'>['value']
type SettlementSnapshot = ActorSnapshot<'settlement'>

interface SettlementById {
  readonly settlement: string
}

const settlementNote = ({ settlement }: SettlementById) => ({ settlement })

/** Recorded before the payment is sent. On Solana the transaction hash follows later. */
export const recordPaymentSubmittedCommand: AggregateCommand<
  SettlementById & { txHash: string | null },
  SettlementStateValue
> = {
  name: 'payment.submitted',
  kind: 'payer',
  apply: (ctx, { settlement, txHash }) =>
    sendToSettlement(ctx, settlement, { type: 'SUBMITTED', txHash }),
  note: ({ settlement, txHash }) => ({ settlement, txHash }),
}

/** The outcome is unknown: claim and reservation stay until the chain answers. */
export const recordPaymentOutcomeUnknownCommand: AggregateCommand<
  SettlementById,
  SettlementStateValue
> = {
  name: 'payment.unknown',
  kind: 'payer',
  apply: (ctx, { settlement }) => sendToSettlement(ctx, settlement, { type: 'UNKNOWN' }),
  note: settlementNote,
}

/** The submission failed for certain and the payment is still valid: it is due again. */
export const retryPaymentCommand: AggregateCommand<
  SettlementById & { failed: boolean },
  SettlementStateValue
> = {
  name: 'payment.retry',
  kind: 'payer',
  apply: (ctx, { settlement, failed }) =>
    sendToSettlement(ctx, settlement, { type: 'RETRY', failed }),
  note: ({ settlement, failed }) => ({ settlement, failed }),
}

function sendToSettlement(
  ctx: CommandContext,
  settlement: string,
  event: ActorMachineEvent<'settlement'>,
): SettlementStateValue {
  return ctx.send('settlement', settlement, event).value
}

/** The position on the chain where the money arrived. */
export interface PaymentArrivalPosition extends SettlementById {
  readonly tx: string
  /** Of the transfer's log; 0 on chains without logs. */
  readonly logIndex: number
  readonly block: bigint
  /** The answer that waits for it; null or absent without one. */
  readonly answer?: PaidCallsToCommit | null
}

/**
 * Books the arrived money: ledger, claim on (chain, tx, log index), reservation and trust in one
 * commit, and the call with its shares if its answer was withheld until now.
 */
export const recordPaymentSettledCommand: AggregateCommand<
  PaymentArrivalPosition,
  SettlementStateValue
> = {
  name: 'payment.settled',
  kind: 'payer',
  apply(ctx, { settlement, tx, logIndex, block, answer = null }) {
    const before = ctx.snapshotOf('settlement', settlement)
    const at = ctx.now
    const after = ctx.send('settlement', settlement, { type: 'SETTLED', txHash: tx, at })
    if (after.value.money === before.value.money) return after.value
    const { chain, price, asset, amount, payer } = after.context
    ctx.send('payer', ctx.aggregateId, { type: 'SETTLE', settlement, price, block })
    ctx.row('chain_transfers', {
      chain,
      tx,
      log_index: logIndex,
      kind: 'settlement',
      ref: settlement,
      at: new Date(at).toISOString(),
    })
    const sender = payer.split(':').at(-1) ?? null
    const where = { chain, tx, logIndex, block, asset, sender, amount, bonus: ZERO_MICROS }
    trackTransferFinality(ctx, { kind: 'settlement', ref: settlement, ...where })
    bookPaymentArrival(ctx, settlement, tx, before)
    if (before.value.delivery === 'withheld') {
      if (answer === null) throw new Error(`settlement ${settlement} has lost its answer`)
      bookPaidCallsFromClearingAccount(ctx, chain, answer)
    }
    return after.value
  },
  note: ({ settlement, tx, logIndex }) => ({ settlement, tx, logIndex }),
}

/**
 * Reverses a settlement that a reorganisation has undone: it is owed, and searched by its nonce.
 */
export const reverseReorgedSettlementCommand: AggregateCommand<
  SettlementById & { move: ReversedChainTransfer },
  SettlementStateValue
> = {
  name: 'payment.undone',
  kind: 'payer',
  apply(ctx, { settlement, move }) {
    const before = ctx.snapshotOf('settlement', settlement)
    const { value, context } = ctx.send('settlement', settlement, { type: 'UNDONE' })
    if (value.money === before.value.money) return value
    recordReversedTransfer(ctx, move)
    const { chain, asset, amount, price, mode } = context
    const open = { asset, amount, price, mode }
    ctx.send('payer', ctx.aggregateId, { type: 'UNSETTLE', settlement, ...open })
    // Credits stay: in most cases the same transaction is in another block.
    transferPrice(
      ctx,
      settlement,
      paymentClearingAccount(chain),
      externalChainAccount(chain),
      'reorg',
    )
    return value
  },
  note: ({ settlement, move: { tx, logIndex } }) => ({ settlement, tx, logIndex }),
}

/** It can no longer settle; `lookAt` schedules one final check, in milliseconds. */
export const recordPaymentLostCommand: AggregateCommand<
  SettlementById & { lookAt: number | null },
  SettlementStateValue
> = {
  name: 'payment.lost',
  kind: 'payer',
  apply(ctx, { settlement, lookAt }) {
    const before = ctx.snapshotOf('settlement', settlement)
    const { value } = ctx.send('settlement', settlement, { type: 'LOST', lookAt })
    if (value.money === 'lost' && before.value.money !== 'lost')
      bookLostPayment(ctx, settlement, before)
    return value
  },
  note: ({ settlement }) => ({ settlement }),
}

/**
 * A delivered call that is never paid for is the treasury's loss. Credits are taken back as far as
 * available; their agent's aggregate books the missing part. A withheld answer costs only its builder's work, but
 * its payer gets no other one.
 */
function bookLostPayment(
  ctx: CommandContext,
  settlement: string,
  before: SettlementSnapshot,
): void {
  const { value, context } = ctx.snapshotOf('settlement', settlement)
  const { price, chain, purpose } = context
  const { credited } = before.context
  const delivered = value.delivery === 'delivered' && purpose.kind === 'call'
  const worked = delivered || value.delivery === 'withheld'
  const worth = { price: delivered ? price : ZERO_MICROS, delivered: worked || credited }
  ctx.send('payer', ctx.aggregateId, { type: 'LOSE', settlement, ...worth })
  if (delivered)
    transferPrice(ctx, settlement, TREASURY_FEES_ACCOUNT, paymentClearingAccount(chain), 'loss')
  if (credited) reverseCredits(ctx, settlement)
}

function reverseCredits(ctx: CommandContext, settlement: string): void {
  const {
    purpose,
    agentId,
    price: amount,
    chain,
    undone,
  } = ctx.snapshotOf('settlement', settlement).context
  const receiver = purpose.kind === 'topup' ? purpose.agentId : agentId
  if (receiver === null) throw new Error(`settlement ${settlement} has credited nobody`)
  ctx.inbox({
    receiver,
    receiverKind: 'agent',
    id: `undo:${settlement}:${undone}`,
    event: { type: 'UNDO_DEPOSIT', id: settlement, amount, chain, to: 'owed' },
  })
}

/**
 * Moves the money from the chain to its recipient; the agent of a failed call gets it as credits.
 */
function bookPaymentArrival(
  ctx: CommandContext,
  settlement: string,
  tx: string,
  before: SettlementSnapshot,
): void {
  const { value, context } = ctx.snapshotOf('settlement', settlement)
  const { chain, price, purpose, undone } = context
  const { credited } = before.context
  if (purpose.kind === 'topup' && !credited) {
    transferPrice(
      ctx,
      settlement,
      externalChainAccount(chain),
      agentSubMinimumDepositsAccount(purpose.agentId),
      'deposit',
    )
    ctx.inbox({
      receiver: purpose.agentId,
      receiverKind: 'agent',
      id: `deposit:${repeatableMessageId(settlement, undone)}`,
      event: { type: 'DEPOSIT', id: settlement, pending: price, chain, tx, source: 'x402' },
    })
    return
  }
  transferPrice(
    ctx,
    settlement,
    externalChainAccount(chain),
    paymentClearingAccount(chain),
    'settlement',
  )
  if (credited) return
  if (value.delivery === 'failed') refundPayment(ctx, settlement)
  if (before.value.money === 'lost' && before.value.delivery === 'delivered')
    transferPrice(ctx, settlement, paymentClearingAccount(chain), TREASURY_FEES_ACCOUNT, 'loss')
}

/** The id of a message that the chain may cause more than once. */
const repeatableMessageId = (settlement: string, undone: number): string =>
  undone === 0 ? settlement : `${settlement}:${undone}`

/** After a delivery: an abandoned payment is lost, any other is due. */
export function bookLossIfDeliveredPaymentIsLost(ctx: CommandContext, settlement: string): void {
  const now = ctx.snapshotOf('settlement', settlement)
  if (now.value.money === 'lost') bookLostPayment(ctx, settlement, now)
}

/** After a failed call: an unsent payment is free again, a settled one is credited. */
export function bookReleaseOrRefundOfUndeliveredPayment(
  ctx: CommandContext,
  settlement: string,
  before: SettlementStateValue,
): void {
  const { money, delivery } = ctx.snapshotOf('settlement', settlement).value
  if (money === 'released' && before.money !== 'released')
    ctx.send('payer', ctx.aggregateId, { type: 'RELEASE', settlement })
  if (money === 'settled' && delivery === 'failed') refundPayment(ctx, settlement)
}

/** Credits a settled payment that was never delivered to the agent, as cash. */
function refundPayment(ctx: CommandContext, settlement: string): void {
  const { agentId, price, chain, callId, undone } = ctx.snapshotOf('settlement', settlement).context
  if (agentId === null) return
  transferPrice(ctx, settlement, paymentClearingAccount(chain), agentCashAccount(agentId), 'refund')
  ctx.inbox({
    receiver: agentId,
    receiverKind: 'agent',
    id: `refund:${repeatableMessageId(settlement, undone)}`,
    event: { type: 'CREDIT', promo: ZERO_MICROS, cash: price },
  })
  ctx.event({
    type: 'topup',
    to: agentId,
    data: {
      source: 'refund',
      amount_usdc: toUsdc(price),
      call_id: callId,
      settlement_id: settlement,
    },
  })
}

/** One transfer of the whole price; its memo names the settlement. */
function transferPrice(
  ctx: CommandContext,
  settlement: string,
  debit: string,
  credit: string,
  kind: 'settlement' | 'deposit' | 'refund' | 'loss' | 'reorg',
): void {
  const { price, callId } = ctx.snapshotOf('settlement', settlement).context
  ctx.transfer({ debit, credit, amount: price, kind, callId, memo: settlement })
}

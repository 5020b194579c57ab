import { toUsdc, ZERO } from '../../core/money.ts'
import type { Command, Turn } from '../../actors/command.ts'
import type { EventOf, SnapshotOf } from '../../actors/registry.ts'
import { cashOf, owedOf, pendingOf, TREASURY, worldOf } from '../ledger.ts'
import { takeMoveOff, watchMove, type Move } from './unfinal.ts'

type SettlementValue = SnapshotOf<'settlement'>['value']
type Settlement = SnapshotOf<'settlement'>

interface Named {
  readonly settlement: string
}

const nameOf = ({ settlement }: Named) => ({ settlement })

/** It may be on its way from now on: told before it is sent. Solana names the transaction later. */
export const paymentSubmitted: Command<Named & { txHash: string | null }, SettlementValue> = {
  name: 'payment.submitted',
  kind: 'payer',
  apply: (turn, { settlement, txHash }) => move(turn, settlement, { type: 'SUBMITTED', txHash }),
  note: ({ settlement, txHash }) => ({ settlement, txHash }),
}

/** Nobody can say whether it arrived: claim and reservation stay until the chain has answered. */
export const paymentUnknown: Command<Named, SettlementValue> = {
  name: 'payment.unknown',
  kind: 'payer',
  apply: (turn, { settlement }) => move(turn, settlement, { type: 'UNKNOWN' }),
  note: nameOf,
}

/** What was sent has failed for certain, and the payment is still good: it is due once more. */
export const paymentRetry: Command<Named & { failed: boolean }, SettlementValue> = {
  name: 'payment.retry',
  kind: 'payer',
  apply: (turn, { settlement, failed }) => move(turn, settlement, { type: 'RETRY', failed }),
  note: ({ settlement, failed }) => ({ settlement, failed }),
}

function move(turn: Turn, settlement: string, event: EventOf<'settlement'>): SettlementValue {
  return turn.step('settlement', settlement, event).value
}

/** Where the chain says the money arrived. */
export interface Arrival extends Named {
  readonly tx: string
  /** Of the transfer's log; 0 where the chain has none. */
  readonly logIndex: number
  readonly block: bigint
}

/** The money is here: ledger, claim on (chain, tx, log index), reservation and trust in one commit. */
export const paymentSettled: Command<Arrival, SettlementValue> = {
  name: 'payment.settled',
  kind: 'payer',
  apply(turn, { settlement, tx, logIndex, block }) {
    const before = turn.peek('settlement', settlement)
    const at = turn.now
    const after = turn.step('settlement', settlement, { type: 'SETTLED', txHash: tx, at })
    if (after.value.money === before.value.money) return after.value
    const { chain, price, asset, amount, payer } = after.context
    turn.step('payer', turn.aggregateId, { type: 'SETTLE', settlement, price, block })
    turn.row('chain_moves', {
      chain,
      tx,
      log_index: logIndex,
      kind: 'settlement',
      ref: settlement,
      at: new Date(at).toISOString(),
    })
    const sender = payer.split(':').at(-1) ?? null
    const where = { chain, tx, logIndex, block, asset, sender, amount, bonus: ZERO }
    watchMove(turn, { kind: 'settlement', ref: settlement, ...where })
    bookArrival(turn, settlement, tx, before)
    return after.value
  },
  note: ({ settlement, tx, logIndex }) => ({ settlement, tx, logIndex }),
}

/** The chain has undone it: it is owed again, and the settler asks after it by its nonce. */
export const paymentUndone: Command<Named & { move: Move }, SettlementValue> = {
  name: 'payment.undone',
  kind: 'payer',
  apply(turn, { settlement, move }) {
    const before = turn.peek('settlement', settlement)
    const { value, context } = turn.step('settlement', settlement, { type: 'UNDONE' })
    if (value.money === before.value.money) return value
    takeMoveOff(turn, move)
    const { chain, asset, amount, price, mode } = context
    const open = { asset, amount, price, mode }
    turn.step('payer', turn.aggregateId, { type: 'UNSETTLE', settlement, ...open })
    // Credits stay where they are: in most cases the same transaction stands in another block.
    book(turn, settlement, owedOf(chain), worldOf(chain), 'reorg')
    return value
  },
  note: ({ settlement, move: { tx, logIndex } }) => ({ settlement, tx, logIndex }),
}

/** It can no longer settle; `lookAt` asks for one more look, in milliseconds. */
export const paymentLost: Command<Named & { lookAt: number | null }, SettlementValue> = {
  name: 'payment.lost',
  kind: 'payer',
  apply(turn, { settlement, lookAt }) {
    const before = turn.peek('settlement', settlement)
    const { value } = turn.step('settlement', settlement, { type: 'LOST', lookAt })
    if (value.money === 'lost' && before.value.money !== 'lost') lose(turn, settlement, before)
    return value
  },
  note: ({ settlement }) => ({ settlement }),
}

/**
 * A call that was delivered and will never be paid for is the treasury's loss. Credits are taken back
 * as far as they are there: what is missing then is booked by their agent, who alone knows it.
 */
function lose(turn: Turn, settlement: string, before: Settlement): void {
  const { value, context } = turn.peek('settlement', settlement)
  const { price, chain, purpose } = context
  const { credited } = before.context
  const delivered = value.delivery === 'delivered' && purpose.kind === 'call'
  const worth = { price: delivered ? price : ZERO, delivered: delivered || credited }
  turn.step('payer', turn.aggregateId, { type: 'LOSE', settlement, ...worth })
  if (delivered) book(turn, settlement, TREASURY, owedOf(chain), 'loss')
  if (credited) takeCreditsBack(turn, settlement)
}

function takeCreditsBack(turn: Turn, settlement: string): void {
  const {
    purpose,
    agentId,
    price: amount,
    chain,
    undone,
  } = turn.peek('settlement', settlement).context
  const receiver = purpose.kind === 'topup' ? purpose.agentId : agentId
  if (receiver === null) throw new Error(`settlement ${settlement} has credited nobody`)
  turn.inbox({
    receiver,
    receiverKind: 'agent',
    id: `undo:${settlement}:${undone}`,
    event: { type: 'UNDO_DEPOSIT', id: settlement, amount, chain, to: 'owed' },
  })
}

/** From the chain to whom it was meant for; a call that failed meanwhile is credited. */
function bookArrival(turn: Turn, settlement: string, tx: string, before: Settlement): void {
  const { value, context } = turn.peek('settlement', settlement)
  const { chain, price, purpose, undone } = context
  const { credited } = before.context
  if (purpose.kind === 'topup' && !credited) {
    book(turn, settlement, worldOf(chain), pendingOf(purpose.agentId), 'deposit')
    turn.inbox({
      receiver: purpose.agentId,
      receiverKind: 'agent',
      id: `deposit:${onceAgain(settlement, undone)}`,
      event: { type: 'DEPOSIT', id: settlement, pending: price, chain, tx, source: 'x402' },
    })
    return
  }
  book(turn, settlement, worldOf(chain), owedOf(chain), 'settlement')
  if (credited) return
  if (value.delivery === 'failed') refund(turn, settlement)
  if (before.value.money === 'lost' && before.value.delivery === 'delivered')
    book(turn, settlement, owedOf(chain), TREASURY, 'loss')
}

/** The name of a message that the chain may cause more than once. */
const onceAgain = (settlement: string, undone: number): string =>
  undone === 0 ? settlement : `${settlement}:${undone}`

/** After the call was delivered: a payment that had been given up is lost, the others are due. */
export function bookDelivery(turn: Turn, settlement: string): void {
  const now = turn.peek('settlement', settlement)
  if (now.value.money === 'lost') lose(turn, settlement, now)
}

/** After the call has failed: an unspent payment is free again, a settled one is credited. */
export function bookRelease(turn: Turn, settlement: string, before: SettlementValue): void {
  const { money, delivery } = turn.peek('settlement', settlement).value
  if (money === 'released' && before.money !== 'released')
    turn.step('payer', turn.aggregateId, { type: 'RELEASE', settlement })
  if (money === 'settled' && delivery === 'failed') refund(turn, settlement)
}

/** Settled, and never delivered: the agent has it as cash. */
function refund(turn: Turn, settlement: string): void {
  const { agentId, price, chain, callId, undone } = turn.peek('settlement', settlement).context
  if (agentId === null) return
  book(turn, settlement, owedOf(chain), cashOf(agentId), 'refund')
  turn.inbox({
    receiver: agentId,
    receiverKind: 'agent',
    id: `refund:${onceAgain(settlement, undone)}`,
    event: { type: 'CREDIT', promo: ZERO, cash: price },
  })
  turn.event({
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

/** One movement of the whole price; its memo names the settlement. */
function book(
  turn: Turn,
  settlement: string,
  debit: string,
  credit: string,
  kind: 'settlement' | 'deposit' | 'refund' | 'loss' | 'reorg',
): void {
  const { price, callId } = turn.peek('settlement', settlement).context
  turn.transfer({ debit, credit, amount: price, kind, callId, memo: settlement })
}

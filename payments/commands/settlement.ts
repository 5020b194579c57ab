import { toUsdc, ZERO } from '../../core/money.ts'
import type { Command, Turn } from '../../actors/command.ts'
import type { EventOf, SnapshotOf } from '../../actors/registry.ts'
import { cashOf, owedOf, pendingOf, TREASURY, worldOf } from '../ledger.ts'

type SettlementValue = SnapshotOf<'settlement'>['value']

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
export const paymentRetry: Command<Named, SettlementValue> = {
  name: 'payment.retry',
  kind: 'payer',
  apply: (turn, { settlement }) => move(turn, settlement, { type: 'RETRY' }),
  note: nameOf,
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
    const { chain, price } = after.context
    turn.step('payer', turn.aggregateId, { type: 'SETTLE', settlement, price, block })
    turn.row('chain_moves', {
      chain,
      tx,
      log_index: logIndex,
      kind: 'settlement',
      ref: settlement,
      at: new Date(at).toISOString(),
    })
    bookArrival(turn, settlement, tx)
    if (before.value.money === 'lost' && before.value.delivery === 'delivered')
      book(turn, settlement, owedOf(chain), TREASURY, 'loss')
    return after.value
  },
  note: ({ settlement, tx, logIndex }) => ({ settlement, tx, logIndex }),
}

/** It can no longer settle; `lookAt` asks for one more look, in milliseconds. */
export const paymentLost: Command<Named & { lookAt: number | null }, SettlementValue> = {
  name: 'payment.lost',
  kind: 'payer',
  apply(turn, { settlement, lookAt }) {
    const before = turn.peek('settlement', settlement).value
    const { value } = turn.step('settlement', settlement, { type: 'LOST', lookAt })
    if (value.money === 'lost' && before.money !== 'lost') lose(turn, settlement)
    return value
  },
  note: ({ settlement }) => ({ settlement }),
}

/** A call that was delivered and will never be paid for is the treasury's loss. */
function lose(turn: Turn, settlement: string): void {
  const { value, context } = turn.peek('settlement', settlement)
  const delivered = value.delivery === 'delivered'
  const { price, chain } = context
  turn.step('payer', turn.aggregateId, { type: 'LOSE', settlement, price, delivered })
  if (delivered) book(turn, settlement, TREASURY, owedOf(chain), 'loss')
}

/** From the chain to whom it was meant for; a call that failed meanwhile is credited. */
function bookArrival(turn: Turn, settlement: string, tx: string): void {
  const { value, context } = turn.peek('settlement', settlement)
  const { chain, price, purpose } = context
  if (purpose.kind === 'topup') {
    book(turn, settlement, worldOf(chain), pendingOf(purpose.agentId), 'deposit')
    turn.inbox({
      receiver: purpose.agentId,
      receiverKind: 'agent',
      id: `deposit:${settlement}`,
      event: { type: 'DEPOSIT', id: settlement, pending: price, chain, tx, source: 'x402' },
    })
    return
  }
  book(turn, settlement, worldOf(chain), owedOf(chain), 'settlement')
  if (value.delivery === 'failed') refund(turn, settlement)
}

/** After the call was delivered: a payment that had been given up is lost, the others are due. */
export function bookDelivery(turn: Turn, settlement: string): void {
  if (turn.peek('settlement', settlement).value.money === 'lost') lose(turn, settlement)
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
  const { agentId, price, chain, callId } = turn.peek('settlement', settlement).context
  if (agentId === null) return
  book(turn, settlement, owedOf(chain), cashOf(agentId), 'refund')
  turn.inbox({
    receiver: agentId,
    receiverKind: 'agent',
    id: `refund:${settlement}`,
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
  kind: 'settlement' | 'deposit' | 'refund' | 'loss',
): void {
  const { price, callId } = turn.peek('settlement', settlement).context
  turn.transfer({ debit, credit, amount: price, kind, callId, memo: settlement })
}

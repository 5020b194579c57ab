import { ServiceError } from '../../core/errors.ts'
import type { DomainEvent } from '../../core/events.ts'
import { restOfLoans, totalLent, type PoolLoan } from '../../core/loans.ts'
import { add, least, subtract, ZERO, type Micros } from '../../core/money.ts'
import type { Command, SoftHold, Turn } from '../../actors/command.ts'
import { knownTask } from '../../actors/commands/tasks.ts'
import { askQuota, endQuota, storeAnswer, takeQuota } from '../../actors/commands/quota.ts'
import { useAllowance } from '../../actors/commands/tally.ts'
import type { NotKept } from '../../core/not-kept.ts'
import type { Allowance, CallRow, PriceShare, Quota } from '../../core/rows.ts'
import { cashOf, heldOf, heldPromoOf, leftOver, owedOf, promoOf, shift, taken } from '../ledger.ts'
import type { Admission, Reserved } from '../admission.ts'
import { keyLimitsOf, keyReservedOf, NOTHING_RESERVED, reservedBeside } from '../limits.ts'
import { explain } from '../refusals.ts'
import { referrerOf, takePrice } from '../shares.ts'
import {
  demandLoan,
  giveBack,
  heldPayers,
  holdOf,
  heldFor,
  loansOf,
  returnLent,
  timerOf,
  tellCall,
  tellPayer,
  tellUnknown,
  worthOf,
  type Expiring,
} from './call-ends.ts'

export interface Admitted {
  readonly at: number
}

/** Lets a call in and holds its price: in memory, or in the ledger with an expiry. */
export const callAdmit: Command<Admission, Admitted> = {
  name: 'call.admit',
  kind: 'agent',
  apply(turn, asked) {
    const reserved = reservedBeside(turn, asked)
    try {
      if (asked.expiresAt === null) {
        pass(turn, asked, reserved, 'ASK')
        askQuota(turn, asked)
        turn.soft.take(softHold(turn, asked))
      } else {
        refuseSecond(turn, asked)
        demandLoan(turn, asked)
        pass(turn, asked, reserved, 'HOLD')
        holdFunds(turn, asked, asked.expiresAt)
        takeQuota(turn, asked)
      }
    } catch (error) {
      throw explain(error, turn, asked, reserved)
    }
    return { at: turn.now }
  },
  note: ({ callId, tool, amount, taskId, backpackId }) => ({
    callId,
    tool,
    amount,
    taskId,
    backpackId,
  }),
}

/** Asks the same questions without holding anything; a refusal tells nobody (quote, dry run). */
export const callQuote: Command<Admission, { refusal: ServiceError | null }> = {
  name: 'call.quote',
  kind: 'agent',
  apply(turn, asked) {
    const reserved = reservedBeside(turn, asked)
    try {
      pass(turn, asked, reserved, 'ASK')
      askQuota(turn, asked)
      return { refusal: null }
    } catch (error) {
      const explained = explain(error, turn, asked, reserved)
      if (explained instanceof ServiceError) return { refusal: explained }
      throw explained
    }
  },
}

/** What the commit of a call tells its row. */
export interface Landed {
  readonly balance: Micros
  readonly at: number
  readonly left?: number
  /** Counts an answer that cost nothing; says why it is not kept where it is not. */
  readonly store?: (bytes: number) => NotKept | null
}

/** The funds of a call as its hold recorded them; a soft hold takes them only when it is settled. */
export interface Settlement {
  readonly callId: string
  readonly cost: Micros
  readonly key: Admission['key']
  /** What a fleet's pool has lent to charge it. */
  readonly lent?: Micros
  /** It is one of the agent's free calls for life: refused when another has taken the last one. */
  readonly allowance?: Allowance
  /** `left`: free calls for life after this one. */
  readonly row: (landed: Landed) => CallRow
  /** How often an agent may do so a day; counted here unless a durable hold has. */
  readonly quota?: Quota | undefined
  readonly rows: readonly { table: string; row: Record<string, unknown> }[]
  readonly events: readonly DomainEvent[]
  /** Parts of the price that are other agents'. */
  readonly shares?: readonly PriceShare[]
  /** Whether promotional credits may reach other agents by them (decision 152). */
  readonly promoTransferable: boolean
  /** What else ends with the call, in its commit: it stands or falls with the charge. */
  readonly ended?: ((turn: Turn, call: CallRow) => void) | undefined
}

/** Takes the price of a finished call, with everything the tool staged, in one commit. */
export const callSettle: Command<Settlement, { balance: Micros }> = {
  name: 'call.settle',
  kind: 'agent',
  apply(turn, { callId, cost, key, lent = ZERO, allowance, row, rows, events, ...asked }) {
    const { shares = [], promoTransferable, ended, quota } = asked
    const sharing = { shares, promoTransferable }
    demandLoan(turn, { callId, lent })
    const left = allowance === undefined ? 0 : useAllowance(turn, allowance)
    const soft = turn.soft.get(callId)
    const at =
      soft === undefined
        ? capture(turn, callId, cost, sharing)
        : chargeHeld(turn, soft, { cost, key, ...sharing })
    if (soft !== undefined && quota !== undefined) {
      takeQuota(turn, { callId, tool: soft.tool, quota })
      endQuota(turn, callId, 'KEEP')
    }
    for (const staged of rows) turn.row(staged.table, staged.row)
    for (const event of events) turn.event(event)
    const balance = balanceOf(turn)
    const call = row({ balance, at, left, store: (bytes) => storeAnswer(turn, bytes) })
    turn.call(call)
    tellCall(turn, call)
    ended?.(turn, call)
    return { balance }
  },
  note: ({ callId, cost }) => ({ callId, cost }),
}

/** Lets the money of a failed call go, and keeps the call itself. */
export const callFail: Command<
  Pick<Settlement, 'callId' | 'row' | 'ended'>,
  { balance: Micros }
> = {
  name: 'call.fail',
  kind: 'agent',
  apply(turn, { callId, row, ended }) {
    const soft = turn.soft.get(callId)
    if (soft === undefined) release(turn, callId)
    else dropSoft(turn, soft)
    const balance = balanceOf(turn)
    const call = row({ balance, at: soft?.at ?? turn.now })
    turn.call(call)
    tellCall(turn, call)
    ended?.(turn, call)
    return { balance }
  },
  note: ({ callId }) => ({ callId }),
}

/** Gives a durable hold back without a record of the call: nothing can be said of it any more. */
export const callForget: Command<{ callId: string }, void> = {
  name: 'call.forget',
  kind: 'agent',
  apply(turn, { callId }) {
    if (heldFor(turn, callId) !== undefined) release(turn, callId)
  },
  note: ({ callId }) => ({ callId }),
}

/** The timer of a durable hold or a loan: its node has died, or the tool never came back. */
export const holdExpire: Command<Expiring, void> = {
  name: 'hold.expire',
  kind: 'agent',
  apply(turn, { callId, lent = false, intent, answered = false }) {
    const hold = heldFor(turn, callId)
    // The timer of the loan was read before the call was let in with it.
    if (lent && hold !== undefined && hold.tool !== null) return
    turn.cancelTimer(timerOf(callId))
    if (hold === undefined) return
    release(turn, callId)
    if (intent !== undefined && !answered) tellUnknown(turn, callId, hold, intent)
  },
  note: ({ callId }) => ({ callId }),
}

const balanceOf = (turn: Turn): Micros => {
  const { promo, cash } = turn.peek('agent', turn.aggregateId).context
  return add(promo, cash)
}

const softHold = (turn: Turn, asked: Admission): SoftHold => ({
  callId: asked.callId,
  at: turn.now,
  amount: asked.amount,
  tool: asked.tool,
  keyId: keyLimitsOf(asked.key).keyId,
  taskId: asked.taskId,
  backpackId: asked.backpackId,
})

/** Asks, or holds at, every limit the call stands under. */
function pass(turn: Turn, asked: Admission, reserved: Reserved, type: 'ASK' | 'HOLD'): void {
  const { callId, tool, amount, key, taskId, backpackId, idempotencyKey, payment } = asked
  if (backpackId !== null) {
    if (!turn.has('backpack', backpackId))
      throw new ServiceError('NOT_FOUND', { backpack_id: backpackId })
    turn.pager(backpackId)
    turn.step('backpack', backpackId, {
      type,
      callId,
      tool,
      amount,
      reservedDay: reserved.day,
      reservedMonth: reserved.month,
      at: turn.now,
    })
  }
  if (taskId !== null) {
    knownTask(turn, taskId, key?.backpackId)
    turn.step('taskSession', taskId, { type, amount, reserved: reserved.task })
  }
  turn.step('agent', turn.aggregateId, {
    type,
    callId,
    amount,
    reserved: reserved.agent,
    ...keyLimitsOf(key),
    ...keyReservedOf(reserved),
    at: turn.now,
    taskId,
    backpackId,
    tool,
    idempotencyKey,
    payment,
  })
}

/** A durable hold with the same key, perhaps of another node: the first request is still running. */
function refuseSecond(turn: Turn, { idempotencyKey }: Admission): void {
  if (idempotencyKey === null) return
  const holds = Object.values(turn.peek('agent', turn.aggregateId).context.holds)
  if (holds.some((hold) => hold.idempotencyKey === idempotencyKey)) {
    throw new ServiceError('idempotency_in_flight', { retry_after: 1 })
  }
}

function holdFunds(turn: Turn, { callId, intent }: Admission, expiresAt: number): void {
  const agentId = turn.aggregateId
  const hold = holdOf(turn, callId)
  const { taskId, backpackId } = hold
  // What was lent for it is held already.
  const own = taken(hold, totalLent(hold.loans))
  const parts = [
    { debit: promoOf(agentId), credit: heldPromoOf(agentId), amount: own.promo },
    { debit: cashOf(agentId), credit: heldOf(agentId), amount: own.cash },
  ]
  for (const transfer of shift(parts, 'hold', callId)) turn.transfer(transfer)
  // A Backpack revoked meanwhile is at rest, and yet its hold must be released.
  const touch = [
    ...(taskId === null ? [] : [{ kind: 'taskSession', id: taskId }]),
    ...(backpackId === null ? [] : [{ kind: 'backpack', id: backpackId }]),
  ]
  const key = hold.idempotencyKey
  const keyed = intent !== undefined && { intent, ...(key !== null && { key }) }
  const input = { callId, touch, ...keyed }
  turn.timer({ id: timerOf(callId), dueAt: expiresAt, command: holdExpire.name, input })
}

/** Another node may have used a limit up since the call was let in: the refusal says which. */
function chargeHeld(turn: Turn, hold: SoftHold, due: Due): number {
  const { callId, tool, taskId, backpackId } = hold
  const { cost, key } = due
  try {
    return charge(turn, hold, due)
  } catch (error) {
    const asked = { callId, tool, amount: cost, key, taskId, backpackId }
    const rest = { idempotencyKey: null, expiresAt: null, payment: null }
    throw explain(error, turn, { ...asked, ...rest }, NOTHING_RESERVED)
  }
}

type Sharing = Required<Pick<Settlement, 'shares' | 'promoTransferable'>>
type Due = Pick<Settlement, 'cost' | 'key'> & Sharing

function charge(turn: Turn, hold: SoftHold, { cost, key, ...sharing }: Due): number {
  turn.soft.drop(hold.callId)
  const { tool, taskId, backpackId, at: heldAt } = hold
  if (backpackId !== null) {
    turn.pager(backpackId)
    turn.step('backpack', backpackId, { type: 'CHARGE', tool, amount: cost, heldAt, at: turn.now })
  }
  if (taskId !== null) turn.step('taskSession', taskId, { type: 'CHARGE', amount: cost })
  const agentId = turn.aggregateId
  if (cost === ZERO) return heldAt
  const loans = loansOf(turn, hold.callId)
  const lent = totalLent(loans)
  const before = turn.peek('agent', agentId).context
  const event = {
    type: 'CHARGE',
    callId: hold.callId,
    amount: cost,
    ...keyLimitsOf(key),
    heldAt,
    at: turn.now,
  } as const
  const after = turn.step('agent', agentId, event).context
  const { promo, cash } = taken(before, after)
  const byLoan = least(cost, add(lent.promo, lent.cash))
  const payers = [
    ...heldPayers(agentId, byLoan, least(lent.promo, byLoan)),
    { account: promoOf(agentId), amount: promo },
    { account: cashOf(agentId), amount: cash },
  ]
  takePrice(turn, { payers, cost, callId: hold.callId, referrer: referrerOf(after), ...sharing })
  endLoans(turn, hold.callId, loans, byLoan)
  return heldAt
}

/** What pools have lent when the call was charged, for want of what another node had spent. */
function endLoans(turn: Turn, callId: string, loans: readonly PoolLoan[], used: Micros): void {
  if (loans.length === 0) return
  turn.cancelTimer(timerOf(callId))
  returnLent(turn, callId, restOfLoans(loans, used))
}

function capture(turn: Turn, callId: string, cost: Micros, sharing: Sharing): number {
  const hold = holdOf(turn, callId)
  const held = worthOf(hold)
  const { taskId, backpackId, at: heldAt } = hold
  if (backpackId !== null) {
    turn.pager(backpackId)
    turn.step('backpack', backpackId, { type: 'CAPTURE', held, amount: cost, heldAt, at: turn.now })
  }
  if (taskId !== null) turn.step('taskSession', taskId, { type: 'CAPTURE', held, amount: cost })
  turn.step('agent', turn.aggregateId, { type: 'CAPTURE', callId, amount: cost, at: turn.now })
  turn.cancelTimer(timerOf(callId))
  // One that was waived counts nowhere.
  endQuota(turn, callId, cost === ZERO && held > ZERO ? 'GIVE_BACK' : 'KEEP')
  const { payment } = hold
  const agentId = turn.aggregateId
  const referrer = referrerOf(turn.peek('agent', agentId).context)
  const left = leftOver(hold, cost)
  const promo = subtract(hold.promo, add(left.own.promo, totalLent(left.loans).promo))
  const payers =
    payment === null
      ? heldPayers(agentId, cost, promo)
      : [{ account: owedOf(payment.chain), amount: cost }]
  takePrice(turn, { payers, cost, callId, referrer, ...sharing })
  if (payment === null) {
    giveBack(turn, callId, left.own)
    returnLent(turn, callId, left.loans)
  } else tellPayer(turn, callId, payment, cost > ZERO ? 'DELIVERED' : 'RELEASED')
  return heldAt
}

function release(turn: Turn, callId: string): void {
  const hold = holdOf(turn, callId)
  const held = worthOf(hold)
  const { taskId, backpackId, at: heldAt } = hold
  if (backpackId !== null) {
    turn.step('backpack', backpackId, { type: 'RELEASE', held, heldAt, at: turn.now })
  }
  if (taskId !== null) turn.step('taskSession', taskId, { type: 'RELEASE', held })
  turn.step('agent', turn.aggregateId, { type: 'RELEASE', callId })
  endQuota(turn, callId, 'GIVE_BACK')
  turn.cancelTimer(timerOf(callId))
  const left = leftOver(hold, ZERO)
  giveBack(turn, callId, left.own)
  returnLent(turn, callId, left.loans)
  if (hold.payment !== null) tellPayer(turn, callId, hold.payment, 'RELEASED')
}

function dropSoft(turn: Turn, { callId }: SoftHold): void {
  turn.soft.drop(callId)
  if (heldFor(turn, callId) !== undefined) release(turn, callId)
}

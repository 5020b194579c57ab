import type { SpendingPermission } from '../../core/backpack-permissions.ts'
import { ServiceError } from '../../core/errors.ts'
import type { Micros } from '../../core/money.ts'
import type { CallRow } from '../../core/rows.ts'
import type { Turn } from '../../actors/command.ts'
import type { Admission, Reserved, Spender } from '../admission.ts'
import { taken, type Purse } from '../ledger.ts'
import { keyLimitsOf, keyReservedOf, reservedBeside } from '../limits.ts'
import { explain } from '../refusals.ts'
import { tellCall } from './call-ends.ts'

/** Credits that leave the agent for somebody else: a send, a tip, the reward of a bounty. */
export interface Outlay {
  /** Of the transfer or the bounty; its row in the log of calls has the same. */
  readonly id: string
  /** What a Backpack has to name. */
  readonly permission: SpendingPermission
  /** At face value, a fee within it included. */
  readonly amount: Micros
  /** `cash` leaves promotional credits untouched; `any` takes them first. */
  readonly from: 'cash' | 'any'
}

/**
 * Takes an outlay from the free credits, within every limit of its spender: the Backpack it acts in
 * (list, expiry, fuse), the caps of its key, the balance. All of them count it in this commit, beside
 * what running calls hold. Returns what was promotional and what was cash. A refusal changes nothing.
 */
export function takeOutlay(turn: Turn, spender: Spender, outlay: Outlay): Purse {
  const { amount, from, permission } = outlay
  const under = { ...spender, taskId: null }
  const reserved = reservedBeside(turn, under)
  const { agentId, before } = { agentId: turn.aggregateId, before: purseOf(turn) }
  const limits = { ...keyLimitsOf(spender.key), ...keyReservedOf(reserved) }
  try {
    if (spender.backpackId !== null)
      chargeBackpack(turn, spender.backpackId, { tool: permission, amount, reserved })
    const event = { type: 'DEBIT', amount, reserved: reserved.agent, from, at: turn.now } as const
    turn.step('agent', agentId, { ...event, ...limits })
  } catch (error) {
    throw explain(error, turn, admissionOf(under, outlay), reserved)
  }
  if (spender.backpackId !== null) record(turn, spender, outlay)
  return taken(before, purseOf(turn))
}

/** What a Backpack is asked of an amount that is spent at once, without a hold. */
export interface AtOnce {
  readonly tool: string
  readonly amount: Micros
  readonly reserved: Reserved
}

/** Asks a Backpack beside what running calls hold of it, and charges it. */
export function chargeBackpack(
  turn: Turn,
  backpackId: string,
  { tool, amount, reserved }: AtOnce,
): void {
  if (!turn.has('backpack', backpackId))
    throw new ServiceError('NOT_FOUND', { backpack_id: backpackId })
  turn.pager(backpackId)
  const wanted = { tool, amount, at: turn.now }
  const [reservedDay, reservedMonth] = [reserved.day, reserved.month]
  turn.step('backpack', backpackId, { type: 'ASK', ...wanted, reservedDay, reservedMonth })
  turn.step('backpack', backpackId, { type: 'CHARGE', ...wanted, heldAt: turn.now })
}

const purseOf = (turn: Turn): Purse => turn.peek('agent', turn.aggregateId).context

/** As a refusal explains it. */
const admissionOf = (
  under: Pick<Admission, 'key' | 'taskId' | 'backpackId'>,
  { id, permission, amount }: Outlay,
): Admission => ({
  ...under,
  callId: id,
  tool: permission,
  amount,
  idempotencyKey: null,
  expiresAt: null,
  payment: null,
})

/** The spend log of a Backpack lists it and its pager hears of it; the log of tools does not know it. */
function record(turn: Turn, spender: Spender, { id, permission, amount }: Outlay): void {
  const row = paidRow(turn, spender, {
    callId: id,
    operation: permission,
    tool: null,
    cost: amount,
  })
  turn.call(row)
  tellCall(turn, row)
}

/** The row of something that is paid at once from the credits, and whose answer is kept elsewhere. */
export const paidRow = (
  turn: Turn,
  { key, backpackId }: Spender,
  of: Pick<CallRow, 'callId' | 'operation' | 'tool' | 'cost'>,
): CallRow => ({
  ...of,
  agentId: turn.aggregateId,
  keyId: key?.id ?? null,
  rail: 'credits',
  status: 'ok',
  errorCode: null,
  ms: 0,
  taskId: null,
  backpackId,
  ghost: false,
  idempotencyKey: null,
  requestHash: null,
  response: null,
  at: turn.now,
})

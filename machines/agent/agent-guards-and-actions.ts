import { assign, emit } from 'xstate'
import { addMicros, subtractMicros, ZERO, type Micros } from '../../core/money.ts'
import type {
  AgentMachineEmittedEvent,
  AgentMachineEvent,
  AgentMachineInput,
} from './agent-machine-events.ts'
import { hasKeyCap, addKeySpending } from './api-key-spend-caps.ts'
import {
  agentOwnBalance,
  applyDepositToAgent,
  findKeyCapExceededByAgentSpend,
  sumPromoAndCash,
  spendableCash,
  coversAmount,
  requireAgentHold,
  createLentHold,
  totalLoansOfUnadmittedCall,
  pendingCallLoans,
  isAdmittedHold,
  isPaidOutside,
  subtractPromoAndCash,
  addPromoCash,
  ZERO_PROMO_CASH,
  agentOwnRefund,
  ownShareOfAmount,
  takePromoFirst,
  balanceTier,
  reverseAgentDeposit,
  omitHold,
  holdTotalFromAllSources,
} from './agent-balance.ts'
import type { AgentBalanceTier, AgentMachineContext } from './agent-balance.ts'
import { machineSetup, type EventOfType } from '../machine-setup.ts'

/** The guards and actions of an agent's balance. */

type AgentSpendEvent = EventOfType<AgentMachineEvent, 'ASK' | 'HOLD' | 'SPEND' | 'CHARGE' | 'DEBIT'>

const takeFrom = (context: AgentMachineContext, amount: Micros, from: 'cash' | undefined) =>
  from === 'cash' ? { promo: ZERO, cash: amount } : takePromoFirst(context, amount)

const TIERS: readonly AgentBalanceTier[] = ['empty', 'critical', 'warning', 'healthy']
const tierRank = (tier: AgentBalanceTier): number => TIERS.indexOf(tier)

export const agentSetup = machineSetup<
  AgentMachineContext,
  AgentMachineEvent,
  AgentMachineInput,
  AgentMachineEmittedEvent
>().extend({
  guards: {
    inTier: ({ context }, { tier }: { tier: AgentBalanceTier }) =>
      balanceTier(agentOwnBalance(context)) === tier,
    fallsFrom: ({ context }, { tier }: { tier: AgentBalanceTier }) =>
      tierRank(balanceTier(agentOwnBalance(context))) < tierRank(tier),
    risesFrom: ({ context }, { tier }: { tier: AgentBalanceTier }) =>
      tierRank(balanceTier(agentOwnBalance(context))) > tierRank(tier),
    isHeld: ({ context }, event: EventOfType<AgentMachineEvent, 'RELEASE'>) =>
      Object.hasOwn(context.holds, event.callId),
    /** Money that a pool has lent before admission does not count as a hold. */
    isLetIn: ({ context }, event: EventOfType<AgentMachineEvent, 'HOLD' | 'LEND'>) =>
      isAdmittedHold(context.holds[event.callId]),
    coversAsked: ({ context }, event: EventOfType<AgentMachineEvent, 'ASK' | 'HOLD' | 'SPEND'>) => {
      const { amount, reserved } = event
      if (findKeyCapExceededByAgentSpend(context, event) !== undefined) return false
      if (isPaidOutside(event)) return true
      const own = ownShareOfAmount(context, event.callId, amount)
      return event.from === 'cash'
        ? own === ZERO || spendableCash(context, reserved) >= own
        : coversAmount(context, own, reserved)
    },
    coversCharge: ({ context }, event: EventOfType<AgentMachineEvent, 'CHARGE'>) => {
      const own = ownShareOfAmount(context, event.callId, event.amount)
      return (
        findKeyCapExceededByAgentSpend(context, event) === undefined &&
        (isPaidOutside(event) || coversAmount(context, own, ZERO))
      )
    },
    exceedsTotalCap: ({ context }, event: AgentSpendEvent) =>
      findKeyCapExceededByAgentSpend(context, event) === 'total',
    exceedsDayCap: ({ context }, event: AgentSpendEvent) =>
      findKeyCapExceededByAgentSpend(context, event) === 'per_day',
    exceedsMonthCap: ({ context }, event: AgentSpendEvent) =>
      findKeyCapExceededByAgentSpend(context, event) === 'per_month',
    coversCapture: ({ context }, event: EventOfType<AgentMachineEvent, 'CAPTURE'>) => {
      const hold = context.holds[event.callId]
      return isAdmittedHold(hold) && event.amount <= holdTotalFromAllSources(hold)
    },
    inFleet: ({ context }) => context.fleetId !== null,
    inThatFleet: ({ context }, event: EventOfType<AgentMachineEvent, 'LEAVE_FLEET'>) =>
      event.fleetId !== null && event.fleetId === context.fleetId,
    isAdmittedSinceFreeze: ({ context }, event: EventOfType<AgentMachineEvent, 'CHARGE'>) =>
      context.frozen !== null && event.heldAt > context.frozen.at,
    fellWhileFrozen: ({ context }) =>
      context.frozen !== null &&
      tierRank(balanceTier(agentOwnBalance(context))) < tierRank(context.frozen.tier),
    coversDebit: ({ context }, event: EventOfType<AgentMachineEvent, 'DEBIT'>) => {
      const { amount, reserved, from } = event
      if (findKeyCapExceededByAgentSpend(context, event) !== undefined) return false
      return from === 'any'
        ? coversAmount(context, amount, reserved)
        : spendableCash(context, reserved) >= amount
    },
    onlyPromoCovers: (
      { context },
      event: EventOfType<AgentMachineEvent, 'DEBIT' | 'ASK' | 'HOLD'>,
    ) => event.from === 'cash' && coversAmount(context, event.amount, event.reserved),
  },
  actions: {
    tellLow: emit(({ context }, { from }: { from: AgentBalanceTier }) => {
      const balance = agentOwnBalance(context)
      return { type: 'low_balance' as const, tier: balanceTier(balance), from, balance }
    }),
    tellFallWhileFrozen: emit(({ context }) => {
      const balance = agentOwnBalance(context)
      const tier = balanceTier(balance)
      return { type: 'low_balance' as const, tier, from: context.frozen?.tier ?? tier, balance }
    }),
    hold: assign(({ context }, event: EventOfType<AgentMachineEvent, 'HOLD'>) => {
      const { callId, amount, keyId, taskId, backpackId, at, tool, idempotencyKey } = event
      const { payment = null, passId = null } = event
      const lent = totalLoansOfUnadmittedCall(context, callId)
      const own = ownShareOfAmount(context, callId, amount)
      const isOutside = isPaidOutside(event)
      const taken = isOutside ? ZERO_PROMO_CASH : takeFrom(context, own, event.from)
      const hold = {
        ...addPromoCash(lent, taken),
        external: isOutside ? amount : ZERO,
        payment,
        passId,
        loans: pendingCallLoans(context, callId),
        keyId,
        capped: hasKeyCap(event),
        taskId,
        backpackId,
        at,
        tool,
        idempotencyKey,
      }
      return {
        ...subtractPromoAndCash(context, taken),
        held: addMicros(context.held, sumPromoAndCash(taken)),
        holds: { ...context.holds, [callId]: hold },
      }
    }),
    capture: assign(({ context }, event: EventOfType<AgentMachineEvent, 'CAPTURE'>) => {
      const hold = requireAgentHold(context, event.callId)
      return {
        ...addPromoCash(context, agentOwnRefund(hold, event.amount)),
        held: subtractMicros(context.held, sumPromoAndCash(hold)),
        holds: omitHold(context.holds, event.callId),
        ...addKeySpending(context, hold, { amount: event.amount, heldAt: hold.at, at: event.at }),
      }
    }),
    release: assign(({ context }, event: EventOfType<AgentMachineEvent, 'RELEASE'>) => {
      const hold = requireAgentHold(context, event.callId)
      return {
        ...addPromoCash(context, agentOwnRefund(hold, ZERO)),
        held: subtractMicros(context.held, sumPromoAndCash(hold)),
        holds: omitHold(context.holds, event.callId),
      }
    }),
    lend: assign(({ context }, event: EventOfType<AgentMachineEvent, 'LEND'>) => {
      const { fleetId, callId, held, bonus, at } = event
      const loan = { fleetId, promo: bonus, cash: subtractMicros(held, bonus) }
      const hold = createLentHold(context, callId, loan, at)
      return {
        held: addMicros(context.held, held),
        holds: { ...context.holds, [callId]: hold },
      }
    }),
    charge: assign(({ context }, event: EventOfType<AgentMachineEvent, 'CHARGE'>) => {
      const { callId, amount } = event
      const spent = { keyId: event.keyId, capped: hasKeyCap(event) }
      if (isPaidOutside(event)) return addKeySpending(context, spent, event)
      const lent =
        callId === undefined ? ZERO_PROMO_CASH : totalLoansOfUnadmittedCall(context, callId)
      return {
        ...subtractPromoAndCash(
          context,
          takePromoFirst(context, ownShareOfAmount(context, callId, amount)),
        ),
        held: subtractMicros(context.held, sumPromoAndCash(lent)),
        holds:
          sumPromoAndCash(lent) === ZERO ? context.holds : omitHold(context.holds, callId ?? ''),
        ...addKeySpending(context, spent, event),
      }
    }),
    spend: assign(({ context }, event: EventOfType<AgentMachineEvent, 'SPEND'>) => {
      const { amount, keyId, at } = event
      const spent = { amount, heldAt: at, at }
      const own = isPaidOutside(event) ? ZERO : amount
      return {
        ...subtractPromoAndCash(context, takePromoFirst(context, own)),
        ...addKeySpending(context, { keyId, capped: hasKeyCap(event) }, spent),
      }
    }),
    credit: assign(({ context }, event: EventOfType<AgentMachineEvent, 'CREDIT'>) =>
      addPromoCash(context, event),
    ),
    debit: assign(({ context }, event: EventOfType<AgentMachineEvent, 'DEBIT'>) => {
      const { amount, from, keyId, at } = event
      const parts = from === 'any' ? takePromoFirst(context, amount) : { promo: ZERO, cash: amount }
      const spent = { amount, heldAt: at, at }
      return {
        ...subtractPromoAndCash(context, parts),
        ...addKeySpending(context, { keyId, capped: hasKeyCap(event) }, spent),
      }
    }),
    deposit: assign(({ context }, event: EventOfType<AgentMachineEvent, 'DEPOSIT'>) =>
      applyDepositToAgent(context, event.id, event.pending),
    ),
    undoDeposit: assign(({ context }, event: EventOfType<AgentMachineEvent, 'UNDO_DEPOSIT'>) =>
      reverseAgentDeposit(context, event.id, event.amount),
    ),
    joinFleet: assign((_, event: EventOfType<AgentMachineEvent, 'JOIN_FLEET'>) => ({
      fleetId: event.fleetId,
    })),
    leaveFleet: assign({ fleetId: null }),
    freeze: assign(({ context }, { at }: EventOfType<AgentMachineEvent, 'FREEZE'>) => ({
      frozen: { at, tier: balanceTier(agentOwnBalance(context)) },
    })),
    unfreeze: assign({ frozen: null }),
  },
})

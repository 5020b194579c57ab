import { assign, emit } from 'xstate'
import { addMicros, subtractMicros, ZERO_MICROS, type Micros } from '../../core/money.ts'
import type {
  AgentMachineEmittedEvent,
  AgentMachineEvent,
  AgentMachineInput,
} from './agent-machine-events.ts'
import { hasApiKeySpendCap, addKeySpending } from './api-key-spend-caps.ts'
import {
  agentBalanceWithoutFleetLoans,
  applyDepositToAgent,
  findKeyCapExceededByAgentSpend,
  sumPromoAndCash,
  spendableCash,
  promoAndCashCoverAmount,
  requireAgentHold,
  createFleetLoanHold,
  totalLoansOfUnadmittedCall,
  fleetLoansOfUnadmittedCall,
  isAdmittedHold,
  isPaidOutsideBalance,
  subtractPromoAndCash,
  addPromoCash,
  ZERO_PROMO_CASH,
  agentOwnRefund,
  agentShareOfAmount,
  splitAmountPromoFirst,
  toAgentBalanceTier,
  reverseAgentDeposit,
  omitHold,
  holdTotalFromAllSources,
} from './agent-balance.ts'
import type { AgentBalanceTier, AgentMachineContext } from './agent-balance.ts'
import { createBaseMachineSetup, type EventOfType } from '../machine-setup.ts'

/** The guards and actions of an agent's balance. */

type AgentSpendEvent = EventOfType<AgentMachineEvent, 'ASK' | 'HOLD' | 'SPEND' | 'CHARGE' | 'DEBIT'>

const takeFrom = (context: AgentMachineContext, amount: Micros, from: 'cash' | undefined) =>
  from === 'cash' ? { promo: ZERO_MICROS, cash: amount } : splitAmountPromoFirst(context, amount)

const TIERS: readonly AgentBalanceTier[] = ['empty', 'critical', 'warning', 'healthy']
const tierRank = (tier: AgentBalanceTier): number => TIERS.indexOf(tier)

export const agentMachineSetup = createBaseMachineSetup<
  AgentMachineContext,
  AgentMachineEvent,
  AgentMachineInput,
  AgentMachineEmittedEvent
>().extend({
  guards: {
    inTier: ({ context }, { tier }: { tier: AgentBalanceTier }) =>
      toAgentBalanceTier(agentBalanceWithoutFleetLoans(context)) === tier,
    fallsFrom: ({ context }, { tier }: { tier: AgentBalanceTier }) =>
      tierRank(toAgentBalanceTier(agentBalanceWithoutFleetLoans(context))) < tierRank(tier),
    risesFrom: ({ context }, { tier }: { tier: AgentBalanceTier }) =>
      tierRank(toAgentBalanceTier(agentBalanceWithoutFleetLoans(context))) > tierRank(tier),
    isHeld: ({ context }, event: EventOfType<AgentMachineEvent, 'RELEASE'>) =>
      Object.hasOwn(context.holds, event.callId),
    /** Money that a pool has lent before admission does not count as a hold. */
    isLetIn: ({ context }, event: EventOfType<AgentMachineEvent, 'HOLD' | 'LEND'>) =>
      isAdmittedHold(context.holds[event.callId]),
    coversAsked: ({ context }, event: EventOfType<AgentMachineEvent, 'ASK' | 'HOLD' | 'SPEND'>) => {
      const { amount, reserved } = event
      if (findKeyCapExceededByAgentSpend(context, event) !== undefined) return false
      if (isPaidOutsideBalance(event)) return true
      const own = agentShareOfAmount(context, event.callId, amount)
      return event.from === 'cash'
        ? own === ZERO_MICROS || spendableCash(context, reserved) >= own
        : promoAndCashCoverAmount(context, own, reserved)
    },
    coversCharge: ({ context }, event: EventOfType<AgentMachineEvent, 'CHARGE'>) => {
      const own = agentShareOfAmount(context, event.callId, event.amount)
      return (
        findKeyCapExceededByAgentSpend(context, event) === undefined &&
        (isPaidOutsideBalance(event) || promoAndCashCoverAmount(context, own, ZERO_MICROS))
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
      tierRank(toAgentBalanceTier(agentBalanceWithoutFleetLoans(context))) <
        tierRank(context.frozen.tier),
    coversDebit: ({ context }, event: EventOfType<AgentMachineEvent, 'DEBIT'>) => {
      const { amount, reserved, from } = event
      if (findKeyCapExceededByAgentSpend(context, event) !== undefined) return false
      return from === 'any'
        ? promoAndCashCoverAmount(context, amount, reserved)
        : spendableCash(context, reserved) >= amount
    },
    onlyPromoCovers: (
      { context },
      event: EventOfType<AgentMachineEvent, 'DEBIT' | 'ASK' | 'HOLD'>,
    ) => event.from === 'cash' && promoAndCashCoverAmount(context, event.amount, event.reserved),
  },
  actions: {
    tellLow: emit(({ context }, { from }: { from: AgentBalanceTier }) => {
      const balance = agentBalanceWithoutFleetLoans(context)
      return { type: 'low_balance' as const, tier: toAgentBalanceTier(balance), from, balance }
    }),
    tellFallWhileFrozen: emit(({ context }) => {
      const balance = agentBalanceWithoutFleetLoans(context)
      const tier = toAgentBalanceTier(balance)
      return { type: 'low_balance' as const, tier, from: context.frozen?.tier ?? tier, balance }
    }),
    hold: assign(({ context }, event: EventOfType<AgentMachineEvent, 'HOLD'>) => {
      const { callId, amount, keyId, taskId, backpackId, at, tool, idempotencyKey } = event
      const { payment = null, passId = null } = event
      const lent = totalLoansOfUnadmittedCall(context, callId)
      const own = agentShareOfAmount(context, callId, amount)
      const isOutside = isPaidOutsideBalance(event)
      const taken = isOutside ? ZERO_PROMO_CASH : takeFrom(context, own, event.from)
      const hold = {
        ...addPromoCash(lent, taken),
        external: isOutside ? amount : ZERO_MICROS,
        payment,
        passId,
        loans: fleetLoansOfUnadmittedCall(context, callId),
        keyId,
        capped: hasApiKeySpendCap(event),
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
        ...addPromoCash(context, agentOwnRefund(hold, ZERO_MICROS)),
        held: subtractMicros(context.held, sumPromoAndCash(hold)),
        holds: omitHold(context.holds, event.callId),
      }
    }),
    lend: assign(({ context }, event: EventOfType<AgentMachineEvent, 'LEND'>) => {
      const { fleetId, callId, held, bonus, at } = event
      const loan = { fleetId, promo: bonus, cash: subtractMicros(held, bonus) }
      const hold = createFleetLoanHold(context, callId, loan, at)
      return {
        held: addMicros(context.held, held),
        holds: { ...context.holds, [callId]: hold },
      }
    }),
    charge: assign(({ context }, event: EventOfType<AgentMachineEvent, 'CHARGE'>) => {
      const { callId, amount } = event
      const spent = { keyId: event.keyId, capped: hasApiKeySpendCap(event) }
      if (isPaidOutsideBalance(event)) return addKeySpending(context, spent, event)
      const lent =
        callId === undefined ? ZERO_PROMO_CASH : totalLoansOfUnadmittedCall(context, callId)
      return {
        ...subtractPromoAndCash(
          context,
          splitAmountPromoFirst(context, agentShareOfAmount(context, callId, amount)),
        ),
        held: subtractMicros(context.held, sumPromoAndCash(lent)),
        holds:
          sumPromoAndCash(lent) === ZERO_MICROS
            ? context.holds
            : omitHold(context.holds, callId ?? ''),
        ...addKeySpending(context, spent, event),
      }
    }),
    spend: assign(({ context }, event: EventOfType<AgentMachineEvent, 'SPEND'>) => {
      const { amount, keyId, at } = event
      const spent = { amount, heldAt: at, at }
      const own = isPaidOutsideBalance(event) ? ZERO_MICROS : amount
      return {
        ...subtractPromoAndCash(context, splitAmountPromoFirst(context, own)),
        ...addKeySpending(context, { keyId, capped: hasApiKeySpendCap(event) }, spent),
      }
    }),
    credit: assign(({ context }, event: EventOfType<AgentMachineEvent, 'CREDIT'>) =>
      addPromoCash(context, event),
    ),
    debit: assign(({ context }, event: EventOfType<AgentMachineEvent, 'DEBIT'>) => {
      const { amount, from, keyId, at } = event
      const parts =
        from === 'any'
          ? splitAmountPromoFirst(context, amount)
          : { promo: ZERO_MICROS, cash: amount }
      const spent = { amount, heldAt: at, at }
      return {
        ...subtractPromoAndCash(context, parts),
        ...addKeySpending(context, { keyId, capped: hasApiKeySpendCap(event) }, spent),
      }
    }),
    deposit: assign(({ context }, event: EventOfType<AgentMachineEvent, 'DEPOSIT'>) =>
      applyDepositToAgent(context, event.id, event.pending, event.bonusLeft),
    ),
    undoDeposit: assign(({ context }, event: EventOfType<AgentMachineEvent, 'UNDO_DEPOSIT'>) =>
      reverseAgentDeposit(context, event.id, event.amount),
    ),
    joinFleet: assign((_, event: EventOfType<AgentMachineEvent, 'JOIN_FLEET'>) => ({
      fleetId: event.fleetId,
    })),
    leaveFleet: assign({ fleetId: null }),
    freeze: assign(({ context }, { at }: EventOfType<AgentMachineEvent, 'FREEZE'>) => ({
      frozen: { at, tier: toAgentBalanceTier(agentBalanceWithoutFleetLoans(context)) },
    })),
    unfreeze: assign({ frozen: null }),
  },
})

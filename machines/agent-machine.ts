import { assertEvent, assign, emit, setup } from 'xstate'
import type { ErrorCode } from '../core/errors.ts'
import { addMicros, subtractMicros, ZERO } from '../core/money.ts'
import type {
  AgentMachineEmittedEvent,
  AgentMachineEvent,
  AgentMachineInput,
} from './agent/agent-machine-events.ts'
import { hasKeyCap, addKeySpending, type ApiKeyCapPeriod } from './agent/api-key-spend-caps.ts'
import {
  agentOwnBalance,
  applyDepositToAgent,
  findAgentExceededKeyCap,
  sumPromoAndCash,
  spendableCash,
  coversAmount,
  requireAgentHold,
  createLentHold,
  pendingLentAmount,
  pendingCallLoans,
  isAdmittedHold,
  subtractPromoCash,
  addPromoCash,
  ZERO_PROMO_CASH,
  agentOwnRefund,
  ownShareOfAmount,
  takePromoFirst,
  balanceTier,
  reverseAgentDeposit,
  omitHold,
  agentHoldTotal,
} from './agent/agent-balance.ts'
import type { AgentBalanceTier, AgentMachineContext } from './agent/agent-balance.ts'

/** The balance of an agent: holds, charges, credits, key caps, balance tiers. */

/** One rejection per key cap, so that the response names the exceeded cap. */
const keyCapRejections = (['total', 'per_day', 'per_month'] as const).map((limit) => ({
  guard: { type: 'exceedsCap', params: { limit } } as const,
  actions: { type: 'refuse', params: { code: 'key_cap_exceeded', limit } } as const,
}))

/**
 * The balance of an agent. Promotional credits are spent before cash, held money belongs to one
 * call, a key may have caps. Tiers follow the agent's own balance; falling into a lower tier emits
 * `low_balance` once.
 */
export const agentMachine = setup({
  types: {} as {
    context: AgentMachineContext
    events: AgentMachineEvent
    input: AgentMachineInput
    emitted: AgentMachineEmittedEvent
  },
  guards: {
    inTier: ({ context }, { tier }: { tier: AgentBalanceTier }) =>
      balanceTier(agentOwnBalance(context)) === tier,
    isHeld: ({ context, event }) => {
      assertEvent(event, 'RELEASE')
      return Object.hasOwn(context.holds, event.callId)
    },
    /** Money that a pool has lent before admission does not count as a hold. */
    isLetIn: ({ context, event }) => {
      assertEvent(event, ['HOLD', 'LEND'])
      return isAdmittedHold(context.holds[event.callId])
    },
    coversAsked: ({ context, event }) => {
      assertEvent(event, ['ASK', 'HOLD'])
      const { amount, reserved, payment = null } = event
      if (findAgentExceededKeyCap(context, event) !== undefined) return false
      return (
        payment !== null ||
        coversAmount(context, ownShareOfAmount(context, event.callId, amount), reserved)
      )
    },
    coversCharge: ({ context, event }) => {
      assertEvent(event, 'CHARGE')
      const own = ownShareOfAmount(context, event.callId, event.amount)
      return (
        findAgentExceededKeyCap(context, event) === undefined && coversAmount(context, own, ZERO)
      )
    },
    exceedsCap: ({ context, event }, { limit }: { limit: ApiKeyCapPeriod }) => {
      assertEvent(event, ['ASK', 'HOLD', 'CHARGE', 'DEBIT'])
      return findAgentExceededKeyCap(context, event) === limit
    },
    coversCapture: ({ context, event }) => {
      assertEvent(event, 'CAPTURE')
      const hold = context.holds[event.callId]
      return isAdmittedHold(hold) && event.amount <= agentHoldTotal(hold)
    },
    inFleet: ({ context }) => context.fleetId !== null,
    inThatFleet: ({ context, event }) => {
      assertEvent(event, 'LEAVE_FLEET')
      return event.fleetId !== null && event.fleetId === context.fleetId
    },
    coversDebit: ({ context, event }) => {
      assertEvent(event, 'DEBIT')
      const { amount, reserved, from } = event
      if (findAgentExceededKeyCap(context, event) !== undefined) return false
      return from === 'any'
        ? coversAmount(context, amount, reserved)
        : spendableCash(context, reserved) >= amount
    },
    onlyPromoCovers: ({ context, event }) => {
      assertEvent(event, 'DEBIT')
      return event.from === 'cash' && coversAmount(context, event.amount, event.reserved)
    },
  },
  actions: {
    /** Does nothing. Its presence among the actions of a step means rejection. */
    refuse: (_, _params: { code: ErrorCode; limit?: ApiKeyCapPeriod }) => {},
    /** Does nothing: the call would be accepted. */
    accept: () => {},
    tellLow: emit(
      ({ context }, { tier, from }: { tier: AgentBalanceTier; from: AgentBalanceTier }) => ({
        type: 'low_balance' as const,
        tier,
        from,
        balance: agentOwnBalance(context),
      }),
    ),
    hold: assign(({ context, event }) => {
      assertEvent(event, 'HOLD')
      const { callId, amount, keyId, taskId, backpackId, at, tool, idempotencyKey } = event
      const { payment = null } = event
      const lent = pendingLentAmount(context, callId)
      const own = ownShareOfAmount(context, callId, amount)
      const taken = payment === null ? takePromoFirst(context, own) : ZERO_PROMO_CASH
      const hold = {
        ...addPromoCash(lent, taken),
        external: payment === null ? ZERO : amount,
        payment,
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
        ...subtractPromoCash(context, taken),
        held: addMicros(context.held, sumPromoAndCash(taken)),
        holds: { ...context.holds, [callId]: hold },
      }
    }),
    capture: assign(({ context, event }) => {
      assertEvent(event, 'CAPTURE')
      const hold = requireAgentHold(context, event.callId)
      return {
        ...addPromoCash(context, agentOwnRefund(hold, event.amount)),
        held: subtractMicros(context.held, sumPromoAndCash(hold)),
        holds: omitHold(context.holds, event.callId),
        ...addKeySpending(context, hold, { amount: event.amount, heldAt: hold.at, at: event.at }),
      }
    }),
    release: assign(({ context, event }) => {
      assertEvent(event, 'RELEASE')
      const hold = requireAgentHold(context, event.callId)
      return {
        ...addPromoCash(context, agentOwnRefund(hold, ZERO)),
        held: subtractMicros(context.held, sumPromoAndCash(hold)),
        holds: omitHold(context.holds, event.callId),
      }
    }),
    lend: assign(({ context, event }) => {
      assertEvent(event, 'LEND')
      const { fleetId, callId, held, bonus, at } = event
      const loan = { fleetId, promo: bonus, cash: subtractMicros(held, bonus) }
      const hold = createLentHold(context, callId, loan, at)
      return {
        held: addMicros(context.held, held),
        holds: { ...context.holds, [callId]: hold },
      }
    }),
    charge: assign(({ context, event }) => {
      assertEvent(event, 'CHARGE')
      const { callId, amount } = event
      const lent = callId === undefined ? ZERO_PROMO_CASH : pendingLentAmount(context, callId)
      return {
        ...subtractPromoCash(
          context,
          takePromoFirst(context, ownShareOfAmount(context, callId, amount)),
        ),
        held: subtractMicros(context.held, sumPromoAndCash(lent)),
        holds:
          sumPromoAndCash(lent) === ZERO ? context.holds : omitHold(context.holds, callId ?? ''),
        ...addKeySpending(context, { keyId: event.keyId, capped: hasKeyCap(event) }, event),
      }
    }),
    credit: assign(({ context, event }) => {
      assertEvent(event, 'CREDIT')
      return addPromoCash(context, event)
    }),
    debit: assign(({ context, event }) => {
      assertEvent(event, 'DEBIT')
      const { amount, from, keyId, at } = event
      const parts = from === 'any' ? takePromoFirst(context, amount) : { promo: ZERO, cash: amount }
      const spent = { amount, heldAt: at, at }
      return {
        ...subtractPromoCash(context, parts),
        ...addKeySpending(context, { keyId, capped: hasKeyCap(event) }, spent),
      }
    }),
    deposit: assign(({ context, event }) => {
      assertEvent(event, 'DEPOSIT')
      return applyDepositToAgent(context, event.id, event.pending)
    }),
    undoDeposit: assign(({ context, event }) => {
      assertEvent(event, 'UNDO_DEPOSIT')
      return reverseAgentDeposit(context, event.id, event.amount)
    }),
    joinFleet: assign(({ event }) => {
      assertEvent(event, 'JOIN_FLEET')
      return { fleetId: event.fleetId }
    }),
    leaveFleet: assign({ fleetId: null }),
  },
}).createMachine({
  id: 'agent',
  context: ({ input: { agentId, promo, cash, referrer = null } }) => ({
    agentId,
    promo,
    cash,
    held: ZERO,
    holds: {},
    keySpent: {},
    keyWindows: {},
    pending: ZERO,
    firstDeposit: null,
    activated: false,
    referrer,
    fleetId: null,
  }),
  initial: 'opening',
  on: {
    ASK: [
      { guard: 'coversAsked', actions: 'accept' },
      ...keyCapRejections,
      { actions: { type: 'refuse', params: { code: 'payment_required' } } },
    ],
    HOLD: [
      { guard: 'isLetIn', actions: { type: 'refuse', params: { code: 'call_settled' } } },
      { guard: 'coversAsked', actions: 'hold' },
      ...keyCapRejections,
      { actions: { type: 'refuse', params: { code: 'payment_required' } } },
    ],
    CHARGE: [
      { guard: 'coversCharge', actions: 'charge' },
      ...keyCapRejections,
      { actions: { type: 'refuse', params: { code: 'payment_required' } } },
    ],
    CAPTURE: [
      { guard: 'coversCapture', actions: 'capture' },
      { actions: { type: 'refuse', params: { code: 'call_settled' } } },
    ],
    RELEASE: [
      { guard: 'isHeld', actions: 'release' },
      { actions: { type: 'refuse', params: { code: 'call_settled' } } },
    ],
    CREDIT: { actions: 'credit' },
    DEPOSIT: { actions: 'deposit' },
    LEND: [
      { guard: 'isLetIn', actions: { type: 'refuse', params: { code: 'call_settled' } } },
      { actions: 'lend' },
    ],
    UNDO_DEPOSIT: { actions: 'undoDeposit' },
    JOIN_FLEET: [
      {
        guard: 'inFleet',
        actions: { type: 'refuse', params: { code: 'already_in_fleet' } },
      },
      { actions: 'joinFleet' },
    ],
    LEAVE_FLEET: [
      { guard: 'inThatFleet', actions: 'leaveFleet' },
      { actions: { type: 'refuse', params: { code: 'not_in_fleet' } } },
    ],
    DEBIT: [
      { guard: 'coversDebit', actions: 'debit' },
      ...keyCapRejections,
      {
        guard: 'onlyPromoCovers',
        actions: { type: 'refuse', params: { code: 'promo_not_transferable' } },
      },
      { actions: { type: 'refuse', params: { code: 'payment_required' } } },
    ],
    '*': { actions: { type: 'refuse', params: { code: 'internal' } } },
  },
  states: {
    opening: {
      always: [
        { guard: { type: 'inTier', params: { tier: 'healthy' } }, target: 'healthy' },
        { guard: { type: 'inTier', params: { tier: 'warning' } }, target: 'warning' },
        { guard: { type: 'inTier', params: { tier: 'critical' } }, target: 'critical' },
        { target: 'empty' },
      ],
    },
    healthy: {
      always: [
        {
          guard: { type: 'inTier', params: { tier: 'warning' } },
          target: 'warning',
          actions: { type: 'tellLow', params: { tier: 'warning', from: 'healthy' } },
        },
        {
          guard: { type: 'inTier', params: { tier: 'critical' } },
          target: 'critical',
          actions: { type: 'tellLow', params: { tier: 'critical', from: 'healthy' } },
        },
        {
          guard: { type: 'inTier', params: { tier: 'empty' } },
          target: 'empty',
          actions: { type: 'tellLow', params: { tier: 'empty', from: 'healthy' } },
        },
      ],
    },
    warning: {
      always: [
        { guard: { type: 'inTier', params: { tier: 'healthy' } }, target: 'healthy' },
        {
          guard: { type: 'inTier', params: { tier: 'critical' } },
          target: 'critical',
          actions: { type: 'tellLow', params: { tier: 'critical', from: 'warning' } },
        },
        {
          guard: { type: 'inTier', params: { tier: 'empty' } },
          target: 'empty',
          actions: { type: 'tellLow', params: { tier: 'empty', from: 'warning' } },
        },
      ],
    },
    critical: {
      always: [
        { guard: { type: 'inTier', params: { tier: 'healthy' } }, target: 'healthy' },
        { guard: { type: 'inTier', params: { tier: 'warning' } }, target: 'warning' },
        {
          guard: { type: 'inTier', params: { tier: 'empty' } },
          target: 'empty',
          actions: { type: 'tellLow', params: { tier: 'empty', from: 'critical' } },
        },
      ],
    },
    empty: {
      always: [
        { guard: { type: 'inTier', params: { tier: 'healthy' } }, target: 'healthy' },
        { guard: { type: 'inTier', params: { tier: 'warning' } }, target: 'warning' },
        { guard: { type: 'inTier', params: { tier: 'critical' } }, target: 'critical' },
      ],
    },
  },
})

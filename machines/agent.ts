import { assertEvent, assign, emit, setup } from 'xstate'
import type { ErrorCode } from '../core/errors.ts'
import { add, subtract, ZERO } from '../core/money.ts'
import type { AgentEmitted, AgentEvent, AgentInput } from './agent-events.ts'
import { isCapped, keySpending, type KeyLimit } from './key-limits.ts'
import {
  balanceOf,
  deposited,
  exceededCap,
  free,
  freeCash,
  funds,
  heldBy,
  lentHold,
  lentTo,
  loansTo,
  isLetIn,
  less,
  more,
  NOTHING,
  ownBack,
  ownPart,
  promoFirst,
  tierOf,
  undone,
  without,
  worth,
} from './purse.ts'
import type { AgentTier, AgentContext } from './purse.ts'

/** Each cap of a key refuses on its own line. */
const caps = (['total', 'per_day', 'per_month'] as const).map((limit) => ({
  guard: { type: 'exceedsCap', params: { limit } } as const,
  actions: { type: 'refuse', params: { code: 'key_cap_exceeded', limit } } as const,
}))

/**
 * The purse of an agent: promotional credits are spent before cash, held money belongs to one call,
 * a key may have a cap. Tiers follow its own balance, and falling into one is told once.
 */
export const agent = setup({
  types: {} as {
    context: AgentContext
    events: AgentEvent
    input: AgentInput
    emitted: AgentEmitted
  },
  guards: {
    inTier: ({ context }, { tier }: { tier: AgentTier }) => tierOf(balanceOf(context)) === tier,
    isHeld: ({ context, event }) => {
      assertEvent(event, 'RELEASE')
      return Object.hasOwn(context.holds, event.callId)
    },
    /** What a pool has lent for it alone is no hold of its own. */
    isLetIn: ({ context, event }) => {
      assertEvent(event, ['HOLD', 'LEND'])
      return isLetIn(context.holds[event.callId])
    },
    coversAsked: ({ context, event }) => {
      assertEvent(event, ['ASK', 'HOLD'])
      const { amount, reserved, payment = null } = event
      if (exceededCap(context, event) !== undefined) return false
      return payment !== null || funds(context, ownPart(context, event.callId, amount), reserved)
    },
    coversCharge: ({ context, event }) => {
      assertEvent(event, 'CHARGE')
      const own = ownPart(context, event.callId, event.amount)
      return exceededCap(context, event) === undefined && funds(context, own, ZERO)
    },
    exceedsCap: ({ context, event }, { limit }: { limit: KeyLimit }) => {
      assertEvent(event, ['ASK', 'HOLD', 'CHARGE', 'DEBIT'])
      return exceededCap(context, event) === limit
    },
    coversCapture: ({ context, event }) => {
      assertEvent(event, 'CAPTURE')
      const hold = context.holds[event.callId]
      return isLetIn(hold) && event.amount <= worth(hold)
    },
    inFleet: ({ context }) => context.fleetId !== null,
    inThatFleet: ({ context, event }) => {
      assertEvent(event, 'LEAVE_FLEET')
      return event.fleetId !== null && event.fleetId === context.fleetId
    },
    coversDebit: ({ context, event }) => {
      assertEvent(event, 'DEBIT')
      const { amount, reserved, from } = event
      if (exceededCap(context, event) !== undefined) return false
      return from === 'any'
        ? funds(context, amount, reserved)
        : freeCash(context, reserved) >= amount
    },
    onlyPromoCovers: ({ context, event }) => {
      assertEvent(event, 'DEBIT')
      return event.from === 'cash' && funds(context, event.amount, event.reserved)
    },
  },
  actions: {
    /** Does nothing: its presence among the actions of a step is the refusal. */
    refuse: (_, _params: { code: ErrorCode; limit?: KeyLimit }) => {},
    /** Does nothing: the call would be accepted. */
    accept: () => {},
    tellLow: emit(({ context }, { tier, from }: { tier: AgentTier; from: AgentTier }) => ({
      type: 'low_balance' as const,
      tier,
      from,
      balance: balanceOf(context),
    })),
    hold: assign(({ context, event }) => {
      assertEvent(event, 'HOLD')
      const { callId, amount, keyId, taskId, backpackId, at, tool, idempotencyKey } = event
      const { payment = null } = event
      const lent = lentTo(context, callId)
      const own = ownPart(context, callId, amount)
      const taken = payment === null ? promoFirst(context, own) : NOTHING
      const hold = {
        ...more(lent, taken),
        external: payment === null ? ZERO : amount,
        payment,
        loans: loansTo(context, callId),
        keyId,
        capped: isCapped(event),
        taskId,
        backpackId,
        at,
        tool,
        idempotencyKey,
      }
      return {
        ...less(context, taken),
        held: add(context.held, free(taken)),
        holds: { ...context.holds, [callId]: hold },
      }
    }),
    capture: assign(({ context, event }) => {
      assertEvent(event, 'CAPTURE')
      const hold = heldBy(context, event.callId)
      return {
        ...more(context, ownBack(hold, event.amount)),
        held: subtract(context.held, free(hold)),
        holds: without(context.holds, event.callId),
        ...keySpending(context, hold, { amount: event.amount, heldAt: hold.at, at: event.at }),
      }
    }),
    release: assign(({ context, event }) => {
      assertEvent(event, 'RELEASE')
      const hold = heldBy(context, event.callId)
      return {
        ...more(context, ownBack(hold, ZERO)),
        held: subtract(context.held, free(hold)),
        holds: without(context.holds, event.callId),
      }
    }),
    lend: assign(({ context, event }) => {
      assertEvent(event, 'LEND')
      const { fleetId, callId, held, bonus, at } = event
      const loan = { fleetId, promo: bonus, cash: subtract(held, bonus) }
      const hold = lentHold(context, callId, loan, at)
      return {
        held: add(context.held, held),
        holds: { ...context.holds, [callId]: hold },
      }
    }),
    charge: assign(({ context, event }) => {
      assertEvent(event, 'CHARGE')
      const { callId, amount } = event
      const lent = callId === undefined ? NOTHING : lentTo(context, callId)
      return {
        ...less(context, promoFirst(context, ownPart(context, callId, amount))),
        held: subtract(context.held, free(lent)),
        holds: free(lent) === ZERO ? context.holds : without(context.holds, callId ?? ''),
        ...keySpending(context, { keyId: event.keyId, capped: isCapped(event) }, event),
      }
    }),
    credit: assign(({ context, event }) => {
      assertEvent(event, 'CREDIT')
      return more(context, event)
    }),
    debit: assign(({ context, event }) => {
      assertEvent(event, 'DEBIT')
      const { amount, from, keyId, at } = event
      const parts = from === 'any' ? promoFirst(context, amount) : { promo: ZERO, cash: amount }
      const spent = { amount, heldAt: at, at }
      return {
        ...less(context, parts),
        ...keySpending(context, { keyId, capped: isCapped(event) }, spent),
      }
    }),
    deposit: assign(({ context, event }) => {
      assertEvent(event, 'DEPOSIT')
      return deposited(context, event.id, event.pending)
    }),
    undoDeposit: assign(({ context, event }) => {
      assertEvent(event, 'UNDO_DEPOSIT')
      return undone(context, event.id, event.amount)
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
      ...caps,
      { actions: { type: 'refuse', params: { code: 'payment_required' } } },
    ],
    HOLD: [
      { guard: 'isLetIn', actions: { type: 'refuse', params: { code: 'call_settled' } } },
      { guard: 'coversAsked', actions: 'hold' },
      ...caps,
      { actions: { type: 'refuse', params: { code: 'payment_required' } } },
    ],
    CHARGE: [
      { guard: 'coversCharge', actions: 'charge' },
      ...caps,
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
      ...caps,
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

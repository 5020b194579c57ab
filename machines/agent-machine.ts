import { ZERO_MICROS } from '../core/money.ts'
import { agentMachineSetup } from './agent/agent-guards-and-actions.ts'

/** The balance of an agent: holds, charges, credits, key caps, balance tiers, the freeze. */

/**
 * The balance of an agent. Promotional credits are spent before cash, held money belongs to one
 * call, a key may have caps. Tiers follow the agent's own balance; falling into a lower tier emits
 * `low_balance` once. A frozen agent spends nothing; calls that were admitted before end as usual, and
 * credits still arrive.
 */
export const agentMachine = agentMachineSetup.createMachine({
  id: 'agent',
  context: ({ input: { agentId, promo, cash, referrer = null, parent = null } }) => ({
    agentId,
    promo,
    cash,
    held: ZERO_MICROS,
    holds: {},
    keySpent: {},
    keyWindows: {},
    pending: ZERO_MICROS,
    firstDeposit: null,
    activated: false,
    referrer,
    parent,
    fleetId: null,
    frozen: null,
  }),
  initial: 'assessing',
  on: {
    ASK: [
      { guard: { type: 'coversAsked', params: ({ event }) => event } },
      {
        guard: { type: 'exceedsTotalCap', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'key_cap_exceeded', limit: 'total' } },
      },
      {
        guard: { type: 'exceedsDayCap', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'key_cap_exceeded', limit: 'per_day' } },
      },
      {
        guard: { type: 'exceedsMonthCap', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'key_cap_exceeded', limit: 'per_month' } },
      },
      {
        guard: { type: 'onlyPromoCovers', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'cash_required' } },
      },
      { actions: { type: 'reject', params: { code: 'payment_required' } } },
    ],
    HOLD: [
      {
        guard: { type: 'isLetIn', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'call_settled' } },
      },
      {
        guard: { type: 'coversAsked', params: ({ event }) => event },
        actions: { type: 'hold', params: ({ event }) => event },
      },
      {
        guard: { type: 'exceedsTotalCap', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'key_cap_exceeded', limit: 'total' } },
      },
      {
        guard: { type: 'exceedsDayCap', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'key_cap_exceeded', limit: 'per_day' } },
      },
      {
        guard: { type: 'exceedsMonthCap', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'key_cap_exceeded', limit: 'per_month' } },
      },
      {
        guard: { type: 'onlyPromoCovers', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'cash_required' } },
      },
      { actions: { type: 'reject', params: { code: 'payment_required' } } },
    ],
    SPEND: [
      {
        guard: { type: 'coversAsked', params: ({ event }) => event },
        actions: { type: 'spend', params: ({ event }) => event },
      },
      {
        guard: { type: 'exceedsTotalCap', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'key_cap_exceeded', limit: 'total' } },
      },
      {
        guard: { type: 'exceedsDayCap', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'key_cap_exceeded', limit: 'per_day' } },
      },
      {
        guard: { type: 'exceedsMonthCap', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'key_cap_exceeded', limit: 'per_month' } },
      },
      { actions: { type: 'reject', params: { code: 'payment_required' } } },
    ],
    CHARGE: [
      {
        guard: { type: 'coversCharge', params: ({ event }) => event },
        actions: { type: 'charge', params: ({ event }) => event },
      },
      {
        guard: { type: 'exceedsTotalCap', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'key_cap_exceeded', limit: 'total' } },
      },
      {
        guard: { type: 'exceedsDayCap', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'key_cap_exceeded', limit: 'per_day' } },
      },
      {
        guard: { type: 'exceedsMonthCap', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'key_cap_exceeded', limit: 'per_month' } },
      },
      { actions: { type: 'reject', params: { code: 'payment_required' } } },
    ],
    CAPTURE: [
      {
        guard: { type: 'coversCapture', params: ({ event }) => event },
        actions: { type: 'capture', params: ({ event }) => event },
      },
      { actions: { type: 'reject', params: { code: 'call_settled' } } },
    ],
    RELEASE: [
      {
        guard: { type: 'isHeld', params: ({ event }) => event },
        actions: { type: 'release', params: ({ event }) => event },
      },
      { actions: { type: 'reject', params: { code: 'call_settled' } } },
    ],
    CREDIT: { actions: { type: 'credit', params: ({ event }) => event } },
    DEPOSIT: { actions: { type: 'deposit', params: ({ event }) => event } },
    LEND: [
      {
        guard: { type: 'isLetIn', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'call_settled' } },
      },
      { actions: { type: 'lend', params: ({ event }) => event } },
    ],
    UNDO_DEPOSIT: { actions: { type: 'undoDeposit', params: ({ event }) => event } },
    JOIN_FLEET: [
      {
        guard: 'inFleet',
        actions: { type: 'reject', params: { code: 'already_in_fleet' } },
      },
      { actions: { type: 'joinFleet', params: ({ event }) => event } },
    ],
    LEAVE_FLEET: [
      { guard: { type: 'inThatFleet', params: ({ event }) => event }, actions: 'leaveFleet' },
      { actions: { type: 'reject', params: { code: 'not_in_fleet' } } },
    ],
    DEBIT: [
      {
        guard: { type: 'coversDebit', params: ({ event }) => event },
        actions: { type: 'debit', params: ({ event }) => event },
      },
      {
        guard: { type: 'exceedsTotalCap', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'key_cap_exceeded', limit: 'total' } },
      },
      {
        guard: { type: 'exceedsDayCap', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'key_cap_exceeded', limit: 'per_day' } },
      },
      {
        guard: { type: 'exceedsMonthCap', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'key_cap_exceeded', limit: 'per_month' } },
      },
      {
        guard: { type: 'onlyPromoCovers', params: ({ event }) => event },
        actions: { type: 'reject', params: { code: 'promo_not_transferable' } },
      },
      { actions: { type: 'reject', params: { code: 'payment_required' } } },
    ],
    FREEZE: {
      target: '.frozen',
      actions: { type: 'freeze', params: ({ event }) => event },
    },
    UNFREEZE: {},
    '*': { actions: { type: 'reject', params: { code: 'internal' } } },
  },
  states: {
    assessing: {
      always: [
        { guard: { type: 'inTier', params: { tier: 'healthy' } }, target: 'healthy' },
        { guard: { type: 'inTier', params: { tier: 'warning' } }, target: 'warning' },
        { guard: { type: 'inTier', params: { tier: 'critical' } }, target: 'critical' },
        { target: 'empty' },
      ],
    },
    healthy: {
      always: {
        guard: { type: 'fallsFrom', params: { tier: 'healthy' } },
        target: 'assessing',
        actions: { type: 'tellLow', params: { from: 'healthy' } },
      },
    },
    warning: {
      always: [
        {
          guard: { type: 'fallsFrom', params: { tier: 'warning' } },
          target: 'assessing',
          actions: { type: 'tellLow', params: { from: 'warning' } },
        },
        { guard: { type: 'risesFrom', params: { tier: 'warning' } }, target: 'assessing' },
      ],
    },
    critical: {
      always: [
        {
          guard: { type: 'fallsFrom', params: { tier: 'critical' } },
          target: 'assessing',
          actions: { type: 'tellLow', params: { from: 'critical' } },
        },
        { guard: { type: 'risesFrom', params: { tier: 'critical' } }, target: 'assessing' },
      ],
    },
    empty: {
      always: { guard: { type: 'risesFrom', params: { tier: 'empty' } }, target: 'assessing' },
    },
    frozen: {
      on: {
        ASK: { actions: { type: 'reject', params: { code: 'agent_frozen' } } },
        HOLD: { actions: { type: 'reject', params: { code: 'agent_frozen' } } },
        SPEND: { actions: { type: 'reject', params: { code: 'agent_frozen' } } },
        DEBIT: { actions: { type: 'reject', params: { code: 'agent_frozen' } } },
        // A call that was admitted before ends as if nothing had happened.
        CHARGE: {
          guard: { type: 'isAdmittedSinceFreeze', params: ({ event }) => event },
          actions: { type: 'reject', params: { code: 'agent_frozen' } },
        },
        FREEZE: {},
        UNFREEZE: [
          {
            guard: 'fellWhileFrozen',
            target: 'assessing',
            actions: ['tellFallWhileFrozen', 'unfreeze'],
          },
          { target: 'assessing', actions: 'unfreeze' },
        ],
      },
    },
  },
})

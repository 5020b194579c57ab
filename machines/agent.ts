import { assertEvent, assign, emit, setup } from 'xstate'
import type { ErrorCode } from '../core/errors.ts'
import { add, least, micros, subtract, sum, ZERO, type Micros } from '../core/money.ts'
import { CRITICAL_BALANCE, WARNING_BALANCE } from '../core/prices.ts'

export type AgentTier = 'healthy' | 'warning' | 'critical' | 'empty'

/** Money set aside for one running call, by where it came from. */
export interface AgentHold {
  readonly promo: Micros
  readonly cash: Micros
  readonly keyId: string | null
  /** The key has a spending cap, so a capture counts against it. */
  readonly capped: boolean
  readonly taskId: string | null
  readonly backpackId: string | null
  readonly at: number
  readonly tool: string
  readonly idempotencyKey: string | null
}

export interface AgentContext {
  readonly agentId: string
  /** Free promotional credits; held money has already left them. */
  readonly promo: Micros
  /** Free deposited credits; held money has already left them. */
  readonly cash: Micros
  readonly held: Micros
  readonly holds: Readonly<Record<string, AgentHold>>
  /** What each key with a spending cap has spent. */
  readonly keySpent: Readonly<Record<string, Micros>>
}

export interface AgentInput {
  readonly agentId: string
  readonly promo: Micros
  readonly cash: Micros
}

interface Wanted {
  readonly amount: Micros
  /** What other calls hold in memory right now. */
  readonly reserved: Micros
  readonly keyId: string | null
  readonly keyCap: Micros | null
  /** The part of `reserved` that belongs to this key. */
  readonly keyReserved: Micros
  readonly at: number
}

export type AgentEvent =
  | ({ readonly type: 'ASK'; readonly callId?: string } & Wanted)
  | ({
      readonly type: 'HOLD'
      readonly callId: string
      readonly taskId: string | null
      readonly backpackId: string | null
      readonly tool: string
      readonly idempotencyKey: string | null
    } & Wanted)
  | {
      readonly type: 'CHARGE'
      readonly amount: Micros
      readonly keyId: string | null
      readonly keyCap: Micros | null
    }
  | { readonly type: 'CAPTURE'; readonly callId: string; readonly amount: Micros }
  | { readonly type: 'RELEASE'; readonly callId: string }
  | { readonly type: 'CREDIT'; readonly promo: Micros; readonly cash: Micros }
  | {
      readonly type: 'DEBIT'
      readonly amount: Micros
      readonly reserved: Micros
      /** `cash` leaves promotional credits untouched; `any` takes them first. */
      readonly from: 'cash' | 'any'
    }

export interface AgentEmitted {
  readonly type: 'low_balance'
  readonly tier: AgentTier
  readonly balance: Micros
}

type Purse = Pick<AgentContext, 'promo' | 'cash'>

const free = ({ promo, cash }: Purse): Micros => add(promo, cash)
const balanceOf = (context: AgentContext): Micros => add(free(context), context.held)

function tierOf(balance: Micros): AgentTier {
  if (balance <= ZERO) return 'empty'
  if (balance <= CRITICAL_BALANCE) return 'critical'
  return balance <= WARNING_BALANCE ? 'warning' : 'healthy'
}

/** What an amount takes from promotional credits, then from cash. */
function promoFirst(purse: Purse, amount: Micros): Purse {
  const promo = least(purse.promo, amount)
  return { promo, cash: subtract(amount, promo) }
}

const less = (purse: Purse, part: Purse): Purse => ({
  promo: subtract(purse.promo, part.promo),
  cash: subtract(purse.cash, part.cash),
})

const more = (purse: Purse, part: Purse): Purse => ({
  promo: add(purse.promo, part.promo),
  cash: add(purse.cash, part.cash),
})

type Keyed = Pick<Wanted, 'amount' | 'keyId' | 'keyCap'>

function fitsKeyCap(context: AgentContext, { amount, keyId, keyCap }: Keyed, reserved: Micros) {
  if (amount === ZERO || keyId === null || keyCap === null) return true
  const holds = Object.values(context.holds).filter((hold) => hold.keyId === keyId)
  const spent = context.keySpent[keyId] ?? ZERO
  return sum([spent, ...holds.map(free), reserved, amount]) <= keyCap
}

const funds = (purse: Purse, amount: Micros, reserved: Micros): boolean =>
  amount === ZERO || free(purse) - reserved >= amount

/** Cash not needed by calls in memory, which take promotional credits first. */
function freeCash({ promo, cash }: Purse, reserved: Micros): Micros {
  return reserved > promo ? micros(cash - (reserved - promo)) : cash
}

function keySpending(context: AgentContext, keyId: string | null, capped: boolean, amount: Micros) {
  if (keyId === null || !capped) return context.keySpent
  return { ...context.keySpent, [keyId]: add(context.keySpent[keyId] ?? ZERO, amount) }
}

function without(holds: AgentContext['holds'], callId: string): AgentContext['holds'] {
  return Object.fromEntries(Object.entries(holds).filter(([id]) => id !== callId))
}

function heldBy(context: AgentContext, callId: string): AgentHold {
  const hold = context.holds[callId]
  if (hold === undefined) throw new Error(`no hold of call ${callId}`)
  return hold
}

/**
 * The purse of an agent: promotional credits are spent before cash, held money belongs to one call,
 * a key may have a cap. Tiers follow the whole balance, and falling into one is told once.
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
      assertEvent(event, ['HOLD', 'CAPTURE', 'RELEASE'])
      return Object.hasOwn(context.holds, event.callId)
    },
    coversAsked: ({ context, event }) => {
      assertEvent(event, ['ASK', 'HOLD'])
      const { amount, reserved } = event
      return fitsKeyCap(context, event, event.keyReserved) && funds(context, amount, reserved)
    },
    exceedsKeyCapAsked: ({ context, event }) => {
      assertEvent(event, ['ASK', 'HOLD'])
      return !fitsKeyCap(context, event, event.keyReserved)
    },
    coversCharge: ({ context, event }) => {
      assertEvent(event, 'CHARGE')
      return fitsKeyCap(context, event, ZERO) && funds(context, event.amount, ZERO)
    },
    exceedsKeyCapCharged: ({ context, event }) => {
      assertEvent(event, 'CHARGE')
      return !fitsKeyCap(context, event, ZERO)
    },
    coversCapture: ({ context, event }) => {
      assertEvent(event, 'CAPTURE')
      const hold = context.holds[event.callId]
      return hold !== undefined && event.amount <= free(hold)
    },
    coversDebit: ({ context, event }) => {
      assertEvent(event, 'DEBIT')
      const { amount, reserved, from } = event
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
    refuse: (_, _params: { code: ErrorCode }) => {},
    /** Does nothing: the call would be accepted. */
    accept: () => {},
    tellLow: emit(({ context }, { tier }: { tier: AgentTier }) => ({
      type: 'low_balance' as const,
      tier,
      balance: balanceOf(context),
    })),
    hold: assign(({ context, event }) => {
      assertEvent(event, 'HOLD')
      const { callId, amount, keyId, keyCap, taskId, backpackId, at, tool, idempotencyKey } = event
      const taken = promoFirst(context, amount)
      const capped = keyId !== null && keyCap !== null
      const hold = { ...taken, keyId, capped, taskId, backpackId, at, tool, idempotencyKey }
      return {
        ...less(context, taken),
        held: add(context.held, amount),
        holds: { ...context.holds, [callId]: hold },
      }
    }),
    capture: assign(({ context, event }) => {
      assertEvent(event, 'CAPTURE')
      const hold = heldBy(context, event.callId)
      const unused = less(hold, promoFirst(hold, event.amount))
      return {
        ...more(context, unused),
        held: subtract(context.held, free(hold)),
        holds: without(context.holds, event.callId),
        keySpent: keySpending(context, hold.keyId, hold.capped, event.amount),
      }
    }),
    release: assign(({ context, event }) => {
      assertEvent(event, 'RELEASE')
      const hold = heldBy(context, event.callId)
      return {
        ...more(context, hold),
        held: subtract(context.held, free(hold)),
        holds: without(context.holds, event.callId),
      }
    }),
    charge: assign(({ context, event }) => {
      assertEvent(event, 'CHARGE')
      const { amount, keyId, keyCap } = event
      return {
        ...less(context, promoFirst(context, amount)),
        keySpent: keySpending(context, keyId, keyCap !== null, amount),
      }
    }),
    credit: assign(({ context, event }) => {
      assertEvent(event, 'CREDIT')
      return more(context, event)
    }),
    debit: assign(({ context, event }) => {
      assertEvent(event, 'DEBIT')
      const { amount, from } = event
      return less(
        context,
        from === 'any' ? promoFirst(context, amount) : { promo: ZERO, cash: amount },
      )
    }),
  },
}).createMachine({
  id: 'agent',
  context: ({ input: { agentId, promo, cash } }) => ({
    agentId,
    promo,
    cash,
    held: ZERO,
    holds: {},
    keySpent: {},
  }),
  initial: 'opening',
  on: {
    ASK: [
      { guard: 'coversAsked', actions: 'accept' },
      {
        guard: 'exceedsKeyCapAsked',
        actions: { type: 'refuse', params: { code: 'key_cap_exceeded' } },
      },
      { actions: { type: 'refuse', params: { code: 'payment_required' } } },
    ],
    HOLD: [
      { guard: 'isHeld', actions: { type: 'refuse', params: { code: 'call_settled' } } },
      { guard: 'coversAsked', actions: 'hold' },
      {
        guard: 'exceedsKeyCapAsked',
        actions: { type: 'refuse', params: { code: 'key_cap_exceeded' } },
      },
      { actions: { type: 'refuse', params: { code: 'payment_required' } } },
    ],
    CHARGE: [
      { guard: 'coversCharge', actions: 'charge' },
      {
        guard: 'exceedsKeyCapCharged',
        actions: { type: 'refuse', params: { code: 'key_cap_exceeded' } },
      },
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
    DEBIT: [
      { guard: 'coversDebit', actions: 'debit' },
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
          actions: { type: 'tellLow', params: { tier: 'warning' } },
        },
        {
          guard: { type: 'inTier', params: { tier: 'critical' } },
          target: 'critical',
          actions: { type: 'tellLow', params: { tier: 'critical' } },
        },
        {
          guard: { type: 'inTier', params: { tier: 'empty' } },
          target: 'empty',
          actions: { type: 'tellLow', params: { tier: 'empty' } },
        },
      ],
    },
    warning: {
      always: [
        { guard: { type: 'inTier', params: { tier: 'healthy' } }, target: 'healthy' },
        {
          guard: { type: 'inTier', params: { tier: 'critical' } },
          target: 'critical',
          actions: { type: 'tellLow', params: { tier: 'critical' } },
        },
        {
          guard: { type: 'inTier', params: { tier: 'empty' } },
          target: 'empty',
          actions: { type: 'tellLow', params: { tier: 'empty' } },
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
          actions: { type: 'tellLow', params: { tier: 'empty' } },
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

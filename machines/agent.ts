import { assertEvent, assign, emit, setup } from 'xstate'
import type { ErrorCode } from '../core/errors.ts'
import { add, least, micros, subtract, sum, ZERO, type Micros } from '../core/money.ts'
import {
  CRITICAL_BALANCE,
  FIRST_DEPOSIT_BONUS_BPS,
  SMALLEST_DEPOSIT,
  WARNING_BALANCE,
} from '../core/prices.ts'

export type AgentTier = 'healthy' | 'warning' | 'critical' | 'empty'

/** The payment that settles a call in place of the purse. */
export interface PaymentRef {
  /** Its aggregate. */
  readonly payer: string
  readonly settlement: string
  readonly chain: 'base' | 'bsc' | 'solana' | 'tempo'
}

/** Money set aside for one running call, by where it came from. */
export interface AgentHold {
  readonly promo: Micros
  readonly cash: Micros
  /** Paid on another rail: it counts in every limit, and is not of this purse. */
  readonly external: Micros
  readonly payment: PaymentRef | null
  /** The part that a fleet's pool lent; what is not used goes back there. */
  readonly drawn: Micros
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
  /** Deposits below the smallest one that is credited. */
  readonly pending: Micros
  /** The first credited deposit and the bonus it brought; null before it. */
  readonly firstDeposit: { readonly id: string; readonly bonus: Micros } | null
  /** Who earns a share of this agent's calls. */
  readonly referrer: string | null
  /** Whose pool it draws on when it is short. */
  readonly fleetId: string | null
}

export interface AgentInput {
  readonly agentId: string
  readonly promo: Micros
  readonly cash: Micros
  readonly referrer?: string | null
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
  /** Another rail pays: the balance is not asked. */
  readonly payment?: PaymentRef | null
  /** How much of it a fleet's pool has just lent. */
  readonly drawn?: Micros
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
  /** USDC that arrived for this agent; what is credited and what it brings follows from its history. */
  | { readonly type: 'DEPOSIT'; readonly id: string; readonly pending: Micros }
  /** Takes what is there, at most `amount`: pending, then cash, then (`any`) promotional credits. */
  | { readonly type: 'TAKE_BACK'; readonly amount: Micros; readonly from: 'cash' | 'any' }
  /** A deposit that the chain has undone, and the bonus if it brought one. */
  | { readonly type: 'UNDO_DEPOSIT'; readonly id: string; readonly amount: Micros }
  | { readonly type: 'JOIN_FLEET'; readonly fleetId: string }

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
  return sum([spent, ...holds.map(worth), reserved, amount]) <= keyCap
}

/** All that a hold keeps for its call, whoever pays. */
const worth = (hold: AgentHold): Micros => add(free(hold), hold.external)

const funds = (purse: Purse, amount: Micros, reserved: Micros): boolean =>
  amount === ZERO || free(purse) - reserved >= amount

/** Cash not needed by calls in memory, which take promotional credits first. */
function freeCash({ promo, cash }: Purse, reserved: Micros): Micros {
  return reserved > promo ? micros(cash - (reserved - promo)) : cash
}

const NOTHING: Purse = { promo: ZERO, cash: ZERO }

/** Below the smallest deposit it accumulates; the first that is credited brings a bonus, once. */
function deposited(context: AgentContext, id: string, amount: Micros): Partial<AgentContext> {
  const pending = add(context.pending, amount)
  if (pending < SMALLEST_DEPOSIT) return { pending }
  const cash = add(context.cash, pending)
  if (context.firstDeposit !== null) return { pending: ZERO, cash }
  const bonus = micros((pending * FIRST_DEPOSIT_BONUS_BPS) / 10_000n)
  return { pending: ZERO, cash, promo: add(context.promo, bonus), firstDeposit: { id, bonus } }
}

type Wealth = Pick<AgentContext, 'pending' | 'promo' | 'cash'>

function takenBack(purse: Wealth, amount: Micros, from: 'cash' | 'any'): Wealth {
  const pending = from === 'any' ? least(purse.pending, amount) : ZERO
  const cash = least(purse.cash, subtract(amount, pending))
  const rest = subtract(subtract(amount, pending), cash)
  const promo = from === 'any' ? least(purse.promo, rest) : ZERO
  return {
    pending: subtract(purse.pending, pending),
    cash: subtract(purse.cash, cash),
    promo: subtract(purse.promo, promo),
  }
}

function undone(context: AgentContext, id: string, amount: Micros): Partial<AgentContext> {
  const { firstDeposit } = context
  if (firstDeposit?.id !== id) return takenBack(context, amount, 'any')
  // The bonus first, so that what it leaves of the promotional credits can stand in for cash.
  const promo = subtract(context.promo, least(context.promo, firstDeposit.bonus))
  return { ...takenBack({ ...context, promo }, amount, 'any'), firstDeposit: null }
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
      const { amount, reserved, payment = null } = event
      if (!fitsKeyCap(context, event, event.keyReserved)) return false
      return payment !== null || funds(context, amount, reserved)
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
      return hold !== undefined && event.amount <= worth(hold)
    },
    inFleet: ({ context }) => context.fleetId !== null,
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
      const { payment = null, drawn = ZERO } = event
      const taken = payment === null ? promoFirst(context, amount) : NOTHING
      const hold = {
        ...taken,
        external: payment === null ? ZERO : amount,
        payment,
        drawn,
        keyId,
        capped: keyId !== null && keyCap !== null,
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
      const used = hold.payment !== null ? NOTHING : promoFirst(hold, event.amount)
      const unused = less(hold, used)
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
    deposit: assign(({ context, event }) => {
      assertEvent(event, 'DEPOSIT')
      return deposited(context, event.id, event.pending)
    }),
    takeBack: assign(({ context, event }) => {
      assertEvent(event, 'TAKE_BACK')
      return takenBack(context, event.amount, event.from)
    }),
    undoDeposit: assign(({ context, event }) => {
      assertEvent(event, 'UNDO_DEPOSIT')
      return undone(context, event.id, event.amount)
    }),
    joinFleet: assign(({ event }) => {
      assertEvent(event, 'JOIN_FLEET')
      return { fleetId: event.fleetId }
    }),
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
    pending: ZERO,
    firstDeposit: null,
    referrer,
    fleetId: null,
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
    DEPOSIT: { actions: 'deposit' },
    TAKE_BACK: { actions: 'takeBack' },
    UNDO_DEPOSIT: { actions: 'undoDeposit' },
    JOIN_FLEET: [
      {
        guard: 'inFleet',
        actions: { type: 'refuse', params: { code: 'already_in_fleet' } },
      },
      { actions: 'joinFleet' },
    ],
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

import { assertEvent, assign, setup } from 'xstate'
import type { ErrorCode } from '../core/errors.ts'
import { addMicros, minMicros, subtractMicros, ZERO, type Micros } from '../core/money.ts'
import {
  MAX_OPTIMISTIC_CALL_PRICE,
  MAX_OPTIMISTIC_PAYER_CAP,
  INITIAL_OPTIMISTIC_PAYER_CAP,
} from '../domain/pricing.ts'

/** A payer address: reservations of its balance and the limit on unsettled calls. */

export interface PayerInput {
  /** CAIP-10 account id. */
  readonly payer: string
}

/** The part of a payer's balance that an unsettled payment reserves. */
export interface PayerReservation {
  readonly asset: string
  /** Atomic units of the asset. */
  readonly amount: bigint
  readonly price: Micros
  readonly mode: 'optimistic' | 'first'
}

export interface PayerContext {
  readonly payer: string
  /** By settlement: claimed, and not settled, released or lost. */
  readonly reservations: Readonly<Record<string, PayerReservation>>
  /** Sum of the prices of all reservations. */
  readonly inFlight: Micros
  readonly settledTotal: Micros
  /** Value of delivered calls whose payments were lost. */
  readonly losses: Micros
  /** Limit on the total price of calls that run before settlement. */
  readonly cap: Micros
  /** A balance read before this block is too old: it counts settled money again. */
  readonly lastSettledBlock: bigint
}

interface PayerReserveRequest {
  readonly settlement: string
  readonly asset: string
  readonly amount: bigint
  readonly price: Micros
  readonly mode: 'optimistic' | 'first'
  /** The payer's balance of the asset; null when unknown, which forces settlement first. */
  readonly balance: bigint | null
  /** The block of the balance. */
  readonly balanceBlock: bigint
  /** Whether the limit over all payers admits one more optimistic call. */
  readonly globalRoom: boolean
}

export type PayerEvent =
  | ({ readonly type: 'RESERVE' } & PayerReserveRequest)
  | { readonly type: 'RELEASE'; readonly settlement: string }
  | {
      readonly type: 'SETTLE'
      readonly settlement: string
      readonly price: Micros
      readonly block: bigint
    }
  /** The chain has undone a settled payment: it is open again. */
  | ({ readonly type: 'UNSETTLE'; readonly settlement: string } & PayerReservation)
  | {
      readonly type: 'LOSE'
      readonly settlement: string
      readonly price: Micros
      readonly delivered: boolean
    }

const reservedAmount = ({ reservations }: PayerContext, asset: string): bigint =>
  Object.values(reservations)
    .filter((one) => one.asset === asset)
    .reduce((all, { amount }) => all + amount, 0n)

const isReserved = ({ reservations }: PayerContext, settlement: string): boolean =>
  Object.hasOwn(reservations, settlement)

const isStaleBalance = (
  context: PayerContext,
  { balance, balanceBlock }: PayerReserveRequest,
): boolean => balance !== null && balanceBlock < context.lastSettledBlock

const coversPayment = (
  context: PayerContext,
  { balance, asset, amount }: PayerReserveRequest,
): boolean => balance === null || reservedAmount(context, asset) + amount <= balance

function canRunBeforeSettlement(
  { inFlight, cap }: PayerContext,
  wanted: PayerReserveRequest,
): boolean {
  const { mode, balance, globalRoom, price } = wanted
  const wished = mode === 'optimistic' && balance !== null && globalRoom
  return wished && price <= MAX_OPTIMISTIC_CALL_PRICE && inFlight + price <= cap
}

function withoutReservation(context: PayerContext, settlement: string) {
  const { [settlement]: gone, ...reservations } = context.reservations
  return gone === undefined
    ? {}
    : { reservations, inFlight: subtractMicros(context.inFlight, gone.price) }
}

/**
 * A payer address: the balance that open payments reserve, and the limit on calls that run before
 * settlement. The limit grows with settled payments; one loss ends optimistic calls permanently.
 */
export const payerMachine = setup({
  types: {} as { context: PayerContext; events: PayerEvent; input: PayerInput },
  guards: {
    isReserved: ({ context, event }) => isReserved(context, event.settlement),
    readTooEarly: ({ context, event }) => {
      assertEvent(event, 'RESERVE')
      return isStaleBalance(context, event)
    },
    lacksBalance: ({ context, event }) => {
      assertEvent(event, 'RESERVE')
      return !coversPayment(context, event)
    },
    mayRunFirst: ({ context, event }) => {
      assertEvent(event, 'RESERVE')
      return canRunBeforeSettlement(context, event)
    },
    wasDelivered: ({ event }) => {
      assertEvent(event, 'LOSE')
      return event.delivered
    },
  },
  actions: {
    /** Does nothing. Its presence among the actions of a step means rejection. */
    refuse: (_, _params: { code: ErrorCode; reason?: string; stale_balance?: true }) => {},
    reserve: assign(({ context, event }, { mode }: { mode: 'optimistic' | 'first' }) => {
      assertEvent(event, 'RESERVE')
      const { settlement, asset, amount, price } = event
      return {
        reservations: { ...context.reservations, [settlement]: { asset, amount, price, mode } },
        inFlight: addMicros(context.inFlight, price),
      }
    }),
    free: assign(({ context, event }) => withoutReservation(context, event.settlement)),
    settle: assign(({ context, event }) => {
      assertEvent(event, 'SETTLE')
      const settledTotal = addMicros(context.settledTotal, event.price)
      const { lastSettledBlock } = context
      return {
        ...withoutReservation(context, event.settlement),
        settledTotal,
        lastSettledBlock: event.block > lastSettledBlock ? event.block : lastSettledBlock,
      }
    }),
    unsettle: assign(({ context, event }) => {
      assertEvent(event, 'UNSETTLE')
      const { settlement, asset, amount, price, mode } = event
      return {
        reservations: { ...context.reservations, [settlement]: { asset, amount, price, mode } },
        inFlight: addMicros(context.inFlight, price),
        settledTotal: subtractMicros(context.settledTotal, price),
      }
    }),
    growCap: assign(({ context }) => ({
      cap: minMicros(
        MAX_OPTIMISTIC_PAYER_CAP,
        addMicros(INITIAL_OPTIMISTIC_PAYER_CAP, context.settledTotal),
      ),
    })),
    countLoss: assign(({ context, event }) => {
      assertEvent(event, 'LOSE')
      return {
        ...withoutReservation(context, event.settlement),
        losses: addMicros(context.losses, event.price),
        cap: ZERO,
      }
    }),
  },
}).createMachine({
  id: 'payer',
  context: ({ input }) => ({
    payer: input.payer,
    reservations: {},
    inFlight: ZERO,
    settledTotal: ZERO,
    losses: ZERO,
    cap: INITIAL_OPTIMISTIC_PAYER_CAP,
    lastSettledBlock: 0n,
  }),
  initial: 'trusted',
  on: {
    RELEASE: { actions: 'free' },
    '*': { actions: { type: 'refuse', params: { code: 'internal' } } },
  },
  states: {
    trusted: {
      on: {
        RESERVE: [
          {
            guard: 'isReserved',
            actions: { type: 'refuse', params: { code: 'payment_in_progress' } },
          },
          {
            guard: 'readTooEarly',
            actions: {
              type: 'refuse',
              params: {
                code: 'payment_invalid',
                reason: 'insufficient_balance',
                stale_balance: true,
              },
            },
          },
          {
            guard: 'lacksBalance',
            actions: {
              type: 'refuse',
              params: { code: 'payment_invalid', reason: 'insufficient_balance' },
            },
          },
          {
            guard: 'mayRunFirst',
            actions: { type: 'reserve', params: { mode: 'optimistic' } },
          },
          { actions: { type: 'reserve', params: { mode: 'first' } } },
        ],
        SETTLE: { actions: ['settle', 'growCap'] },
        UNSETTLE: { actions: ['unsettle', 'growCap'] },
        LOSE: [
          { guard: 'wasDelivered', target: 'blocked', actions: 'countLoss' },
          { actions: 'free' },
        ],
      },
    },
    blocked: {
      on: {
        RESERVE: [
          {
            guard: 'isReserved',
            actions: { type: 'refuse', params: { code: 'payment_in_progress' } },
          },
          {
            guard: 'readTooEarly',
            actions: {
              type: 'refuse',
              params: {
                code: 'payment_invalid',
                reason: 'insufficient_balance',
                stale_balance: true,
              },
            },
          },
          {
            guard: 'lacksBalance',
            actions: {
              type: 'refuse',
              params: { code: 'payment_invalid', reason: 'insufficient_balance' },
            },
          },
          { actions: { type: 'reserve', params: { mode: 'first' } } },
        ],
        SETTLE: { actions: 'settle' },
        UNSETTLE: { actions: 'unsettle' },
        LOSE: [{ guard: 'wasDelivered', actions: 'countLoss' }, { actions: 'free' }],
      },
    },
  },
})

import { assign } from 'xstate'
import {
  addMicros,
  smallerOfTwoMicros,
  subtractMicros,
  ZERO_MICROS,
  type Micros,
} from '../core/money.ts'
import {
  MAX_OPTIMISTIC_CALL_PRICE,
  MAX_OPTIMISTIC_PAYER_CAP,
  INITIAL_OPTIMISTIC_PAYER_CAP,
} from '../domain/pricing.ts'
import { createBaseMachineSetup, type EventOfType } from './machine-setup.ts'
import type { SettlementMode } from './settlement/settlement-guards-and-actions.ts'

/** A payer address: reservations of its balance and the limit on unsettled calls. */

export interface PayerMachineInput {
  /** CAIP-10 account id. */
  readonly payer: string
}

/** The part of a payer's balance that an unsettled payment reserves. */
export interface PayerReservation {
  readonly asset: string
  /** Atomic units of the asset. */
  readonly amount: bigint
  readonly price: Micros
  readonly mode: SettlementMode
}

export interface PayerMachineContext {
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
  readonly mode: SettlementMode
  /** The payer's balance of the asset; null when unknown, which forces settlement first. */
  readonly balance: bigint | null
  /** The block of the balance. */
  readonly balanceBlock: bigint
  /** Whether the limit over all payers admits one more optimistic call. */
  readonly globalRoom: boolean
}

export type PayerMachineEvent =
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

const reservedAmount = ({ reservations }: PayerMachineContext, asset: string): bigint =>
  Object.values(reservations)
    .filter((one) => one.asset === asset)
    .reduce((all, { amount }) => all + amount, 0n)

const isReserved = ({ reservations }: PayerMachineContext, settlement: string): boolean =>
  Object.hasOwn(reservations, settlement)

const isStaleBalance = (
  context: PayerMachineContext,
  { balance, balanceBlock }: PayerReserveRequest,
): boolean => balance !== null && balanceBlock < context.lastSettledBlock

const coversPayment = (
  context: PayerMachineContext,
  { balance, asset, amount }: PayerReserveRequest,
): boolean => balance === null || reservedAmount(context, asset) + amount <= balance

function canRunBeforeSettlement(
  { inFlight, cap }: PayerMachineContext,
  wanted: PayerReserveRequest,
): boolean {
  const { mode, balance, globalRoom, price } = wanted
  const wished = mode === 'optimistic' && balance !== null && globalRoom
  return wished && price <= MAX_OPTIMISTIC_CALL_PRICE && inFlight + price <= cap
}

function withReservation(
  context: PayerMachineContext,
  {
    settlement,
    asset,
    amount,
    price,
  }: Omit<PayerReservation, 'mode'> & { readonly settlement: string },
  mode: PayerReservation['mode'],
) {
  return {
    reservations: { ...context.reservations, [settlement]: { asset, amount, price, mode } },
    inFlight: addMicros(context.inFlight, price),
  }
}

function withoutReservation(context: PayerMachineContext, settlement: string) {
  const { [settlement]: gone, ...reservations } = context.reservations
  return gone === undefined
    ? {}
    : { reservations, inFlight: subtractMicros(context.inFlight, gone.price) }
}

const payerSetup = createBaseMachineSetup<
  PayerMachineContext,
  PayerMachineEvent,
  PayerMachineInput
>().extend({
  guards: {
    isReserved: ({ context }, event: PayerMachineEvent) => isReserved(context, event.settlement),
    readTooEarly: ({ context }, event: EventOfType<PayerMachineEvent, 'RESERVE'>) =>
      isStaleBalance(context, event),
    lacksBalance: ({ context }, event: EventOfType<PayerMachineEvent, 'RESERVE'>) =>
      !coversPayment(context, event),
    mayRunFirst: ({ context }, event: EventOfType<PayerMachineEvent, 'RESERVE'>) =>
      canRunBeforeSettlement(context, event),
    withholdsAnswer: (_, event: EventOfType<PayerMachineEvent, 'RESERVE'>) =>
      event.mode === 'withheld',
    wasDelivered: (_, event: EventOfType<PayerMachineEvent, 'LOSE'>) => event.delivered,
  },
  actions: {
    reserveOptimistic: assign(({ context }, event: EventOfType<PayerMachineEvent, 'RESERVE'>) =>
      withReservation(context, event, 'optimistic'),
    ),
    reserveWithheld: assign(({ context }, event: EventOfType<PayerMachineEvent, 'RESERVE'>) =>
      withReservation(context, event, 'withheld'),
    ),
    reserveFirst: assign(({ context }, event: EventOfType<PayerMachineEvent, 'RESERVE'>) =>
      withReservation(context, event, 'first'),
    ),
    free: assign(({ context }, event: PayerMachineEvent) =>
      withoutReservation(context, event.settlement),
    ),
    settle: assign(({ context }, event: EventOfType<PayerMachineEvent, 'SETTLE'>) => {
      const settledTotal = addMicros(context.settledTotal, event.price)
      const { lastSettledBlock } = context
      return {
        ...withoutReservation(context, event.settlement),
        settledTotal,
        lastSettledBlock: event.block > lastSettledBlock ? event.block : lastSettledBlock,
      }
    }),
    unsettle: assign(({ context }, event: EventOfType<PayerMachineEvent, 'UNSETTLE'>) => ({
      ...withReservation(context, event, event.mode),
      settledTotal: subtractMicros(context.settledTotal, event.price),
    })),
    growCap: assign(({ context }) => ({
      cap: smallerOfTwoMicros(
        MAX_OPTIMISTIC_PAYER_CAP,
        addMicros(INITIAL_OPTIMISTIC_PAYER_CAP, context.settledTotal),
      ),
    })),
    countLoss: assign(({ context }, event: EventOfType<PayerMachineEvent, 'LOSE'>) => ({
      ...withoutReservation(context, event.settlement),
      losses: addMicros(context.losses, event.price),
      cap: ZERO_MICROS,
    })),
  },
})

/**
 * A payer address: the balance that open payments reserve, and the limit on calls that run before
 * settlement. The limit grows with settled payments; one loss ends such calls permanently.
 */
export const payerMachine = payerSetup.createMachine({
  id: 'payer',
  context: ({ input }) => ({
    payer: input.payer,
    reservations: {},
    inFlight: ZERO_MICROS,
    settledTotal: ZERO_MICROS,
    losses: ZERO_MICROS,
    cap: INITIAL_OPTIMISTIC_PAYER_CAP,
    lastSettledBlock: 0n,
  }),
  initial: 'trusted',
  on: {
    RELEASE: { actions: { type: 'free', params: ({ event }) => event } },
    '*': { actions: { type: 'reject', params: { code: 'internal' } } },
  },
  states: {
    trusted: {
      on: {
        RESERVE: [
          {
            guard: { type: 'isReserved', params: ({ event }) => event },
            actions: { type: 'reject', params: { code: 'payment_in_progress' } },
          },
          {
            guard: { type: 'readTooEarly', params: ({ event }) => event },
            actions: {
              type: 'reject',
              params: {
                code: 'payment_invalid',
                reason: 'insufficient_balance',
                stale_balance: true,
              },
            },
          },
          {
            guard: { type: 'lacksBalance', params: ({ event }) => event },
            actions: {
              type: 'reject',
              params: { code: 'payment_invalid', reason: 'insufficient_balance' },
            },
          },
          {
            guard: { type: 'withholdsAnswer', params: ({ event }) => event },
            actions: { type: 'reserveWithheld', params: ({ event }) => event },
          },
          {
            guard: { type: 'mayRunFirst', params: ({ event }) => event },
            actions: { type: 'reserveOptimistic', params: ({ event }) => event },
          },
          { actions: { type: 'reserveFirst', params: ({ event }) => event } },
        ],
        SETTLE: { actions: [{ type: 'settle', params: ({ event }) => event }, 'growCap'] },
        UNSETTLE: { actions: [{ type: 'unsettle', params: ({ event }) => event }, 'growCap'] },
        LOSE: [
          {
            guard: { type: 'wasDelivered', params: ({ event }) => event },
            target: 'blocked',
            actions: { type: 'countLoss', params: ({ event }) => event },
          },
          { actions: { type: 'free', params: ({ event }) => event } },
        ],
      },
    },
    blocked: {
      on: {
        RESERVE: [
          {
            guard: { type: 'isReserved', params: ({ event }) => event },
            actions: { type: 'reject', params: { code: 'payment_in_progress' } },
          },
          {
            guard: { type: 'withholdsAnswer', params: ({ event }) => event },
            actions: {
              type: 'reject',
              params: {
                code: 'payment_invalid',
                reason: 'payer_blocked',
                detail:
                  'a payment of this address was lost after its call: tools of other agents need an API key',
              },
            },
          },
          {
            guard: { type: 'readTooEarly', params: ({ event }) => event },
            actions: {
              type: 'reject',
              params: {
                code: 'payment_invalid',
                reason: 'insufficient_balance',
                stale_balance: true,
              },
            },
          },
          {
            guard: { type: 'lacksBalance', params: ({ event }) => event },
            actions: {
              type: 'reject',
              params: { code: 'payment_invalid', reason: 'insufficient_balance' },
            },
          },
          { actions: { type: 'reserveFirst', params: ({ event }) => event } },
        ],
        SETTLE: { actions: { type: 'settle', params: ({ event }) => event } },
        UNSETTLE: { actions: { type: 'unsettle', params: ({ event }) => event } },
        LOSE: [
          {
            guard: { type: 'wasDelivered', params: ({ event }) => event },
            actions: { type: 'countLoss', params: ({ event }) => event },
          },
          { actions: { type: 'free', params: ({ event }) => event } },
        ],
      },
    },
  },
})

import { IdempotencyKeyAnsweredElsewhereError } from '../actors/aggregate-command-types.ts'
import { ServiceError } from '../core/errors.ts'
import { newUuidV7 } from '../core/ids-and-api-keys.ts'
import { addMicros, asMicros, ZERO_MICROS, type Micros } from '../core/money.ts'
import { releaseCallHoldCommand } from '../payments/commands/call-commands.ts'
import {
  getCreditShortageCommand,
  drawFromFleetCommand,
  getFleetPoolCreditsCommand,
  type FleetDrawInput,
} from '../payments/commands/fleet-commands.ts'
import type { PromoCashAmounts } from '../payments/ledger-accounts.ts'
import type { CallDeps } from './call-request-and-reply-types.ts'

/** Lends credits of a fleet's pool to a call of a member. */

/**
 * Other calls may use the agent's own balance meanwhile; from this attempt on the pool lends the
 * full amount.
 */
const MAX_DRAW_ATTEMPTS = 3
const FULL_AMOUNT_ATTEMPT = 2

type FleetCreditDeps = Pick<CallDeps, 'actors' | 'clock' | 'log'>

/** A call of an agent and its maximum cost. */
export interface FleetLoanRequest {
  readonly agentId: string
  readonly callId: string
  readonly amount: Micros
  /** Count concurrent in-memory holds, as admission does; a capture does not. */
  readonly beside: boolean
  /** Only cash counts: the call takes no promotional credits. */
  readonly from?: 'cash' | undefined
}

/**
 * Runs `attempt` and, when it lacks funds, borrows the shortfall from the fleet's pool and retries.
 * `attempt` gets the amount lent so far. The loan belongs to this call. If the pool is too small,
 * rejects with the original error and returns the loan.
 */
export async function retryWithFleetLoan<T>(
  parts: FleetCreditDeps,
  drawing: FleetLoanRequest,
  attempt: (lent: Micros) => Promise<T>,
): Promise<T> {
  let lent = ZERO_MICROS
  for (let round = 1; ; round += 1) {
    try {
      return await attempt(lent)
    } catch (error) {
      const whole = round >= FULL_AMOUNT_ATTEMPT
      const more =
        round <= MAX_DRAW_ATTEMPTS && isInsufficientFunds(error)
          ? await borrowShortfall(parts, drawing, error, whole)
          : null
      if (more === null) {
        // The outcome is unknown: a timer returns an unused loan.
        if (!isUnavailableError(error) && lent > ZERO_MICROS) await returnUnusedLoan(parts, drawing)
        throw error
      }
      lent = addMicros(lent, more)
    }
  }
}

/** Whether the pool could lend the shortfall now. Borrows nothing. */
export async function canBorrowFromFleet(
  { actors }: FleetCreditDeps,
  { agentId, callId, amount, beside, from }: FleetLoanRequest,
  refusal: ServiceError,
): Promise<boolean> {
  if (!isInsufficientFunds(refusal)) return false
  const request = { callId, amount, beside, from }
  const { fleetId, amount: short } = await actors.ask(agentId, getCreditShortageCommand, request)
  if (fleetId === null) return false
  const { promo, cash } = await actors.ask(fleetId, getFleetPoolCreditsCommand, {})
  return short <= (from === 'cash' ? cash : addMicros(promo, cash))
}

/**
 * A pool helps only with a member's balance. Membership is read again: the agent may have joined
 * since.
 */
function isInsufficientFunds(error: unknown): error is ServiceError {
  return (
    error instanceof ServiceError &&
    (error.code === 'payment_required' || error.code === 'cash_required')
  )
}

const isUnavailableError = (error: unknown): boolean =>
  error instanceof ServiceError && error.code === 'unavailable'

/** Returns the amount lent; null if the pool has too little, which the error then says. */
async function borrowShortfall(
  { actors, clock }: FleetCreditDeps,
  { agentId, callId, amount, beside, from }: FleetLoanRequest,
  refusal: ServiceError,
  whole: boolean,
): Promise<Micros | null> {
  const looked = { callId, amount, beside, whole, from }
  const { fleetId, amount: short } = await actors.ask(agentId, getCreditShortageCommand, looked)
  if (fleetId === null) return null
  if (short === ZERO_MICROS) return ZERO_MICROS
  try {
    const request = { id: newUuidV7(clock.now()), agentId, callId, amount: short, from }
    const { promo, cash } = await requestLoan(actors, fleetId, request, clock.mono())
    return addMicros(promo, cash)
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    // The agent has left the fleet since: retry with its current state.
    if (error.code === 'not_in_fleet') return ZERO_MICROS
    if (error.code !== 'payment_required') throw error
    refusal.details['limit_source'] = 'fleet'
    return null
  }
}

/** Draws a loan. Idempotent by its id. */
async function requestLoan(
  actors: CallDeps['actors'],
  fleetId: string,
  request: FleetDrawInput,
  lookedUpAt: number,
): Promise<PromoCashAmounts> {
  const { id } = request
  const present = (lent: unknown) => ({ status: 200, body: toLoanText(lent as PromoCashAmounts) })
  const receipt = { operation: drawFromFleetCommand.name, key: id, hash: id, keyId: null, present }
  try {
    return await actors.ask(fleetId, drawFromFleetCommand, request, { receipt, lookedUpAt })
  } catch (error) {
    if (!(error instanceof IdempotencyKeyAnsweredElsewhereError)) throw error
    const { promo, cash } = error.stored.response.body as ReturnType<typeof toLoanText>
    return { promo: asMicros(BigInt(promo)), cash: asMicros(BigInt(cash)) }
  }
}

const toLoanText = ({ promo, cash }: PromoCashAmounts) => ({
  promo: String(promo),
  cash: String(cash),
})

async function returnUnusedLoan(
  { actors, log }: FleetCreditDeps,
  { agentId, callId }: FleetLoanRequest,
): Promise<void> {
  await actors
    .ask(agentId, releaseCallHoldCommand, { callId })
    .catch((error: unknown) => log('a draw was not given back', error))
}

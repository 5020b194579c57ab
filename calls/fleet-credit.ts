import { IdempotentReplayError } from '../actors/command.ts'
import { ServiceError } from '../core/errors.ts'
import { newUuidV7 } from '../core/ids.ts'
import { addMicros, micros, ZERO, type Micros } from '../core/money.ts'
import { releaseCallHoldCommand } from '../payments/commands/call.ts'
import {
  getCreditShortageCommand,
  drawFromFleetCommand,
  getFleetPoolCommand,
  type FleetDrawInput,
} from '../payments/commands/fleet.ts'
import type { PromoCashAmounts } from '../payments/ledger-accounts.ts'
import type { CallDeps } from './call-types.ts'

/** Other calls of the agent may take what it has of its own; from then on the pool lends all of it. */
const MAX_DRAW_ATTEMPTS = 3
const FULL_AMOUNT_ATTEMPT = 2

type FleetCreditDeps = Pick<CallDeps, 'actors' | 'clock' | 'log'>

/** A call of an agent, and what it costs at most. */
export interface FleetCreditRequest {
  readonly agentId: string
  readonly callId: string
  readonly amount: Micros
  /** Calls that run beside it count, as they do when it is let in; a capture does not ask them. */
  readonly beside: boolean
}

/**
 * Does what an agent may be too poor for. A refusal for want of funds draws the exact shortfall from
 * the pool of the agent's fleet and tries again; `attempt` is told how much has been lent so far. What
 * is lent belongs to this call alone. A pool that is short answers with that refusal, and what was lent
 * in vain goes back.
 */
export async function withFleetCredit<T>(
  parts: FleetCreditDeps,
  drawing: FleetCreditRequest,
  attempt: (lent: Micros) => Promise<T>,
): Promise<T> {
  let lent = ZERO
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
        // Nobody can say whether it landed: a loan that nothing comes of goes back by its timer.
        if (!isUnavailableError(error) && lent > ZERO) await returnUnusedLoan(parts, drawing)
        throw error
      }
      lent = addMicros(lent, more)
    }
  }
}

/** Whether a pool would lend what a call is short of right now; nothing is drawn. */
export async function canBorrowFromFleet(
  { actors }: FleetCreditDeps,
  { agentId, callId, amount, beside }: FleetCreditRequest,
  refusal: ServiceError,
): Promise<boolean> {
  if (!isInsufficientFunds(refusal)) return false
  const asked = { callId, amount, beside }
  const { fleetId, amount: short } = await actors.ask(agentId, getCreditShortageCommand, asked)
  if (fleetId === null) return false
  const { promo, cash } = await actors.ask(fleetId, getFleetPoolCommand, {})
  return short <= addMicros(promo, cash)
}

/**
 * Only the balance of a fleet's member is a limit that a pool can help with. Whether the agent is one is
 * asked anew: it may have been let in since it was refused.
 */
function isInsufficientFunds(error: unknown): error is ServiceError {
  return error instanceof ServiceError && error.code === 'payment_required'
}

const isUnavailableError = (error: unknown): boolean =>
  error instanceof ServiceError && error.code === 'unavailable'

/** What the pool has lent; null when it has too little, and the refusal says so. */
async function borrowShortfall(
  { actors, clock }: FleetCreditDeps,
  { agentId, callId, amount, beside }: FleetCreditRequest,
  refusal: ServiceError,
  whole: boolean,
): Promise<Micros | null> {
  const looked = { callId, amount, beside, whole }
  const { fleetId, amount: short } = await actors.ask(agentId, getCreditShortageCommand, looked)
  if (fleetId === null) return null
  if (short === ZERO) return ZERO
  try {
    const asked = { id: newUuidV7(clock.now()), agentId, callId, amount: short }
    const { promo, cash } = await requestLoan(actors, fleetId, asked, clock.mono())
    return addMicros(promo, cash)
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    // It has left since: it is asked again what it lacks, and by whom it could be lent now.
    if (error.code === 'not_in_fleet') return ZERO
    if (error.code !== 'payment_required') throw error
    refusal.details['limit_source'] = 'fleet'
    return null
  }
}

/** One draw under its id: asked for again, it answers what it has lent before. */
async function requestLoan(
  actors: CallDeps['actors'],
  fleetId: string,
  asked: FleetDrawInput,
  lookedUpAt: number,
): Promise<PromoCashAmounts> {
  const { id } = asked
  const present = (lent: unknown) => ({ status: 200, body: toLoanText(lent as PromoCashAmounts) })
  const receipt = { operation: drawFromFleetCommand.name, key: id, hash: id, keyId: null, present }
  try {
    return await actors.ask(fleetId, drawFromFleetCommand, asked, { receipt, lookedUpAt })
  } catch (error) {
    if (!(error instanceof IdempotentReplayError)) throw error
    const { promo, cash } = error.stored.response.body as ReturnType<typeof toLoanText>
    return { promo: micros(BigInt(promo)), cash: micros(BigInt(cash)) }
  }
}

const toLoanText = ({ promo, cash }: PromoCashAmounts) => ({
  promo: String(promo),
  cash: String(cash),
})

async function returnUnusedLoan(
  { actors, log }: FleetCreditDeps,
  { agentId, callId }: FleetCreditRequest,
): Promise<void> {
  await actors
    .ask(agentId, releaseCallHoldCommand, { callId })
    .catch((error: unknown) => log('a draw was not given back', error))
}

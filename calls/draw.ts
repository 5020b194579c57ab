import { AlreadyAnswered } from '../actors/command.ts'
import { ServiceError } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { add, micros, ZERO, type Micros } from '../core/money.ts'
import { callForget } from '../payments/commands/call.ts'
import { drawShortage, fleetDraw, fleetPool, type Draw } from '../payments/commands/fleet.ts'
import type { Purse } from '../payments/ledger.ts'
import type { CallParts } from './calls.ts'

/** Other calls of the agent may take what it has of its own; from then on the pool lends all of it. */
const ROUNDS = 3
const OWN_TAKEN = 2

type DrawParts = Pick<CallParts, 'actors' | 'clock' | 'log'>

/** A call of an agent, and what it costs at most. */
export interface Drawing {
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
export async function withDraws<T>(
  parts: DrawParts,
  drawing: Drawing,
  attempt: (lent: Micros) => Promise<T>,
): Promise<T> {
  let lent = ZERO
  for (let round = 1; ; round += 1) {
    try {
      return await attempt(lent)
    } catch (error) {
      const whole = round >= OWN_TAKEN
      const more =
        round <= ROUNDS && isShort(error) ? await draw(parts, drawing, error, whole) : null
      if (more === null) {
        // Nobody can say whether it landed: a loan that nothing comes of goes back by its timer.
        if (!isAway(error) && lent > ZERO) await giveBack(parts, drawing)
        throw error
      }
      lent = add(lent, more)
    }
  }
}

/** Whether a pool would lend what a call is short of right now; nothing is drawn. */
export async function wouldLend(
  { actors }: DrawParts,
  { agentId, callId, amount, beside }: Drawing,
  refusal: ServiceError,
): Promise<boolean> {
  if (!isShort(refusal)) return false
  const asked = { callId, amount, beside }
  const { fleetId, amount: short } = await actors.ask(agentId, drawShortage, asked)
  if (fleetId === null) return false
  const { promo, cash } = await actors.ask(fleetId, fleetPool, {})
  return short <= add(promo, cash)
}

/**
 * Only the balance of a fleet's member is a limit that a pool can help with. Whether the agent is one is
 * asked anew: it may have been let in since it was refused.
 */
function isShort(error: unknown): error is ServiceError {
  return error instanceof ServiceError && error.code === 'payment_required'
}

const isAway = (error: unknown): boolean =>
  error instanceof ServiceError && error.code === 'unavailable'

/** What the pool has lent; null when it has too little, and the refusal says so. */
async function draw(
  { actors, clock }: DrawParts,
  { agentId, callId, amount, beside }: Drawing,
  refusal: ServiceError,
  whole: boolean,
): Promise<Micros | null> {
  const looked = { callId, amount, beside, whole }
  const { fleetId, amount: short } = await actors.ask(agentId, drawShortage, looked)
  if (fleetId === null) return null
  if (short === ZERO) return ZERO
  try {
    const asked = { id: newId(clock.now()), agentId, callId, amount: short }
    const { promo, cash } = await lend(actors, fleetId, asked, clock.mono())
    return add(promo, cash)
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
async function lend(
  actors: CallParts['actors'],
  fleetId: string,
  asked: Draw,
  lookedUpAt: number,
): Promise<Purse> {
  const { id } = asked
  const present = (lent: unknown) => ({ status: 200, body: textOf(lent as Purse) })
  const receipt = { operation: fleetDraw.name, key: id, hash: id, keyId: null, present }
  try {
    return await actors.ask(fleetId, fleetDraw, asked, { receipt, lookedUpAt })
  } catch (error) {
    if (!(error instanceof AlreadyAnswered)) throw error
    const { promo, cash } = error.stored.response.body as ReturnType<typeof textOf>
    return { promo: micros(BigInt(promo)), cash: micros(BigInt(cash)) }
  }
}

const textOf = ({ promo, cash }: Purse) => ({ promo: String(promo), cash: String(cash) })

async function giveBack({ actors, log }: DrawParts, { agentId, callId }: Drawing): Promise<void> {
  await actors
    .ask(agentId, callForget, { callId })
    .catch((error: unknown) => log('a draw was not given back', error))
}

import { setTimeout as wait } from 'node:timers/promises'
import type { Observation, PriceSource } from './sources.ts'

export interface FlightPlan {
  readonly symbols: readonly string[]
  readonly sources: readonly PriceSource[]
  /** The longest the whole may take. */
  readonly deadlineMs: number
  /** The next source is asked too when one has not answered after this long. */
  readonly hedgeMs: number
  /** The last price of a symbol that is recent enough to compare with. */
  readonly before: (symbol: string) => number | undefined
  readonly land: (symbol: string, seen: Observation, source: string) => void
}

/** A price that moved further than this is believed only when a second source agrees. */
const JUMP = 0.4
const AGREEMENT = 0.1

/**
 * Asks the sources in order until every symbol has landed; never rejects. Answers the symbols that
 * have no price although a source answered.
 */
export async function fly(plan: FlightPlan): Promise<string[]> {
  const missing = new Set(plan.symbols)
  const believes = sceptic(plan.before)
  const landed = new AbortController()
  const signal = AbortSignal.any([landed.signal, AbortSignal.timeout(plan.deadlineMs)])
  const over = new Promise<void>((done) => signal.addEventListener('abort', () => done()))
  let answered = false
  const take = (source: string, found: ReadonlyMap<string, Observation>) => {
    answered = true
    for (const [symbol, seen] of found) {
      if (!missing.has(symbol) || !believes(symbol, seen.usd)) continue
      plan.land(symbol, seen, source)
      missing.delete(symbol)
    }
    if (missing.size === 0) landed.abort()
  }
  const asked: Promise<void>[] = []
  for (const source of plan.sources) {
    if (signal.aborted) break
    const answer = source.ask([...missing], signal).then(
      (found) => take(source.name, found),
      () => {}, // a source that fails is passed over
    )
    asked.push(answer)
    await Promise.race([answer, over, pause(plan.hedgeMs, signal)])
  }
  await Promise.race([Promise.all(asked), over])
  landed.abort()
  return answered ? [...missing] : []
}

/** Doubts a jump until a second source says the same. */
function sceptic(before: FlightPlan['before']): (symbol: string, usd: number) => boolean {
  const doubted = new Map<string, number>()
  return (symbol, usd) => {
    const [last, other] = [before(symbol), doubted.get(symbol)]
    if (last === undefined || apart(last, usd) <= JUMP) return true
    if (other !== undefined && apart(other, usd) <= AGREEMENT) return true
    doubted.set(symbol, usd)
    return false
  }
}

const apart = (before: number, now: number): number => Math.abs(now - before) / before

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  wait(ms, undefined, { signal, ref: false }).catch(() => {})

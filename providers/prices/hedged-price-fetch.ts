import { setTimeout as wait } from 'node:timers/promises'
import type { PriceObservation, PriceSource } from './asset-price-sources.ts'

/** Fetches prices from several sources with hedging. */

export interface HedgedPriceFetchOptions {
  readonly symbols: readonly string[]
  readonly sources: readonly PriceSource[]
  /** Limit of the whole fetch. */
  readonly deadlineMs: number
  /** Delay after which the next source is queried too. */
  readonly hedgeMs: number
  /** Returns the last price of a symbol that is recent enough to compare with. */
  readonly previousPrice: (symbol: string) => number | undefined
  readonly onPrice: (symbol: string, seen: PriceObservation, source: string) => void
}

/** A larger change needs confirmation by a second source. */
const MAX_UNCONFIRMED_CHANGE = 0.4
const MAX_CONFIRMATION_SPREAD = 0.1

/**
 * Queries the sources in order until every symbol has a price; never rejects. Returns the symbols without a
 * price although a source answered.
 */
export async function fetchCoinPricesWithHedgedRequests(
  plan: HedgedPriceFetchOptions,
): Promise<string[]> {
  const missing = new Set(plan.symbols)
  const believes = createJumpFilter(plan.previousPrice)
  const allPriced = new AbortController()
  const signal = AbortSignal.any([allPriced.signal, AbortSignal.timeout(plan.deadlineMs)])
  const over = new Promise<void>((done) => signal.addEventListener('abort', () => done()))
  let answered = false
  const take = (source: string, found: ReadonlyMap<string, PriceObservation>) => {
    answered = true
    for (const [symbol, seen] of found) {
      if (!missing.has(symbol) || !believes(symbol, seen.usd)) continue
      plan.onPrice(symbol, seen, source)
      missing.delete(symbol)
    }
    if (missing.size === 0) allPriced.abort()
  }
  const pending: Promise<void>[] = []
  for (const source of plan.sources) {
    if (signal.aborted) break
    const answer = source.fetchPrices([...missing], signal).then(
      (found) => take(source.name, found),
      () => {}, // a failed source is skipped
    )
    pending.push(answer)
    await Promise.race([answer, over, sleepUntilAborted(plan.hedgeMs, signal)])
  }
  await Promise.race([Promise.all(pending), over])
  allPriced.abort()
  return answered ? [...missing] : []
}

/** Holds back a jump until a second source confirms it. */
function createJumpFilter(
  before: HedgedPriceFetchOptions['previousPrice'],
): (symbol: string, usd: number) => boolean {
  const doubted = new Map<string, number>()
  return (symbol, usd) => {
    const [last, other] = [before(symbol), doubted.get(symbol)]
    if (last === undefined || relativeChange(last, usd) <= MAX_UNCONFIRMED_CHANGE) return true
    if (other !== undefined && relativeChange(other, usd) <= MAX_CONFIRMATION_SPREAD) return true
    doubted.set(symbol, usd)
    return false
  }
}

const relativeChange = (before: number, now: number): number => Math.abs(now - before) / before

const sleepUntilAborted = (ms: number, signal: AbortSignal): Promise<void> =>
  wait(ms, undefined, { signal, ref: false }).catch(() => {})

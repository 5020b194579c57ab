import type { Clock } from '../../core/clock.ts'
import { MINUTE, SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { fetchCoinPricesWithHedgedRequests } from './hedged-price-fetch.ts'
import type { PriceSource } from './asset-price-sources.ts'
import { PRICE_SOURCE_IDS_BY_SYMBOL } from './price-source-ids-by-symbol.ts'

/** Prices of assets, cached and shared between callers. */

export interface CoinPriceQuote {
  readonly usd: number
  readonly usd24hChange: number | null
  readonly usdMarketCap: number | null
  readonly source: string
  readonly mode: 'live' | 'fixture'
  /** When it was observed, in milliseconds. */
  readonly at: number
  readonly stale: boolean
}

export interface CoinPriceService {
  /**
   * Returns null for an unknown symbol, and for one without a price while others have theirs. Rejects with
   * `price_unavailable` when symbols are known and none has a price.
   */
  quote(
    symbols: readonly string[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, CoinPriceQuote | null>>
  /** Names of the sources, in query order. */
  readonly providers: readonly string[]
}

export interface CoinPriceServiceSettings {
  readonly sources: readonly PriceSource[]
  readonly clock: Clock
  /** The longest that a caller waits. */
  readonly deadlineMs?: number
  /** Delay after which the next source is queried too. */
  readonly hedgeMs?: number
}

const FRESH_MS = 15 * SECOND
const STALE_MS = 10 * MINUTE
type CachedPrice = Omit<CoinPriceQuote, 'stale'>

export function createCoinPriceService(settings: CoinPriceServiceSettings): CoinPriceService {
  const { sources, clock, deadlineMs = 2_500, hedgeMs = 600 } = settings
  const cache = new Map<string, CachedPrice>()
  const pendingFetches = new Map<string, Promise<void>>()
  /** When a symbol was last without a price although sources answered. */
  const unpricedSince = new Map<string, number>()
  const recent = (symbol: string, ageMs: number): CachedPrice | undefined => {
    const cached = cache.get(symbol)
    return cached !== undefined && clock.now() - cached.at <= ageMs ? cached : undefined
  }

  async function refresh(symbols: readonly string[]): Promise<void> {
    const previousPrice = (symbol: string) => recent(symbol, STALE_MS)?.usd
    const unpriced = await fetchCoinPricesWithHedgedRequests({
      symbols,
      sources,
      deadlineMs,
      hedgeMs,
      previousPrice,
      onPrice: (symbol, seen, source) => cache.set(symbol, { ...seen, source, at: clock.now() }),
    })
    for (const symbol of unpriced) unpricedSince.set(symbol, clock.now())
    for (const symbol of symbols) pendingFetches.delete(symbol)
  }

  function startFetch(symbols: readonly string[]): void {
    const since = clock.now() - FRESH_MS
    const due = symbols.filter(
      (symbol) =>
        !pendingFetches.has(symbol) &&
        !recent(symbol, FRESH_MS) &&
        (unpricedSince.get(symbol) ?? 0) < since,
    )
    if (due.length === 0) return
    const pendingFetch = refresh(due)
    for (const symbol of due) pendingFetches.set(symbol, pendingFetch)
  }

  function read(symbol: string): CoinPriceQuote | null {
    const cached = recent(symbol, STALE_MS)
    return cached === undefined ? null : { ...cached, stale: clock.now() - cached.at > FRESH_MS }
  }

  return {
    providers: sources.map((source) => source.name),
    async quote(symbols, signal) {
      const known = symbols.filter((symbol) => PRICE_SOURCE_IDS_BY_SYMBOL.has(symbol))
      startFetch(known)
      const awaited = known.flatMap((symbol) => pendingFetches.get(symbol) ?? [])
      await unlessAborted(Promise.all(awaited), signal)
      const quotes = new Map(symbols.map((symbol) => [symbol, read(symbol)]))
      if (known.length > 0 && known.every((symbol) => quotes.get(symbol) === null)) {
        throw new ServiceError('price_unavailable', { symbols: known, retry_after: 15 })
      }
      return quotes
    },
  }
}

/** Lets one caller abort while the shared fetch continues for others. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  let leave = () => {}
  const gone = new Promise<never>((_, reject) => {
    leave = () => reject(signal.reason)
    signal.addEventListener('abort', leave, { once: true })
  })
  try {
    return await Promise.race([work, gone])
  } finally {
    signal.removeEventListener('abort', leave)
  }
}

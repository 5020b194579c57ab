import { ServiceError } from '../../core/errors.ts'
import type { PriceService } from './price-service.ts'

/** What each symbol is worth in dollars; null for one without a price, never a guess. */
export async function fetchUsdPrices(
  prices: PriceService,
  symbols: readonly string[],
  signal: AbortSignal,
): Promise<(symbol: string) => number | null> {
  const wanted = [...new Set(symbols)]
  const quotes = await prices.quote(wanted, signal).catch((error: unknown) => {
    if (error instanceof ServiceError && error.code === 'price_unavailable') return null
    throw error
  })
  return (symbol) => quotes?.get(symbol)?.usd ?? null
}

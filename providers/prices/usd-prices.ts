import { ServiceError } from '../../core/errors.ts'
import type { PriceService } from './price-service.ts'

/** Returns the USD price of each symbol; null without one. */
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

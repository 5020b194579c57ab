import { ServiceError } from '../../core/errors.ts'
import type { CoinPriceService } from './asset-price-service.ts'

/** Returns the USD price of each symbol; null without one. */
export async function fetchCoinUsdPrices(
  prices: CoinPriceService,
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

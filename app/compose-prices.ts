import { SECOND, type Clock } from '../core/clock.ts'
import type { Chain } from '../tools/chain/port.ts'
import type { Ports } from '../tools/ports.ts'
import { chainlinkSource } from '../tools/prices/chainlink.ts'
import { createPrices } from '../tools/prices/prices.ts'
import { priceSources } from '../tools/prices/sources.ts'
import type { Upstream } from '../tools/upstream/client.ts'
import type { Config } from './config.ts'

export interface PricesParts {
  readonly config: Pick<Config, 'prices' | 'coingeckoApiKey'>
  readonly clock: Clock
  readonly upstream: Upstream
  readonly chain: Chain
}

/** Prices of coins, and a few of them for a welcome. */
export function composePrices({ config, clock, upstream, chain }: PricesParts) {
  const sources = priceSources(upstream, {
    ...config.prices,
    coingeckoKey: config.coingeckoApiKey?.reveal() ?? null,
  })
  // What oracles wrote on a chain is asked for last: it has no change over a day and no market.
  const prices = createPrices({ sources: [...sources, chainlinkSource(chain, clock)], clock })
  return { prices, welcome: () => welcomePrices(prices) }
}

async function welcomePrices(prices: Ports['prices']): Promise<Record<string, unknown>> {
  const quotes = await prices.quote(['BTC', 'ETH', 'USDC'], AbortSignal.timeout(SECOND))
  return Object.fromEntries(
    [...quotes].flatMap(([symbol, quote]) =>
      quote === null ? [] : [[symbol, { usd: quote.usd }]],
    ),
  )
}

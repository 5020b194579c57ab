import { SECOND, type Clock } from '../../core/clock.ts'
import type { ChainReader } from '../../providers/chain-data/chain-data-port.ts'
import type { ToolPorts } from '../../tools/tool-ports.ts'
import { createChainlinkSource } from '../../providers/prices/chainlink.ts'
import { createCoinPriceService } from '../../providers/prices/asset-price-service.ts'
import { createPriceSources } from '../../providers/prices/asset-price-sources.ts'
import type { UpstreamClient } from '../../providers/upstream/upstream-client.ts'
import type { Config } from '../config.ts'

/** Composes coin prices. */

export interface ComposeCoinPriceServiceDeps {
  readonly config: Pick<Config, 'prices' | 'coingeckoApiKey'>
  readonly clock: Clock
  readonly upstream: UpstreamClient
  readonly chain: ChainReader
}

/** Creates the price service and the prices of the welcome response. */
export function composeCoinPriceService({
  config,
  clock,
  upstream,
  chain,
}: ComposeCoinPriceServiceDeps) {
  const sources = createPriceSources(upstream, {
    ...config.prices,
    coingeckoKey: config.coingeckoApiKey?.reveal() ?? null,
  })
  // Oracles are the last source: they have no daily change and no market data.
  const prices = createCoinPriceService({
    sources: [...sources, createChainlinkSource(chain, clock)],
    clock,
  })
  return { prices, welcome: () => welcomePrices(prices) }
}

async function welcomePrices(prices: ToolPorts['prices']): Promise<Record<string, unknown>> {
  const quotes = await prices.quote(['BTC', 'ETH', 'USDC'], AbortSignal.timeout(SECOND))
  return Object.fromEntries(
    [...quotes].flatMap(([symbol, quote]) =>
      quote === null ? [] : [[symbol, { usd: quote.usd }]],
    ),
  )
}

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import type { ChainGasPrice, CoinMarketPrice } from '../../../providers/prices/market-overview.ts'
import {
  DateTimeSchema,
  errorResponses,
  Nullable,
  toIsoTime,
} from '../../schemas/shared-schemas.ts'

/** Route for the state of the market: prices and gas. */

const WEI_PER_GWEI = 1e9

const getMarket = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'getMarket',
    summary: 'Prices of the main assets, and the gas of the chains',
    description:
      'Read at most every 30 seconds for all callers. Each figure says when it was observed; a source that does not answer is listed in `missing`.',
    tags: ['statistics'],
    response: {
      200: Type.Object({
        prices: Type.Array(
          Type.Object({
            symbol: Type.String(),
            usd: Type.Number(),
            usd_24h_change: Nullable(Type.Number({ description: 'Percent.' })),
            usd_market_cap: Nullable(Type.Number()),
            source: Type.String(),
            observed_at: DateTimeSchema,
            age_seconds: Type.Integer(),
            stale: Type.Boolean({ description: 'The sources did not answer: an earlier price.' }),
          }),
        ),
        gas: Type.Array(
          Type.Object({
            chain: Type.String(),
            base_fee_gwei: Type.Number(),
            transfer_usd: Nullable(
              Type.Number({ description: 'A plain transfer, without fees for data on Ethereum.' }),
            ),
            block: Type.Integer(),
            observed_at: DateTimeSchema,
            age_seconds: Type.Integer(),
          }),
        ),
        missing: Type.Array(Type.String(), {
          description: 'Symbols and chains that no source answered for.',
        }),
        generated_at: DateTimeSchema,
      }),
      ...errorResponses,
    },
  },
}

/** Aggregated market data. */
export const marketDataRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { clock, market } = app.services

  app.get('/api/intelligence/market', getMarket, async (_request, reply) => {
    const { prices, gas, missing } = await market()
    const now = clock.now()
    reply.header('cache-control', 'public, max-age=10')
    return {
      prices: prices.map((price) => presentPrice(price, now)),
      gas: gas.map((one) => presentGas(one, now)),
      missing: [...missing],
      generated_at: toIsoTime(now),
    }
  })
}

const ageSeconds = (at: number, now: number): number => Math.max(0, Math.round((now - at) / 1_000))

const presentPrice = (price: CoinMarketPrice, now: number) => ({
  symbol: price.symbol,
  usd: price.usd,
  usd_24h_change: price.usd24hChange,
  usd_market_cap: price.usdMarketCap,
  source: price.source,
  observed_at: toIsoTime(price.at),
  age_seconds: ageSeconds(price.at, now),
  stale: price.stale,
})

const presentGas = (gas: ChainGasPrice, now: number) => ({
  chain: gas.chain,
  base_fee_gwei: Number(gas.baseFeeWei) / WEI_PER_GWEI,
  transfer_usd: gas.transferUsd,
  block: Number(gas.block),
  observed_at: toIsoTime(gas.at),
  age_seconds: ageSeconds(gas.at, now),
})

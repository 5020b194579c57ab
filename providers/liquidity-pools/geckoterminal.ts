import Type, { type Static } from 'typebox'
import type { ReadableChainName } from '../chain-data/chain-data-port.ts'
import type { UpstreamClient } from '../upstream/upstream-client.ts'
import { parsePositiveNumber } from './dexscreener.ts'
import type { LiquidityPoolQueryOwnerAndSignal, DexLiquidityPool } from './liquidity-pools-port.ts'

/** Liquidity pools from GeckoTerminal. */

const Text = Type.Optional(Type.Union([Type.String(), Type.Null()]))
const Count = Type.Optional(Type.Union([Type.Number(), Type.Null()]))
const Id = Type.Object({ data: Type.Object({ id: Type.String() }) })
const Pools = Type.Object({
  data: Type.Array(
    Type.Object({
      attributes: Type.Object({
        name: Type.String(),
        address: Type.String(),
        base_token_price_usd: Text,
        reserve_in_usd: Text,
        pool_created_at: Text,
        volume_usd: Type.Optional(Type.Object({ h24: Text })),
        transactions: Type.Optional(
          Type.Object({ h24: Type.Optional(Type.Object({ buys: Count, sells: Count })) }),
        ),
      }),
      relationships: Type.Object({ base_token: Id, dex: Id }),
    }),
  ),
})

const provider = 'geckoterminal'
const ADDRESS = /^0x[0-9a-fA-F]{40}$/
const NETWORKS: Record<ReadableChainName, string> = {
  base: 'base',
  ethereum: 'eth',
  arbitrum: 'arbitrum',
  optimism: 'optimism',
  polygon: 'polygon_pos',
}

/** Reads `/networks/{net}/tokens/{address}/pools` and `/search/pools`; 30 requests per minute. */
export function createGeckoterminalLiquidityPoolSource(upstream: UpstreamClient, base: string) {
  return {
    name: provider,
    async find(chain: ReadableChainName, query: string, asker: LiquidityPoolQueryOwnerAndSignal) {
      const network = NETWORKS[chain]
      const path = ADDRESS.test(query)
        ? `networks/${network}/tokens/${query.toLowerCase()}/pools`
        : `search/pools?query=${encodeURIComponent(query)}&network=${network}`
      const url = `${base}/api/v2/${path}`
      const { data, mode } = await upstream.json({ provider, url, schema: Pools, ...asker })
      const pools = data.data.map(toGeckoterminalPool)
      if (!ADDRESS.test(query)) return { pools, mode }
      // The requested token may be the quote token of the pair, whose price is not shown.
      const wanted = query.toLowerCase()
      return { pools: pools.filter(({ token }) => token.address.toLowerCase() === wanted), mode }
    },
  }
}

/** Pools are named like `AERO / WETH 0.3%`; ids are `<network>_<address>`. */
function toGeckoterminalPool({
  attributes,
  relationships,
}: Static<typeof Pools>['data'][number]): DexLiquidityPool {
  const [symbol = '', quote = ''] = attributes.name.split(' / ')
  const { id } = relationships.base_token.data
  const created = Date.parse(attributes.pool_created_at ?? '')
  const traded = attributes.transactions?.h24
  return {
    dex: relationships.dex.data.id,
    address: attributes.address,
    token: { address: id.slice(id.lastIndexOf('_') + 1), symbol, name: null },
    quote: quote.split(' ')[0] ?? quote,
    priceUsd: parsePositiveNumber(attributes.base_token_price_usd),
    liquidityUsd: parsePositiveNumber(attributes.reserve_in_usd),
    volume24hUsd: parsePositiveNumber(attributes.volume_usd?.h24),
    buys24h: traded?.buys ?? null,
    sells24h: traded?.sells ?? null,
    createdAt: Number.isNaN(created) ? null : created,
  }
}

import Type, { type Static } from 'typebox'
import type { ReadableChainName } from '../chain-data/chain-data-port.ts'
import type { UpstreamClient } from '../upstream/upstream-client.ts'
import type { LiquidityPoolQueryOwnerAndSignal, DexLiquidityPool } from './liquidity-pools-port.ts'

/** Liquidity pools from DEX Screener. */

const Count = Type.Optional(Type.Union([Type.Number(), Type.Null()]))
const Token = Type.Object({
  address: Type.String(),
  symbol: Type.String(),
  name: Type.Optional(Type.String()),
})
const Pair = Type.Object({
  chainId: Type.String(),
  dexId: Type.String(),
  pairAddress: Type.String(),
  baseToken: Token,
  quoteToken: Type.Object({ symbol: Type.String() }),
  priceUsd: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  txns: Type.Optional(
    Type.Object({ h24: Type.Optional(Type.Object({ buys: Count, sells: Count })) }),
  ),
  volume: Type.Optional(Type.Object({ h24: Count })),
  liquidity: Type.Optional(Type.Union([Type.Object({ usd: Count }), Type.Null()])),
  pairCreatedAt: Count,
})
const Search = Type.Object({ pairs: Type.Union([Type.Array(Pair), Type.Null()]) })
const Pairs = Type.Array(Pair)

const provider = 'dexscreener'
const ADDRESS = /^0x[0-9a-fA-F]{40}$/

/** Reads `/latest/dex/search` and `/token-pairs/v1`; its chain names equal ours. */
export function createDexscreenerLiquidityPoolSource(upstream: UpstreamClient, base: string) {
  return {
    name: provider,
    async find(chain: ReadableChainName, query: string, asker: LiquidityPoolQueryOwnerAndSignal) {
      if (ADDRESS.test(query)) {
        const url = `${base}/token-pairs/v1/${chain}/${query}`
        const { data, mode } = await upstream.json({ provider, url, schema: Pairs, ...asker })
        return { pools: toDexscreenerPools(data, chain), mode }
      }
      const url = `${base}/latest/dex/search?q=${encodeURIComponent(query)}`
      const { data, mode } = await upstream.json({ provider, url, schema: Search, ...asker })
      return { pools: toDexscreenerPools(data.pairs ?? [], chain), mode }
    },
  }
}

const toDexscreenerPools = (
  pairs: Static<typeof Pairs>,
  chain: ReadableChainName,
): DexLiquidityPool[] =>
  pairs
    .filter((pair) => pair.chainId === chain)
    .map((pair) => ({
      dex: pair.dexId,
      address: pair.pairAddress,
      token: {
        address: pair.baseToken.address,
        symbol: pair.baseToken.symbol,
        name: pair.baseToken.name ?? null,
      },
      quote: pair.quoteToken.symbol,
      priceUsd: parsePositiveNumber(pair.priceUsd),
      liquidityUsd: pair.liquidity?.usd ?? null,
      volume24hUsd: pair.volume?.h24 ?? null,
      buys24h: pair.txns?.h24?.buys ?? null,
      sells24h: pair.txns?.h24?.sells ?? null,
      createdAt: pair.pairCreatedAt ?? null,
    }))

/** Parses a price in text form; returns null for anything but a positive number. */
export function parsePositiveNumber(text: string | null | undefined): number | null {
  const value = Number(text ?? Number.NaN)
  return Number.isFinite(value) && value > 0 ? value : null
}

import type { ReadableChainName } from '../chain-data/chain-data-port.ts'

/** A liquidity pool; fields that its source lacks are null. */
export interface DexLiquidityPool {
  readonly dex: string
  readonly address: string
  /** The requested token, with its price in this pool. */
  readonly token: {
    readonly address: string
    readonly symbol: string
    readonly name: string | null
  }
  readonly quote: string
  readonly priceUsd: number | null
  readonly liquidityUsd: number | null
  readonly volume24hUsd: number | null
  readonly buys24h: number | null
  readonly sells24h: number | null
  /** Milliseconds since the epoch. */
  readonly createdAt: number | null
}

export interface LiquidityPoolSearchResult {
  /** Most liquid first. */
  readonly pools: readonly DexLiquidityPool[]
  readonly source: string
  readonly mode: 'live' | 'fixture'
}

/** Owner and signal of a query; the capacity of a source is shared by owner. */
export interface LiquidityPoolQueryOwnerAndSignal {
  readonly owner: string
  readonly signal: AbortSignal
}

/** Finds liquidity pools in sources without a key. */
export interface LiquidityPoolFinder {
  /**
   * Returns the pools of one token by address, symbol or words, from the first source that has any. Returns
   * none when all sources that answered have none; rejects when no source answered.
   */
  find(
    chain: ReadableChainName,
    query: string,
    asker: LiquidityPoolQueryOwnerAndSignal,
  ): Promise<LiquidityPoolSearchResult>
}

export interface LiquidityPoolSourceUrls {
  readonly dexscreener: string
  readonly geckoterminal: string
}

export const PUBLIC_LIQUIDITY_POOL_API_URLS: LiquidityPoolSourceUrls = {
  dexscreener: 'https://api.dexscreener.com',
  geckoterminal: 'https://api.geckoterminal.com',
}

import type { ReadableChainName } from '../chain-data/port.ts'

/** A place where a token is traded; null for what its source does not say. */
export interface LiquidityPool {
  readonly dex: string
  readonly address: string
  /** The token that was asked for; its price is the pool's. */
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

export interface PoolSearchResult {
  /** Most liquid first. */
  readonly pools: readonly LiquidityPool[]
  readonly source: string
  readonly mode: 'live' | 'fixture'
}

/** For whom a source is asked, and how long: places at a source are shared out by owner. */
export interface PoolQueryContext {
  readonly owner: string
  readonly signal: AbortSignal
}

/** Where tokens are traded, by sources that need no key. */
export interface PoolFinder {
  /**
   * The pools of one token of a chain, by its address, its symbol or words; the first source that knows
   * some answers. None when all that answered know none; rejects when no source answered.
   */
  find(chain: ReadableChainName, query: string, asker: PoolQueryContext): Promise<PoolSearchResult>
}

export interface PoolSourceUrls {
  readonly dexscreener: string
  readonly geckoterminal: string
}

export const PUBLIC_POOL_SOURCES: PoolSourceUrls = {
  dexscreener: 'https://api.dexscreener.com',
  geckoterminal: 'https://api.geckoterminal.com',
}

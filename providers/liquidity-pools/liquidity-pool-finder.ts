import { ServiceError } from '../../core/errors.ts'
import type { UpstreamClient } from '../upstream/upstream-client.ts'
import { createDexscreenerLiquidityPoolSource } from './dexscreener.ts'
import { createGeckoterminalLiquidityPoolSource } from './geckoterminal.ts'
import type {
  DexLiquidityPool,
  LiquidityPoolFinder,
  LiquidityPoolSourceUrls,
  LiquidityPoolSearchResult,
} from './liquidity-pools-port.ts'

/** Finds liquidity pools in several sources. */

const NO_POOLS: LiquidityPoolSearchResult = { pools: [], source: '', mode: 'live' }

export function createLiquidityPoolFinder(
  upstream: UpstreamClient,
  settings: LiquidityPoolSourceUrls,
): LiquidityPoolFinder {
  const sources = [
    createDexscreenerLiquidityPoolSource(upstream, settings.dexscreener),
    createGeckoterminalLiquidityPoolSource(upstream, settings.geckoterminal),
  ]
  return {
    async find(chain, query, asker) {
      let answered: LiquidityPoolSearchResult | null = null
      let failure: unknown
      for (const source of sources) {
        try {
          const { pools, mode } = await source.find(chain, query, asker)
          const found = { pools: selectDeepestToken(pools, query), source: source.name, mode }
          if (found.pools.length > 0) return found
          answered ??= { ...NO_POOLS, source: source.name, mode }
        } catch (error) {
          asker.signal.throwIfAborted()
          if (!(error instanceof ServiceError)) throw error
          failure = error
        }
      }
      if (answered !== null) return answered
      throw failure
    },
  }
}

/** Selects one token for an ambiguous symbol: the one with the deepest pool, exact spellings first. */
function selectDeepestToken(pools: readonly DexLiquidityPool[], query: string): DexLiquidityPool[] {
  const deep = pools.toSorted((one, other) => (other.liquidityUsd ?? 0) - (one.liquidityUsd ?? 0))
  const wanted = query.toLowerCase()
  const named = deep.filter(
    ({ token }) => token.symbol.toLowerCase() === wanted || token.address.toLowerCase() === wanted,
  )
  const [best] = named.length > 0 ? named : deep
  if (best === undefined) return []
  const address = best.token.address.toLowerCase()
  return deep.filter(({ token }) => token.address.toLowerCase() === address)
}

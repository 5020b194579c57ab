import { ServiceError } from '../../core/errors.ts'
import type { Upstream } from '../upstream/client.ts'
import { dexscreener } from './dexscreener.ts'
import { geckoterminal } from './geckoterminal.ts'
import type { Pool, Pools, PoolSettings, PoolsFound } from './port.ts'

const NOTHING: PoolsFound = { pools: [], source: '', mode: 'live' }

export function createPools(upstream: Upstream, settings: PoolSettings): Pools {
  const sources = [
    dexscreener(upstream, settings.dexscreener),
    geckoterminal(upstream, settings.geckoterminal),
  ]
  return {
    async find(chain, query, asker) {
      let answered: PoolsFound | null = null
      let failure: unknown
      for (const source of sources) {
        try {
          const { pools, mode } = await source.find(chain, query, asker)
          const found = { pools: ofOneToken(pools, query), source: source.name, mode }
          if (found.pools.length > 0) return found
          answered ??= { ...NOTHING, source: source.name, mode }
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

/**
 * A symbol is nobody's: the token with the deepest pool is taken, one that is spelled as it was asked
 * for before others.
 */
function ofOneToken(pools: readonly Pool[], query: string): Pool[] {
  const deep = pools.toSorted((one, other) => (other.liquidityUsd ?? 0) - (one.liquidityUsd ?? 0))
  const asked = query.toLowerCase()
  const named = deep.filter(
    ({ token }) => token.symbol.toLowerCase() === asked || token.address.toLowerCase() === asked,
  )
  const [best] = named.length > 0 ? named : deep
  if (best === undefined) return []
  const address = best.token.address.toLowerCase()
  return deep.filter(({ token }) => token.address.toLowerCase() === address)
}

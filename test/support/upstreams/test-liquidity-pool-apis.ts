import {
  sendJsonFixture,
  startFixtureServer,
  UPSTREAM_FAULTS,
  type FixtureServer,
  type TeardownScope,
  type UpstreamFault,
} from './fixture-server.ts'

/** Local liquidity pool APIs. */

type PoolApiName = 'dexscreener' | 'geckoterminal'
type PoolApiBehaviour = 'ok' | 'drift' | 'empty' | UpstreamFault

export interface SampleLiquidityPool {
  readonly chain: string
  readonly dex: string
  readonly token: string
  readonly symbol: string
  readonly quote: string
  readonly usd: number
  readonly liquidity: number
  readonly volume: number
  readonly buys: number
  readonly sells: number
  /** Milliseconds since the epoch. */
  readonly createdAt: number
}

export interface LiquidityPoolApiServers {
  readonly settings: Record<'DEXSCREENER_BASE' | 'GECKOTERMINAL_BASE', string>
  readonly servers: Record<PoolApiName, FixtureServer>
  readonly behaviour: Record<PoolApiName, PoolApiBehaviour>
  /** Traded pools; a test may change them. */
  readonly pools: SampleLiquidityPool[]
}

/** Serves both pool sources in their documented formats (`recorded: false`). */
export async function startTestLiquidityPoolApis(
  t: TeardownScope,
  planted: readonly SampleLiquidityPool[],
): Promise<LiquidityPoolApiServers> {
  const pools = [...planted]
  const behaviour: Record<PoolApiName, PoolApiBehaviour> = {
    dexscreener: 'ok',
    geckoterminal: 'ok',
  }
  const start = (
    name: PoolApiName,
    answer: (url: URL, found: readonly SampleLiquidityPool[]) => unknown,
  ) =>
    startFixtureServer(t, (request, response) => {
      const now = behaviour[name]
      if (now in UPSTREAM_FAULTS) return UPSTREAM_FAULTS[now as UpstreamFault](request, response)
      if (now === 'drift')
        return sendJsonFixture(response, { pairs: [{ id: 1 }], data: [{ id: 1 }] })
      const url = new URL(request.url ?? '/', 'http://localhost')
      sendJsonFixture(response, answer(url, now === 'empty' ? [] : pools))
    })
  const servers = {
    dexscreener: await start('dexscreener', dexscreener),
    geckoterminal: await start('geckoterminal', geckoterminal),
  }
  return {
    settings: {
      DEXSCREENER_BASE: servers.dexscreener.base,
      GECKOTERMINAL_BASE: servers.geckoterminal.base,
    },
    servers,
    behaviour,
    pools,
  }
}

const named = (text: string) => (pool: SampleLiquidityPool) =>
  pool.symbol.toLowerCase().includes(text.toLowerCase())

function dexscreener(url: URL, pools: readonly SampleLiquidityPool[]): unknown {
  const [, chain = '', address = ''] = /^\/token-pairs\/v1\/(\w+)\/(\w+)$/.exec(url.pathname) ?? []
  const pairs = (found: readonly SampleLiquidityPool[]) =>
    found.map((pool, at) => ({
      chainId: pool.chain,
      dexId: pool.dex,
      url: 'https://dexscreener.com',
      pairAddress: `0x${String(at + 1).padStart(40, '0')}`,
      baseToken: { address: pool.token, name: `${pool.symbol} Token`, symbol: pool.symbol },
      quoteToken: { address: '0x', name: pool.quote, symbol: pool.quote },
      priceNative: '1',
      priceUsd: String(pool.usd),
      txns: { h24: { buys: pool.buys, sells: pool.sells } },
      volume: { h24: pool.volume },
      liquidity: { usd: pool.liquidity, base: 1, quote: 1 },
      pairCreatedAt: pool.createdAt,
    }))
  if (address === '') return { pairs: pairs(pools.filter(named(url.searchParams.get('q') ?? ''))) }
  const token = address.toLowerCase()
  return pairs(pools.filter((one) => one.chain === chain && one.token.toLowerCase() === token))
}

const CHAINS: Record<string, string> = { eth: 'ethereum', polygon_pos: 'polygon' }

function geckoterminal(url: URL, pools: readonly SampleLiquidityPool[]): unknown {
  const path = /^\/api\/v2\/networks\/(\w+)\/tokens\/(\w+)\/pools$/.exec(url.pathname)
  const network = path?.[1] ?? url.searchParams.get('network') ?? ''
  const chain = CHAINS[network] ?? network
  const wanted = path?.[2]
  const found = pools.filter(
    (pool) =>
      pool.chain === chain &&
      (wanted === undefined
        ? named(url.searchParams.get('query') ?? '')(pool)
        : pool.token.toLowerCase() === wanted),
  )
  const data = found.map((pool, at) => ({
    id: `${network}_${at}`,
    type: 'pool',
    attributes: {
      name: `${pool.symbol} / ${pool.quote} 0.3%`,
      address: `0x${String(at + 1).padStart(40, '0')}`,
      base_token_price_usd: String(pool.usd),
      reserve_in_usd: String(pool.liquidity),
      pool_created_at: new Date(pool.createdAt).toISOString(),
      volume_usd: { h24: String(pool.volume) },
      transactions: { h24: { buys: pool.buys, sells: pool.sells, buyers: 1, sellers: 1 } },
    },
    relationships: {
      base_token: { data: { id: `${network}_${pool.token.toLowerCase()}`, type: 'token' } },
      dex: { data: { id: pool.dex, type: 'dex' } },
    },
  }))
  return { data }
}

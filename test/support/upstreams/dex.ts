import { json, serve, troubles, type Served, type Teardown, type Trouble } from './serve.ts'

type Source = 'dexscreener' | 'geckoterminal'
type Mood = 'ok' | 'drift' | 'empty' | Trouble

export interface PlantedPool {
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

export interface DexHouse {
  readonly settings: Record<'DEXSCREENER_BASE' | 'GECKOTERMINAL_BASE', string>
  readonly servers: Record<Source, Served>
  readonly mood: Record<Source, Mood>
  /** What is traded; a test may change it. */
  readonly pools: PlantedPool[]
}

/** Both sources of pools, in the forms their documentation gives (`recorded: false`). */
export async function dexHouse(t: Teardown, planted: readonly PlantedPool[]): Promise<DexHouse> {
  const pools = [...planted]
  const mood: Record<Source, Mood> = { dexscreener: 'ok', geckoterminal: 'ok' }
  const start = (name: Source, answer: (url: URL, found: readonly PlantedPool[]) => unknown) =>
    serve(t, (request, response) => {
      const now = mood[name]
      if (now in troubles) return troubles[now as Trouble](request, response)
      if (now === 'drift') return json(response, { pairs: [{ id: 1 }], data: [{ id: 1 }] })
      const url = new URL(request.url ?? '/', 'http://localhost')
      json(response, answer(url, now === 'empty' ? [] : pools))
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
    mood,
    pools,
  }
}

const named = (text: string) => (pool: PlantedPool) =>
  pool.symbol.toLowerCase().includes(text.toLowerCase())

function dexscreener(url: URL, pools: readonly PlantedPool[]): unknown {
  const [, chain = '', address = ''] = /^\/token-pairs\/v1\/(\w+)\/(\w+)$/.exec(url.pathname) ?? []
  const pairs = (found: readonly PlantedPool[]) =>
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

function geckoterminal(url: URL, pools: readonly PlantedPool[]): unknown {
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

import type { ServerResponse } from 'node:http'
import type { PriceSourceSettings } from '../../../providers/prices/asset-price-sources.ts'
import type { FixtureServer, TeardownScope, UpstreamFault } from './fixture-server.ts'
import { sendJsonFixture, startFixtureServer, UPSTREAM_FAULTS } from './fixture-server.ts'

/** Local price APIs. */

type Provider = 'coingecko' | 'coinbase' | 'kraken' | 'binance' | 'defillama'
type PriceApiBehaviour = 'ok' | 'drift' | 'empty' | UpstreamFault

/** Prices by CoinGecko id and by symbol; a test may change them. */
interface Market {
  readonly usd: Record<string, number>
  readonly mood: Record<Provider, PriceApiBehaviour>
  /** Prices that only one provider reports. */
  readonly own: Partial<Record<Provider, Record<string, number>>>
}

export interface PriceApiServers {
  readonly market: Market
  readonly settings: PriceSourceSettings
  readonly servers: Record<Provider, FixtureServer>
}

const IDS: Record<string, string> = {
  bitcoin: 'BTC',
  ethereum: 'ETH',
  solana: 'SOL',
  tether: 'USDT',
  'usd-coin': 'USDC',
  monad: 'MON',
}

/** Serves all five price providers in their documented formats (`recorded: false`). */
export async function startTestPriceApis(t: TeardownScope): Promise<PriceApiServers> {
  const market: Market = {
    usd: { BTC: 90_000, ETH: 3_000, SOL: 140, USDT: 0.999, USDC: 1.0002, MON: 0.03 },
    mood: { coingecko: 'ok', coinbase: 'ok', kraken: 'ok', binance: 'ok', defillama: 'ok' },
    own: {},
  }
  const start = (name: Provider, answer: RespondWithPrices) =>
    startFixtureServer(t, (request, response) => {
      const mood = market.mood[name]
      if (mood in UPSTREAM_FAULTS) return UPSTREAM_FAULTS[mood as UpstreamFault](request, response)
      if (mood === 'drift') return sendJsonFixture(response, DRIFTED[name])
      const priceOf = (symbol: string) =>
        mood === 'empty' ? undefined : (market.own[name]?.[symbol] ?? market.usd[symbol])
      answer(new URL(request.url ?? '/', 'http://localhost'), response, priceOf)
    })
  const servers = {
    coingecko: await start('coingecko', coingecko),
    coinbase: await start('coinbase', coinbase),
    kraken: await start('kraken', kraken),
    binance: await start('binance', binance),
    defillama: await start('defillama', defillama),
  }
  const settings = {
    coingecko: servers.coingecko.base,
    coingeckoKey: null,
    coinbase: servers.coinbase.base,
    kraken: servers.kraken.base,
    binance: servers.binance.base,
    defillama: servers.defillama.base,
  }
  return { market, settings, servers }
}

type PriceOf = (symbol: string) => number | undefined
type RespondWithPrices = (url: URL, response: ServerResponse, priceOf: PriceOf) => void

/** The same responses with a field of another type or without it. */
const DRIFTED: Record<Provider, unknown> = {
  coingecko: { bitcoin: { usd: '90000' } },
  coinbase: { last: 90_000 },
  kraken: { error: [], result: { XXBTZUSD: { close: ['90000'] } } },
  binance: { symbol: 'BTCUSDT' },
  defillama: { prices: {} },
}

const coingecko: RespondWithPrices = (url, response, priceOf) => {
  const ids = (url.searchParams.get('ids') ?? '').split(',')
  const found = ids.flatMap((id) => {
    const usd = priceOf(IDS[id] ?? '')
    return usd === undefined ? [] : [[id, { usd, usd_24h_change: 1.5, usd_market_cap: usd * 1e6 }]]
  })
  sendJsonFixture(response, Object.fromEntries(found))
}

const coinbase: RespondWithPrices = (url, response, priceOf) => {
  const [, symbol = '', kind] = /^\/products\/(\w+)-USD\/(\w+)$/.exec(url.pathname) ?? []
  const usd = priceOf(symbol)
  if (usd === undefined) return sendJsonFixture(response, { message: 'NotFound' }, 404)
  if (kind === 'ticker')
    return sendJsonFixture(response, { price: String(usd), time: '2026-11-21T10:00:00Z' })
  sendJsonFixture(response, {
    open: String(usd / 1.1),
    high: '0',
    low: '0',
    last: String(usd),
    volume: '1',
  })
}

const KRAKEN_NAMES: Record<string, [symbol: string, key: string]> = {
  XBTUSD: ['BTC', 'XXBTZUSD'],
  ETHUSD: ['ETH', 'XETHZUSD'],
  SOLUSD: ['SOL', 'SOLUSD'],
  USDTUSD: ['USDT', 'USDTZUSD'],
  USDCUSD: ['USDC', 'USDCUSD'],
}

const kraken: RespondWithPrices = (url, response, priceOf) => {
  const pairs = (url.searchParams.get('pair') ?? '').split(',')
  const rows = pairs.map((pair) => {
    const [symbol = '', key = pair] = KRAKEN_NAMES[pair] ?? []
    return [key, priceOf(symbol)] as const
  })
  if (rows.some(([, usd]) => usd === undefined)) {
    return sendJsonFixture(response, { error: ['EQuery:Unknown asset pair'] })
  }
  const result = rows.map(([key, usd]) => [key, { c: [String(usd), '0.1'], o: '1' }])
  sendJsonFixture(response, { error: [], result: Object.fromEntries(result) })
}

const binance: RespondWithPrices = (url, response, priceOf) => {
  const pairs = JSON.parse(url.searchParams.get('symbols') ?? '[]') as string[]
  const rows = pairs.map((pair) => {
    const usd = priceOf(pair.replace(/USDT$/, ''))
    return { symbol: pair, lastPrice: String(usd), priceChangePercent: '2.5' }
  })
  if (rows.some((row) => row.lastPrice === 'undefined')) {
    return sendJsonFixture(response, { code: -1121, msg: 'Invalid symbol.' }, 400)
  }
  sendJsonFixture(response, rows)
}

const defillama: RespondWithPrices = (url, response, priceOf) => {
  const coins = decodeURIComponent(url.pathname.replace('/prices/current/', '')).split(',')
  const found = coins.flatMap((coin) => {
    const price = priceOf(IDS[coin.replace('coingecko:', '')] ?? '')
    return price === undefined
      ? []
      : [[coin, { price, symbol: '?', timestamp: 1, confidence: 0.99 }]]
  })
  sendJsonFixture(response, { coins: Object.fromEntries(found) })
}

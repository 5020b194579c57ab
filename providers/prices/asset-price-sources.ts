import Type from 'typebox'
import type { UpstreamClient } from '../upstream/upstream-client.ts'
import type { PriceSourceIdsOfSymbol } from './price-source-ids-by-symbol.ts'
import { PRICE_SOURCE_IDS_BY_SYMBOL } from './price-source-ids-by-symbol.ts'

/** A price from one source. */
export interface PriceObservation {
  readonly usd: number
  readonly usd24hChange: number | null
  readonly usdMarketCap: number | null
  readonly mode: 'live' | 'fixture'
}

export interface PriceSource {
  readonly name: string
  /** Returns the prices it has; rejects when it cannot answer. */
  fetchPrices(
    symbols: readonly string[],
    signal: AbortSignal,
  ): Promise<Map<string, PriceObservation>>
}

export interface PriceSourceSettings {
  readonly coingecko: string
  /** A demo key; without one the limit per address applies. */
  readonly coingeckoKey: string | null
  readonly coinbase: string
  readonly kraken: string
  readonly binance: string
  readonly defillama: string
}

export const DEFAULT_PRICE_SOURCE_SETTINGS: PriceSourceSettings = {
  coingecko: 'https://api.coingecko.com',
  coingeckoKey: null,
  coinbase: 'https://api.exchange.coinbase.com',
  kraken: 'https://api.kraken.com',
  binance: 'https://api.binance.com',
  defillama: 'https://coins.llama.fi',
}

/** Returns the sources in query order. */
export function createPriceSources(
  upstream: UpstreamClient,
  settings: PriceSourceSettings,
): PriceSource[] {
  const kraken = krakenSource(upstream, settings.kraken)
  const defillama = defillamaSource(upstream, settings.defillama)
  return [
    coingeckoSource(upstream, settings),
    coinbaseSource(upstream, settings.coinbase),
    kraken,
    binanceSource(upstream, settings.binance, [kraken, defillama]),
    defillama,
  ]
}

const PRICE_SOURCE_TIMEOUT_MS = 1_300
const MAX_COINBASE_PRODUCTS = 8
const HUNDRED = 100

const OptionalNumber = Type.Optional(Type.Union([Type.Number(), Type.Null()]))
const Decimal = Type.String({ pattern: '^-?\\d+(\\.\\d+)?([eE][+-]?\\d+)?$' })

const Coingecko = Type.Record(
  Type.String(),
  Type.Object({
    usd: OptionalNumber,
    usd_24h_change: OptionalNumber,
    usd_market_cap: OptionalNumber,
  }),
)

/** Reads `/simple/price`, the only source with market capitalisation. */
function coingeckoSource(upstream: UpstreamClient, settings: PriceSourceSettings): PriceSource {
  const name = 'coingecko'
  const key = settings.coingeckoKey
  const headers: Record<string, string> = key === null ? {} : { 'x-cg-demo-api-key': key }
  return {
    name,
    async fetchPrices(symbols, signal) {
      const ids = symbols.map((symbol) => requireListing(symbol).coingecko)
      const query = `ids=${ids.join(',')}&vs_currencies=usd&include_24hr_change=true&include_market_cap=true`
      const url = `${settings.coingecko}/api/v3/simple/price?${query}`
      const { data, mode } = await upstream.json({
        provider: name,
        url,
        headers,
        schema: Coingecko,
        timeoutMs: PRICE_SOURCE_TIMEOUT_MS,
        signal,
      })
      return collectObservations(symbols, (symbol) => {
        const coin = data[requireListing(symbol).coingecko]
        return toObservation(coin?.usd, coin?.usd_24h_change, mode, coin?.usd_market_cap)
      })
    },
  }
}

const CoinbaseTicker = Type.Object({ price: Decimal })
const CoinbaseStats = Type.Object({ open: Decimal })

/** Reads the last trade and the 24-hour statistics, one product per request. */
function coinbaseSource(upstream: UpstreamClient, base: string): PriceSource {
  const name = 'coinbase'
  const ask = async (symbol: string, signal: AbortSignal): Promise<PriceObservation | null> => {
    const product = `${base}/products/${symbol}-USD`
    const common = { provider: name, timeoutMs: PRICE_SOURCE_TIMEOUT_MS, signal }
    const [ticker, stats] = await Promise.all([
      upstream.json({ ...common, url: `${product}/ticker`, schema: CoinbaseTicker }),
      upstream
        .json({ ...common, url: `${product}/stats`, schema: CoinbaseStats })
        .catch(() => null),
    ])
    const usd = Number(ticker.data.price)
    return toObservation(usd, stats && percentChange(Number(stats.data.open), usd), ticker.mode)
  }
  return {
    name,
    async fetchPrices(symbols, signal) {
      const traded = symbols
        .filter((symbol) => requireListing(symbol).coinbase)
        .slice(0, MAX_COINBASE_PRODUCTS)
      if (traded.length === 0) return new Map()
      const answers = await Promise.allSettled(traded.map((symbol) => ask(symbol, signal)))
      const [failed] = answers.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []))
      if (answers.every((one) => one.status === 'rejected')) throw failed
      return collectObservations(traded, (_, at) => {
        const answer = answers[at]
        return answer?.status === 'fulfilled' ? answer.value : null
      })
    },
  }
}

const KrakenTicker = Type.Object({
  error: Type.Array(Type.String()),
  result: Type.Optional(Type.Record(Type.String(), Type.Object({ c: Type.Array(Decimal) }))),
})

/** Reads the last trade. Kraken's day starts at midnight, so it has no 24-hour change. */
function krakenSource(upstream: UpstreamClient, base: string): PriceSource {
  const name = 'kraken'
  return {
    name,
    async fetchPrices(symbols, signal) {
      const traded = symbols.filter((symbol) => requireListing(symbol).kraken !== null)
      if (traded.length === 0) return new Map()
      const pairs = traded.map((symbol) => `${requireListing(symbol).kraken}USD`)
      const url = `${base}/0/public/Ticker?pair=${pairs.join(',')}`
      const { data, mode } = await upstream.json({
        provider: name,
        url,
        schema: KrakenTicker,
        timeoutMs: PRICE_SOURCE_TIMEOUT_MS,
        signal,
      })
      return collectObservations(traded, (symbol) => {
        const coin = requireListing(symbol).kraken
        const names = [`${coin}USD`, `X${coin}ZUSD`, `${coin}ZUSD`]
        const found = names.map((pair) => data.result?.[pair]).find((pair) => pair !== undefined)
        return toObservation(Number(found?.c[0] ?? Number.NaN), null, mode)
      })
    },
  }
}

const BinanceTickers = Type.Array(
  Type.Object({ symbol: Type.String(), lastPrice: Decimal, priceChangePercent: Decimal }),
)

/**
 * Quotes in USDT, which is converted with the USDT price of another source; without one there is no price.
 */
function binanceSource(
  upstream: UpstreamClient,
  base: string,
  dollars: readonly PriceSource[],
): PriceSource {
  const name = 'binance'
  return {
    name,
    async fetchPrices(symbols, signal) {
      const traded = symbols.filter((symbol) => requireListing(symbol).binance)
      if (traded.length === 0) return new Map()
      const pairs = JSON.stringify(traded.map((symbol) => `${symbol}USDT`))
      const url = `${base}/api/v3/ticker/24hr?symbols=${encodeURIComponent(pairs)}`
      const [{ data, mode }, tether] = await Promise.all([
        upstream.json({
          provider: name,
          url,
          schema: BinanceTickers,
          timeoutMs: PRICE_SOURCE_TIMEOUT_MS,
          signal,
        }),
        fetchTetherPrice(dollars, signal),
      ])
      return collectObservations(traded, (symbol) => {
        const ticker = data.find((entry) => entry.symbol === `${symbol}USDT`)
        if (ticker === undefined || tether === null) return null
        const usd = Number(ticker.lastPrice) * tether
        return toObservation(usd, Number(ticker.priceChangePercent), mode)
      })
    },
  }
}

async function fetchTetherPrice(
  dollars: readonly PriceSource[],
  signal: AbortSignal,
): Promise<number | null> {
  const asked = dollars.map(async (source) => {
    const usd = (await source.fetchPrices(['USDT'], signal)).get('USDT')?.usd
    if (usd === undefined) throw new Error(`${source.name} has no price of USDT`)
    return usd
  })
  return Promise.any(asked).catch(() => null)
}

const DefiLlama = Type.Object({
  coins: Type.Record(Type.String(), Type.Object({ price: Type.Number() })),
})

function defillamaSource(upstream: UpstreamClient, base: string): PriceSource {
  const name = 'defillama'
  const coin = (symbol: string) => `coingecko:${requireListing(symbol).coingecko}`
  return {
    name,
    async fetchPrices(symbols, signal) {
      const url = `${base}/prices/current/${symbols.map(coin).join(',')}`
      const { data, mode } = await upstream.json({
        provider: name,
        url,
        schema: DefiLlama,
        timeoutMs: PRICE_SOURCE_TIMEOUT_MS,
        signal,
      })
      return collectObservations(symbols, (symbol) =>
        toObservation(data.coins[coin(symbol)]?.price, null, mode),
      )
    },
  }
}

function requireListing(symbol: string): PriceSourceIdsOfSymbol {
  const listing = PRICE_SOURCE_IDS_BY_SYMBOL.get(symbol)
  if (listing === undefined) throw new Error(`${symbol} is not a listed symbol`)
  return listing
}

function collectObservations(
  symbols: readonly string[],
  read: (symbol: string, at: number) => PriceObservation | null,
): Map<string, PriceObservation> {
  const found = new Map<string, PriceObservation>()
  for (const [at, symbol] of symbols.entries()) {
    const observation = read(symbol, at)
    if (observation !== null) found.set(symbol, observation)
  }
  return found
}

/** Accepts positive, finite numbers only. */
function toObservation(
  usd: number | null | undefined,
  usd24hChange: number | null | undefined,
  mode: 'live' | 'fixture',
  usdMarketCap: number | null = null,
): PriceObservation | null {
  if (usd === null || usd === undefined || !Number.isFinite(usd) || usd <= 0) return null
  return { usd, usd24hChange: usd24hChange ?? null, usdMarketCap, mode }
}

const percentChange = (open: number, last: number): number | null =>
  open > 0 ? ((last - open) / open) * HUNDRED : null

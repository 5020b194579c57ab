import Type from 'typebox'
import { invalidInputError } from '../../core/errors.ts'
import { fromUsdc, ZERO_MICROS } from '../../core/money.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool } from '../define-tool.ts'
import type { CoinPriceQuote } from '../../providers/prices/asset-price-service.ts'

/** The tool `price-feed`: current prices of assets. */

const MAX_SYMBOLS = 25
const SYMBOL = /^[A-Za-z0-9][A-Za-z0-9.+-]{0,19}$/

const Price = Type.Object({
  usd: Type.Number(),
  usd_24h_change: Type.Union([Type.Number(), Type.Null()]),
  usd_market_cap: Type.Union([Type.Number(), Type.Null()]),
})

/** Returns distinct upper-case symbols in request order. */
function parseSymbols({ query, symbols }: { query?: string; symbols?: string[] }): string[] {
  const requested = [...(query ?? '').split(','), ...(symbols ?? [])].map((text) => text.trim())
  const wanted = [
    ...new Set(requested.filter((text) => text !== '').map((text) => text.toUpperCase())),
  ]
  const pointer = query === undefined ? '/symbols' : '/query'
  const bad = wanted.find((symbol) => !SYMBOL.test(symbol))
  if (bad !== undefined) throw invalidInputError(pointer, `names "${bad}", which is not a symbol`)
  if (wanted.length === 0) throw invalidInputError(pointer, 'must name at least one symbol')
  if (wanted.length > MAX_SYMBOLS)
    throw invalidInputError(pointer, `names more than ${MAX_SYMBOLS} symbols`)
  return wanted
}

const toPriceOutput = (quote: CoinPriceQuote) => ({
  usd: quote.usd,
  usd_24h_change: quote.usd24hChange,
  usd_market_cap: quote.usdMarketCap,
})

export default defineTool({
  slug: 'price_feed',
  name: 'Price Feed',
  category: 'finance',
  description:
    'USD prices, 24 h change and market capitalisation of about 150 crypto assets; null for an unknown symbol.',
  tags: ['prices', 'crypto', 'market-data'],
  useCases: ['Value a portfolio', 'Check a price before trading', 'Convert gas costs to dollars'],
  examples: [{ query: 'BTC,ETH' }, { symbols: ['SOL', 'USDC'] }],
  access: 'free',
  price: ZERO_MICROS,
  free: { perDay: 10, overage: fromUsdc(0.005) },
  effect: 'none',
  timeoutMs: 8_000,
  input: Type.Object(
    {
      query: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 500,
          pattern: NOT_BLANK_PATTERN,
          description: 'Comma-separated symbols.',
        }),
      ),
      symbols: Type.Optional(
        Type.Array(Type.String({ minLength: 1, maxLength: 20, pattern: NOT_BLANK_PATTERN }), {
          minItems: 1,
          maxItems: MAX_SYMBOLS,
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    prices: Type.Record(Type.String(), Type.Union([Price, Type.Null()])),
    source: Type.Union([Type.String(), Type.Null()]),
    timestamp: Type.String({ format: 'date-time', description: 'Time of the oldest observation.' }),
    stale: Type.Optional(Type.Boolean()),
    age_ms: Type.Optional(Type.Integer({ minimum: 0 })),
  }),
  availability: ({ prices }) => ({
    available: true,
    mode: 'live',
    requires: [],
    providers: [...prices.providers],
  }),
  preflight(input) {
    parseSymbols(input)
  },
  async run(input, { prices, signal, now, meter }) {
    const quotes = await prices.quote(parseSymbols(input), signal)
    const found = [...quotes.values()].filter((quote) => quote !== null)
    const source = [...new Set(found.map((quote) => quote.source))].join(',') || null
    const at = now().getTime()
    const oldest = Math.min(at, ...found.map((quote) => quote.at))
    const fixture = found.some((quote) => quote.mode === 'fixture')
    if (source !== null) meter.served(source, fixture ? 'fixture' : 'live')
    const entries = [...quotes].map(
      ([symbol, quote]) => [symbol, quote && toPriceOutput(quote)] as const,
    )
    return {
      prices: Object.fromEntries(entries),
      source,
      timestamp: new Date(oldest).toISOString(),
      ...(found.some((quote) => quote.stale) ? { stale: true, age_ms: at - oldest } : {}),
    }
  },
})

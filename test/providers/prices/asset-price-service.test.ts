import { setMaxListeners } from 'node:events'
import t from 'tap'
import priceFeed from '../../../tools/finance/price-feed.ts'
import { createCoinPriceService } from '../../../providers/prices/asset-price-service.ts'
import {
  createPriceSources,
  type PriceSource,
} from '../../../providers/prices/asset-price-sources.ts'
import { PRICE_SOURCE_IDS_BY_SYMBOL } from '../../../providers/prices/price-source-ids-by-symbol.ts'
import { findFreePort } from '../../../chaos/free-port.ts'
import { startTestPriceApis } from '../../support/upstreams/test-price-apis.ts'
import { createUpstreamClientWithManualClock } from '../../support/upstreams/upstream-client-with-manual-clock.ts'
import { startFixtureServer, UPSTREAM_FAULTS } from '../../support/upstreams/fixture-server.ts'
import {
  createRecordingToolContext,
  createManualClock,
  awaitRejectionDetails,
} from '../../support/tools/test-tool-context.ts'

const signal = new AbortController().signal
setMaxListeners(0, signal) // every request of this file hears it
/** Longer than the file may run. */
const NEVER_MS = 600_000
const PROVIDERS = ['coingecko', 'coinbase', 'kraken', 'binance', 'defillama'] as const
type Teardown = { teardown(work: () => unknown): unknown }

/** Without hedging a source is queried after the previous one has answered or failed. */
async function market(t: Teardown, hedgeMs = 20_000) {
  const clock = createManualClock()
  const house = await startTestPriceApis(t)
  const sources = createPriceSources(createUpstreamClientWithManualClock(t, clock), house.settings)
  const prices = createCoinPriceService({ sources, clock, hedgeMs, deadlineMs: 30_000 })
  return {
    ...house,
    clock,
    prices,
    quote: (...symbols: string[]) => prices.quote(symbols, new AbortController().signal),
  }
}

t.test('the first source fills the known symbols and the others the missing ones', async (t) => {
  const { market: now, servers, quote } = await market(t)
  now.own.coingecko = { SOL: 0 }
  const quotes = await quote('BTC', 'SOL', 'NOSUCHCOIN')
  t.match(quotes.get('BTC'), {
    usd: 90_000,
    usd24hChange: 1.5,
    usdMarketCap: 9e10,
    source: 'coingecko',
    mode: 'fixture',
    stale: false,
  })
  t.match(quotes.get('SOL'), { usd: 140, source: 'coinbase', usdMarketCap: null })
  t.ok(Math.abs((quotes.get('SOL')?.usd24hChange ?? 0) - 10) < 0.001)
  t.equal(quotes.get('NOSUCHCOIN'), null)
  t.strictSame(
    servers.coinbase.requests.filter((path) => path.includes('BTC')),
    [],
  )
})

t.test('each source is sufficient alone', async (t) => {
  for (const alone of PROVIDERS) {
    const { market: now, quote } = await market(t)
    for (const other of PROVIDERS) if (other !== alone) now.mood[other] = '500'
    if (alone === 'binance') now.mood.kraken = 'empty'
    const answer = quote('ETH')
    if (alone === 'binance') {
      t.match(
        await awaitRejectionDetails(answer),
        { code: 'price_unavailable' },
        'USDT is no dollar',
      )
      continue
    }
    t.match((await answer).get('ETH'), { usd: 3_000, source: alone })
  }
})

t.test('Binance prices are converted with the price of USDT, never 1:1', async (t) => {
  const { settings } = await startTestPriceApis(t)
  const sources = createPriceSources(createUpstreamClientWithManualClock(t), settings)
  const binance = sources.find((source) => source.name === 'binance')
  const found = await binance?.fetchPrices(['BTC', 'USDT'], signal)
  t.equal(found?.get('BTC')?.usd, 90_000 * 0.999)
  t.notOk(found?.has('USDT'))
})

t.test('a failing source is skipped', async (t) => {
  for (const mood of [
    '429',
    '500',
    'malformed',
    'drift',
    'bomb',
    'redirect',
    'drip',
    'hang',
  ] as const) {
    const { market: now, quote } = await market(t)
    now.mood.coingecko = mood
    t.match((await quote('BTC')).get('BTC'), { usd: 90_000, source: 'coinbase' }, mood)
  }
})

t.test('prices are fresh for 15 s, stale for 10 min, then unavailable', async (t) => {
  const { market: now, servers, clock, quote } = await market(t)
  await quote('BTC')
  clock.pass(15_000)
  await quote('BTC')
  t.equal(servers.coingecko.requests.length, 1)
  for (const name of PROVIDERS) now.mood[name] = '500'
  clock.pass(1)
  t.match((await quote('BTC')).get('BTC'), { usd: 90_000, stale: true })
  clock.pass(585_000 - 1)
  t.match((await quote('BTC')).get('BTC'), { stale: true })
  clock.pass(1)
  t.match(await awaitRejectionDetails(quote('BTC')), {
    code: 'price_unavailable',
    symbols: ['BTC'],
    retry_after: 15,
  })
})

t.test(
  'concurrent requests share one fetch, and a caller that leaves does not end it',
  async (t) => {
    const { servers, quote, prices } = await market(t)
    const leaving = new AbortController()
    const left = prices.quote(['BTC'], leaving.signal)
    const all = Promise.all(Array.from({ length: 20 }, () => quote('BTC')))
    leaving.abort(new Error('client gone'))
    await t.rejects(left, /client gone/)
    t.ok((await all).every((quotes) => quotes.get('BTC')?.usd === 90_000))
    t.equal(servers.coingecko.requests.length, 1)
  },
)

t.test('a change over 40 % is accepted only if a second source confirms it', async (t) => {
  const { market: now, clock, quote } = await market(t)
  await quote('BTC')
  clock.pass(16_000)
  now.own.coingecko = { BTC: 900_000 }
  t.match(
    (await quote('BTC')).get('BTC'),
    { usd: 90_000, source: 'coinbase' },
    'the others still say the old price',
  )
  clock.pass(16_000)
  now.usd['BTC'] = 890_000
  t.match(
    (await quote('BTC')).get('BTC'),
    { usd: 890_000, source: 'coinbase' },
    'a second source agrees',
  )
  clock.pass(16_000)
  now.own.coingecko = { BTC: 9 }
  for (const name of ['coinbase', 'kraken', 'binance', 'defillama'] as const) now.mood[name] = '500'
  t.match(
    (await quote('BTC')).get('BTC'),
    { usd: 890_000, stale: true },
    'without confirmation the old price, marked',
  )
})

t.test('a known symbol without a price is null and not requested again at once', async (t) => {
  const { servers, quote, clock } = await market(t)
  t.equal((await quote('BTC', 'XDC')).get('XDC'), null)
  t.match(await awaitRejectionDetails(quote('XDC')), { code: 'price_unavailable' })
  t.equal(servers.defillama.requests.length, 1)
  clock.pass(15_001)
  await awaitRejectionDetails(quote('XDC'))
  t.equal(servers.defillama.requests.length, 2)
})

/** A source that has not answered yet, and never will. */
const silent: PriceSource = { name: 'silent', fetchPrices: () => new Promise(() => {}) }

t.test('the next source replaces a slow one', async (t) => {
  const clock = createManualClock()
  const { settings } = await startTestPriceApis(t)
  const sources = [
    silent,
    ...createPriceSources(createUpstreamClientWithManualClock(t, clock), settings),
  ]
  const prices = createCoinPriceService({ sources, clock, hedgeMs: 50, deadlineMs: NEVER_MS })
  const quotes = await prices.quote(['BTC'], signal)
  t.match(quotes.get('BTC'), { source: 'coingecko' }, 'before the slow one has failed')
})

t.test('without replies of any source a caller waits no longer than the deadline', async (t) => {
  // The deadline keeps no process awake: as in the service, a server does.
  await startFixtureServer(t, UPSTREAM_FAULTS.hang)
  const prices = createCoinPriceService({
    sources: [silent, { ...silent, name: 'mute' }],
    clock: createManualClock(),
    deadlineMs: 300,
  })
  t.match(await awaitRejectionDetails(prices.quote(['BTC'], signal)), { code: 'price_unavailable' })
})

t.test('without a network no source delays the reply', async (t) => {
  const clock = createManualClock()
  const nowhere = `http://127.0.0.1:${await findFreePort()}`
  const settings = {
    coingecko: nowhere,
    coingeckoKey: null,
    coinbase: nowhere,
    kraken: nowhere,
    binance: nowhere,
    defillama: nowhere,
  }
  const sources = createPriceSources(createUpstreamClientWithManualClock(t, clock), settings)
  for (const source of sources) {
    const refused = await awaitRejectionDetails(source.fetchPrices(['BTC', 'ETH'], signal))
    t.match(refused, { code: 'upstream_error', reason: 'ECONNREFUSED' }, source.name)
  }
  const prices = createCoinPriceService({ sources, clock, hedgeMs: NEVER_MS, deadlineMs: NEVER_MS })
  t.match(await awaitRejectionDetails(prices.quote(['BTC', 'ETH'], signal)), {
    code: 'price_unavailable',
  })
})

t.test('price_feed returns each symbol once, in the specified form', async (t) => {
  const { prices, clock, market: now } = await market(t)
  const { context: given, recorded } = createRecordingToolContext({ prices, clock })
  const output = await priceFeed.run({ query: 'btc, ETH,,BTC', symbols: ['eth', 'nope'] }, given)
  t.strictSame(output, {
    prices: {
      BTC: { usd: 90_000, usd_24h_change: 1.5, usd_market_cap: 9e10 },
      ETH: { usd: 3_000, usd_24h_change: 1.5, usd_market_cap: 3e9 },
      NOPE: null,
    },
    source: 'coingecko',
    timestamp: '2026-11-21T10:00:00.000Z',
  })
  t.strictSame(recorded.providers, ['coingecko fixture'])
  for (const name of PROVIDERS) now.mood[name] = '500'
  clock.pass(60_000)
  t.match(await priceFeed.run({ query: 'BTC' }, given), {
    stale: true,
    age_ms: 60_000,
    timestamp: '2026-11-21T10:00:00.000Z',
  })
  t.match(await priceFeed.run({ query: 'NOPE' }, given), { prices: { NOPE: null }, source: null })
})

t.test('price_feed without a symbol is rejected before a hold', async (t) => {
  const { context: given } = createRecordingToolContext()
  const refusal = (input: { query?: string; symbols?: string[] }) =>
    awaitRejectionDetails((async () => priceFeed.preflight?.(input, given))())
  t.match(await refusal({}), { code: 'invalid_input', errors: [{ pointer: '/symbols' }] })
  t.match(await refusal({ query: ' , ' }), { errors: [{ pointer: '/query' }] })
  t.match(await refusal({ query: 'BTC/USD' }), { errors: [{ detail: /"BTC\/USD"/ }] })
  const many = Array.from({ length: 26 }, (_, n) => `C${n}`).join(',')
  t.match(await refusal({ query: many }), { errors: [{ detail: /more than 25/ }] })
})

t.test('the symbol table has about 150 symbols, each id once', async (t) => {
  t.ok(PRICE_SOURCE_IDS_BY_SYMBOL.size >= 150)
  t.equal(
    new Set([...PRICE_SOURCE_IDS_BY_SYMBOL.values()].map((listing) => listing.coingecko)).size,
    PRICE_SOURCE_IDS_BY_SYMBOL.size,
  )
})

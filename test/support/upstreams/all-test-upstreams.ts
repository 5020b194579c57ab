import type { ServerResponse } from 'node:http'
import { startTestMailServer, type ReceivedMail } from '../mail/test-mail-and-telegram-servers.ts'
import { startTestLiquidityPoolApis, type SampleLiquidityPool } from './test-liquidity-pool-apis.ts'
import { startTestPriceApis } from './test-price-apis.ts'
import { startTestSearchApis } from './test-search-apis.ts'
import { sendJsonFixture, startFixtureServer, type TeardownScope } from './fixture-server.ts'
import { startTestSocialApis } from './test-social-apis.ts'

/** Local replacements of all upstreams that need no key. */
export interface AllTestUpstreams {
  /** Station settings that use only these upstreams. */
  readonly settings: Readonly<Record<string, string>>
  /** One website that answers for all hosts. */
  readonly site: string
  readonly mails: readonly ReceivedMail[]
}

const UNREACHABLE_URL = 'http://127.0.0.1:1'
const DAY = 86_400_000

/** The pool in the examples of the catalogue. */
const AERO: SampleLiquidityPool = {
  chain: 'base',
  dex: 'aerodrome',
  token: '0x940181a94A35A4569E4529A3CDfB74e38FD98631',
  symbol: 'AERO',
  quote: 'WETH',
  usd: 0.9,
  liquidity: 4_000_000,
  volume: 800_000,
  buys: 900,
  sells: 850,
  createdAt: Date.UTC(2024, 0, 1),
}

/**
 * Starts price, pool, search and post providers, a mail server and a website; `rpcUrl` is the only
 * chain, Base.
 */
export async function startAllTestUpstreams(
  t: TeardownScope,
  rpcUrl: string,
): Promise<AllTestUpstreams> {
  const [prices, dex, search, social, mail, site] = await Promise.all([
    startTestPriceApis(t),
    startTestLiquidityPoolApis(t, [
      AERO,
      { ...AERO, dex: 'uniswap', liquidity: 900_000, createdAt: AERO.createdAt + DAY },
    ]),
    startTestSearchApis(t),
    startTestSocialApis(t),
    startTestMailServer(t),
    website(t),
  ])
  const { WIKIPEDIA_BASE = UNREACHABLE_URL, STACKEXCHANGE_BASE = UNREACHABLE_URL } = search.settings
  const { DUCKDUCKGO_BASE = UNREACHABLE_URL } = search.settings
  return {
    site,
    mails: mail.letters,
    settings: {
      COINGECKO_BASE: prices.settings.coingecko,
      COINBASE_BASE: prices.settings.coinbase,
      KRAKEN_BASE: prices.settings.kraken,
      BINANCE_BASE: prices.settings.binance,
      DEFILLAMA_BASE: prices.settings.defillama,
      ...dex.settings,
      ...social.settings,
      WIKIPEDIA_BASE,
      STACKEXCHANGE_BASE,
      DUCKDUCKGO_BASE,
      RPC_URL_BASE: rpcUrl,
      RPC_URL_ETHEREUM: UNREACHABLE_URL,
      RPC_URL_ARBITRUM: UNREACHABLE_URL,
      RPC_URL_OPTIMISM: UNREACHABLE_URL,
      RPC_URL_POLYGON: UNREACHABLE_URL,
      SMTP_URL: mail.url,
      // Pages are read on this machine only.
      SSRF_ALLOW: '127.0.0.1:1024-65535',
    },
  }
}

/** Answers any path with records, data, a scripted page or a form. */
async function website(t: TeardownScope): Promise<string> {
  const { base } = await startFixtureServer(t, (request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost')
    if (request.method === 'POST') return page(response, 'Welcome', '<p>You are in.</p>')
    if (pathname.endsWith('.csv'))
      return text(response, 'text/csv', 'name,price\r\nada,3\r\nbob,5\r\n')
    if (pathname.startsWith('/repos/'))
      return sendJsonFixture(response, { name: 'node', stargazers_count: 7 })
    const body = pathname === '/product' ? SCRIPTED : pathname === '/login' ? LOGIN : SHOP
    page(response, 'Example shop', body)
  })
  return base
}

const SHOP = `<h2>Offers</h2>
<p>A lamp for the desk costs $24.50, and a chair $120.00. Both are made of oak and steel, come with a
guarantee of ten years, and are delivered within a week to every address of the country.</p>
<a href="/product">The lamp</a> <a href="/login">Log in</a>`
/** Shows its price only when scripts run. */
const SCRIPTED = `<div id="app"></div>
<script>document.getElementById('app').innerHTML = '<h2>Lamp</h2><p>It costs $24.50.</p>'</script>`
const LOGIN = `<form action="/session" method="post">
<label for="email">Email</label><input id="email" name="email" type="email">
<label for="password">Password</label><input id="password" name="password" type="password">
<button type="submit">Log in</button></form>`

const page = (response: ServerResponse, title: string, body: string): void =>
  text(
    response,
    'text/html; charset=utf-8',
    `<!doctype html><html lang="en"><head><title>${title}</title></head><body><h1>${title}</h1>${body}</body></html>`,
  )

function text(response: ServerResponse, type: string, body: string): void {
  response.writeHead(200, { 'content-type': type, 'x-fixture': '1' }).end(body)
}

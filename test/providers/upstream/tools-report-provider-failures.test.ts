import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

type Manner = 400 | 401 | 429 | 500 | 'garbage' | 'hangs up'

/** Where every provider is at once, and answers in one manner. */
async function moody(t: Test, manner: Manner): Promise<string> {
  const server = createServer((request, response) => {
    if (manner === 'hangs up') return void request.socket.destroy()
    if (manner === 'garbage') return void response.end('<html>hello</html>')
    const after = manner === 429 ? { 'retry-after': '7' } : {}
    response.writeHead(manner, { 'content-type': 'text/plain', ...after }).end('no')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const TOKEN = `0x${'1'.repeat(40)}`
/** Each asks one provider, or a group of which none answers. */
const CALLS: Readonly<Record<string, readonly [fields: object, who: string, kind: string]>> = {
  tx_simulate: [{ chain: 'ethereum', to: TOKEN }, 'The node of ethereum', 'chain node'],
  llm_routing: [{ prompt: 'say hello' }, 'The language model m', 'language model'],
  wallet_investigate: [
    { address: TOKEN, chains: ['ethereum'] },
    'Every node of ethereum',
    'chain node',
  ],
  onchain_insight: [
    { query: TOKEN, chain: 'ethereum' },
    'Each of dexscreener, geckoterminal, rpc:ethereum',
    'data source',
  ],
  price_feed: [{ query: 'BTC' }, 'Every price source', 'price source'],
  social_oracle: [{ query: 'bitcoin' }, 'Every social platform', 'social platform'],
  deep_search: [{ query: 'who made bitcoin' }, 'Every search source', 'search source'],
}
const SINGLE = ['tx_simulate', 'llm_routing']
const AGAIN = 'Try again, with a new Idempotency-Key if you send one.'

/** The expected failure report of one provider, with its remedy. */
const DEEDS: readonly [Manner, code: string, deed: string, advice: RegExp][] = [
  [401, 'upstream_error', 'refused this station (HTTP 401)', /^The operator has to look at it/],
  [400, 'upstream_error', 'refused the request (HTTP 400)', /^Send another request/],
  [429, 'upstream_rate_limited', 'rate-limits this station', /^Try again in (7|30) s\.$/],
  [500, 'upstream_error', 'failed (HTTP 500)', new RegExp(`^${AGAIN}$`)],
  ['garbage', 'upstream_schema', 'answered in an unknown format', /^If it stays so, the operator/],
  ['hangs up', 'upstream_error', '(closed the connection|failed)', new RegExp(`^${AGAIN}$`)],
]

const SOURCES = [
  'COINGECKO',
  'COINBASE',
  'KRAKEN',
  'BINANCE',
  'DEFILLAMA',
  'DEXSCREENER',
  'GECKOTERMINAL',
  'WIKIPEDIA',
  'HACKERNEWS',
  'STACKEXCHANGE',
  'DUCKDUCKGO',
  'MASTODON',
]

t.test(
  'every tool reports a failing provider with its name, the cause, the refund and the next step',
  async (t) => {
    for (const [manner, code, deed, advice] of DEEDS) {
      const house = await moody(t, manner)
      const model = { id: 'm', in_per_mtok: 1, out_per_mtok: 1, quality: 1, ctx: 4_000 }
      const main = await startInProcessTestStation(t, {
        RPC_URL_ETHEREUM: house,
        ...Object.fromEntries(SOURCES.map((name) => [`${name}_BASE`, house])),
        LLM_PROVIDERS: JSON.stringify([{ id: 'local', base_url: house, models: [model] }]),
      })
      const her = await main.onboard()
      for (const [tool, [fields, who, kind]] of Object.entries(CALLS)) {
        const { body } = await main.call(her, tool, fields)
        t.match(body, { refunded: true, cost_usdc: 0, provider_kind: kind }, `${manner}: ${tool}`)
        const [happened = '', what = ''] = String(body['detail']).split(' Nothing was charged. ')
        if (SINGLE.includes(tool)) {
          t.equal(body.code, code, `${manner}: ${tool}`)
          const said = deed.startsWith('(') ? deed : deed.replace(/[()]/g, '\\$&')
          t.match(happened, new RegExp(`^${who} ${said}\\.$`))
          t.match(what, advice)
        } else {
          t.equal(happened, `${who} failed.`)
          t.match(what, /^Try again( in 15 s|, with a new Idempotency-Key if you send one)\.$/)
        }
      }
      t.equal(await main.balance(her), 0.5)
      await main.verify()
    }
  },
)

import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

type Manner = 400 | 401 | 429 | 500 | 'garbage' | 'hangs up'

/** What comes back from outside instead of an answer: nobody is charged for it, and none is an error of the station. */
const ODD_ANSWERS: Readonly<Record<string, (response: ServerResponse) => void>> = {
  'nothing at all': (response) => response.end(),
  'no content': (response) => response.writeHead(204).end(),
  'half of its length': (response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': 100 })
    response.write('{"a":', () => response.destroy())
  },
  'another length than it says in chunks': (response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.write('[1,', () => response.destroy())
  },
  null: (response) => response.end('null'),
  'a text': (response) => response.end('"hello"'),
  'a list of nulls': (response) => response.end('[null,null]'),
  'a number beyond a double': (response) => response.end('{"result":1e999,"price":1e999}'),
  'a hundred thousand levels': (response) => response.end('['.repeat(100_000)),
  'closed levels': (response) => response.end('['.repeat(50_000) + ']'.repeat(50_000)),
  'five megabytes': (response) => response.end(`{"a":"${'x'.repeat(5_000_000)}"}`),
  'bytes that are no UTF-8': (response) => response.end(Buffer.from([0x22, 0xff, 0xfe, 0x22])),
  'a bomb': (response) =>
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(20_000_000))),
  'broken compression': (response) =>
    response.writeHead(200, { 'content-encoding': 'gzip' }).end('no gzip'),
  'an unknown compression': (response) =>
    response.writeHead(200, { 'content-encoding': 'x-none' }).end('{}'),
  'a redirect to itself': (response) => response.writeHead(302, { location: '/' }).end(),
  'a status nobody knows': (response) => response.writeHead(799).end('{}'),
  'a page of a gateway': (response) =>
    response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>502 Bad Gateway</h1>'),
}

/** Where every provider is at once, and answers in one manner. */
async function moody(t: Test, manner: string | number): Promise<string> {
  const server = createServer((request, response) => {
    const odd = ODD_ANSWERS[manner]
    if (odd !== undefined) return odd(response)
    if (manner === 'hangs up') return void request.socket.destroy()
    if (manner === 'garbage') return void response.end('<html>hello</html>')
    const after = manner === 429 ? { 'retry-after': '7' } : {}
    response.writeHead(Number(manner), { 'content-type': 'text/plain', ...after }).end('no')
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

/** A station all of whose providers are at one address. */
function startWith(t: Test, house: string) {
  const model = { id: 'm', in_per_mtok: 1, out_per_mtok: 1, quality: 1, ctx: 4_000 }
  return startInProcessTestStation(t, {
    RPC_URL_ETHEREUM: house,
    ...Object.fromEntries(SOURCES.map((name) => [`${name}_BASE`, house])),
    LLM_PROVIDERS: JSON.stringify([{ id: 'local', base_url: house, models: [model] }]),
  })
}

t.test(
  'every tool reports a failing provider with its name, the cause, the refund and the next step',
  async (t) => {
    for (const [manner, code, deed, advice] of DEEDS) {
      const house = await moody(t, manner)
      const main = await startWith(t, house)
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

t.test(
  'whatever a provider answers instead, the call is refunded and names the cause',
  async (t) => {
    for (const odd of Object.keys(ODD_ANSWERS)) {
      const main = await startWith(t, await moody(t, odd))
      const her = await main.onboard()
      for (const [tool, [fields, , kind]] of Object.entries(CALLS)) {
        const { status, body } = await main.call(her, tool, fields)
        t.ok([502, 503, 504].includes(status), `${odd}: ${tool} is ${status} ${body.code}`)
        t.match(body, { refunded: true, cost_usdc: 0 }, `${odd}: ${tool}`)
        if (body.code !== 'response_too_large')
          t.equal(body['provider_kind'], kind, `${odd}: ${tool}`)
      }
      t.equal(await main.balance(her), 0.5, odd)
    }
  },
)

import t from 'tap'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { SEARCH_API_NAMES, startTestSearchApis } from '../../support/upstreams/test-search-apis.ts'
import { createSearchAdapters } from '../../../providers/search/select-search-engines.ts'
import { htmlSnippetToText } from '../../../providers/text/html-snippet-to-text.ts'
import { createWebSearchClient } from '../../../providers/search/web-search-client.ts'
import { createUpstreamClient } from '../../../providers/upstream/upstream-client.ts'
import { createManualClock } from '../../support/tools/test-tool-context.ts'

const QUIET = new AbortController().signal

t.test('sources are queried in order, and the first reply wins', async (t) => {
  const house = await startTestSearchApis(t)
  const clock = createManualClock()
  const upstream = createUpstreamClient({ clock, userAgent: 'test' })
  t.teardown(() => upstream.close())
  const base = (name: (typeof SEARCH_API_NAMES)[number]) => house.servers[name].base
  const adapters = createSearchAdapters(
    upstream,
    {
      searxng: base('searxng'),
      brave: base('brave'),
      braveKey: 'brave-key',
      tavily: base('tavily'),
      tavilyKey: 'tavily-key',
      wikipedia: base('wikipedia'),
      hackernews: base('hackernews'),
      stackexchange: base('stackexchange'),
      duckduckgo: base('duckduckgo'),
    },
    300,
  )
  const hive = { search: async () => ({ entries: [], total: 0 }) }
  const search = createWebSearchClient({ adapters, hive, clock, publicUrl: 'http://gas.test' })
  const ask = (query = 'account abstraction') =>
    search.searchWeb({ query, limit: 2, owner: 'one' }, QUIET)
  t.strictSame(search.providers, SEARCH_API_NAMES)

  const failures = ['500', 'malformed', 'drift', 'hang', '429', 'redirect'] as const
  for (const [at, name] of SEARCH_API_NAMES.entries()) {
    const answer = await ask()
    t.match(answer, { source: name, degraded: false, mode: 'fixture' })
    t.strictSame(
      answer.failed.map(({ source }) => source),
      SEARCH_API_NAMES.slice(0, at),
    )
    t.equal(answer.results.length <= 2, true, 'no more than asked for')
    for (const result of answer.results) {
      t.match(result, { title: /\w/, url: /^https?:\/\//, source: name })
      t.notMatch(JSON.stringify(result), /[<>]|&amp;|&#/, 'plain text')
    }
    if (at > 0) t.equal(house.servers[name].requests.length, 1, 'no source is queried beforehand')
    house.moods[name] = failures[at] ?? '500'
  }
  t.match(house.keys, ['brave brave-key', 'tavily Bearer tavily-key'])
  t.match(house.servers.tavily.requests, ['POST /search'])
  const codes = (await ask()).failed.map(({ code }) => code)
  // The breakers of the first two are open after their failures.
  t.strictSame(codes, [
    'upstream_error',
    'upstream_error',
    'upstream_schema',
    'upstream_timeout',
    'upstream_rate_limited',
    'upstream_error',
    'upstream_error',
  ])
  t.equal(house.servers.brave.requests.length, 6, 'the breaker is open')
  t.match(await ask(), { degraded: true, source: 'hive', results: [] })
})

t.test(
  'an empty result moves to the next source, and an empty final result is valid',
  async (t) => {
    const house = await startTestSearchApis(t)
    const clock = createManualClock()
    const upstream = createUpstreamClient({ clock, userAgent: 'test' })
    t.teardown(() => upstream.close())
    const bases = Object.fromEntries(
      SEARCH_API_NAMES.map((name) => [name, house.servers[name].base]),
    )
    const adapters = createSearchAdapters(upstream, {
      ...(bases as Record<(typeof SEARCH_API_NAMES)[number], string>),
      braveKey: 'k',
      tavilyKey: null,
    })
    const hive = { search: async () => t.fail('the Hive is not asked') as never }
    const search = createWebSearchClient({ adapters, hive, clock, publicUrl: '' })
    t.notOk(search.providers.includes('tavily'), 'without its key it is not asked')
    house.moods.searxng = 'empty'
    t.match(await search.searchWeb({ query: 'x', limit: 5, owner: 'one' }, QUIET), {
      source: 'brave',
      failed: [],
    })
    for (const name of SEARCH_API_NAMES) house.moods[name] = 'empty'
    t.match(await search.searchWeb({ query: 'x', limit: 5, owner: 'one' }, QUIET), {
      source: 'searxng',
      results: [],
      degraded: false,
    })
    const left = new AbortController()
    house.moods.searxng = 'hang'
    const asked = search.searchWeb({ query: 'x', limit: 5, owner: 'one' }, left.signal)
    left.abort(new Error('gone'))
    await t.rejects(asked, /gone/)
  },
)

t.test('web_search is free ten times a day, and free when it is degraded', async (t) => {
  const house = await startTestSearchApis(t)
  const {
    SEARXNG_URL: _no,
    BRAVE_API_KEY: _key,
    TAVILY_API_KEY: _other,
    ...keyless
  } = house.settings
  const station = await startInProcessTestStation(t, keyless)
  const guest = await station.onboard()
  const headers = { 'x-forwarded-for': '203.0.113.9' }
  const search = (fields: object = {}) =>
    station.call(guest, 'web_search', { query: 'account abstraction', ...fields }, headers)

  const first = await search({ max_results: 1 })
  t.equal(first.status, 200)
  t.match(first.body, {
    query: 'account abstraction',
    count: 1,
    results: [{ title: 'Account abstraction', source: 'wikipedia' }],
    _meta: { cost_usdc: 0, provider: 'wikipedia', mode: 'fixture' },
  })
  t.equal((await search({ max_results: 21 })).status, 400)
  t.equal((await search({ query: ' ' })).status, 400)

  const content = 'Account abstraction on Base is cheapest when many operations share one bundle.'
  await station.call(guest, 'hive_write', { content }, headers)
  for (const name of SEARCH_API_NAMES) house.moods[name] = '500'
  const before = await station.balance(guest)
  for (let n = 0; n < 11; n += 1) {
    const { status, body } = await search()
    t.equal(status, 200)
    t.match(body, {
      degraded: true,
      results: [
        { source: 'hive', snippet: content, url: /^http:\/\/gas\.test\/api\/hive\/public/ },
      ],
      sources_failed: [{ source: 'wikipedia' }, {}, {}, {}],
      _meta: { cost_usdc: 0 },
    })
  }
  t.equal(await station.balance(guest), before, 'eleven degraded answers used no free call up')
})

t.test('an excerpt is one line of text', async (t) => {
  t.equal(
    htmlSnippetToText('a<p>b</p>c &lt;d&gt; &#x41;&#66;&unknown; &#1114112;', 99),
    'a b c <d> AB&unknown; &#1114112;',
  )
  t.equal(htmlSnippetToText('x\u202e\u200b\ny', 99), 'x y')
  t.equal(htmlSnippetToText('word '.repeat(50), 20).length <= 20, true)
})

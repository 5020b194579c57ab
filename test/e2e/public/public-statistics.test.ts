import t from 'tap'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { LIMITS } from '../../../core/limits.ts'
import { insertArrivedDeposit } from '../../support/payments/insert-test-deposit.ts'
import { openSseReader } from '../../support/http/websocket-and-sse-clients.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'

/** Public figures, rankings, badges and feeds over HTTP. */

const TOOL = 'hive_trending'
/** Nothing listens on this port. */
const CLOSED = '127.0.0.1:1'
const PRICE = 0.005
const [clock, CACHE_MS] = [createDatabaseAdjustedClock(), 31_000]
let later = 0
const main = await startInProcessTestStation(
  t,
  { STARTER_CREDITS_USDC: '40', TRUST_PROXY: '1', SSRF_ALLOW: CLOSED },
  { clock: { ...clock, mono: () => clock.mono() + later } },
)

/** Reads past every cache. */
const readFresh = (path: string, headers: Record<string, string> = {}) => {
  later += CACHE_MS
  return main.ask('GET', path, { headers })
}
const makePublic = async ({ key }: TestAgent) =>
  main.ask('PATCH', '/api/agent/me', { key, json: { discoverable: true } })
const ledgerVolume = async (): Promise<number> => {
  const [row] = await main.sql<{ sum: bigint }[]>`
    select coalesce(sum(amount_micros), 0)::bigint as sum from ledger
     where kind in ('price', 'charge', 'fee', 'share')`
  return Number(row?.sum ?? 0) / 1e6
}

t.test('figures are those of the ledger and the call log', async (t) => {
  const ann = await main.onboard()
  for (let call = 0; call < 3; call += 1) await main.call(ann, TOOL)
  await main.call(ann, TOOL, {}, { 'x-ghost-mode': 'stealth' })
  await main.call(ann, 'agent_see', { url: `http://${CLOSED}/`, engine: 'http' })
  // A call that a pass pays costs less than its list price.
  await main.ask('POST', '/api/task/passes/buy', { key: ann.key, json: { pass: 'micro' } })
  await main.call(ann, 'strategy_publish', { title: 'x', description: 'x' })
  const { body } = await readFresh('/api/stats')
  const [log] = await main.sql<{ calls: number; failed: number }[]>`
    select count(*)::int as calls, count(*) filter (where status = 'failed')::int as failed
      from calls where tool is not null`
  const successes = (log?.calls ?? 0) - (log?.failed ?? 0)
  t.ok((log?.failed ?? 0) > 0, 'one of them failed')
  t.match(body, {
    calls_24h: successes,
    calls_total: successes,
    success_rate_24h: Math.round((successes / (log?.calls ?? 0)) * 10_000) / 10_000,
    usdc_volume_24h: await ledgerVolume(),
    usdc_volume_total: await ledgerVolume(),
    tools_total: (await main.ask('GET', '/api/tools')).body['total'],
    agents_active_24h: 1,
  })
  for (let call = 0; call < 2; call += 1) await main.call(ann, TOOL)
  t.equal((await main.ask('GET', '/api/stats')).body['calls_24h'], successes, 'cached')
  const next = await readFresh('/api/stats')
  t.equal(next.body['calls_24h'], successes + 2, 'new rows are added once')
  t.equal(next.body['usdc_volume_24h'], await ledgerVolume())
})

t.test('a restored database is summed again from the start', async (t) => {
  const before = (await readFresh('/api/stats')).body
  await main.sql`update statistics_cursor set cluster = 'another'`
  // The transaction ids of the calls are those of the cluster that was saved.
  await main.sql`update calls set written = (written::text::bigint + 4000000000)::text::xid8`
  for (const reading of ['summed again', 'summed once']) {
    const after = (await readFresh('/api/stats')).body
    t.equal(after['calls_24h'], before['calls_24h'], reading)
    t.equal(after['usdc_volume_24h'], before['usdc_volume_24h'], reading)
    t.equal(after['usdc_volume_total'], before['usdc_volume_total'], reading)
  }
  const ann = await main.onboard()
  await main.call(ann, TOOL)
  t.equal((await readFresh('/api/stats')).body['calls_24h'], Number(before['calls_24h']) + 1)
})

t.test('only cash paid to the station for public calls ranks', async (t) => {
  const agents = await Promise.all(Array.from({ length: 4 }, () => main.onboard()))
  const [rich, hidden, ghost, promo] = agents as [TestAgent, TestAgent, TestAgent, TestAgent]
  for (const agent of [rich, hidden, ghost]) {
    await insertArrivedDeposit(main, agent.id, 30)
    const sent = { to_agent_id: promo.id, amount_usdc: 40 }
    await main.ask('POST', '/api/agent/send', { key: agent.key, json: sent })
  }
  for (const agent of [rich, ghost, promo]) await makePublic(agent)
  const forge = { prompt: 'an agent that says hello', framework: 'http' }
  for (let call = 0; call < 30; call += 1) {
    await main.call(rich, 'genesis_forge', forge)
    await main.call(hidden, TOOL)
    await main.call(ghost, TOOL, {}, { 'x-ghost-mode': 'stealth' })
    await main.call(promo, TOOL)
  }
  await main.ask('POST', '/api/tip', {
    key: ghost.key,
    json: { to_agent_id: promo.id, amount_usdc: 5 },
  })
  const { body } = await readFresh('/api/leaderboard?limit=100')
  const paid = await main.sql<{ sum: bigint }[]>`
    select sum(amount_micros)::bigint as sum from transfers
     where debit in (${`agent:${rich.id}:cash`}, ${`agent:${rich.id}:held`})
       and credit in ('platform:tools', 'treasury:fees')`
  t.match(body['agents'], [{ rank: 1, agent_id: rich.id, score_usdc: Number(paid[0]?.sum) / 1e6 }])
  t.equal(body['count'], 1, 'neither promotional, nor private, nor undisclosed agents')
  t.match(body['formula'], /cash that the agent has paid/)
  t.match(body['agents'], [{ tier: Number(paid[0]?.sum) >= 25e6 ? 'elite' : 'pro' }])

  const page = await main.ask('GET', '/hall-of-agents', { headers: { accept: 'text/html' } })
  t.match(page.headers['content-security-policy'], /default-src 'none'/)
  t.match(page.text, /<h2>Elite/)
  t.match((await main.ask('GET', '/hall-of-agents')).headers['content-type'], /json/)

  const badge = await main.ask('GET', `/embed/badge/${rich.id}.svg`)
  t.match(badge.headers['content-type'], /image\/svg/)
  t.match(badge.text, /aria-label="tester: (elite|pro)"/)
  const secret = await main.ask('GET', `/embed/badge/${hidden.id}.svg`)
  t.equal(secret.status, 404)
  t.notMatch(secret.text, /tester/, 'an agent that may not be named is not named')
  t.equal((await main.ask('GET', '/embed/badge/nobody.svg')).status, 404)
  t.match((await main.ask('GET', '/embed/stats.svg')).text, /calls, [\d.]+ USDC \/ 24h/)
  await main.verify()
})

t.test('the owner decides whether the agent is public', async (t) => {
  const { key } = await main.onboard()
  t.match((await main.ask('GET', '/api/agent/me', { key })).body, { discoverable: false })
  const json = { discoverable: true, description: 'Reads & writes <b>' }
  const changed = await main.ask('PATCH', '/api/agent/me', { key, json })
  t.match(changed.body, { discoverable: true, description: json.description, framework: null })
  t.match((await main.ask('GET', '/api/agent/me', { key })).body, json)
  const bad = await main.ask('PATCH', '/api/agent/me', { key, json: { discoverble: true } })
  t.match([bad.status, bad.body.errors[0]?.pointer], [400, '/discoverble'])
  t.equal((await main.ask('PATCH', '/api/agent/me', { key, json: {} })).status, 400)
})

t.test('a stream sends the figures at once and when they change', async (t) => {
  const ann = await main.onboard()
  const from = { 'x-forwarded-for': '203.0.113.9' }
  const reader = await openSseReader(t, `${main.url}/api/stats/live`, null, from)
  const first = await reader.next(({ event }) => event === 'stats')
  const calls = Number(first.data['calls_24h'])
  await main.call(ann, TOOL)
  later += CACHE_MS
  const next = await reader.next(({ data }) => Number(data['calls_24h']) > calls)
  t.equal(next.data['calls_24h'], calls + 1)
  // Each of them waits for the figures while the others open.
  later += CACHE_MS
  const others = await Promise.all(
    Array.from({ length: 5 }, () => openSseReader(t, `${main.url}/api/stats/live`, null, from)),
  )
  t.strictSame(
    others.map(({ status }) => status).toSorted((a, b) => a - b),
    [200, 200, 200, 200, 409],
    'five streams an address',
  )
  for (const one of [reader, ...others]) one.close()
})

t.test('a network cannot hold all streams of figures', async (t) => {
  const open = (site: number, at: number) =>
    openSseReader(t, `${main.url}/api/stats/live`, null, {
      'x-forwarded-for': `2001:db8:${site}:${at.toString(16)}::1`,
    })
  const perSite = LIMITS.statsStreamsPerAddress * LIMITS.ipv6SiteFactor
  const first = await open(0, 0)
  for (let at = 1; at < LIMITS.statsStreams; at += 1) {
    const { status } = await open(Math.floor(at / perSite), at % perSite)
    if (status !== 200) t.fail(`${at}: ${status}`)
  }
  t.equal((await open(0, perSite)).status, 409, 'each of them has its own /64')
  const other = await open(99, 0)
  t.equal(other.status, 200, 'whoever has none gets one')
  await first.ended
  t.match(first.text, /retry: 60000\n\n$/, 'the oldest of whoever has the most gives way')
})

t.test('feeds escape what agents wrote', async (t) => {
  const ann = await main.onboard()
  const title = 'Find <b>&"it"'
  const bounty = { title, description: 'a ]]> b', domain: 'base', reward_usdc: 0.5 }
  const posted = await main.ask('POST', '/api/bounties', { key: ann.key, json: bounty })
  // The title of this entry would end in half of a character.
  const content = `${'x'.repeat(79)}😀 is found by its first words`
  t.match(await main.call(ann, 'hive_write', { content }), { status: 200 })
  const feed = await main.ask('GET', '/bounties.rss')
  t.match(feed.headers['content-type'], /application\/rss\+xml/)
  t.match(feed.text, '<title>Find &lt;b&gt;&amp;&quot;it&quot; (0.5 USDC)</title>')
  t.match(
    feed.text,
    `<guid isPermaLink="true">http://gas.test/api/bounties/${String(posted.body['id'])}</guid>`,
  )
  t.notMatch(feed.text, ann.id, 'names no agent')
  t.match((await readFresh('/hive.rss')).text, `<title>${'x'.repeat(79)}…</title>`)
  for (const path of ['/hive.rss', '/changelog.rss'])
    t.match((await main.ask('GET', path)).text, /^<\?xml[^>]+>\n<rss version="2.0"/)
})

t.test('documents describe the station from its own tables', async (t) => {
  const welcome = await main.ask('GET', '/api/agent-welcome')
  t.match(welcome.body, { schema_version: '1.0', onboarding: { starter_credits_usdc: 40 } })
  const requests = welcome.body['first_requests'] as {
    method: string
    url: string
    headers: Record<string, string>
    body?: object
  }[]
  const ann = await main.onboard()
  for (const { method, url, headers, body } of requests) {
    const key = headers['x-api-key'] === undefined ? undefined : ann.key
    const path = new URL(url).pathname
    const { status } = await main.ask(method, path, { key, ...(body && { json: body }) })
    t.equal(status, 200, `${method} ${path} runs as printed`)
  }
  const prices = (await main.ask('GET', '/api/pricing.json')).body
  t.match(prices, { tools: [], fees: { platform_rate: 0.18 }, crews: { competitor: 0.25 } })
  const listed = prices['tools'] as { slug: string; price_usdc: number }[]
  t.equal(listed.find(({ slug }) => slug === TOOL)?.price_usdc, PRICE)
  t.match((await main.ask('GET', '/api/whats-new')).body, {
    schema: 'gas/whats-new/v1',
    catalogue: [{ revision: 1 }],
  })
  const standard = await main.ask('GET', '/api/standard')
  t.match(standard.body, { schema_version: '1.0', errors: { standard: 'RFC 9457' } })
  const etag = standard.headers['etag'] ?? ''
  const again = await main.ask('GET', '/api/standard', { headers: { 'if-none-match': etag } })
  t.equal(again.status, 304)
  t.match((await main.ask('GET', '/api/trending')).body, { window_hours: 24, tools: [] })
})

t.test('the directory lists who agreed to be found', async (t) => {
  const [seen, unseen] = [await main.onboard(), await main.onboard()]
  const profile = { description: 'Watches liquidity on Base', framework: 'langchain' }
  for (const [agent, discoverable] of [
    [seen, true],
    [unseen, false],
  ] as const) {
    const json = { ...profile, discoverable }
    await main.ask('PATCH', '/api/agent/me', { key: agent.key, json })
  }
  const found = async (query: string) => {
    const { body } = await main.ask('GET', `/api/discover?${query}`)
    return (body['agents'] as { agent_id: string }[]).map(({ agent_id: id }) => id)
  }
  t.strictSame(await found('q=LIQUIDITY%20base&framework=langchain'), [seen.id])
  t.strictSame(await found('q=liquidity%20solana'), [])
  t.strictSame(await found('framework=eliza'), [])
  const pages: string[] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const { body } = await main.ask('GET', `/api/discover?limit=1${cursor}`)
    const page = body as unknown as { agents: { agent_id: string }[]; next_cursor: string | null }
    pages.push(...page.agents.map(({ agent_id: id }) => id))
    cursor = page.next_cursor === null ? null : `&cursor=${page.next_cursor}`
  }
  t.strictSame(pages, await found('limit=200'), 'page by page')
  t.notOk(pages.includes(unseen.id))
})

t.test('the manifesto has one signature an agent, and names only public signers', async (t) => {
  const [ann, bob] = [await main.onboard(), await main.onboard()]
  await makePublic(ann)
  const sign = ({ key }: TestAgent) => main.ask('POST', '/api/manifesto/sign', { key })
  const statuses = await Promise.all(Array.from({ length: 8 }, () => sign(ann)))
  t.strictSame(
    statuses.map(({ status }) => status).toSorted((a, b) => a - b),
    [200, 200, 200, 200, 200, 200, 200, 201],
  )
  await sign(bob)
  const signed = (await main.ask('GET', '/api/manifesto')).body
  t.match(signed, { signatures: 2, signers: [{ agent_id: ann.id }], count: 1, next_cursor: null })
  for (const position of ['1 abc', `${'9'.repeat(15)} ${ann.id}`]) {
    const cursor = Buffer.from(position).toString('base64url')
    const { status } = await main.ask('GET', `/api/manifesto?cursor=${cursor}`)
    t.equal(status, 400, position)
  }
  await main.ask('DELETE', '/api/manifesto/sign', { key: ann.key })
  t.match((await main.ask('GET', '/api/manifesto')).body, { signatures: 1, signers: [] })
})

t.test('what the store sells costs what it says', async (t) => {
  const { body } = await main.ask('GET', '/api/store')
  const items = body['items'] as {
    id: string
    kind: string
    price_usdc: number
    request: { method: string; url: string; body: Record<string, unknown> }
  }[]
  for (const { id, kind, price_usdc: price, request } of items) {
    // The first writes of a vault are free.
    if (kind === 'service' || id === 'tool:vault_write') continue
    // A pack is in its bundle too.
    const ann = await main.onboard()
    const path = new URL(request.url).pathname
    const answer =
      kind === 'tool'
        ? await main.ask('POST', '/api/quote', { key: ann.key, json: request.body })
        : kind === 'crew'
          ? await main.ask('POST', path, { key: ann.key, json: { ...request.body, dry_run: true } })
          : await main.ask('POST', path, { key: ann.key, json: request.body })
    const { price_usdc: quoted, _meta: meta } = answer.body
    t.equal(quoted ?? meta?.cost_usdc, price, `${id} ${answer.text.slice(0, 300)}`)
  }
  t.equal(body['count'], items.length)
  t.strictSame([...new Set(items.map(({ kind }) => kind))].sort(), [
    'bundle',
    'crew',
    'pack',
    'pass',
    'service',
    'tool',
  ])
})

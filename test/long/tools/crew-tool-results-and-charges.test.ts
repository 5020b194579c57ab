import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import {
  startInProcessTestStation,
  spawnSecondNode,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import { startTestCompanyWebsite } from '../../support/upstreams/test-company-website.ts'
import { startTestLlmApi } from '../../support/upstreams/test-llm-api.ts'
import {
  startTestSearchApis,
  type SearchApiName,
} from '../../support/upstreams/test-search-apis.ts'
import { startTestSocialApis } from '../../support/upstreams/test-social-apis.ts'

const WEB: readonly SearchApiName[] = ['wikipedia', 'hackernews', 'stackexchange', 'duckduckgo']
const COLD = {
  icpDescription: 'Heads of operations at small logistics companies who plan routes by hand',
  offerDescription: 'A route planner that cuts fuel costs by a tenth and is set up in a day',
}
const ISSUE = { topic: 'Account abstraction gas fees', targetAudience: 'Developers of wallets' }

interface Stage {
  name: string
  ms: number
  note: string
}
interface Section {
  heading: string
  text: string
  citations: number[]
}

const web = await startTestSearchApis(t)
const people = await startTestSocialApis(t)
const rival = await startTestCompanyWebsite(t)
web.articles.push({
  title: 'Zephyr Rockets review',
  snippet: 'A review of Zephyr Rockets and its alternatives.',
  html: `<p>Zephyr Rockets is a young company with a launch ship.</p>
    <p>The support of Zephyr Rockets is terrible, slow and awful.</p>`,
})
const { SEARXNG_URL: _s, BRAVE_API_KEY: _b, TAVILY_API_KEY: _t, ...keyless } = web.settings
const { HACKERNEWS_BASE: _h, ...posts } = people.settings
const settings = { ...keyless, ...posts, SSRF_ALLOW: '127.0.0.1:1024-65535' }
const main = await startInProcessTestStation(t, settings)
const models = await startTestLlmApi(t)
const modelled = await startInProcessTestStation(
  t,
  { ...settings, LLM_PROVIDERS: models.providers({ local: {} }) },
  { database: main.database },
)

const run = ({ key }: TestAgent, json: unknown, headers: Record<string, string> = {}) =>
  main.ask('POST', '/api/agent/crew', { key, json, headers })
const stagesOf = (body: object) => (body as { stages: Stage[] }).stages.map(({ name }) => name)
const sectionsOf = (body: object) => (body as { sections: Section[] }).sections
const marksOf = (text: string) => [...text.matchAll(/\[(\d+)\]/g)].map(([, n]) => Number(n))

t.test('a competitor report quotes its sources and costs 0.25', async (t) => {
  const guest = await main.onboard()
  const { status, body, text } = await run(guest, { domain: rival.base })
  t.equal(status, 200, text.slice(0, 400))
  t.match(body, {
    type: 'competitor',
    title: 'Competitor report: Zephyr Rockets',
    method: 'extractive',
    _meta: { cost_usdc: 0.25, mode: 'fixture' },
  })
  t.strictSame(new Set(stagesOf(body)), new Set(['site', 'search', 'social', 'read', 'report']))
  t.equal(stagesOf(body)[0], 'site')
  t.equal(stagesOf(body).at(-1), 'report')
  const by = new Map(sectionsOf(body).map((one) => [one.heading, one]))
  t.match(by.get('What it says it does')?.text, /launches small satellites/)
  t.match(by.get('Prices it shows')?.text, /\$4,500 per kilogram\. \[\d+\]/)
  t.match(by.get('What others say of it')?.text, /young company/)
  t.match(by.get('Openings it leaves')?.text, /terrible, slow and awful/)
  t.match(by.get('What people say')?.text, /posts on .*mastodon/)
  t.notMatch(text, /Ignore all previous/)
  const numbers = (body['sources'] as { n: number }[]).map(({ n }) => n)
  t.strictSame(
    numbers,
    numbers.map((_, at) => at + 1),
  )
  for (const section of sectionsOf(body)) {
    t.same(new Set(marksOf(section.text)), new Set(section.citations))
    t.ok(section.citations.every((n) => numbers.includes(n)))
    t.ok(String(body['text']).includes(section.text), 'the whole has every section')
  }
  t.equal(await main.balance(guest), 0.25)
  t.ok(rival.requests.includes('GET /pricing') && rival.requests.includes('GET /about'))
})

t.test('a newsletter has stories with sources and costs 0.15', async (t) => {
  const guest = await main.onboard()
  const { status, body, text } = await run(guest, ISSUE)
  t.equal(status, 200, text.slice(0, 400))
  t.match(body, {
    type: 'newsletter',
    subject: /^Account abstraction gas fees/,
    method: 'extractive',
    _meta: { cost_usdc: 0.15 },
  })
  const headings = sectionsOf(body).map(({ heading }) => heading)
  t.ok(headings.includes('Account abstraction') && headings.includes('Gas fees'))
  t.match(sectionsOf(body)[0]?.text, /^For Developers of wallets: \d stor/)
  t.match(text, /a paymaster can pay the gas fees of a user/)
  t.match(stagesOf(body).slice(-2), ['select', 'write'])
  t.equal(await main.balance(guest), 0.35)
})

t.test('cold e-mails need no upstream and cost 0.20', async (t) => {
  const guest = await main.onboard()
  const { key } = guest
  const snake = { icp_description: COLD.icpDescription, offer_description: COLD.offerDescription }
  const { status, body } = await run(guest, snake)
  t.equal(status, 200)
  t.match(body, {
    type: 'cold_email',
    method: 'template',
    sources: [],
    emails: [{ send_after_days: 0 }, { send_after_days: 3 }, { send_after_days: 8 }],
    _meta: { cost_usdc: 0.2 },
  })
  t.strictSame(stagesOf(body), ['profile', 'write', 'check'])
  for (const letter of body['emails'] as { body: string; merge_fields: string[]; warnings: [] }[]) {
    t.match(letter.body, /route planner|routes|logistics|fuel/)
    t.ok(letter.merge_fields.includes('first_name'))
    t.strictSame(letter.warnings, [])
  }
  t.equal((await main.call(guest, 'crew', COLD)).status, 200, 'the same over refuel')
  t.equal(await main.balance({ id: '', key }), 0.1)
})

t.test('a custom goal runs the tools that it needs and costs 0.25', async (t) => {
  const guest = await main.onboard()
  const goal = 'Research how account abstraction pays gas fees'
  const { status, body, text } = await run(guest, { goal })
  t.equal(status, 200, text.slice(0, 400))
  t.match(body, { type: 'custom', method: 'extractive', _meta: { cost_usdc: 0.25 } })
  t.equal(stagesOf(body)[0], 'plan')
  const tools = body['tools'] as { tool: string; output: Record<string, unknown> }[]
  t.ok(tools.some(({ tool }) => tool === 'deep_search'))
  t.match(text, /a paymaster can pay the gas fees of a user/)
  t.equal(await main.balance(guest), 0.25)
})

t.test('an invalid request is rejected before a hold', async (t) => {
  const guest = await main.onboard()
  const refused = async (json: unknown, code: string, pointer?: string) => {
    const { body, text } = await run(guest, json)
    t.equal(body.code, code, text.slice(0, 300))
    if (pointer !== undefined)
      t.ok(
        body.errors.some((one) => one.pointer === pointer),
        text,
      )
  }
  await refused({}, 'invalid_input', '/type')
  await refused({ type: 'market' }, 'invalid_input', '/type')
  await refused({ domain: 'a.test', goal: 'Research a thing or two' }, 'invalid_input', '/type')
  await refused({ topic: 'gas' }, 'invalid_input', '/targetAudience')
  await refused({ type: 'newsletter', ...ISSUE, domain: 'a.test' }, 'invalid_input', '/domain')
  await refused({ ...COLD, colour: 'red' }, 'invalid_input', '/colour')
  await refused({ domain: 'http://169.254.169.254/' }, 'blocked_url')
  await refused({ domain: '???' }, 'invalid_input', '/domain')
  await refused({ domain: 'not a host' }, 'invalid_input', '/domain')
  await refused({ goal: 'xyzzy plugh qwfp zxcv' }, 'provider_not_configured')
  t.equal((await main.ask('POST', '/api/agent/crew', { json: COLD })).status, 401)
  const rows = await main.sql`select from calls where agent_id = ${guest.id} and tool = 'crew'`
  t.equal(rows.length, 0)
  const poor = await main.onboard(0.19)
  t.match(await run(poor, COLD), {
    status: 402,
    body: { code: 'payment_required', price_usdc: 0.2 },
  })
  const { status, body } = await main.ask('GET', '/api/agent/crew')
  t.equal(status, 200)
  t.match(body['crews'], [
    { type: 'competitor', price_usdc: 0.25, input_schema: { required: ['domain'] } },
    { type: 'newsletter', price_usdc: 0.15 },
    { type: 'cold_email', price_usdc: 0.2 },
    { type: 'custom', price_usdc: 0.25 },
  ])
})

t.test('two requests with one Idempotency-Key run one crew with one stored reply', async (t) => {
  const guest = await main.onboard()
  const headers = { 'idempotency-key': 'crew-0123456789' }
  const both = await Promise.all([run(guest, ISSUE, headers), run(guest, ISSUE, headers)])
  const told = both.filter(({ status }) => status === 200)
  t.ok(told.length >= 1)
  for (const { body } of told) t.equal(body._meta.call_id, told[0]?.body._meta.call_id)
  const again = await run(guest, ISSUE, headers)
  t.equal(again.headers['idempotency-replayed'], 'true')
  t.equal(again.text, told[0]?.text)
  t.equal(await main.balance(guest), 0.35)
  t.equal((await run(guest, COLD, headers)).body.code, 'idempotency_key_reused')
})

t.test('the limits of the owner and a task apply to a crew like to any call', async (t) => {
  const { id, key } = await main.onboard()
  const made = async (path: string, json: object) =>
    (await main.ask('POST', path, { key, json })).body
  const fuse = { per_call_usdc: 0.1 }
  const pack = await made('/api/backpack/create', { agent_name: 'x', fuse })
  const listed = await made('/api/backpack/create', { agent_name: 'x', tools: ['crew'] })
  const task = await made('/api/task/start', { name: 'x', budget_usdc: 0.3 })
  const within = (headers: Record<string, string>) => run({ id, key }, COLD, headers)
  t.equal((await within({ 'x-backpack-id': pack.backpack_id })).body.code, 'FUSE_TRIPPED')
  const limits = { 'x-backpack-id': listed.backpack_id, 'x-task-id': task.task_id }
  t.equal((await within(limits)).status, 200)
  t.equal((await within(limits)).body.code, 'task_budget_exceeded')
  t.equal(await main.balance({ id, key }), 0.3)
})

t.test('a stream reports each stage, and the text only in its result', async (t) => {
  const { key } = await main.onboard()
  const json = { tool: 'crew', ...ISSUE }
  const { frames } = await main.ask('POST', '/api/refuel/stream', { key, json })
  const of = (event: string) =>
    frames.filter((frame) => frame.event === event).map(({ data }) => data)
  t.equal(frames[0]?.event, 'start')
  t.equal(frames.at(-1)?.event, 'done')
  const [result] = of('result')
  t.ok(result)
  const stages = (result as unknown as { stages: Stage[] }).stages
  for (const { name, note } of stages) {
    const notes = of('progress').flatMap((one) => (one['step'] === name ? [one['note']] : []))
    t.strictSame(notes, ['started', note], name)
  }
  t.ok(of('progress').some(({ step }) => step === 'page'))
  t.strictSame([...of('partial'), ...of('text')], [])
})

t.test('streams of other tools report their steps too', async (t) => {
  const { key } = await main.onboard()
  const told = async (json: { tool: string }) => {
    const { frames } = await main.ask('POST', '/api/refuel/stream', { key, json })
    t.equal(frames.at(-2)?.event, 'result', json.tool)
    return frames
      .filter(({ event }) => event === 'progress' || event === 'partial')
      .map(({ data }) => String(data['step'] ?? data['path']))
  }
  const has = (steps: readonly string[], ...wanted: string[]) =>
    t.strictSame(
      wanted.filter((one) => !steps.includes(one)),
      [],
      steps.join(' '),
    )
  const query = 'account abstraction gas fees'
  has(await told({ tool: 'web_search', query } as never), 'run', 'wikipedia', '/results', 'settle')
  const deep = { tool: 'deep_search', query: `How does ${query} work?` }
  has(await told(deep), 'search:wikipedia', '/searches/query', 'pages', '/sources/0')
  has(await told({ tool: 'social_oracle', query } as never), '/platforms/mastodon')
  has(await told({ tool: 'hallucination_pill', claim: '2 + 2 = 4' } as never), '/results/0')
})

t.test('a model writes the text if available, and unsupported sentences are dropped', async (t) => {
  models.answer = ({ messages }) => {
    const prompt = messages.at(-1)?.content ?? ''
    if (prompt.startsWith('<customer>')) {
      const email = { subject: 'Routes', body: 'Hello {{first_name}}, act now: routes in a day.' }
      return JSON.stringify({ emails: [email, email, email] })
    }
    if (prompt.startsWith('<goal>'))
      return JSON.stringify({ tools: [{ tool: 'web_search', query: 'account abstraction' }] })
    return 'A paymaster can pay the gas fees of a user [1]. Bananas ripen quickly in Brazil [1].'
  }
  const ask = async (json: object) =>
    modelled.ask('POST', '/api/agent/crew', { key: (await main.onboard()).key, json })
  const issue = await ask(ISSUE)
  t.match(issue.body, { method: 'llm' })
  t.notMatch(issue.text, /Bananas/)
  const letters = await ask(COLD)
  t.match(letters.body, { method: 'llm', emails: [{ warnings: ['filters dislike "act now"'] }] })
  const goal = await ask({ goal: 'xyzzy plugh qwfp zxcv' })
  t.match(goal.body, { tools: [{ tool: 'web_search', input: { query: 'account abstraction' } }] })
  models.behaviours['local'] = '500'
  t.match((await ask(COLD)).body, { method: 'template' })
  t.match((await ask({ goal: 'xyzzy plugh qwfp zxcv' })).body, {
    code: 'no_evidence',
    stage: 'plan',
  })
})

t.test('a failing stage is named, and the full price is refunded', async (t) => {
  // Its failures open the breakers, so it has its own station.
  const { ask, ...beside } = modelled
  const guest = await beside.onboard()
  const failed = async (json: object, stage: string, code: string) => {
    const { body, text } = await ask('POST', '/api/agent/crew', { key: guest.key, json })
    t.match(body, { code, stage, refunded: true, cost_usdc: 0 }, text.slice(0, 300))
    t.equal(await beside.balance(guest), 0.5, stage)
  }
  const silent = (on: boolean, names: readonly SearchApiName[]) => {
    for (const name of names) web.moods[name] = on ? '500' : 'ok'
  }
  rival.behaviour = 'gone'
  await failed({ domain: rival.base }, 'site', 'upstream_error')
  rival.behaviour = 'file'
  await failed({ domain: rival.base }, 'site', 'upstream_schema')
  rival.behaviour = 'redirect'
  await failed({ domain: rival.base }, 'site', 'blocked_url')
  rival.behaviour = 'ok'
  await failed(
    { topic: 'Zyzzyva quokka', targetAudience: 'Nobody at all' },
    'select',
    'no_evidence',
  )
  people.moods.mastodon = '500'
  silent(true, ['hackernews'])
  await failed({ domain: rival.base }, 'social', 'upstream_error')
  await failed(ISSUE, 'social', 'upstream_error')
  people.moods.mastodon = 'ok'
  silent(true, WEB)
  await failed({ domain: rival.base }, 'search', 'upstream_error')
  await failed(ISSUE, 'search', 'upstream_error')
  await failed(
    { goal: 'Research how bananas ripen in winter' },
    'tool:deep_search',
    'upstream_error',
  )
  silent(false, WEB)
  const { body } = await ask('GET', '/api/credits/balance', { key: guest.key })
  t.match(body, { held_usdc: 0 })
  await main.verify()
})

t.test('a disconnected caller still gets its crew; a crashed node leaves no charge', async (t) => {
  const guest = await main.onboard()
  const arrived = async ({ requests }: { readonly requests: readonly string[] }, from: number) => {
    while (requests.length === from) await wait(20)
  }
  const { wikipedia } = web.servers
  web.moods.wikipedia = 'hang'
  let before = wikipedia.requests.length
  const gone = new AbortController()
  const { key } = guest
  const again = { 'idempotency-key': 'crew-left-alone' }
  const left = fetch(`${main.url}/api/agent/crew`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': key, ...again },
    body: JSON.stringify(ISSUE),
    signal: gone.signal,
  }).catch(() => null)
  await arrived(wikipedia, before)
  const money = async () => (await main.ask('GET', '/api/credits/balance', { key })).body
  t.match(await money(), { held_usdc: 0.15 })
  gone.abort()
  await left
  // Upstream requests cost money, so it runs to its end, here without evidence, under its key.
  t.match(await money(), { held_usdc: 0.15 })
  while ((await money())['held_usdc'] !== 0) await wait(20)
  t.match(await run(guest, ISSUE, again), {
    status: 422,
    headers: { 'idempotency-replayed': 'true' },
    body: { code: 'no_evidence', refunded: true },
  })
  t.equal(await main.balance(guest), 0.5)

  const other = await spawnSecondNode(t, main, settings)
  before = wikipedia.requests.length
  const lost = other.ask('POST', '/api/agent/crew', { key, json: ISSUE }).catch(() => null)
  await arrived(wikipedia, before)
  await other.end('SIGKILL')
  await lost
  t.match(await money(), { held_usdc: 0.15, balance_usdc: 0.35 }, 'every node counts it')
  await main.verify()
  const due = await main.sql`update timers set due_at = now() where id like 'hold:%' returning id`
  t.equal(due.length, 1)
  web.moods.wikipedia = 'ok'
  await startInProcessTestStation(t, {}, { database: main.database })
  while ((await main.sql`select from timers where id like 'hold:%'`).length > 0) await wait(20)
  t.match(await money(), { held_usdc: 0, balance_usdc: 0.5 })
  t.equal(
    (await main.sql`select from calls where agent_id = ${guest.id} and cost_micros > 0`).length,
    0,
  )
  await main.verify()
})

import t from 'tap'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { startTestLlmApi } from '../../support/upstreams/test-llm-api.ts'
import { startTestSearchApis } from '../../support/upstreams/test-search-apis.ts'
import { toCitedAnswer } from '../../../tools/web/research/cited-answer.ts'
import { extractPageText } from '../../../providers/pages/page-text.ts'

const QUERY = 'How does account abstraction pay gas fees?'
const SOURCES = ['wikipedia', 'hackernews', 'stackexchange', 'duckduckgo'] as const
const ALLOW = { SSRF_ALLOW: '127.0.0.1:1024-65535' }

interface Citation {
  n: number
  url: string
  kind: string
  supports: string[]
}

/** Every mark of the answer has its citation, and every citation its mark. */
const marksOf = (answer: unknown) =>
  [...new Set([...String(answer).matchAll(/\[(\d+)\]/g)].map(([, n]) => Number(n)))].sort(
    (a, b) => a - b,
  )

t.test('an answer quotes the pages, and each statement occurs in its source', async (t) => {
  const house = await startTestSearchApis(t)
  const models = await startTestLlmApi(t)
  const { SEARXNG_URL: _s, BRAVE_API_KEY: _b, TAVILY_API_KEY: _t, ...keyless } = house.settings
  const settings = { ...keyless, ...ALLOW }
  const station = await startInProcessTestStation(t, settings)
  const guest = await station.onboard()
  const content = 'A paymaster on Base pays gas fees for account abstraction wallets in USDC.'
  await station.call(guest, 'hive_write', { content })
  const before = await station.balance(guest)

  const { status, body } = await station.call(guest, 'deep_search', { query: QUERY })
  t.equal(status, 200)
  t.match(body, {
    method: 'extractive',
    query: QUERY,
    _meta: { cost_usdc: 0.05, mode: 'fixture' },
  })
  const citations = body['citations'] as Citation[]
  t.strictSame(
    marksOf(body['answer']),
    citations.map(({ n }) => n),
    'numbers without gaps',
  )
  const pages = new Map<string, string>()
  for (const { title, html } of house.articles) {
    const url = `${house.servers.wikipedia.base}/wiki/${title.replaceAll(' ', '_')}`
    pages.set(url, extractPageText(html).text)
  }
  for (const { url, kind, supports, n } of citations) {
    t.ok(supports.length > 0)
    for (const said of supports) {
      t.ok(String(body['answer']).includes(`${said} [${n}]`), 'the statement carries its number')
      t.ok((kind === 'hive' ? content : (pages.get(url) ?? '')).includes(said), said)
    }
  }
  t.match(body['answer'], /a paymaster can pay the gas fees of a user/)
  t.notMatch(body['answer'], /Ignore all previous|must never be read|Imprint/)
  t.ok(citations.some(({ kind }) => kind === 'hive'))
  t.match(body['searches'], [{ kind: 'query' }, { kind: 'keywords' }, { kind: 'hive', count: 1 }])
  t.equal(await station.balance(guest), Math.round((before - 0.05) * 1e6) / 1e6)
  t.equal((await station.call(null, 'deep_search', { query: QUERY })).status, 401)

  await t.test('a search without results is free', async (t) => {
    const cash = await station.balance(guest)
    const nothing = await station.call(guest, 'deep_search', { query: 'zyzzyva quokka' })
    t.equal(nothing.status, 422)
    t.match(nothing.body, { code: 'no_evidence', refunded: true })
    t.equal(await station.balance(guest), cash)
  })

  await t.test('only supported sentences of a model are kept', async (t) => {
    const beside = await startInProcessTestStation(
      t,
      { ...settings, LLM_PROVIDERS: models.providers({ local: {} }) },
      { database: station.database },
    )
    const asked: string[] = []
    models.answer = ({ messages }) => {
      const prompt = messages.at(-1)?.content ?? ''
      asked.push(prompt)
      const at = prompt.slice(0, prompt.indexOf('With account abstraction a paymaster'))
      const n = [...at.matchAll(/<source (\d+)>/g)].at(-1)?.[1] ?? '0'
      return [
        `A paymaster can pay the gas fees of a user [${n}].`,
        `Gas fees of a user cost a paymaster 977 dollars [${n}].`,
        `A paymaster can pay the gas fees of a user, too [99].`,
        `A paymaster can not pay the gas fees of a user [${n}].`,
        `It is certain. A paymaster can pay the gas fees of a user [${n}].`,
        `Bananas ripen quickly in Brazilian summers [${n}].`,
        'And all of this is free.',
      ].join(' ')
    }
    const answer = await beside.call(guest, 'deep_search', { query: QUERY })
    t.equal(answer.status, 200)
    t.match(answer.body, {
      method: 'llm',
      answer:
        'A paymaster can pay the gas fees of a user. [1] A paymaster can pay the gas fees of a user. [1]',
      statements_dropped: 6,
      citations: [{ n: 1, kind: 'page', url: /Account_abstraction$/ }],
    })
    t.equal((answer.body['citations'] as Citation[]).length, 1)
    t.notMatch(asked[0], /Ignore all previous/, 'what is hidden in a page reaches no model')
    models.answer = () => 'Bananas ripen quickly [1].'
    const wild = await beside.call(guest, 'deep_search', { query: QUERY })
    t.match(wild.body, { method: 'extractive' }, 'nothing left of it')
    models.behaviours['local'] = '500'
    const dead = await beside.call(guest, 'deep_search', { query: QUERY })
    t.match(dead.body, { method: 'extractive' })
  })

  await t.test('unreadable pages are listed, and their excerpts replace them', async (t) => {
    const guarded = await startInProcessTestStation(t, keyless, { database: station.database })
    const answer = await guarded.call(guest, 'deep_search', { query: QUERY })
    t.match(answer.body, { pages_unread: [{ code: 'blocked_url' }, { code: 'blocked_url' }] })
    t.notOk((answer.body['citations'] as Citation[]).some(({ kind }) => kind === 'page'))
    for (const name of SOURCES) house.moods[name] = '500'
    const local = await guarded.call(guest, 'deep_search', { query: QUERY })
    t.match(local.body, { citations: [{ kind: 'hive', source: 'hive' }], sources_considered: 1 })
  })
  await t.test('failed searches are listed in the answer', async (t) => {
    house.moods.hackernews = 'ok'
    const poor = await station.onboard()
    const cash = await station.balance(poor)
    const { body } = await station.call(poor, 'deep_search', { query: QUERY })
    t.match(body, { sources_failed: [{ source: 'wikipedia' }], _meta: { cost_usdc: 0.05 } })
    t.equal((body['sources_failed'] as unknown[]).length, 1, 'once, however often it was asked')
    t.notOk('degraded' in body)
    t.equal(await station.balance(poor), Math.round((cash - 0.05) * 1e6) / 1e6)
  })

  await t.test('a search without any reply names each source and is free', async (t) => {
    house.moods.hackernews = '500'
    const failed = SOURCES.map((source) => ({ source, code: String }))
    const poor = await station.onboard()
    const cash = await station.balance(poor)
    const local = await station.call(poor, 'deep_search', { query: QUERY })
    t.match(local, {
      status: 200,
      body: { degraded: true, sources_failed: failed, _meta: { cost_usdc: 0 } },
    })
    t.strictSame(
      (local.body['citations'] as Citation[]).map(({ kind }) => kind),
      ['hive'],
    )
    const nothing = await station.call(poor, 'deep_search', { query: 'zyzzyva quokka' })
    t.match(nothing.body, { code: 'upstream_error', refunded: true, sources_failed: failed })
    const json = { goal: 'Research how account abstraction pays gas fees' }
    const crew = await station.ask('POST', '/api/agent/crew', { key: poor.key, json })
    t.match(crew.body, {
      code: 'upstream_error',
      refunded: true,
      stage: /^tool:(deep|web)_search$/,
    })
    t.match(crew.body, { sources_failed: failed })
    t.equal(await station.balance(poor), cash)
  })
  await station.verify()
})

t.test('the text of a page is its visible text, one line per block', async (t) => {
  const { title, text } = extractPageText(
    `<title>T &amp; T</title><nav>menu</nav><h1>Head</h1>One <b>bold</b>
     word.[1]<p>Two</p><div hidden>no</div><div style="display : none">no</div><!-- no -->
     <ul><li>a<li>b</ul><p aria-hidden="true">no</p><script>no</script><pre>x</pre>`,
  )
  t.equal(title, 'T & T')
  t.equal(text, 'Head\nOne bold word.\nTwo\na\nb\nx')
  t.equal(extractPageText('<p hidden>no<p>yes<div><nav>no</div>yes').text, 'yes\nyes')
  t.equal(extractPageText('<a title="a > b">x</a> 1 < 2 <i data-x=">">y').text, 'x 1 < 2 y')
  t.equal(extractPageText('caf&eacute;<!-- no').text, 'café')
})

t.test('parsing a page takes linear time', async (t) => {
  const hostile = [
    '<div>',
    '<p>',
    '<b><p>',
    '<p',
    '</p>',
    '<a b="',
    '<!--',
    '<a hidden>',
    '&amp;',
    '<',
    "='>",
  ]
  for (const piece of hostile) {
    const began = performance.now()
    extractPageText(piece.repeat(400_000 / piece.length))
    // An answer from a hang: by the square of its length it would be minutes.
    t.ok(performance.now() - began < 8_000, piece)
  }
})

t.test('a citation of an unknown source is a bug, not an answer', async (t) => {
  t.throws(() => toCitedAnswer([{ text: 'x', sources: [3] }], []), /source 3/)
})

import { gzipSync } from 'node:zlib'
import t from 'tap'
import agentSee from '../../../tools/perception/agent-see.ts'
import { findChromium } from '../../../providers/browser/find-chromium.ts'
import type { HeadlessBrowser } from '../../../providers/browser/browser-port.ts'
import { parseIpAddressAllowlist } from '../../../providers/egress/public-ip-address.ts'
import { createEgressClient } from '../../../providers/egress/guarded-egress-client.ts'
import { createPageParserPool } from '../../../providers/pages/page-parser-pool.ts'
import { PAGE_ANOMALY_TYPES } from '../../../providers/pages/page-parser-port.ts'
import type { TestReply } from '../../support/http/test-http-client.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import {
  startFixtureServer,
  UPSTREAM_FAULTS,
  type UpstreamFault,
} from '../../support/upstreams/fixture-server.ts'
import {
  createRecordingToolContext,
  awaitRejectionDetails,
} from '../../support/tools/test-tool-context.ts'
import {
  HARMLESS_HTML_PAGE_SAMPLES,
  BYTES_PER_MIB,
  INVALID_PAGE_PRICES,
  ANOMALOUS_HTML_PAGE_SAMPLES,
  PRICE_TEXT_SAMPLES,
} from '../../support/tools/html-and-price-text-samples.ts'

const quiet = new AbortController().signal

type Sent =
  | string
  | Buffer
  | { status?: number; headers?: Record<string, string>; body: string | Buffer }

/** A website with one page per path; other paths return `/404`. */
const website: Record<string, Sent> = {}
const site = await startFixtureServer(t, (request, response) => {
  const path = request.url ?? '/'
  const name = path.slice(1)
  if (name in UPSTREAM_FAULTS) return UPSTREAM_FAULTS[name as UpstreamFault](request, response)
  if (path.startsWith('/to?'))
    return void response.writeHead(302, { location: path.slice(4) }).end()
  const sent = website[path] ?? { status: 404, body: '<title>Gone</title><p>No such page.' }
  const {
    status = 200,
    headers = {},
    body,
  } = typeof sent === 'string' || Buffer.isBuffer(sent) ? { body: sent } : sent
  response.writeHead(status, { 'content-type': 'text/html', ...headers }).end(body)
})
const allow = parseIpAddressAllowlist(`127.0.0.1:${site.port}`)
const egress = createEgressClient({ userAgent: 'test/1', allow })
const pages = createPageParserPool()
t.teardown(() => Promise.all([egress.close(), pages.close()]))

type Test = Pick<typeof t, 'match'>
type Input = Parameters<typeof agentSee.run>[0]

/** Calls the tool as the service does: first it may refuse, then it runs. */
async function see(input: Input, browser: HeadlessBrowser | null = null, signal = quiet) {
  const given = createRecordingToolContext({ egress, pages, browser, signal }).context
  await agentSee.preflight?.(input, given)
  return agentSee.run(input, given)
}

let made = 0
async function seeHtml(html: Sent, input: Partial<Input> = {}) {
  const path = `/made-${(made += 1)}`
  website[path] = html
  return see({ url: site.base + path, ...input })
}

const read = (html: string, url = 'https://shop.test/a/') =>
  pages.read({ body: html, contentType: 'text/html', url }, { owner: 'a' })

t.test('the visible content of a page is read', async (t) => {
  website['/shop'] = `<!doctype html><html><head><title> Lamps &amp;
    more </title><base href="/catalogue/"><style>.away{display:none}</style></head><body>
    <nav><a href="/home">Home</a></nav><h1>Lamps</h1><p>The <b>desk</b> lamp&nbsp;costs <i>$24.50</i>.<p>It is
    made <span hidden>of gold</span>of <span class="away">silver</span>brass.
    <script>document.write('<h2>No</h2>')</script><ul><li>Red<li>Green</ul>
    <table><tr><td>Height<td>40 cm<tr><td>Weight<td>2 kg</table><pre>a  b
c</pre><h3><img alt="x">Details</h3>
    <a href="more.html">More</a> <a href="more.html#top">Top</a> <a href="#here">Here</a>
    <a href="mailto:shop@example.com"><img alt="Write to us"></a> <a href="javascript:void(0)">Menu</a>
    <form method="post" action="/send"><label for="m">Your mail</label><input id="m" name="mail" type="email" required>
    <select name="size"><option>Small<option value="l">Large</select><input type="hidden" name="token" value="t">
    <button>Order</button></form></body></html>`
  t.strictSame(await see({ url: `${site.base}/to?/shop` }), {
    url: `${site.base}/shop`,
    status_code: 200,
    content_type: 'text/html',
    engine: 'http',
    title: 'Lamps & more',
    headings: [
      { level: 1, text: 'Lamps' },
      { level: 3, text: 'Details' },
    ],
    links: [
      { text: 'Home', url: `${site.base}/home` },
      { text: 'More', url: `${site.base}/catalogue/more.html` },
      { text: 'Top', url: `${site.base}/catalogue/more.html#top` },
      { text: 'Write to us', url: 'mailto:shop@example.com' },
    ],
    prices: [24.5],
    price_details: [{ amount: 24.5, currency: 'USD', source: 'text' }],
    forms: [
      {
        action: `${site.base}/send`,
        method: 'post',
        fields: [
          { name: 'mail', type: 'email', label: 'Your mail', required: true },
          { name: 'size', type: 'select', label: '', required: false, options: ['Small', 'Large'] },
          { name: 'token', type: 'hidden', label: '', required: false },
        ],
        submit: 'Order',
      },
    ],
    body_text: [
      'Lamps',
      'The desk lamp costs $24.50.',
      'It is made of brass.',
      'Red',
      'Green',
      'Height 40 cm',
      'Weight 2 kg',
      'a b',
      'c',
      'Details',
      'More Top Here Menu',
      'Your mail',
      'Order',
    ].join('\n'),
    anomalies: [],
    truncated: false,
  })
  const some = await see({ url: `${site.base}/shop`, extract: ['title', 'prices'] })
  t.strictSame(Object.keys(some).sort(), [
    'anomalies',
    'body_text',
    'content_type',
    'engine',
    'price_details',
    'prices',
    'status_code',
    'title',
    'truncated',
    'url',
  ])
})

t.test('pages of any status, compressed pages and other texts are results', async (t) => {
  const gone = await see({ url: `${site.base}/nowhere` })
  t.match(gone, { status_code: 404, title: 'Gone', body_text: 'No such page.' })
  t.match(await see({ url: `${site.base}/500` }), { status_code: 500 })
  const packed = gzipSync('<h1>Packed</h1>')
  const headers = { 'content-encoding': 'gzip' }
  t.match(await seeHtml({ headers, body: packed }), { body_text: 'Packed', title: 'Packed' })
  const json = { headers: { 'content-type': 'application/json' }, body: '{"a":\n  "<b>"}' }
  t.match(await seeHtml(json), { body_text: '{"a":\n"<b>"}', headings: [], title: '' })
  const bare = { headers: { 'content-type': 'application/octet-stream' }, body: ' <p>Bare</p>' }
  t.match(await seeHtml(bare), { body_text: 'Bare' })
  const odd = await seeHtml(`<title>a\0b</title><p>${'x'.repeat(99_999)}😀`)
  t.match([odd.title, odd.body_text.slice(-2)], ['ab', 'x\ufffd'], 'a database can keep it')
  for (const [type, body] of [
    ['application/pdf', '%PDF-1.7'],
    ['image/png', Buffer.of(0x89, 0x50, 0, 1)],
    ['text/html', ''],
  ] as const) {
    const answer = awaitRejectionDetails(seeHtml({ headers: { 'content-type': type }, body }))
    const code = type === 'text/html' ? 'not refused' : 'upstream_schema'
    t.match(await answer, { code }, type)
  }
})

t.test('texts are decoded with the charset of their page', async (t) => {
  const bytes = (...codes: number[]) => Buffer.concat([Buffer.from('<p>'), Buffer.from(codes)])
  const meta = (label: string, ...codes: number[]) =>
    Buffer.concat([Buffer.from(`<html><meta charset="${label}"><p>`), Buffer.from(codes)])
  const html = (charset: string) => ({ 'content-type': `text/html; charset=${charset}` })
  const cases: [string, Sent, string][] = [
    ['by its header', { headers: html('iso-8859-1'), body: bytes(0x93, 0xe9) }, '“é'],
    ['by its header, quoted', { headers: html('"KOI8-R"'), body: bytes(0xf4, 0xc1) }, 'Та'],
    ['by its mark', Buffer.from('\ufeff<p>Wörter', 'utf16le'), 'Wörter'],
    ['by a mark against its header', { headers: html('latin1'), body: '\ufeff<p>ü' }, 'ü'],
    ['by its meta', meta('shift_jis', 0x83, 0x65, 0x83, 0x58), 'テス'],
    [
      'by its meta of old',
      Buffer.concat([
        Buffer.from('<meta http-equiv=content-type content="text/html; charset=windows-1251"><p>'),
        Buffer.of(0xcf, 0xf0),
      ]),
      'Пр',
    ],
    ['UTF-16 in a meta is none', Buffer.from('<meta charset=utf-16><p>é'), 'é'],
    ['an unknown one', { headers: html('klingon'), body: '<p>é' }, 'é'],
    ['none', Buffer.from('<p>€'), '€'],
    ['none, and no UTF-8', bytes(0x80, 0xfc), '€ü'],
  ]
  for (const [name, sent, text] of cases) t.equal((await seeHtml(sent)).body_text, text, name)
})

t.test('prices are found in structured data and in visible text', async (t) => {
  const of = async (html: string) =>
    (await read(html)).prices.map(
      ({ amount, currency, source }) => `${amount} ${currency} ${source}`,
    )
  const lines = Object.keys(PRICE_TEXT_SAMPLES).map((line) => `<p>${line}`)
  const wanted = Object.values(PRICE_TEXT_SAMPLES).flatMap((one) =>
    one === null ? [] : [`${one} text`],
  )
  t.strictSame(await of(lines.join('')), wanted)
  const graph = {
    '@graph': [{ offers: [{ price: '1,299.00', priceCurrency: 'usd' }, { lowPrice: 5 }] }],
  }
  const shop = `<script type="application/ld+json">${JSON.stringify(graph)}</script>
    <script type="application/ld+json">{"price": broken</script>
    <meta property="product:price:amount" content="18.00"><meta property="product:price:currency" content="EUR">
    <div><span itemprop="price" content="20">twenty</span><meta itemprop="priceCurrency" content="GBP"></div>
    <p>Now $1,299 or 18 €, before $1,500.`
  t.strictSame(await of(shop), [
    '1299 USD json_ld',
    '5 null json_ld',
    '20 GBP microdata',
    '18 EUR meta',
    '1500 USD text',
  ])
  t.strictSame((await seeHtml('<p>$2 and €2 and $3')).prices, [2, 3])
  const none = INVALID_PAGE_PRICES.map((price) => JSON.stringify({ price }))
  t.strictSame(await of(`<script type="application/ld+json">[${none.join()}]</script>`), [])
})

t.test('anomalies are reported with an excerpt', async (t) => {
  for (const [type, html, excerpt] of ANOMALOUS_HTML_PAGE_SAMPLES) {
    const { anomalies, text } = await read(html)
    const found = anomalies.find((one) => one.type === type)
    t.match(found, { type, severity: /low|medium|high/, excerpt }, `${type}: ${html.slice(0, 90)}`)
    t.notMatch(text, /[\u200b\u202e\u{e0000}-\u{e007f}]/u)
    if (type === 'hidden_instruction') t.notMatch(text, /previous|must|Always/)
  }
  t.strictSame(
    [...new Set(ANOMALOUS_HTML_PAGE_SAMPLES.map(([type]) => type))].sort(),
    [...PAGE_ANOMALY_TYPES].sort(),
  )
})

t.test('common page features are no anomalies', async (t) => {
  for (const html of HARMLESS_HTML_PAGE_SAMPLES) {
    const { anomalies } = await read(html)
    t.strictSame(
      anomalies.filter(({ severity }) => severity !== 'low'),
      [],
      html.slice(0, 60),
    )
  }
  t.match(
    (await read('<style>.t{display:none}.t.on{display:block}</style><b class="t on">Shown')).text,
    'Shown',
  )
})

t.test('private addresses are rejected on every path', async (t) => {
  for (const url of [
    'http://127.0.0.1:1/',
    'http://2130706433:8080/',
    'http://0x7f.1/',
    'http://[::1]/',
    'http://[::ffff:7f00:1]/',
    'http://169.254.169.254/latest/meta-data/',
    'http://user:secret@example.com/',
    'http://example.com:22/',
    'ftp://example.com/',
    'file:///etc/passwd',
    'data:text/html,<p>x',
    'javascript:alert(1)',
    `${site.base}/to?http://169.254.169.254/`,
    `${site.base}/to?http://[::1]:${site.port}/`,
    `${site.base}/to?file:///etc/passwd`,
    `${site.base}/redirect`,
  ]) {
    t.match(await awaitRejectionDetails(see({ url })), { code: 'blocked_url' }, url)
  }
  t.match(await awaitRejectionDetails(see({ url: `${site.base}/bomb` })), {
    code: 'response_too_large',
    limit_bytes: 2 * BYTES_PER_MIB,
  })
  t.match(await awaitRejectionDetails(see({ url: 'http://localhost:1/' })), {
    code: /blocked_url|upstream_error/,
  })
  await t.rejects(see({ url: `${site.base}/drip` }, null, AbortSignal.timeout(300)), {
    name: 'TimeoutError',
  })
  t.match(await awaitRejectionDetails(see({ url: site.base, engine: 'browser' })), {
    code: 'provider_not_configured',
    requires: ['CHROMIUM_PATH'],
  })
})

t.test('agent_see costs 0.03 for a result and nothing otherwise', async (t) => {
  const chromium = findChromium(null, process.env['PATH'] ?? '')
  const station = await startInProcessTestStation(t, {
    SSRF_ALLOW: `127.0.0.1:${site.port}`,
    CHROMIUM_PATH: chromium ?? 'none',
    PATH: process.env['PATH'] ?? '',
  })
  const guest = await station.onboard(0.2)
  const ask = (fields: object) => station.call(guest, 'agent_see', fields)
  for (const fields of [
    {},
    { url: 'no address' },
    { url: 7 },
    { url: site.base, extract: 'title' },
    { url: site.base, extract: ['everything'] },
    { url: site.base, engine: 'steam' },
    { url: site.base, depth: 2 },
    { url: `http://example.com/${'x'.repeat(5_000)}` },
  ]) {
    t.equal((await ask(fields)).status, 400, JSON.stringify(fields).slice(0, 60))
  }
  t.match(await ask({ url: 'http://127.0.0.1:1/' }), {
    status: 422,
    body: { code: 'blocked_url' },
  })
  const refunded = { refunded: true }
  t.match(await ask({ url: `${site.base}/redirect` }), { status: 422, body: refunded })
  t.match(await ask({ url: `${site.base}/bomb` }), { status: 502, body: refunded })
  t.equal(await station.balance(guest), 0.2)
  t.equal((await station.call(null, 'agent_see', { url: site.base })).status, 402)

  const seen = await ask({ url: `${site.base}/nowhere` })
  t.match(seen, {
    status: 200,
    body: { status_code: 404, title: 'Gone', _meta: { cost_usdc: 0.03 } },
  })
  t.equal(await station.balance(guest), 0.17)
  if (chromium !== null) await rendering(t, ask)
  else t.comment('no Chromium here: pages with scripts are not shown')
  await station.verify()
})

/** A page that is empty until its script has run. */
async function rendering(t: Test, ask: (fields: object) => Promise<TestReply>): Promise<void> {
  website['/app'] =
    '<title>App</title><div id=a></div><script>a.innerHTML = "<h1>Made</h1><p>It costs $7."</script>'
  const url = `${site.base}/app`
  t.match(await ask({ url }), {
    status: 200,
    body: {
      engine: 'browser',
      body_text: 'Made\nIt costs $7.',
      prices: [7],
      status_code: 200,
      url,
    },
  })
  t.match(await ask({ url, engine: 'http' }), { body: { engine: 'http', body_text: '' } })
  website['/said'] =
    `<p>${'Said without a script. '.repeat(20)}<script>document.title = 'Run'</script>`
  t.match(await ask({ url: `${site.base}/said` }), { body: { engine: 'http', title: '' } })
  const rendered = await ask({ url: `${site.base}/said`, engine: 'browser' })
  t.match(rendered, { body: { engine: 'browser', title: 'Run' } })
}

import t from 'tap'
import { brotliDecompressSync } from 'node:zlib'
import { request } from 'undici'
import { NATIVE_TOOLS } from '../../../tools/tool-catalogue.ts'
import { compactHtml } from '../../support/http/compact-html.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

const main = await startInProcessTestStation(t)
const BROWSER = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }
const open = async (path: string) => {
  const page = await main.ask('GET', path, { headers: BROWSER })
  return { ...page, text: compactHtml(page.text) }
}
const POLICY = /^default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'/
const HOSTILE = `<script>alert("1")</script>'&<img src=x onerror=alert(1)>`

t.test('browsers get pages and programs get JSON at the same address', async (t) => {
  for (const [path, member] of [
    ['/', 'links'],
    ['/docs', 'guides'],
    ['/tools/price_feed', 'slug'],
    ['/tools/price-feed', 'slug'],
    ['/hall-of-agents', 'agents'],
  ] as const) {
    const page = await open(path)
    t.match(page, { status: 200, headers: { 'content-type': 'text/html; charset=utf-8' } }, path)
    t.match(page.headers['content-security-policy'], POLICY)
    t.match(page.headers['vary'], /Accept(,|$)/)
    t.match(page.text, /<html lang="en">[^]*<main id="main">[^]*<h1>/)
    for (const accept of ['*/*', 'application/json', undefined]) {
      const headers = accept === undefined ? {} : { accept }
      const program = await main.ask('GET', path, { headers })
      t.match(program.headers, { 'content-type': /json/, vary: /Accept(,|$)/ }, `${path} ${accept}`)
      t.ok(Object.hasOwn(program.body, member), member)
    }
  }
  const listed = await main.ask('GET', '/tools', { headers: BROWSER })
  t.match(listed, { status: 302, headers: { location: '/#tools' } })
  t.match(await main.ask('GET', '/tools'), { headers: { location: '/api/tools' } })
})

t.test(
  'pages, catalogue and MCP say what this station cannot do, and how it is paid',
  async (t) => {
    const home = await open('/')
    t.match(home.text, 'Credits pay each call', 'no rail is on')
    t.match((await open('/tools/hive_trending')).text, 'needed: credits pay here')
    t.match((await open('/tools/x402_parse')).text, /<dt>Key<\/dt>\s*<dd>not needed<\/dd>/)
    const { body: listed } = await main.ask('GET', '/api/tools?format=mcp')
    const models = listed['tools'] as { name: string; description: string }[]
    for (const [slug, available, why] of [
      ['email_send', false, 'Not available on this station now: it needs SMTP_URL.'],
      ['llm_routing', true, 'No language model is configured here.'],
    ] as const) {
      const { body } = await main.ask('GET', `/api/tools/${slug}`)
      const { reason, ...availability } = body['availability'] as Record<string, unknown>
      t.match(availability, { available })
      t.ok(String(reason).startsWith(why), slug)
      for (const { text } of [home, await open(`/tools/${slug}`)]) t.match(text, why)
      t.match(models.find(({ name }) => name.endsWith(slug))?.description, why)
    }
  },
)

t.test('the first page lists every tool with its price, and every tool has its page', async (t) => {
  const { text } = await open('/')
  const { body } = await main.ask('GET', '/api/tools')
  const tools = body['tools'] as { slug: string; price_usdc: number; access: string }[]
  t.ok(tools.length > 30)
  const { text: printed } = await main.ask('GET', '/', { headers: BROWSER })
  t.match(
    printed,
    /as api_key\ncurl -sS \S+\/api\/onboard \\\n.*\n.*\n\n# a call\n/,
    'the example keeps its lines',
  )
  for (const { slug, price_usdc: usdc, access } of tools) {
    const [, price] = new RegExp(`<b>${slug}</b></a><span class="price">([^<]+)<`).exec(text) ?? []
    t.match(price, access === 'paid' ? `${usdc} USDC` : /^free/, slug)
    const page = await open(`/tools/${slug}`)
    t.equal(page.status, 200)
    t.match(page.text, `<form id="call" data-tool="${slug}">`)
  }
})

t.test(
  'the form of a tool has each field of its input, with its limits and its example',
  async (t) => {
    for (const { slug, input } of NATIVE_TOOLS.filter((tool) => tool.unlisted !== true)) {
      const { text } = await open(`/tools/${slug}`)
      const { properties = {}, required = [] } = input as {
        properties?: Record<string, object>
        required?: string[]
      }
      for (const name of Object.keys(properties)) {
        const [control = ''] =
          new RegExp(`<(input|select|textarea)[^>]* data-name="${name}"[^>]*>`).exec(text) ?? []
        t.match(
          control,
          /data-kind="(string|number|integer|boolean|lines|json)"/,
          `${slug}.${name}`,
        )
        t.equal(/ required/.test(control), required.includes(name), `${slug}.${name} is required`)
        t.match(text, `<label for="field-${name}">${name}</label>`)
      }
    }
    const { text } = await open('/tools/web_search')
    t.match(
      text,
      /<input type="text" id="field-query"[^>]* maxlength="400" value="account abstraction">/,
    )
    t.match(
      text,
      /<input id="field-max_results"[^>]* data-kind="integer" inputmode="numeric" value="">/,
    )
  },
)

t.test('pages load only their own assets, which are compressed and never change', async (t) => {
  const { text } = await open('/')
  const assets = [...text.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(
    ([, path = '']) => path,
  )
  t.ok(assets.length >= 2)
  t.notMatch(text, /(src|href|action)="(https?:)?\/\//, 'nothing is loaded from elsewhere')
  t.notMatch(text, /<style|<script>| (on\w+|style)=/, 'nothing is inlined')
  for (const path of assets) {
    const reply = await request(`${main.url}${path}`, { headers: { 'accept-encoding': 'br' } })
    const bytes = Buffer.from(await reply.body.arrayBuffer())
    t.match(reply.headers, {
      'content-encoding': 'br',
      'cache-control': /immutable/,
      'content-type': /^text\/(css|javascript); charset=utf-8$/,
    })
    t.ok(brotliDecompressSync(bytes).length > bytes.length)
    const again = await main.ask('GET', path, {
      headers: { 'accept-encoding': 'br', 'if-none-match': String(reply.headers['etag']) },
    })
    t.equal(again.status, 304)
  }
  t.match(await main.ask('GET', '/assets/old/station.css'), {
    status: 200,
    headers: { 'cache-control': 'no-cache' },
  })
  for (const path of ['/assets/x/none.css', '/assets/x/..%2fhtml.ts', '/assets/x/%2e%2e'])
    t.equal((await main.ask('GET', path)).status, 404, path)
})

t.test('an error is a page in a browser and a problem for programs', async (t) => {
  for (const [path, status, words] of [
    ['/nothing/here', 404, 'There is nothing at this address.'],
    ['/tools/web_serch', 404, 'did you mean web_search?'],
    ['/tools/%3Cscript%3E', 404, 'There is no such tool'],
    ['/fund/nobody', 404, 'There is no such agent.'],
    ['/mcp/nothing', 404, 'There is nothing at this address.'],
  ] as const) {
    const page = await open(path)
    t.match(page, { status, headers: { 'content-type': /^text\/html/, vary: /Accept/ } }, path)
    t.match(page.text, words)
    t.match(page.text, `<code>${page.headers['x-request-id']}</code>`)
    t.notMatch(page.text, /<script>|nobody/)
    t.match(await main.ask('GET', path), { status, headers: { 'content-type': /problem\+json/ } })
  }
  t.match(await open('/api/nothing'), { status: 404, headers: { 'content-type': /problem\+json/ } })
})

t.test('what agents write is text in every page that shows it', async (t) => {
  const { id, key } = await main.onboard()
  await main.sql`update agents set name = ${HOSTILE} where agent_id = ${id}`
  const json = {
    title: 'An answer',
    description: HOSTILE,
    domain: 'base',
    required_keywords: ['<b>'],
    reward_usdc: 0.05,
  }
  const { body } = await main.ask('POST', '/api/bounties', { key, json })
  const bounty = String(body['bounty_id'])
  await main.sql`update bounties set title = ${HOSTILE} where bounty_id = ${bounty}`
  const fund = await open(`/fund/${id}`)
  t.match(fund.text, '<h1>Fund &lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;&lt;img')
  t.match(fund.text, '<title>Fund &lt;script&gt;')
  for (const { text } of [fund, await open(`/bounties/${bounty}`), await open('/bounties')]) {
    t.match(text, '&lt;script&gt;alert(')
    t.notMatch(text, /<script>alert|<img src=x|<b>,|Words<\/dt><dd><b>/)
  }
  t.match(await open(`/bounties/${bounty}`), { text: /<dd>&lt;b&gt;<\/dd>/ })
  t.match(await main.ask('GET', `/bounties/${bounty}`), {
    status: 302,
    headers: { location: `/api/bounties/${bounty}` },
  })
  for (const unknown of ['nobody', '018f6f7a-0000-7000-8000-000000000000'])
    t.match(await open(`/bounties/${unknown}`), { status: 404, text: /There is no such bounty/ })
})

t.test('listings of the marketplace are pages, with the text of agents as text', async (t) => {
  const { key } = await main.onboard()
  const note = { content: HOSTILE, type: 'context', tags: ['<b>'] }
  const memory = await main.ask('POST', '/api/vault/write', { key, json: note })
  const entry_ids = [(memory.body['pack'] as { id: string }).id]
  const json = { name: 'Fees', description: HOSTILE, price_usdc: 0.6, entry_ids }
  const { body } = await main.ask('POST', '/api/marketplace/list', { key, json })
  const id = String(body['pack_id'])
  await main.sql`update marketplace_listings set name = ${HOSTILE} where listing_id = ${id}`
  for (const path of ['/marketplace', `/marketplace/${id.toUpperCase()}`]) {
    const { status, text } = await open(path)
    t.equal(status, 200, text)
    t.match(text, '&lt;script&gt;alert(')
    t.notMatch(text, /<script>alert|<img src=x|<dd><b>/)
  }
  t.match(await open(`/marketplace/${id}`), { text: /-X POST .*\/api\/marketplace\/buy\// })
  t.match(await main.ask('GET', `/marketplace/${id}`), {
    status: 302,
    headers: { location: `/api/marketplace/${id}` },
  })
  await main.ask('DELETE', `/api/marketplace/${id}`, { key })
  t.notMatch((await open(`/marketplace/${id}`)).text, /Buy it/, 'a withdrawn one cannot be bought')
  for (const unknown of ['nobody', '018f6f7a-0000-7000-8000-000000000000'])
    t.match(await open(`/marketplace/${unknown}`), {
      status: 404,
      text: /There is no such listing/,
    })
})

t.test('error codes and recipes are pages as well', async (t) => {
  const { body } = await main.ask('GET', '/problems')
  const codes = (body['problems'] as { code: string; title: string }[]).map(({ code }) => code)
  const { text } = await open('/problems')
  for (const code of codes) t.match(text, `<a href="/problems/${code}"><code>${code}</code></a>`)
  const revoked = await open('/problems/REVOKED')
  t.match(revoked, { status: 200, headers: { 'content-security-policy': POLICY } })
  t.match(revoked.text, 'This Backpack has been revoked.')
  t.match(revoked.text, 'http://gas.test/problems/REVOKED')
  t.match(await main.ask('GET', '/problems/REVOKED'), { body: { code: 'REVOKED' } })
  t.match(await open('/problems/constructor'), { status: 404, headers: { 'content-type': /html/ } })

  const { body: book } = await main.ask('GET', '/cookbook')
  const recipes = book['recipes'] as { slug: string; title: string; request: { body: object } }[]
  t.ok(recipes.length > 10)
  const list = await open('/cookbook')
  for (const { slug, title, request } of recipes) {
    t.match(list.text, `<a href="/cookbook/${slug}"><b>${title}</b></a>`)
    const page = await main.ask('GET', `/cookbook/${slug}`, { headers: BROWSER })
    const [, shown = ''] = /-d (&#39;[^]*?&#39;)<\/code>/.exec(page.text) ?? []
    const plain = shown.replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll('&lt;', '<')
    const sent = plain.replaceAll('&gt;', '>').replaceAll('&amp;', '&').replaceAll(`'\\''`, "'")
    t.strictSame(JSON.parse(sent.slice(1, -1)), request.body, 'the request is the recipe')
  }
  t.match(await open('/cookbook/none'), { status: 404, headers: { 'content-type': /html/ } })
})

t.test('guides are pages, with the address of this station and a twin in Markdown', async (t) => {
  const { body } = await main.ask('GET', '/docs')
  const guides = body['guides'] as { url: string; markdown_url: string; title: string }[]
  t.ok(guides.length > 25)
  t.match(guides[0], { title: 'Quickstart', url: 'http://gas.test/docs/quickstart' })
  for (const { url, markdown_url: twin, title } of guides) {
    const page = await open(new URL(url).pathname)
    t.match(page, { status: 200, headers: { 'content-security-policy': POLICY } }, title)
    t.match(page.text, /<article><h1 id="[^"]+">/)
    const text = await main.ask('GET', new URL(twin).pathname)
    t.match(text, { status: 200, headers: { 'content-type': 'text/markdown; charset=utf-8' } })
    t.equal((await main.ask('GET', new URL(url).pathname)).text, text.text, 'programs get Markdown')
    t.notMatch(text.text + page.text, /127\.0\.0\.1:8402|localhost:8402/)
    const links = [
      ...page.text.matchAll(/(?:href|src)="(\/docs\/[^"#]*)/g),
      ...text.text.matchAll(/\]\((\/docs\/[^)#]*)/g),
    ]
    for (const path of new Set(links.map(([, path = '']) => path))) {
      const { statusCode } = await main.station.server.inject(path)
      t.ok([200, 302].includes(statusCode), `${title} links to ${path}`)
    }
  }
  t.match((await open('/docs/quickstart')).text, 'export GAS_URL=http://gas.test')
  for (const path of ['/docs/none', '/docs/none.md', '/docs/..%2fpackage.json', '/docs/x/y.webp'])
    t.equal((await main.ask('GET', path)).status, 404, path)
})

t.test(
  'the reference loads its program from this station, and its document is the API',
  async (t) => {
    const page = await open('/docs/reference')
    t.match(page, {
      status: 200,
      headers: { 'content-security-policy': /script-src 'self'; style-src 'self' 'unsafe-inline'/ },
    })
    const [, folder = ''] = /src="(\/assets\/[^/]+\/)reference\.js"/.exec(page.text) ?? []
    const bundle = await main.ask('GET', `${folder}openapi-explorer.min.js`, {
      headers: { 'accept-encoding': 'gzip' },
    })
    t.match(bundle, { status: 200, headers: { 'content-encoding': 'gzip', etag: /^"/ } })
    t.match(await main.ask('GET', '/docs/reference'), {
      headers: { location: '/api/openapi.json' },
    })
    t.match((await main.ask('GET', '/docs/reference.md')).text, /^# Reference/)
  },
)

t.test('a link of the README to a guide is a link on its page', async (t) => {
  const { text } = await open('/docs/readme')
  t.match(text, '(<a href="/docs/proofs">docs/proofs.md</a>)')
  const { text: twin } = await main.ask('GET', '/docs/readme.md')
  t.match(twin, '([docs/proofs.md](/docs/proofs.md))')
})

import { Ajv2020 } from 'ajv/dist/2020.js'
import t from 'tap'
import {
  DISCOVERY_DOCUMENT_SCHEMAS,
  DISCOVERY_TEXT_DOCUMENT_GRAMMARS,
} from '../../support/discovery/discovery-document-schemas.ts'
import {
  createOpenApiBodyValidator,
  openApiRefByKeys,
} from '../../support/http/openapi-body-validator.ts'
import { openSseReader } from '../../support/http/websocket-and-sse-clients.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/** The documents by which a station is found, against its catalogue and its own addresses. */

const main = await startInProcessTestStation(t, { OPERATOR_CONTACT: 'security@gas.example' })
const ORIGIN = 'http://gas.test'
const read = async (path: string) => {
  const reply = await main.ask('GET', path)
  t.equal(reply.status, 200, path)
  t.equal(reply.headers['access-control-allow-origin'], '*')
  return reply
}
const { body: catalogue } = await main.ask('GET', '/api/tools')
interface ListedTool {
  readonly slug: string
  readonly price_usdc: number
  readonly access: string
}
interface McpRemote {
  readonly url: string
  readonly supportedProtocolVersions: readonly string[]
}
const tools = catalogue['tools'] as ListedTool[]
const slugs = tools.map(({ slug }) => slug)

t.test('every document is valid by its specification', async (t) => {
  const ajv = new Ajv2020({ allErrors: true })
  for (const [path, schema] of Object.entries(DISCOVERY_DOCUMENT_SCHEMAS)) {
    const { body } = await read(path)
    t.ok(ajv.validate(schema, body), `${path}: ${ajv.errorsText()}`)
  }
  for (const [path, form] of Object.entries(DISCOVERY_TEXT_DOCUMENT_GRAMMARS))
    t.match((await read(path)).text, form, path)
})

t.test('documents of the station are valid by the API document, to the last member', async (t) => {
  const { body: api } = await main.ask('GET', '/api/openapi.json')
  const misfitOf = createOpenApiBodyValidator(toStrict(api) as object)
  for (const path of [
    ...['/api/agent-welcome', '/api/standard', '/api/pricing.json', '/api/store'],
    '/api/whats-new',
  ]) {
    const { body } = await main.ask('GET', path)
    const schema = ['responses', '200', 'content', 'application/json', 'schema']
    t.equal(misfitOf(openApiRefByKeys('paths', path, 'get', ...schema), body), '', path)
  }
})

t.test('prices are those of the catalogue', async (t) => {
  const toPrices = (listed: unknown) =>
    (listed as (ListedTool & { free_tier: unknown })[]).map(
      ({ slug, access, price_usdc: usdc, free_tier: free }) => ({ slug, access, usdc, free }),
    )
  const { body: pricing } = await main.ask('GET', '/api/pricing.json')
  t.strictSame(toPrices(pricing['tools']), toPrices(tools))
  const { body: store } = await main.ask('GET', '/api/store')
  const sold = (store['items'] as { id: string; kind: string; price_usdc: number }[])
    .filter(({ kind }) => kind === 'tool')
    .map(({ id, price_usdc: usdc }) => [id.slice('tool:'.length), usdc])
  t.strictSame(
    Object.fromEntries(sold),
    Object.fromEntries(
      tools.filter(({ price_usdc: usdc }) => usdc > 0).map((one) => [one.slug, one.price_usdc]),
    ),
  )
})

t.test('the agent card has every tool', async (t) => {
  const { body: card } = await read('/.well-known/agent-card.json')
  t.strictSame((await read('/.well-known/agent.json')).body, card)
  const told = JSON.stringify(card['skills'])
  t.strictSame(
    slugs.filter((slug) => !told.includes(slug)),
    [],
    'every tool belongs to a skill',
  )
})

t.test('the MCP server card leads to the server', async (t) => {
  const reply = await read('/mcp/server-card')
  t.match(reply.headers['content-type'], 'application/mcp-server-card+json')
  const [remote] = reply.body['remotes'] as [McpRemote]
  t.match(remote, { type: 'streamable-http', url: `${ORIGIN}/mcp` })
  const { body: catalog } = await read('/.well-known/mcp/catalog.json')
  t.match(catalog, { specVersion: 'draft', entries: [{ url: `${ORIGIN}/mcp/server-card` }] })
  const initialize = {
    jsonrpc: '2.0',
    id: 1,
    method: 'initialize',
    params: {
      protocolVersion: remote.supportedProtocolVersions[1],
      capabilities: {},
      clientInfo: { name: 'test', version: '1' },
    },
  }
  const { status, body } = await main.ask('POST', new URL(remote.url).pathname, {
    json: initialize,
  })
  t.equal(status, 200)
  const { serverInfo: server } = body['result'] as { serverInfo: Record<string, unknown> }
  t.equal(server['version'], reply.body['version'], 'the card says what the server says')
})

t.test('the catalogue of the host leads to documents of the types that it names', async (t) => {
  const { headers, body } = await read('/.well-known/ai-catalog.json')
  t.match(headers['content-type'], 'application/ai-catalog+json')
  const entries = body['entries'] as { type: string; url: string }[]
  t.strictSame(
    entries.map(({ url }) => new URL(url).pathname),
    ['/mcp/server-card', '/.well-known/agent-card.json', '/skill.md'],
  )
  for (const { url } of entries) t.equal((await read(new URL(url).pathname)).status, 200)
})

t.test('the API catalogue is a link set of RFC 9727', async (t) => {
  const { headers, body } = await read('/.well-known/api-catalog')
  t.match(headers['content-type'], /^application\/linkset\+json; profile="/)
  t.match(body, { linkset: [{ anchor: `${ORIGIN}/`, 'service-desc': [{ type: String }] }] })
})

t.test('no payable resources are listed while no payment is taken', async (t) => {
  t.match((await read('/.well-known/x402')).body, { version: 1, resources: [], items: [] })
})

t.test('texts for models name every tool with its price', async (t) => {
  for (const path of ['/llms.txt', '/llms-full.txt', '/skill.md']) {
    const { text } = await read(path)
    t.strictSame(
      slugs.filter((slug) => !text.includes(slug)),
      [],
      path,
    )
    for (const { slug, price_usdc: usdc, access } of tools)
      if (access === 'paid' && usdc > 0) t.match(text, lineWith(slug, `${usdc} USDC`), slug)
    t.notMatch(text, /undefined|\[object|NaN/)
  }
  t.match((await read('/skill.md')).text, /^---\nname: [a-z-]+\ndescription: .{20,1024}\n---\n/)
})

t.test('the contact of the operator is published where it is set', async (t) => {
  const { text, headers } = await read('/.well-known/security.txt')
  t.match(headers['content-type'], /^text\/plain; charset=utf-8/)
  t.match(text, /^Contact: mailto:security@gas\.example$/m)
  const [, expires = ''] = /^Expires: (.+)$/m.exec(text) ?? []
  const days = (Date.parse(expires) - Date.now()) / 86_400_000
  t.ok(days > 90 && days < 365, `RFC 9116: ${expires}`)
  t.match(text, `Canonical: ${ORIGIN}/.well-known/security.txt`)
  const { body: plugin } = await read('/.well-known/ai-plugin.json')
  t.match(plugin, {
    schema_version: 'v1',
    auth: { type: 'user_http' },
    api: { type: 'openapi', url: `${ORIGIN}/api/openapi.json` },
    contact_email: 'security@gas.example',
  })
  const silent = await startInProcessTestStation(t, {}, { database: main.database })
  for (const path of ['/.well-known/security.txt', '/.well-known/ai-plugin.json'])
    t.match(await silent.ask('GET', path), {
      status: 404,
      headers: { 'cache-control': 'no-store' },
      body: { code: 'not_found', detail: /OPERATOR_CONTACT/ },
    })
})

/** Everything that lists addresses of this station. */
const DOCUMENTS = [
  ...Object.keys(DISCOVERY_DOCUMENT_SCHEMAS),
  ...Object.keys(DISCOVERY_TEXT_DOCUMENT_GRAMMARS),
  ...['/', '/docs', '/problems', '/mcp', '/mech/metadata', '/discovery/resources'],
  ...['/api/agent-welcome', '/api/standard', '/api/pricing.json', '/api/store', '/api/whats-new'],
  ...['/api/tools', '/api/cookbook', '/api/manifesto', '/api/agent/crew', '/api/backpack'],
  ...['/bounties.rss', '/hive.rss', '/changelog.rss', '/milestones.rss', '/docs/quickstart.md'],
]
/** Each with the query that it needs. */
const STREAMS = new Map([
  ['/api/stats/live', '/api/stats/live'],
  ['/api/signal/stream', '/api/signal/stream?channels=a'],
])

t.test('every own address in a document answers as documented', async (t) => {
  const ann = await main.onboard()
  const content = 'Base finalizes blocks within minutes, and every two seconds there is a new one.'
  await main.call(ann, 'hive_write', { content })
  const json = { title: 'Find it', description: 'It.', domain: 'base', reward_usdc: 0.05 }
  await main.ask('POST', '/api/bounties', { key: ann.key, json })
  const paths = new Map<string, string>()
  for (const document of DOCUMENTS) {
    const { status, text } = await main.ask('GET', document)
    t.equal(status, 200, document)
    for (const [, found] of text.matchAll(/http:\/\/gas\.test(\/[^\s"'<>)`,;\\]*)/g))
      if (found !== undefined && !/[{<]/.test(found)) paths.set(found.replace(/\.$/, ''), document)
  }
  t.ok(paths.size > 200, `${paths.size} addresses`)
  for (const [path, document] of paths) {
    const stream = STREAMS.get(path)
    if (stream !== undefined) {
      const { status, close } = await openSseReader(t, main.url + stream, ann.key)
      t.equal(status, 200, `${document} names ${path}`)
      close()
      continue
    }
    const { status, headers } = await main.ask('GET', path, { key: ann.key })
    // Pages send programs to what they show.
    const isPage = status === 302 && /^\/(api|docs)\//.test(String(headers['location']))
    const isMethod = status === 405 && headers['allow'] !== undefined
    // With GET the last part of this one is the id of a Backpack.
    const isPosted =
      path === '/api/backpack/create' &&
      (await main.ask('POST', path, { key: ann.key, json: { agent_name: 'a' } })).status < 300
    const isAnswered = [200, 402].includes(status) || isMethod || isPage || isPosted
    t.ok(isAnswered, `${document} names ${path}: ${status}`)
  }
})

/** The same with every object closed: what a schema does not name is an error. */
function toStrict(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toStrict)
  if (typeof value !== 'object' || value === null) return value
  const inner = Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, toStrict(member)]),
  )
  const isOpen = inner['type'] === 'object' && 'properties' in inner
  return isOpen ? { additionalProperties: false, ...inner } : inner
}

const lineWith = (slug: string, price: string): RegExp =>
  new RegExp(`\\b${slug}\\b[^\\n]*${price.replace('.', '\\.')}`)

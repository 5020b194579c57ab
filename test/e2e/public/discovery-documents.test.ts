import t from 'tap'
import { startStation } from '../../support/station/start-test-station.ts'

/** The documents by which a station is found, against its catalogue and its own addresses. */

const main = await startStation(t, { OPERATOR_CONTACT: 'security@gas.example' })
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

t.test('the agent card has the members that A2A 1.0 requires', async (t) => {
  const { body: card } = await read('/.well-known/agent-card.json')
  t.strictSame((await read('/.well-known/agent.json')).body, card)
  t.match(card, {
    name: String,
    description: String,
    version: String,
    supportedInterfaces: [{ url: String, protocolBinding: String, protocolVersion: '1.0' }],
    capabilities: {},
    defaultInputModes: ['application/json'],
    defaultOutputModes: ['application/json'],
  })
  for (const gone of ['url', 'preferredTransport', 'protocolVersion']) t.notOk(gone in card, gone)
  for (const skill of card['skills'] as object[])
    t.match(skill, { id: String, name: String, description: String, tags: [String] })
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
  t.match(reply.body['name'], /^[\w.-]+\/[\w.-]+$/)
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
  const { status } = await main.ask('POST', new URL(remote.url).pathname, { json: initialize })
  t.equal(status, 200)
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
  const silent = await startStation(t, {}, { database: main.database })
  for (const path of ['/.well-known/security.txt', '/.well-known/ai-plugin.json'])
    t.match(await silent.ask('GET', path), {
      status: 404,
      headers: { 'cache-control': 'no-store' },
      body: { code: 'not_found', detail: /OPERATOR_CONTACT/ },
    })
})

t.test('every own address in a document answers as documented', async (t) => {
  const paths = new Set<string>()
  for (const path of [
    ...['/.well-known/agent-card.json', '/mcp/server-card', '/.well-known/ai-catalog.json'],
    ...['/.well-known/api-catalog', '/llms-full.txt', '/skill.md', '/robots.txt', '/sitemap.xml'],
    ...['/.well-known/security.txt', '/.well-known/ai-plugin.json'],
  ]) {
    const { text } = await read(path)
    for (const [, found] of text.matchAll(/http:\/\/gas\.test(\/[^\s"'<>)`,;]*)/g))
      if (found !== undefined && !found.includes('{')) paths.add(found.replace(/\.$/, ''))
  }
  t.ok(paths.size > 50, `${paths.size} addresses`)
  for (const path of paths) {
    const { status, headers } = await main.ask('GET', path === '/docs' ? '/docs/' : path)
    const documented =
      status === 200 || status === 402 || (status === 405 && headers['allow'] !== undefined)
    t.ok(documented, `${path}: ${status}`)
  }
})

const lineWith = (slug: string, price: string): RegExp =>
  new RegExp(`\\b${slug}\\b[^\\n]*${price.replace('.', '\\.')}`)

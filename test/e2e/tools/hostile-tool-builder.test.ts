import { createServer, type ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { DAY, SECOND } from '../../../core/clock.ts'
import { LIMITS } from '../../../core/limits.ts'
import { createTestClock } from '../../support/actors/test-actor-node.ts'
import {
  TOOL_BUILDER_IP_HEADERS,
  startTestCommunityToolMarket,
} from '../../support/tools/test-community-tool-market.ts'
import { sendJson } from '../../support/tools/test-tool-builder-server.ts'

/** A builder that hangs, drips, floods, redirects or changes its DNS: refunded in time, and nobody else waits. */

/** The time of a call here; outside tests it is that of the limits. */
const CALL_MS = 2_000
/** What the refund may take beside it, on a busy machine. */
const SLACK_MS = 3_000
const MIB = 1024 * 1024

/** What the resolver answers now; null for never. */
const dns: { addresses: string[] | null } = { addresses: ['127.0.0.1'] }
const clock = createTestClock()
const market = await startTestCommunityToolMarket(t, {
  clock,
  communityCallMs: CALL_MS,
  resolve: () =>
    dns.addresses === null
      ? new Promise(() => {})
      : Promise.resolve(dns.addresses.map((address) => ({ address, family: 4 }))),
})
const { builder, station, ask, buyer, seller, invoke, open, patch } = market
builder.on('/weather', (_, reply) => sendJson(reply, { celsius: 21.5 }))

const startJson = (reply: ServerResponse, headers: object = {}) =>
  reply.writeHead(200, { 'content-type': 'application/json', ...headers })

/** Writes a piece whenever there is room, without end; tells how much left this process. */
function flood(reply: ServerResponse): void {
  const piece = Buffer.alloc(64 * 1024, 'x')
  const more = () => {
    while (reply.writable && reply.write(piece)) flooded += piece.length
    if (reply.writable) reply.once('drain', more)
  }
  more()
}
let flooded = 0

/** Writes a piece each few milliseconds until the connection ends. */
function drip(write: () => void, reply: ServerResponse): void {
  const timer = setInterval(write, 20)
  reply.once('close', () => clearInterval(timer))
}

/** An address of this machine that the station may not call. */
const privateNeighbour = createServer((_, reply) => sendJson(reply, { celsius: 1 }))
let privateConnections = 0
privateNeighbour.on('connection', () => (privateConnections += 1))
await new Promise<void>((resolve) => {
  privateNeighbour.listen(builder.port, '127.0.0.2', resolve)
})
t.teardown(() => void privateNeighbour.close())

/** Calls a tool; its answer and how long it took. */
async function timed(slug: string) {
  const startedAt = performance.now()
  const reply = await invoke(buyer, slug, { city: 'Rome' })
  return { reply, ms: performance.now() - startedAt }
}

t.test('the time of a call is 15 seconds, unless a test shortens it', async (t) => {
  t.equal(LIMITS.communityCallMs, 15_000)
  t.equal(LIMITS.communityAnswerBytes, MIB)
})

t.test('whatever is not a valid answer is refunded in time, with the reason', async (t) => {
  builder.on('/hang', () => {})
  builder.on('/silent', (_, reply) => startJson(reply).flushHeaders())
  builder.on('/drip', (_, reply) => {
    startJson(reply).write('{"celsius":1')
    drip(() => reply.write(' '), reply)
  })
  builder.on('/slow-head', (_, reply) => {
    reply.socket?.write('HTTP/1.1 200 OK\r\nx-slow: ')
    drip(() => reply.socket?.write('x'), reply)
  })
  builder.on('/long-head', (_, reply) => {
    reply.socket?.write(`HTTP/1.1 200 OK\r\nx-long: ${'x'.repeat(MIB)}\r\n\r\n`)
  })
  builder.on('/flood', (_, reply) => {
    startJson(reply)
    flood(reply)
  })
  const bomb = gzipSync(Buffer.alloc(16 * MIB, ' '))
  builder.on('/bomb', (_, reply) => startJson(reply, { 'content-encoding': 'gzip' }).end(bomb))
  builder.on('/private', (_, reply) => {
    reply.writeHead(307, { location: `http://127.0.0.2:${builder.port}/weather` }).end()
  })
  builder.on('/loop', (_, reply) => reply.writeHead(302, { location: '/loop' }).end())
  builder.on('/proto', (_, reply) => sendJson(reply, '{"celsius":1,"__proto__":{"admin":true}}'))
  builder.on('/escaped', (_, reply) => sendJson(reply, '{"celsius":1,"\\u005f_proto__":{"a":1}}'))
  builder.on('/reserved', (_, reply) => sendJson(reply, { celsius: 1, _meta: {} }))
  builder.on('/text', (_, reply) => sendJson(reply, 'warm'))
  builder.on('/list', (_, reply) => sendJson(reply, '[1]'))
  builder.on('/error', (_, reply) => sendJson(reply, { celsius: 1 }, 500))
  builder.on('/cut', (_, reply) => reply.destroy())
  builder.on('/other', (_, reply) => sendJson(reply, { kelvin: 294 }))
  const kinds: [string, number, string, RegExp][] = [
    ['hang', 504, 'upstream_timeout', /did not answer/],
    ['silent', 504, 'upstream_timeout', /did not answer/],
    ['drip', 504, 'upstream_timeout', /did not answer/],
    ['slow-head', 504, 'upstream_timeout', /did not answer/],
    ['long-head', 502, 'upstream_error', /HEADERS_OVERFLOW/],
    ['flood', 502, 'response_too_large', /1048576/],
    ['bomb', 502, 'response_too_large', /1048576/],
    ['private', 502, 'upstream_error', /307; redirects/],
    ['loop', 502, 'upstream_error', /302; redirects/],
    ['proto', 502, 'tool_output_invalid', /__proto__/],
    ['escaped', 502, 'tool_output_invalid', /__proto__/],
    ['reserved', 502, 'tool_output_invalid', /_meta/],
    ['text', 502, 'tool_output_invalid', /no JSON/],
    ['list', 502, 'tool_output_invalid', /no JSON object/],
    ['error', 502, 'upstream_error', /answered 500/],
    ['cut', 502, 'upstream_error', /could not be called/],
    ['other', 502, 'tool_output_invalid', /celsius/],
  ]
  await Promise.all(kinds.map(([kind]) => open(`it-${kind}`, `/${kind}`)))
  const before = await station.balance(buyer)
  const ended = await Promise.all(kinds.map(([kind]) => timed(`it-${kind}`)))
  for (const [at, [kind, status, code]] of kinds.entries()) {
    const { reply, ms } = ended[at] ?? { reply: null, ms: 0 }
    t.match(reply, { status, body: { code, refunded: true, cost_usdc: 0 } }, kind)
    t.ok(ms < CALL_MS + SLACK_MS, `${kind}: ${Math.round(ms)} ms`)
    if (status === 504) t.ok(ms >= CALL_MS - 20, `${kind} had its time`)
    t.notMatch(reply?.text, /127\.0\.0|kelvin|admin/, 'nothing of the builder comes along')
  }
  t.equal(await station.balance(buyer), before, 'all of it came back')
  t.equal(privateConnections, 0, 'no redirect was followed')
  t.ok(flooded < 32 * MIB, `the flood ended after ${Math.round(flooded / MIB)} MiB in the sockets`)
  const report = await ask('GET', '/api/builder', { key: seller.key })
  type Failed = { slug: string; recent_failures: { detail: string }[] }
  for (const [kind, , , reason] of kinds) {
    const found = (report.body['tools'] as Failed[]).find(({ slug }) => slug === `it-${kind}`)
    t.match(found?.recent_failures, [{ detail: reason }], `${kind}, as its builder reads it`)
  }
  t.notMatch(report.text, new RegExp(`Rome|${buyer.id}|${buyer.key}|203\\.0`), 'no caller data')
})

t.test('while calls of one builder hang, those of another are answered', async (t) => {
  const other = await station.onboard()
  await open('quick-one', '/weather', {}, other)
  await open('hangs-much', '/hang')
  let ended = 0
  const hanging = Array.from({ length: 20 }, () => timed('hangs-much').finally(() => (ended += 1)))
  t.match((await timed('quick-one')).reply, { status: 200 })
  t.ok(ended < hanging.length, 'it waited for none of them')
  const codes = (await Promise.all(hanging)).map(({ reply }) => reply.body.code)
  t.ok(codes.includes('upstream_timeout'))
  for (const code of codes) t.match(code, /^(?:upstream_timeout|tool_unavailable)$/)
})

t.test('while the breaker waits for the example, other buyers are refused at once', async (t) => {
  const other = await station.onboard()
  let hangs = false
  const probed = { reached: () => {} }
  builder.on('/stuck', (_, reply) => {
    if (hangs) probed.reached()
    else sendJson(reply, {}, 500)
  })
  await open('stuck-one', '/stuck', {}, other)
  const before = await station.balance(buyer)
  for (let n = 0; n < 5; n += 1) t.equal((await timed('stuck-one')).reply.status, 502)
  clock.tick(31 * SECOND)
  hangs = true
  const probing = new Promise<void>((resolve) => (probed.reached = resolve))
  let ended = false
  const first = timed('stuck-one').finally(() => (ended = true))
  await probing
  const refused = await Promise.all(Array.from({ length: 20 }, () => timed('stuck-one')))
  t.notOk(ended, 'none of them waited for the builder')
  for (const { reply } of refused)
    t.match(reply, { status: 503, body: { code: 'tool_unavailable', retry_after: 1 } })
  const waited = await first
  t.match(waited.reply, { status: 503, body: { code: 'tool_unavailable' } })
  t.ok(waited.ms < CALL_MS + SLACK_MS, `the one that waited: ${Math.round(waited.ms)} ms`)
  t.equal(await station.balance(buyer), before, 'nothing was charged or is held')
  const held = await ask('GET', '/api/credits/balance', { key: buyer.key })
  t.match(held.body, { held_usdc: 0 })
})

t.test(
  'a name is resolved for each connection, and only a public address is connected to',
  async (t) => {
    const endpoint_url = `http://rebind.test:${builder.port}/closing`
    builder.on('/closing', (_, reply) => {
      reply.shouldKeepAlive = false
      sendJson(reply, { celsius: 3 })
    })
    await open('rebound', '/closing', { endpoint_url })
    t.match((await timed('rebound')).reply, { status: 200 }, 'the address that was registered')
    const before = await station.balance(buyer)
    for (const addresses of [
      ['127.0.0.2'],
      ['127.0.0.1', '127.0.0.2'],
      ['169.254.169.254'],
      null,
    ]) {
      dns.addresses = addresses
      const { reply, ms } = await timed('rebound')
      const code = addresses === null ? 'upstream_timeout' : 'upstream_error'
      t.match(reply, { body: { code, refunded: true } }, String(addresses))
      t.ok(ms < CALL_MS + SLACK_MS, `${String(addresses)}: ${Math.round(ms)} ms`)
    }
    t.equal(await station.balance(buyer), before)
    t.equal(privateConnections, 0)
    dns.addresses = ['127.0.0.1']
    t.match((await timed('rebound')).reply, { status: 200 }, 'back again, so that was the reason')
  },
)

t.test('the page of a tool survives the names of its fields', async (t) => {
  const fields = ['elements', 'dataset', 'addEventListener', 'checkValidity', 'constructor']
  const properties = Object.fromEntries(fields.map((name) => [name, { type: 'string' }]))
  const other = await station.onboard()
  await open(
    'clobbering',
    '/weather',
    { input_schema: { type: 'object', properties }, example: {} },
    other,
  )
  const page = await ask('GET', '/tools/clobbering', { headers: { accept: 'text/html' } })
  t.equal(page.status, 200)
  const form = page.text.slice(page.text.indexOf('<form'), page.text.indexOf('</form>'))
  for (const name of fields) t.match(form, `data-name="${name}"`)
  t.notMatch(form, / name="/, 'a control with a name hides a property of its form')
})

t.test('calls of the builder, its fleet and its address do not count', async (t) => {
  await open('counted', '/weather')
  const member = await station.onboard()
  const fleet = await ask('POST', '/api/fleet/create', { key: seller.key, json: { name: 'own' } })
  const joined = await ask('POST', '/api/fleet/add-agent', {
    key: seller.key,
    json: { fleet_id: fleet.body['fleet_id'], agent_id: member.id, agent_key: member.key },
  })
  t.equal(joined.status, 200, joined.text)
  await patch('counted', { accepts_promo: true })
  const input = { city: 'Rome' }
  t.equal((await invoke(seller, 'counted', input)).status, 200, 'its own')
  t.equal((await invoke(member, 'counted', input)).status, 200, 'of its fleet')
  t.equal(
    (await invoke(buyer, 'counted', input, TOOL_BUILDER_IP_HEADERS)).status,
    200,
    'from its address',
  )
  t.equal((await invoke(buyer, 'counted', input)).status, 200, 'of another agent from elsewhere')
  const report = await ask('GET', '/api/builder', { key: seller.key })
  const tools = report.body['tools'] as { slug: string; calls: number; quality: object }[]
  t.match(
    tools.find(({ slug }) => slug === 'counted'),
    { calls: 4, quality: { calls: 1, payers: 1, success_rate: 1 } },
  )
})

t.test('the price before it rose holds for a minute', async (t) => {
  const other = await station.onboard()
  await open('dearer', '/weather', {}, other)
  const quoted = async () =>
    (await ask('POST', '/api/quote', { key: buyer.key, json: { tool: 'dearer', city: 'Rome' } }))
      .body['price_usdc'] as number
  const charged = async () => (await timed('dearer')).reply.body._meta.cost_usdc as number
  t.match(await patch('dearer', { price_per_call_usdc: 0.05 }, other), { status: 200 })
  clock.pass(DAY - 30 * SECOND)
  t.strictSame([await quoted(), await charged()], [0.01, 0.01], 'within the notice')
  clock.pass(31 * SECOND)
  t.strictSame([await quoted(), await charged()], [0.05, 0.01], 'a quote of a moment ago holds')
  clock.pass(LIMITS.communityPriceHoldSeconds * SECOND)
  t.strictSame([await quoted(), await charged()], [0.05, 0.05])
})

t.test('the ledger adds up', async () => station.verify())

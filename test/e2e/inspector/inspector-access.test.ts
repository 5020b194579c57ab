import t from 'tap'
import {
  connectInspectorTestSocket,
  type InspectorTestSocket,
} from '../../support/inspector/inspector-test-socket.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/** Who may watch the inspector, how many, and what a hostile watcher may send. */

const TOKEN = 'operator-token-of-this-test'
const TOOL = 'hive_trending'
const operator = { authorization: `Bearer ${TOKEN}` }
const { url, ask, onboard, call, station } = await startInProcessTestStation(t, {
  OPERATOR_TOKEN: TOKEN,
})

const signIn = async (json: object, headers: Record<string, string> = {}) =>
  ask('POST', '/inspector/session', { json, headers })

t.test('only the operator of this station may watch', async (t) => {
  const agent = await onboard()
  const refused = (headers: Record<string, string>, query = '') =>
    connectInspectorTestSocket(t, url, { headers, query })
  await t.rejects(refused({}), /401/, 'no token')
  await t.rejects(refused({ 'x-api-key': agent.key }), /401/, 'a key of an agent')
  await t.rejects(refused({ authorization: 'Bearer wrong-operator-token' }), /401/)
  await t.rejects(refused({ cookie: 'gas_inspector=9999999999999.a.b' }), /401/, 'a forged session')
  for (const origin of ['https://evil.example', 'null', 'http://gas.test.evil.example'])
    await t.rejects(refused({ ...operator, origin }), /403/, origin)
  await t.rejects(
    refused({ ...operator, origin: 'http://evil.example', host: 'evil.example' }),
    /403/,
    'a name that resolves to this machine',
  )
  await t.resolves(refused({ ...operator, origin: 'http://gas.test' }), 'its own page')
  await t.resolves(refused({ ...operator, origin: url }), 'a page of this machine')
})

t.test('a session begins with the token and ends', async (t) => {
  const wrong = await signIn({ token: 'wrong-operator-token' })
  t.match(wrong, { status: 401, body: { code: 'unauthenticated' } })
  t.equal((await signIn({ token: TOKEN }, { origin: 'https://evil.example' })).status, 403)
  const { status, headers, body } = await signIn({ token: TOKEN })
  t.match({ status, body }, { status: 200, body: { signed_in: true } })
  const [cookie = '', ...attributes] = String(headers['set-cookie']).split('; ')
  t.match(attributes, ['HttpOnly', 'SameSite=Strict', 'Path=/', 'Max-Age=43200'])
  const session = (value: string) =>
    ask('GET', '/inspector/session', { headers: value === '' ? {} : { cookie: value } })
  t.match(await session(cookie), {
    body: { signed_in: true, machines: [{ kind: 'agent', actors: Number }] },
  })
  t.match(await session(`${cookie}x`), { body: { signed_in: false, machines: [{ actors: null }] } })
  const watch = await connectInspectorTestSocket(t, url, { headers: { cookie } })
  t.ok(await watch.next(({ type }) => type === 'gas.joined'))
  const out = await ask('DELETE', '/inspector/session')
  t.match(out.headers['set-cookie'], /^gas_inspector=; .*Max-Age=0/)
})

t.test('wrong codes are limited, for each address', async (t) => {
  const other = await startInProcessTestStation(t, { OPERATOR_TOKEN: TOKEN })
  const from = (address: string, json: object) =>
    other.ask('POST', '/inspector/session', { json, headers: { 'x-forwarded-for': address } })
  const attempt = () => from('203.0.113.9', { code: 'wrong' })
  const answers = await Promise.all(Array.from({ length: 30 }, attempt))
  const wrong = answers.filter(({ status }) => status === 401)
  t.equal(wrong.length, 10, 'also of attempts at once')
  t.match(await attempt(), { status: 429, body: { limit_source: 'rate.inspector' } })
  t.equal((await from('203.0.113.9', { token: TOKEN })).status, 429, 'nor is the token tried')
  t.equal((await from('198.51.100.7', { token: TOKEN })).status, 200, 'the operator gets in')
  await other.station.close()
})

t.test('a socket ends with the session that opened it', async (t) => {
  const other = await startInProcessTestStation(t, { OPERATOR_TOKEN: TOKEN })
  const { clock } = other.station.server.services
  const signedIn = await other.ask('POST', '/inspector/session', { json: { token: TOKEN } })
  const [cookie = ''] = String(signedIn.headers['set-cookie']).split('; ')
  const left = 1_500
  clock.adjust(Date.parse(String(signedIn.body['expires_at'])) - clock.now() - left)
  const watch = await connectInspectorTestSocket(t, other.url, { headers: { cookie } })
  await watch.next(({ type }) => type === 'gas.joined')
  t.equal(await watch.closed, 1008)
  await t.rejects(connectInspectorTestSocket(t, other.url, { headers: { cookie } }), /401/)
  await other.station.close()
})

t.test('a watcher that floods is closed', async (t) => {
  const ways: ((watch: InspectorTestSocket) => void)[] = [
    ({ send }) => send({ type: 'gas.filter', q: 'none' }),
    ({ socket }) => socket.ping(),
    ({ socket }) => socket.send('not JSON'),
  ]
  for (const flood of ways) {
    const watch = await connectInspectorTestSocket(t, url, { headers: operator })
    await watch.next(({ type }) => type === 'gas.joined')
    for (let sent = 0; sent < 40; sent++) flood(watch)
    t.ok([1006, 1008].includes(await watch.closed))
  }
  const long = await connectInspectorTestSocket(t, url, { headers: operator })
  long.send({ type: 'gas.filter', q: 'x'.repeat(5_000) })
  t.equal(await long.closed, 1008)
})

t.test('a malformed filter counts as none', async (t) => {
  const watch = await connectInspectorTestSocket(t, url, {
    headers: operator,
    query: '?machine=nothing&machine=other&actor=:&q[]=1',
  })
  const { matched } = await watch.next(({ type }) => type === 'gas.joined')
  t.ok(Number(matched) > 0, 'all actors')
  const filters = [
    '{"type":"gas.filter","machine":"__proto__","agent":"no uuid"}',
    '{"type":"gas.filter","q":"\\ud800%_\\\\"}',
    '[{"type":"gas.filter"}]',
    '{"type":"gas.filter","actor":{"kind":"agent"},"q":7}',
  ]
  for (const filter of filters) watch.socket.send(filter)
  watch.send({ type: 'gas.filter', machine: 'agent' })
  await watch.next(({ type, counts }) => type === 'gas.joined' && isOnlyAgents(counts))
  t.notMatch(watch.text(), 'gas.error')
})

const isOnlyAgents = (counts: unknown) => Object.keys(counts as object).join() === 'agent'

t.test('at most so many watchers, and none is recorded for when they have left', async (t) => {
  const open = await Promise.all(
    Array.from({ length: 200 }, () =>
      connectInspectorTestSocket(t, url, { headers: operator }).catch(
        (error: Error) => error.message,
      ),
    ),
  )
  const refused = open.filter((one) => typeof one === 'string')
  t.ok(refused.length >= 180, `${refused.length} refused`)
  t.ok(refused.every((status) => status === '429' || status === 'close'))
  t.equal((await call(await onboard(), TOOL)).status, 200)
  station.server.websocketServer.clients.forEach((client) => client.terminate())
  while (station.server.services.inspection?.watched === true)
    await new Promise((done) => setTimeout(done, 5))
  t.pass('the feed rests')
})

t.test('off, there is no inspector', async (t) => {
  const off = await startInProcessTestStation(t, { OPERATOR_TOKEN: TOKEN, INSPECTOR: 'off' })
  t.equal((await off.ask('GET', '/inspector/session')).status, 404)
  await t.rejects(connectInspectorTestSocket(t, off.url, { headers: operator }), /404/)
  await off.station.close()
})

t.test('the page that sends states to a third party asks first', async (t) => {
  const page = await fetch(`${url}/inspector/stately`)
  const [text, policy] = [await page.text(), page.headers.get('content-security-policy') ?? '']
  t.match(text, /<h1>Send states to stately.ai\?/)
  t.notMatch(text, /<iframe/, 'nothing is opened before the answer')
  for (const part of [
    "default-src 'none'",
    'frame-src https://stately.ai',
    "frame-ancestors 'none'",
  ])
    t.ok(policy.includes(part), policy)
  t.notMatch(policy, /unsafe/)
})

t.test('production shows configs to the operator only, and sends nothing to others', async (t) => {
  const production = await startInProcessTestStation(t, {
    ...{ NODE_ENV: 'production', INSPECTOR: 'on', OPERATOR_TOKEN: TOKEN },
    PUBLIC_URL: 'https://gas.test',
  })
  const status = async (path: string, headers: Record<string, string> = {}) =>
    (await fetch(`${production.url}${path}`, { headers })).status
  t.equal(await status('/inspector/stately', operator), 404)
  t.equal(await status('/inspector/machines/agent.json'), 401)
  t.equal(await status('/inspector/machines/agent.json', operator), 200)
  const signedIn = await production.ask('POST', '/inspector/session', { json: { token: TOKEN } })
  t.match(signedIn.headers['set-cookie'], /; Secure$/)
  await production.station.close()
})

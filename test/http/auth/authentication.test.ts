import t from 'tap'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { createApiKeyVerifier } from '../../../http/auth/api-key-verifier.ts'
import { createClientAddressReader } from '../../../http/auth/client-address.ts'
import { extractApiKey } from '../../../http/auth/request-api-key-extraction.ts'
import { toIpv6SiteId, toPseudonymousVisitorId } from '../../../http/plugins/auth.ts'
import { TOKEN_BUCKET_RATES } from '../../../core/limits.ts'
import type { MessageBus } from '../../../persistence/message-bus.ts'
import {
  TEST_HTTP_CONFIG,
  createTestServer,
} from '../../support/http/test-fastify-server-with-custom-routes.ts'

const ask = (secret: string) => ({ 'x-api-key': secret })

async function house(
  t: Parameters<typeof createTestServer>[0],
  ...rest: [Parameters<typeof createTestServer>[1]?]
) {
  const built = await createTestServer(t, ...rest)
  const { app } = built
  const who = async ({ caller, agentId }: { caller: { keyStatus: string }; agentId: string }) => ({
    status: caller.keyStatus,
    agentId,
  })
  app.get('/open', { config: { auth: 'none' } }, who)
  app.get('/mine', { config: { auth: 'key', scope: 'read' } }, who)
  app.get('/either', { config: { auth: 'optional' } }, who)
  app.get('/told', { config: { auth: 'optional', passBadKey: true } }, who)
  app.get('/operator', { config: { auth: 'operator' } }, who)
  return built
}

t.test('a route without an access rule fails at startup', async (t) => {
  const { app } = await createTestServer(t)
  t.throws(() => app.get('/forgotten', async () => ({})), /GET \/forgotten states no config.auth/)
})

t.test('a key permits its own routes, in either header', async (t) => {
  const { app, key } = await house(t)
  const { secret, agentId } = await key()
  const bearer = { authorization: `Bearer ${secret}` }
  for (const headers of [ask(secret), bearer, { ...ask(secret), ...bearer }]) {
    const reply = await app.inject({ url: '/mine', headers })
    t.match(reply, { statusCode: 200 })
    t.same(reply.json(), { status: 'valid', agentId })
  }
  const other = await key()
  const both = await app.inject({
    url: '/mine',
    headers: { ...ask(secret), authorization: `Bearer ${other.secret}` },
  })
  t.match(both.json(), { status: 400, code: 'conflicting_credentials' })
})

t.test('a protected route rejects requests without a valid key', async (t) => {
  const { app, key } = await house(t)
  const { secret } = await key()
  const flipped = `${secret.slice(0, 10)}${secret[10] === 'x' ? 'y' : 'x'}${secret.slice(11)}`
  const stranger = (await createTestServer(t)).key
  const { secret: unknown } = await stranger()
  for (const headers of [
    {},
    ask(''),
    ask('gas_nope'),
    ask(flipped),
    ask(unknown),
    { authorization: 'Bearer' },
  ]) {
    const reply = await app.inject({ url: '/mine', headers })
    t.match(
      reply,
      { statusCode: 401, headers: { 'www-authenticate': 'Bearer' } },
      JSON.stringify(headers),
    )
    t.equal(reply.json().code, 'unauthenticated')
  }
})

t.test('a request with a bad key is never treated as anonymous', async (t) => {
  const { app, key } = await house(t)
  const { secret } = await key()
  t.same((await app.inject('/either')).json(), { status: 'none', agentId: '' })
  t.equal((await app.inject({ url: '/either', headers: ask('gas_bad') })).statusCode, 401)
  t.equal((await app.inject({ url: '/either', headers: ask(secret) })).json().status, 'valid')
  const told = await app.inject({ url: '/told', headers: ask('gas_bad') })
  t.same(told.json(), { status: 'invalid', agentId: '' })
  t.equal((await app.inject({ url: '/open', headers: ask('gas_bad') })).statusCode, 200)
})

t.test('a key has the permissions of its scopes until it expires', async (t) => {
  let now = Date.now()
  const clock = { ...createDatabaseAdjustedClock(), now: () => now }
  const { app, key } = await createTestServer(t, {}, clock)
  app.get('/mine', { config: { auth: 'key', scope: 'read' } }, async () => ({}))
  const status = async (secret: string) =>
    (await app.inject({ url: '/mine', headers: ask(secret) })).statusCode
  t.equal(await status((await key({ scopes: ['read', 'tools'] })).secret), 200)
  const narrow = await app.inject({
    url: '/mine',
    headers: ask((await key({ scopes: ['tools'] })).secret),
  })
  t.match(narrow.json(), { status: 403, code: 'insufficient_scope', scope: 'read' })
  const { secret } = await key({ expiresAt: new Date(now + 60_000) })
  t.equal(await status(secret), 200)
  now += 60_000
  t.equal(await status(secret), 401)
})

t.test('a key revoked on another node stops working here with the commit', async (t) => {
  const { app, key, keys, plane, sql } = await house(t)
  const { id, secret } = await key()
  t.equal((await app.inject({ url: '/mine', headers: ask(secret) })).statusCode, 200)
  const heard = new Promise<string>((resolve) => plane.bus.subscribe('keys', resolve))
  await sql.begin((tx) => keys.revoke(tx, id, new Date()))
  t.equal(await heard, id)
  t.equal((await app.inject({ url: '/mine', headers: ask(secret) })).statusCode, 401)
})

t.test('every key is read from Postgres while a revocation could be missed', async (t) => {
  const { key, keys, sql } = await createTestServer(t)
  let healthy = true
  let missed = () => {}
  const bus: MessageBus = {
    publish: async () => {},
    subscribe: (_topic, _heard, lost = () => {}) => {
      missed = lost
      return () => {}
    },
    onDeadConnections: () => {},
    renew: () => {},
    healthy: () => healthy,
    isDown: () => !healthy,
    answers: async () => healthy,
    stop: async () => {},
  }
  const ring = createApiKeyVerifier(keys, bus, createDatabaseAdjustedClock())
  const [first, second] = [await key(), await key()]
  const behind = (id: string) => sql`update api_keys set revoked_at = now() where id = ${id}`
  t.ok(await ring.verify(first.secret))
  t.ok(await ring.verify(second.secret))
  await behind(first.id)
  t.ok(await ring.verify(first.secret), 'trusted while the line is up')
  healthy = false
  t.equal(await ring.verify(first.secret), null)
  await behind(second.id)
  healthy = true
  missed()
  t.equal(
    await ring.verify(second.secret),
    null,
    'and nothing from before the gap is trusted after it',
  )
})

t.test(
  'the operator is identified by the token, or without one by a request from this machine',
  async (t) => {
    const token = 'operator-token-1234'
    const { app } = await house(t, { operatorToken: { reveal: () => token } })
    const get = (headers: Record<string, string>) => app.inject({ url: '/operator', headers })
    t.equal((await get({ authorization: `Bearer ${token}` })).statusCode, 200)
    t.equal((await get({ authorization: `Bearer ${token}x` })).statusCode, 401)
    t.equal((await get({})).statusCode, 401)
    const local = (await house(t)).app
    t.equal((await local.inject('/operator')).statusCode, 200)
    t.equal(
      (await local.inject({ url: '/operator', remoteAddress: '203.0.113.9' })).statusCode,
      404,
    )
    t.equal(
      (await local.inject({ url: '/operator', headers: { 'x-forwarded-for': '203.0.113.9' } }))
        .statusCode,
      404,
    )
  },
)

t.test(
  'a visitor is identified by its address, or by the /64 of an IPv6 address, and by no header',
  async (t) => {
    const of = (address: string) => toPseudonymousVisitorId(address, TEST_HTTP_CONFIG.visitorKey)
    t.equal(of('2001:db8:1:2::1'), of('2001:db8:1:2:ffff::9'))
    t.not(of('2001:db8:1:2::1'), of('2001:db8:1:3::1'))
    t.equal(of('::ffff:192.0.2.1'), of('192.0.2.1'))
    t.not(of('192.0.2.1'), of('192.0.2.2'))
    t.notMatch(of('192.0.2.1'), '192')
    const site = (address: string) => toIpv6SiteId(address, TEST_HTTP_CONFIG.visitorKey)
    t.equal(site('2001:db8:1:2::1'), site('2001:db8:1:ffff::9'))
    t.not(site('2001:db8:1:2::1'), site('2001:db8:2:2::1'))
    t.not(site('2001:db8:1::'), of('2001:db8:1::'))
    for (const none of ['192.0.2.1', '::ffff:192.0.2.1', 'somewhere']) t.equal(site(none), null)
    const seen = async (trustProxy: false | number, forwarded: string) => {
      const { app } = await createTestServer(t, { trustProxy })
      app.get('/who', { config: { auth: 'none' } }, async ({ caller }) => caller.visitorId)
      const headers = { 'x-forwarded-for': forwarded }
      return (await app.inject({ url: '/who', headers, remoteAddress: '198.51.100.1' })).body
    }
    t.equal(await seen(false, '192.0.2.7'), of('198.51.100.1'))
    t.equal(
      await seen(1, '203.0.113.1, 192.0.2.7'),
      of('192.0.2.7'),
      'the nearest hop is the proxy itself',
    )
  },
)

t.test('the address behind trusted proxies is one address in all its spellings', async (t) => {
  const asked = (peer: string, forwarded?: string) =>
    ({
      socket: { remoteAddress: peer },
      headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
    }) as never
  const one = createClientAddressReader(1)
  for (const [entry, address] of [
    ...[
      '1.1.1.3',
      '1.1.1.3:1',
      '1.1.1.3:65535',
      '"1.1.1.3:2"',
      ' ::ffff:1.1.1.3',
      '[::ffff:101:103]:9',
    ].map((text) => [text, '1.1.1.3']),
    ...[
      '2001:db8::1',
      '[2001:db8::1]',
      '[2001:db8::1]:80',
      '"[2001:DB8:0::1]:80"',
      '2001:db8::1%eth0',
    ].map((text) => [text, '2001:db8::1']),
    ...[
      'unknown',
      '_hidden',
      'xx',
      '',
      '1',
      '1.1.1',
      '0x7f.1',
      '1.1.1.3:x',
      '[::1',
      '999.1.1.1',
      'localhost',
    ].map((text) => [text, '198.51.100.1']),
  ] as [string, string][])
    t.equal(one(asked('198.51.100.1', `203.0.113.1, ${entry}`)), address, `"${entry}"`)
  t.equal(one(asked('::ffff:198.51.100.1')), '198.51.100.1')
  t.equal(one(asked('fe80::1%eth0')), 'fe80::1')
  t.equal(createClientAddressReader(false)(asked('198.51.100.1', '1.1.1.1')), '198.51.100.1')
  const two = createClientAddressReader(2)
  t.equal(two(asked('10.0.0.1', '9.9.9.9, 1.1.1.3:5, 10.0.0.2:4')), '1.1.1.3')
  t.equal(two(asked('10.0.0.1', '1.1.1.3, unknown')), '10.0.0.1', 'the proxy that did not say')
  t.equal(two(asked('10.0.0.1', '10.0.0.2')), '10.0.0.2', 'a chain that is shorter than the count')
  for (const listed of [
    ['10.0.0.0/8', 'fd00::/8'],
    ['::ffff:10.0.0.0/104', 'fd00::/8'],
  ]) {
    const some = createClientAddressReader(listed)
    t.equal(
      some(asked('::ffff:10.0.0.1', '9.9.9.9, 1.1.1.3:5, [fd00::2]:80, 10.1.1.1:7')),
      '1.1.1.3',
    )
    t.equal(
      some(asked('192.0.2.1', '1.1.1.3')),
      '192.0.2.1',
      'a peer that is no proxy says nothing',
    )
  }
})

t.test('a caller has the limits of one address, whatever port its proxy adds', async (t) => {
  const { app } = await createTestServer(t, { trustProxy: 1 })
  app.get('/who', { config: { auth: 'none' } }, async ({ caller }) => caller.visitorId)
  const seen = async (forwarded: string) =>
    (await app.inject({ url: '/who', headers: { 'x-forwarded-for': forwarded } })).body
  const callers = ['1.1.1.3:1', '1.1.1.3:2', '1.1.1.3', '::ffff:1.1.1.3']
  t.equal(new Set(await Promise.all(callers.map(seen))).size, 1)
  t.equal(new Set(await Promise.all(['xx', 'yy', 'unknown'].map(seen))).size, 1)
  t.equal(new Set(await Promise.all(['[2001:db8::1]:1', '2001:db8::ffff'].map(seen))).size, 1)
})

t.test('credentials of other schemes are ignored', async (t) => {
  t.equal(extractApiKey({ headers: { authorization: 'Payment abc' } }), null)
  t.equal(extractApiKey({ headers: { authorization: 'bearer  gas_x ' } }), 'gas_x')
})

t.test('a caller over its rate limit gets 429 and does not affect others', async (t) => {
  const { app, key } = await house(t, { rateLimits: true })
  const [busy, calm] = [await key(), await key()]
  const get = (secret: string) => app.inject({ url: '/mine', headers: ask(secret) })
  const first = await get(busy.secret)
  t.equal(first.headers['ratelimit-policy'], `"agent";q=${TOKEN_BUCKET_RATES.read.burst};w=2`)
  t.match(
    first.headers['ratelimit'],
    new RegExp(`^"agent";r=${TOKEN_BUCKET_RATES.read.burst - 1};t=[12]$`),
  )
  const replies = await Promise.all(
    Array.from({ length: TOKEN_BUCKET_RATES.read.burst + 10 }, () => get(busy.secret)),
  )
  const refused = replies.filter(({ statusCode }) => statusCode === 429)
  t.ok(refused.length >= 1, 'the bucket has an end')
  t.match(refused[0], { headers: { 'retry-after': /^[12]$/, ratelimit: /r=0/ } })
  t.equal(refused[0]?.json().code, 'rate_limited')
  t.equal((await get(calm.secret)).statusCode, 200)
  const other = await key({ agentId: busy.agentId })
  t.equal((await get(other.secret)).statusCode, 429, 'all keys of an agent share its rate')
})

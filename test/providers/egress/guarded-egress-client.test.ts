import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import {
  isPublicIpAddress,
  parseIpAddressAllowlist,
} from '../../../providers/egress/public-ip-address.ts'
import { RequestNotSentError } from '../../../providers/egress/egress-client-port.ts'
import { createEgressClient } from '../../../providers/egress/guarded-egress-client.ts'
import { createGuardedHttpAgent } from '../../../providers/egress/guarded-http-agent.ts'
import type { EgressClientSettings } from '../../../providers/egress/guarded-egress-client.ts'
import {
  parseCallerSuppliedHeaders,
  resolveKeyringHeadersForHop,
} from '../../../providers/egress/caller-supplied-headers.ts'
import { startTestDataRetrievalWebsite } from '../../support/upstreams/test-data-retrieval-website.ts'
import type { FixtureServer } from '../../support/upstreams/fixture-server.ts'
import { awaitRejectionDetails } from '../../support/tools/test-tool-context.ts'

const signal = new AbortController().signal
const PUBLIC = '93.184.216.34'

function egress(
  t: { teardown(work: () => unknown): unknown },
  given: Partial<EgressClientSettings> = {},
) {
  const made = createEgressClient({
    userAgent: 'test/1',
    resolve: async () => [{ address: '127.0.0.1', family: 4 }],
    ...given,
  })
  t.teardown(() => made.close())
  return made
}

const allowing = (...sites: FixtureServer[]) =>
  parseIpAddressAllowlist(sites.map(({ port }) => `127.0.0.1:${port}`).join(','))

t.test('only globally routable unicast addresses are public', async (t) => {
  const private_ = `127.0.0.1 0.0.0.0 10.0.0.1 172.16.0.1 192.168.0.1 169.254.169.254 100.64.0.1 198.18.0.1
    192.0.2.1 198.51.100.1 203.0.113.1 224.0.0.1 255.255.255.255 192.0.0.1 192.88.99.1 240.0.0.1 :: ::1
    ::ffff:127.0.0.1 ::ffff:10.0.0.1 fc00::1 fe80::1 fec0::1 ff02::1 100::1 2001:db8::1 2002:7f00:1::1
    168.63.129.16 192.0.0.192 100.100.100.200 fd00:ec2::254 ::ffff:168.63.129.16
    2001:0:1::1 4000::1 e000::1 1::1 64:ff9b::7f00:1 64:ff9b:1::1 3fff::1 5f00::1 2001:2::1 localhost 1 x`
  for (const address of private_.split(/\s+/)) t.equal(isPublicIpAddress(address), false, address)
  for (const address of [PUBLIC, '1.1.1.1', '2606:4700:4700::1111', '::ffff:1.1.1.1']) {
    t.equal(isPublicIpAddress(address), true, address)
  }
})

t.test('the allow list permits only the ports that it names', async (t) => {
  const allow = parseIpAddressAllowlist('127.0.0.1:8000-8010, [::1]:9000')
  t.same(
    [8000, 8010, 7999, 8011].map((port) => allow('127.0.0.1', port)),
    [true, true, false, false],
  )
  t.same(
    [allow('::1', 9000), allow('0:0:0:0:0:0:0:1', 9000), allow('::1', 9001)],
    [true, true, false],
  )
  t.equal(allow('127.0.0.2', 8000), false)
  t.equal(parseIpAddressAllowlist('')('127.0.0.1', 80), false)
  for (const bad of ['localhost:80', '127.0.0.1', '127.0.0.1:x'])
    t.throws(() => parseIpAddressAllowlist(bad), bad)
})

t.test(
  'preflight rejects schemes, ports, userinfo and private literals in every spelling',
  async (t) => {
    const guard = egress(t)
    const refused = {
      'ftp://example.com/': 'scheme',
      'file:///etc/passwd': 'scheme',
      'javascript:alert(1)': 'scheme',
      'http://user:secret@example.com/': 'userinfo',
      'http://example.com:22/': 'port',
      'https://example.com:1023/': 'port',
      'http://example.com:6379/': 'port',
      'http://example.com:9200/_cat': 'port',
      'https://example.com:27017/': 'port',
      'http://example.com:5432/': 'port',
      'http://metadata.google.internal/computeMetadata/v1/': 'address',
      'http://METADATA.google.internal./': 'address',
      'http://metadata/': 'address',
      'http://metadata.goog/': 'address',
      'http://instance-data.ec2.internal/': 'address',
      'http://168.63.129.16/machine': 'address',
      'http://[::ffff:a83f:8110]/': 'address',
      'http://100.100.100.200/latest': 'address',
      'http://127.0.0.1/': 'address',
      'http://2130706433/': 'address',
      'http://0x7f.1/': 'address',
      'http://017700000001/': 'address',
      'http://0/': 'address',
      'http://127.0.0.1./': 'address',
      'http://[::1]/': 'address',
      'http://[::ffff:127.0.0.1]/': 'address',
      'http://169.254.169.254/latest/meta-data/': 'address',
      'http://[64:ff9b::a9fe:a9fe]/': 'address',
    }
    for (const [url, reason] of Object.entries(refused)) {
      t.match(
        await awaitRejectionDetails(guard.preflight({ url, signal })),
        { code: 'blocked_url', reason },
        url,
      )
    }
    t.match(await awaitRejectionDetails(guard.preflight({ url: 'no url', signal })), {
      code: 'invalid_input',
    })
    for (const open of ['example.com:8443/a?b#c', 'example.com:3000', 'metadata.example.com/'])
      await guard.preflight({ url: `https://${open}`, signal })
  },
)

t.test('a name is rejected if any of its addresses is private, and so is localhost', async (t) => {
  const answers: Record<string, string[]> = {
    'mixed.example': [PUBLIC, '127.0.0.1'],
    'inner.example': ['10.0.0.1'],
    'mapped.example': ['::ffff:169.254.169.254'],
  }
  const resolve = async (name: string) =>
    (answers[name] ?? []).map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
  const guard = egress(t, { resolve })
  for (const host of Object.keys(answers)) {
    const refused = await awaitRejectionDetails(
      guard.fetch({ url: `http://${host}/`, maxBytes: 10, signal }),
    )
    t.match(refused, { code: 'blocked_url', host }, host)
  }
  const plain = createEgressClient({ userAgent: 'test/1' })
  t.teardown(() => plain.close())
  for (const url of ['http://localhost:8080/', 'http://a.localhost./']) {
    t.match(
      await awaitRejectionDetails(plain.fetch({ url, maxBytes: 10, signal })),
      { code: 'blocked_url' },
      url,
    )
  }
})

t.test('the agent itself opens no connection to a private literal', async (t) => {
  let opened = 0
  const server = createServer().on('connection', () => (opened += 1))
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  t.teardown(() => server.close())
  const resolve = async () => []
  const patience = { connectMs: 2_000, headersMs: 2_000, bodyMs: 2_000 }
  const agent = createGuardedHttpAgent(() => false, resolve, patience)
  t.teardown(() => agent.destroy())
  const { port } = server.address() as AddressInfo
  const asked = agent.request({ origin: `http://127.0.0.1:${port}`, path: '/', method: 'GET' })
  t.match(await awaitRejectionDetails(asked), { code: 'blocked_url', host: '127.0.0.1' })
  t.equal(opened, 0)
})

t.test('a resolver that changes its answer between check and connection is blocked', async (t) => {
  const inner = await startTestDataRetrievalWebsite(t)
  let asked = 0
  const resolve = async () => [{ address: (asked += 1) === 1 ? PUBLIC : '127.0.0.1', family: 4 }]
  const guard = egress(t, { resolve })
  const url = `http://rebinding.example:${inner.port}/json`
  t.equal((await resolve())[0]?.address, PUBLIC, 'what a check before the connection would see')
  await guard.preflight({ url, signal })
  t.match(await awaitRejectionDetails(guard.fetch({ url, maxBytes: 100, signal })), {
    code: 'blocked_url',
  })
  t.strictSame(inner.requests, [])
})

t.test('redirects are followed five times and each hop is checked', async (t) => {
  const web = await startTestDataRetrievalWebsite(t)
  const guard = egress(t, { allow: allowing(web) })
  const get = (path: string, maxRedirects?: number) =>
    guard.fetch({
      url: web.base + path,
      maxBytes: 1000,
      signal,
      ...(maxRedirects === undefined ? {} : { maxRedirects }),
    })
  const reply = await get('/to?/json')
  t.match(reply, { status: 200, url: `${web.base}/json` })
  t.same(JSON.parse(reply.body.toString()), { answer: 42 })
  for (const target of [
    'http://169.254.169.254/',
    'http://[::1]/',
    'file:///etc/passwd',
    'http://10.0.0.1:8080/',
  ]) {
    t.match(await awaitRejectionDetails(get(`/to?${target}`)), { code: 'blocked_url' }, target)
  }
  t.match(await awaitRejectionDetails(get('/redirect')), { code: 'blocked_url' })
  web.requests.length = 0
  t.match(await awaitRejectionDetails(get('/loop')), {
    code: 'upstream_error',
    reason: 'too_many_redirects',
  })
  t.equal(web.requests.length, 6)
  t.match(await get('/to?/json', 0), { status: 302 })
})

t.test('a body is limited by its decoded size, by time and by the caller', async (t) => {
  const web = await startTestDataRetrievalWebsite(t)
  const guard = egress(t, { allow: allowing(web) })
  const hasty = egress(t, { allow: allowing(web), timeouts: { headersMs: 500 } })
  const get = (path: string, more = {}, by = guard) =>
    by.fetch({ url: web.base + path, maxBytes: 100_000, timeoutMs: 30_000, signal, ...more })
  const before = process.memoryUsage().rss
  t.match(await awaitRejectionDetails(get('/bomb')), {
    code: 'response_too_large',
    limit_bytes: 100_000,
  })
  t.ok(process.memoryUsage().rss - before < 48 * 2 ** 20, 'the bomb was not unpacked')
  t.match(await awaitRejectionDetails(get('/drip', { timeoutMs: 400 })), {
    code: 'upstream_timeout',
  })
  t.match(await awaitRejectionDetails(get('/hang', {}, hasty)), { code: 'upstream_timeout' })
  const leaving = new AbortController()
  const left = get('/hang', { signal: leaving.signal })
  leaving.abort(new Error('client gone'))
  await t.rejects(left, /client gone/)
  t.match(await awaitRejectionDetails(get('/json')), { code: 'not refused' })
})

t.test(
  'a refused connection or an unknown host is an upstream error with its reason',
  async (t) => {
    const closed = await new Promise<number>((done) => {
      const server = createServer().listen(0, '127.0.0.1', () => {
        const { port } = server.address() as AddressInfo
        server.close(() => done(port))
      })
    })
    const guard = egress(t, {
      allow: parseIpAddressAllowlist(`127.0.0.1:${closed}`),
      resolve: async () => [],
    })
    const get = (url: string) => awaitRejectionDetails(guard.fetch({ url, maxBytes: 10, signal }))
    t.match(await get(`http://127.0.0.1:${closed}/`), {
      code: 'upstream_error',
      reason: 'ECONNREFUSED',
      detail: '127.0.0.1 accepts no connections on this port.',
    })
    t.match(await get('http://nowhere.example/'), {
      code: 'upstream_error',
      reason: 'ENOTFOUND',
      detail: 'There is no host nowhere.example.',
    })
    t.match(await get('ftp://nowhere.example/'), { detail: 'Only http and https are fetched.' })
    t.match(await get('http://nowhere.example:6000/'), { code: 'blocked_url', reason: 'port' })
  },
)

t.test('a failed request reports whether it certainly reached no host', async (t) => {
  const breaking = createServer((request) => request.socket.destroy())
  await new Promise<void>((ready) => breaking.listen(0, '127.0.0.1', ready))
  const { port } = breaking.address() as AddressInfo
  const guard = egress(t, { allow: parseIpAddressAllowlist(`127.0.0.1:${port}`) })
  const post = (url: string): Promise<unknown> =>
    guard
      .sendSingleHop({ url, method: 'POST', headers: {}, body: 'x', maxBytes: 10, signal })
      .catch((error: unknown) => error)
  for (const [url, reason] of [
    ['file:///etc/passwd', 'scheme'],
    ['http://user:secret@example.com/', 'userinfo'],
    ['http://example.com:22/', 'port'],
    ['http://10.0.0.1/', 'address'],
  ] as const)
    t.match(await post(url), { reason: { code: 'blocked_url', details: { reason } } }, url)
  const url = `http://127.0.0.1:${port}/`
  const lost = await post(url)
  t.notOk(lost instanceof RequestNotSentError, 'a request was on the connection that broke')
  t.match(lost, { code: 'upstream_error' })
  await new Promise((closed) => breaking.close(closed))
  t.ok((await post(url)) instanceof RequestNotSentError, 'no listener')
})

t.test('only listed headers may be set, none for routing or forgery', async (t) => {
  const guard = egress(t)
  const refusal = (headers: Record<string, string>) =>
    awaitRejectionDetails(guard.preflight({ url: 'https://example.com/', headers, signal }))
  const forbidden = [
    'Host',
    'Connection',
    'Proxy-Authorization',
    'Transfer-Encoding',
    'Content-Length',
    'TE',
    'Upgrade',
    'X-Forwarded-For',
    'X-Real-IP',
    'User-Agent',
    'a b',
    'x\r\ny',
    '__proto__',
  ]
  for (const name of forbidden) {
    const headers = JSON.parse(`{${JSON.stringify(name)}:"x"}`) as Record<string, string>
    const pointer = `/headers/${name}`
    t.match(
      await refusal(headers),
      { code: 'invalid_input', errors: [{ pointer, detail: 'may not be set' }] },
      name,
    )
  }
  t.match(await refusal({ Accept: 'a\r\nX-Evil: 1' }), { code: 'invalid_input' })
  t.match(await refusal({ 'X-A': '1', 'x-a': '2' }), { errors: [{ detail: 'is given twice' }] })
  const many = Object.fromEntries(Array.from({ length: 33 }, (_, n) => [`x-${n}`, '1']))
  t.match(await refusal(many), { errors: [{ pointer: '/headers' }] })
  t.match(
    await refusal({
      Accept: 'text/csv',
      Authorization: 'Bearer x',
      'X-Api-Key': 'k',
      'Private-Token': 't',
      apikey: 'k',
    }),
    { code: 'not refused' },
  )
})

t.test('a keyring secret is sent to its hosts only, hop by hop, and never returned', async (t) => {
  const [home, abroad] = [
    await startTestDataRetrievalWebsite(t),
    await startTestDataRetrievalWebsite(t),
  ]
  const guard = egress(t, { allow: allowing(home, abroad) })
  const owned: Record<string, string> = { 'TOKEN 127.0.0.1': 's3cret-value-1' }
  const secrets = {
    resolve: async (name: string, host: string) =>
      owned[`${name} ${host.replace(/:\d+$/, '')}`] ?? null,
  }
  const get = (url: string, headers: Record<string, string>) =>
    guard.fetch({ url, headers, secrets, signal, maxBytes: 10_000 })
  const headers = {
    Authorization: 'Bearer {{keyring.TOKEN}}',
    'X-Plain': 'visible',
    Accept: 'application/json',
  }

  const echoed = await get(`${home.base}/echo`, headers)
  t.match(JSON.parse(echoed.body.toString()), {
    authorization: 'Bearer [secret]',
    'x-plain': 'visible',
    'user-agent': 'test/1',
  })

  for (const unknown of [
    { 'X-K': '{{keyring.OTHER}}' },
    { 'X-K': 'a{{keyring.TOKEN}}{{keyring.OTHER}}' },
  ]) {
    const refused = await awaitRejectionDetails(
      guard.preflight({ url: `${home.base}/echo`, headers: unknown, secrets, signal }),
    )
    t.match(refused, {
      code: 'invalid_input',
      errors: [{ pointer: /^\/headers\/x-k$/i, detail: /"OTHER".*127\.0\.0\.1/ }],
    })
  }
  const anonymous = guard.preflight({ url: `${home.base}/echo`, headers, signal })
  t.match(
    await awaitRejectionDetails(anonymous),
    { code: 'invalid_input' },
    'a caller without a keyring',
  )

  const down = { url: new URL('http://127.0.0.1/'), first: new URL('https://127.0.0.1/') }
  t.strictSame(
    await resolveKeyringHeadersForHop(parseCallerSuppliedHeaders(headers), secrets, down),
    { headers: { accept: 'application/json' }, usedSecrets: [] },
    'no secret leaves https for http',
  )

  const other = `http://other.example:${abroad.port}`
  const away = egress(t, { allow: allowing(home, abroad) })
  const moved = await away.fetch({
    url: `${home.base}/to?${other}/echo`,
    headers,
    secrets,
    signal,
    maxBytes: 10_000,
  })
  const received = JSON.parse(moved.body.toString()) as Record<string, string>
  t.match(received, { accept: 'application/json', host: `other.example:${abroad.port}` })
  t.notOk('authorization' in received || 'x-plain' in received, 'nothing personal crosses origins')

  owned['TOKEN other.example'] = 's3cret-value-1'
  const listed = await away.fetch({
    ...{ url: `${home.base}/to?${other}/echo`, headers, secrets, signal },
    maxBytes: 10_000,
  })
  t.notOk(
    'authorization' in JSON.parse(listed.body.toString()),
    'nor does a secret, wherever it may go',
  )
})

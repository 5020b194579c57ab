import t from 'tap'
import { DAY, HOUR, MINUTE, SECOND } from '../../../core/clock.ts'
import { readPaymentDemand } from '../../../chain/read-payment-demand.ts'
import { createEndpointProber } from '../../../jobs/x402/payable-endpoint-prober.ts'
import { createListedApiProbeJob } from '../../../jobs/x402/listed-api-probe-job.ts'
import { createHostProbeStore } from '../../../persistence/x402/host-probe-store.ts'
import { createPayableApiStore } from '../../../persistence/x402/payable-api-store.ts'
import { createEgressClient } from '../../../providers/egress/guarded-egress-client.ts'
import {
  createEndpointProbe,
  parseProbeableUrl,
} from '../../../providers/x402/probe-endpoint-payment-demand.ts'
import { createTestClock } from '../../support/actors/test-actor-node.ts'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import {
  startTestPayableApis,
  TEST_PAYEE,
  TEST_USDC_ADDRESS,
} from '../../support/upstreams/test-payable-apis.ts'

/** The registry of pay-per-call APIs: probes, listings, proofs of origin, other Bazaars. */

const apis = await startTestPayableApis(t)
const { shown, at, requestsTo } = apis
const clock = createTestClock()
const settings = { SSRF_ALLOW: apis.allowed, RATE_LIMITS: 'on', ONBOARD_PER_HOUR_PER_IP: '100' }
const main = await startInProcessTestStation(
  t,
  { ...settings, X402_BAZAARS: `${apis.base}/bazaar/` },
  { clock },
)
const [her, him] = [await main.onboard(), await main.onboard()]

let callers = 0
/** Each request comes from an address of its own. */
const elsewhere = () => ({ 'x-forwarded-for': `198.51.100.${(callers += 1) % 250}` })
const probe = (url: string, headers: Record<string, string> = elsewhere()) =>
  main.ask('GET', `/api/x402/probe?url=${encodeURIComponent(url)}`, { headers })
const register = ({ key }: TestAgent, url: string, name = 'Weather') =>
  main.ask('POST', '/api/x402/register', {
    key,
    json: { name, url, price_usdc: 0.002 },
    headers: elsewhere(),
  })
const list = async (query = '') =>
  (await main.ask('GET', `/api/x402/apis?${query}`)).body['apis'] as Record<string, unknown>[]

/** A second node: another prober on the same database. */
function secondNode() {
  const egress = createEgressClient({ allow: () => true, userAgent: 'second-node' })
  t.teardown(() => egress.close())
  return createEndpointProber({
    store: createHostProbeStore(main.sql),
    send: createEndpointProbe({ egress, clock, readDemand: readPaymentDemand }),
    parse: (url) => parseProbeableUrl(url, () => true),
    clock,
    stopped: new AbortController().signal,
  })
}

t.test('a probe reads all protocols into one form', async (t) => {
  const offer = {
    protocol: 'x402',
    scheme: 'exact',
    network: 'eip155:8453',
    asset: TEST_USDC_ADDRESS,
    pay_to: TEST_PAYEE,
    amount: '2000',
    amount_usdc: 0.002,
    max_timeout_seconds: 300,
  }
  const charge = { protocol: 'mpp', versions: [], scheme: 'tempo/charge', network: 'eip155:4217' }
  const both = { ...offer, versions: [1, 2] }
  const cases = [
    [1, '/v2', { supports_x402: true, offers: [{ ...offer, versions: [2] }], price_usdc: 0.002 }],
    [2, '/v1', { supports_x402: true, offers: [{ ...offer, versions: [1] }], price_usdc: 0.002 }],
    [3, '/mpp', { supports_x402: false, supports_mpp: true, offers: [charge], price_usdc: 0.0015 }],
    [4, '/all', { protocols: ['mpp', 'x402/1', 'x402/2'], offers: [both, charge], problems: [] }],
    [5, '/free', { status: 200, supports_x402: false, problems: [/asks for no payment/] }],
    [
      6,
      '/broken',
      { supports_x402: false, offers: [], problems: [/amount/, /cannot/, /WWW/, /no known/] },
    ],
    [7, '/redirect', { status: 302, supports_x402: false, problems: [/redirect/] }],
    [9, '/unstorable', { status: 402, offers: [offer], problems: [/cannot/] }],
    [8, '/bomb', { status: null, supports_x402: false, problems: [/does not answer/] }],
  ] as const
  for (const [host, path, body] of cases) {
    const reply = await probe(at(host, path))
    t.match(reply, { status: 200, body: { url: at(host, path), cached: false, ...body } }, path)
  }
  const [sent] = requestsTo(1, '/v2')
  t.match(sent?.agent, /^gas-station-probe\/\S+ \(\+http:\/\/gas\.test\//)
  t.notMatch(sent?.headers, /authorization|cookie|payment|forwarded/i)
})

t.test('addresses that must not be probed are refused and not connected to', async (t) => {
  for (const url of [
    'http://10.0.0.1/',
    'http://169.254.169.254/latest/meta-data/',
    'http://[::1]/',
    'http://93.184.216.34:8080/',
    'https://93.184.216.34:80/',
    'ftp://weather.example/',
    'http://user:pass@weather.example/',
  ])
    t.match(await probe(url), { status: 422, body: { code: 'blocked_url' } }, url)
  t.match(await probe('weather'), { status: 400, body: { code: 'invalid_input' } })
})

t.test('other Bazaars are listed as theirs and never probed', async (t) => {
  await eventually(async () => (await list('q=theirs')).length > 0, 'the other Bazaar is read')
  const source = `${apis.base}/bazaar`
  t.match(await list('q=theirs'), [{ source, price_usdc: 0.009, verified: false, uptime: null }])
  t.match(await list('q=old.example'), [{ source, protocols: ['x402/1'] }])
  t.match(await list('q=hostile'), [{ url: 'https://hostile.example/' }])
  t.equal((await list()).length, 3, 'an address that is too long or no web address is left out')
  t.equal(requestsTo(99, '/v2').length, 0)
  const { body } = await main.ask('GET', '/discovery/resources')
  t.match(body, { items: [], pagination: { total: 0 } }, 'theirs are not passed on')
})

t.test('a host is probed once a minute, by all callers and nodes', async (t) => {
  const url = at(20, '/v2')
  const replies = await Promise.all(Array.from({ length: 20 }, () => probe(url)))
  for (const reply of replies) t.match(reply, { status: 200, body: { supports_x402: true } })
  t.equal(replies.filter(({ body }) => body['cached'] === false).length, 1)
  const other = await probe(at(20, '/v1'))
  t.match(other, { status: 429, body: { code: 'rate_limited', per: 'host' } })
  t.ok(other.body.retry_after > 0 && other.body.retry_after <= 60)
  const node = secondNode()
  t.match(await node.probe(node.parse(url)), { isCached: true, probe: { status: 402 } })
  await t.rejects(node.probe(node.parse(at(20, '/v1'))), { code: 'rate_limited' })
  t.equal(node.parse('http://weather.example./a').href, 'http://weather.example/a')
  t.equal(requestsTo(20, '/v2').length, 1, 'one request for 21 callers')
  t.equal(requestsTo(20, '/v1').length, 0)
  clock.pass(MINUTE)
  t.match(await node.probe(node.parse(url)), { isCached: false })
  t.match(await probe(url), { body: { cached: true } }, 'of the other node')
  t.equal(requestsTo(20, '/v2').length, 2)
})

t.test('an address of a caller has ten probes a minute', async (t) => {
  const headers = { 'x-forwarded-for': '203.0.113.9' }
  const replies = await Promise.all(
    Array.from({ length: 12 }, (_, n) => probe(at(30 + n, '/v2'), headers)),
  )
  t.equal(replies.filter(({ status }) => status === 200).length, 10)
  t.match(
    replies.find(({ status }) => status === 429),
    { body: { code: 'rate_limited', limit_source: 'rate.probe', per: 'address' } },
  )
})

t.test('an agent lists what asks for a payment, changes it and removes it', async (t) => {
  const url = at(50, '/all')
  const made = await register(her, `${url}#part`)
  const api = {
    source: 'station',
    name: 'Weather',
    url,
    description: 'The weather of the next hours.',
    tags: ['weather', 'forecast'],
    price_usdc: 0.0015,
    declared_price_usdc: 0.002,
    networks: ['eip155:8453', 'eip155:4217'],
    protocols: ['mpp', 'x402/1', 'x402/2'],
    verified: false,
    uptime: 1,
  }
  t.match(made, { status: 200, body: { ...api, proof: { token: /^gas-station-token=/ } } })
  const id = String(made.body['api_id'])
  t.match(await list('q=WEATHER+hours'), [api])
  t.match(await register(her, url, 'Forecast'), {
    status: 200,
    body: { api_id: id, name: 'Forecast' },
  })
  t.match(await register(him, url), { status: 409, body: { code: 'api_listed' } })
  t.match(await probe(at(49, '/none')), { status: 200 }, 'a stranger has the minute of callers')
  t.match(await probe(at(49, '/v2')), { status: 429, body: { limit_source: 'rate.probe_host' } })
  const listed = await register(her, at(49, '/v2'))
  t.match(listed, { status: 200 }, 'and keeps nobody from being listed')
  t.match(
    await register(her, at(49, '/v1')),
    { status: 429, body: { limit_source: 'rate.probe_host' } },
    'an agent has one minute of a host',
  )
  await main.ask('DELETE', `/api/x402/apis/${String(listed.body['api_id'])}`, { key: her.key })
  t.match(await register(her, at(51, '/free')), {
    status: 422,
    body: { code: 'not_payable', problems: [/asks for no payment/] },
  })
  const path = `/api/x402/apis/${id}`
  t.match(await main.ask('DELETE', path, { key: him.key }), { status: 404 })
  t.match(await main.ask('DELETE', path, { key: her.key }), { body: { api_id: id, removed: true } })
  t.match(await main.ask('GET', path), { status: 404, body: { code: 'api_not_found' } })
  t.strictSame(await list('q=forecast'), [])
})

t.test('who proves the origin takes an unproven listing over, and nobody after him', async (t) => {
  const url = at(52, '/v2')
  t.match(await register(her, url), { status: 200 })
  const refused = await register(him, url)
  const challenge = refused.body['challenge'] as { url: string; token: string }
  t.equal(challenge.url, at(52, '/.well-known/gas-station.txt'))
  shown.token = `x${challenge.token}`
  t.match(await register(him, url), { status: 409 }, 'a line that only contains the token')
  shown.token = challenge.token
  const taken = await register(him, url)
  t.match(taken, { status: 200, body: { verified: true, proof: null } })
  t.match(await register(her, url), { status: 409, body: { challenge: undefined } })
  const verify = `/api/x402/apis/${String(taken.body['api_id'])}/verify`
  t.match(await main.ask('POST', verify, { key: her.key }), { status: 404 })
  const listed = (await list()).filter((api) => api['url'] === url)
  t.match(listed, [{ verified: true }])
  t.equal(listed.length, 1)
})

t.test('a proven listing is probed each hour and ends unseen after three days', async (t) => {
  const made = await register(her, at(53, '/v2'), 'Hourly')
  const id = String(made.body['api_id'])
  const { token, verify_url } = made.body['proof'] as { token: string; verify_url: string }
  const verify = () =>
    main.ask('POST', new URL(verify_url).pathname, { key: her.key, headers: elsewhere() })
  shown.token = 'another'
  t.match(await verify(), { status: 422, body: { code: 'origin_unproven', challenge: { token } } })
  shown.token = token
  t.match(await verify(), { status: 200, body: { verified: true, proof: null } })
  const unproven = String((await register(her, at(54, '/v2'), 'Unproven')).body['api_id'])

  const store = createPayableApiStore(main.sql)
  const job = createListedApiProbeJob({
    store,
    prober: secondNode(),
    clock,
    log: (message) => t.fail(message),
  })
  const probesOf = async (api: string) => {
    const [row] = await main.sql<{ count: number }[]>`
      select count(*)::int as count from x402_api_probes where api_id = ${api}`
    return row?.count ?? 0
  }
  const nextRound = async (count: number) => {
    job.start()
    await eventually(async () => (await probesOf(id)) === count, `${count} probes`)
    await job.stop()
  }
  clock.pass(HOUR + SECOND)
  shown.price = '5000'
  await nextRound(2)
  const get = () => main.ask('GET', `/api/x402/apis/${id}`)
  const history = [{ price_usdc: 0.005 }, { price_usdc: 0.002 }]
  t.match(await get(), { body: { price_usdc: 0.005, uptime: 1, price_history: history } })
  clock.pass(HOUR + SECOND)
  shown.isDown = true
  // A stranger holds the one probe a minute of callers.
  t.match(await probe(at(53, '/v1')), { status: 200 })
  t.match(await probe(at(53, '/mpp')), { status: 429 })
  await nextRound(3)
  t.match(await get(), { body: { price_usdc: 0.005, uptime: 0.6667 } }, 'the last price stays')
  t.equal(await probesOf(unproven), 1, 'without proof there is only the first probe')
  clock.pass(3 * DAY - 2 * MINUTE - HOUR)
  t.equal((await get()).status, 200)
  clock.pass(3 * MINUTE)
  t.equal((await get()).status, 404)
  t.notMatch(await list(), [{ name: 'Hourly' }])
  Object.assign(shown, { isDown: false, price: '2000' })
})

t.test('the list is filtered, sorted and paged', async (t) => {
  for (const [host, price] of [
    [60, '3000'],
    [61, '1000'],
    [62, '2000'],
    [63, '1000'],
  ] as const) {
    shown.price = price
    t.match(await register(him, at(host, '/v2'), `Sorted ${host}`), { status: 200 })
    clock.pass(1)
  }
  const names = (apis: Record<string, unknown>[]) =>
    apis.map(({ name }) => String(name).replace('Sorted ', ''))
  t.strictSame(names(await list('q=sorted')), ['63', '62', '61', '60'])
  t.strictSame(names(await list('q=sorted&sort=price')), ['61', '63', '62', '60'])
  t.strictSame(names(await list('q=sorted&max_price=0.002&sort=price')), ['61', '63', '62'])
  t.equal((await list('q=sorted&network=base')).length, 4)
  t.strictSame(await list('q=sorted&network=solana'), [])
  t.equal((await main.ask('GET', '/api/x402/apis?network=nowhere')).status, 400)
  const paged: Record<string, unknown>[] = []
  for (let cursor = ''; ;) {
    const query = `q=sorted&sort=price&limit=1${cursor}`
    const { body } = await main.ask('GET', `/api/x402/apis?${query}`)
    paged.push(...(body['apis'] as Record<string, unknown>[]))
    if (body['next_cursor'] === null) break
    cursor = `&cursor=${body['next_cursor'] as string}`
  }
  t.strictSame(names(paged), ['61', '63', '62', '60'])
})

t.test('the registry is a Bazaar', async (t) => {
  const page = await main.ask('GET', '/discovery/resources?limit=2&offset=1&type=http&extra=x')
  const total = (await list('limit=200')).filter((api) => api['source'] === 'station').length
  t.match(page, {
    status: 200,
    body: { x402Version: 2, pagination: { limit: 2, offset: 1, total } },
  })
  t.equal((page.body['items'] as unknown[]).length, 2)
  const found = await main.ask('GET', '/discovery/search?query=sorted+60&network=base')
  t.match(found.body['resources'], [
    {
      resource: at(60, '/v2'),
      type: 'http',
      x402Version: 2,
      accepts: [
        { scheme: 'exact', network: 'eip155:8453', amount: '3000', asset: TEST_USDC_ADDRESS },
      ],
      serviceName: 'Sorted 60',
    },
  ])
  t.match((await main.ask('GET', '/discovery/search?type=mcp')).body, { resources: [] })
})

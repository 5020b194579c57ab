import t from 'tap'
import { countReplies } from '../../support/http/test-http-client.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { UNKNOWN_ID } from '../../support/write-routes/write-route-cases.ts'

const send = { to_agent_id: UNKNOWN_ID, amount_usdc: 0.01 }
const bounty = { title: 'x', description: 'x', domain: 'x', reward_usdc: 0.05 }
const signal = { channel: 'x', type: 'ping', payload: {} }

t.test('a wrong amount returns the given and the permitted amount', async (t) => {
  const main = await startInProcessTestStation(t)
  const { key } = await main.onboard()
  const task = { name: 'x' }
  const every = { interval: '1h', tool: 'hive_trending' }
  const pack = (amount: unknown) => ({ agent_name: 'x', fuse: { per_day_usdc: amount } })
  const doors: [string, (amount: unknown) => object, pointer: string, allowed: string][] = [
    ['/api/agent/send', (is) => ({ ...send, amount_usdc: is }), '/amount_usdc', 'from 0.01 to 50'],
    ['/api/tip', (is) => ({ ...send, amount_usdc: is }), '/amount_usdc', 'from 0.01 to 1000000'],
    [
      '/api/bounties',
      (is) => ({ ...bounty, reward_usdc: is }),
      '/reward_usdc',
      'from 0.05 to 1000000',
    ],
    [
      '/api/task/start',
      (is) => ({ ...task, budget_usdc: is }),
      '/budget_usdc',
      'above 0 and at most 1000000',
    ],
    [
      '/api/task/schedule',
      (is) => ({ ...every, budget_usdc: is }),
      '/budget_usdc',
      'above 0 and at most 1',
    ],
    ['/api/credits/topup', (is) => ({ amount_usdc: is }), '/amount_usdc', 'from 1 to 10000'],
    ['/api/keys', (is) => ({ cap_usdc: is }), '/cap_usdc', 'above 0 and at most 1000000'],
    ['/api/backpack/create', pack, '/fuse/per_day_usdc', 'above 0 and at most 1000000'],
  ]
  const given: [unknown, string][] = [
    [-1, 'not -1'],
    [0, 'not 0'],
    [1e30, 'not 1e\\+30'],
    ['abc', 'not a string'],
    ['0.5', 'not a string'],
    [[1], 'not a list'],
    [true, 'not true'],
  ]
  const detailOf = async (path: string, json: object, pointer: string) => {
    const { status, body } = await main.ask('POST', path, { key, json })
    const [misfit] = body.errors ?? []
    t.match(misfit, { pointer }, path)
    t.strictSame([status, body['detail']], [400, `${pointer} ${misfit?.detail}`])
    return String(misfit?.detail)
  }
  for (const [path, bodyOf, pointer, allowed] of doors) {
    for (const [amount, not] of given) {
      const words = `^must be a USDC amount ${allowed} \\(at most six decimals\\)( or null)?, ${not}$`
      t.match(await detailOf(path, bodyOf(amount), pointer), new RegExp(words), path)
    }
    const fine = path.endsWith('schedule') ? 0.1000001 : 1.0000001
    const round = Math.round(fine * 1e6) / 1e6
    const more = `must be a USDC amount of at most six decimals, and ${fine} has more: round it to six, as in ${round}`
    t.equal(await detailOf(path, bodyOf(fine), pointer), more, path)
  }
})

t.test('a rate limit error names the limit and when to retry', async (t) => {
  const main = await startInProcessTestStation(t, {
    RATE_LIMITS: 'on',
    ONBOARD_PER_HOUR_PER_IP: '1',
  })
  const { key } = await main.onboard()
  const limitOf = async (times: number, ask: () => ReturnType<typeof main.ask>) => {
    const answers = await Promise.all(Array.from({ length: times }, ask))
    const refused = answers.find(({ status }) => status === 429)
    t.equal(refused?.headers['retry-after'], String(refused?.body['retry_after']))
    return refused?.body
  }
  const from = { 'x-forwarded-for': '203.0.113.9' }
  t.match(
    await limitOf(2, () =>
      main.ask('POST', '/api/onboard', { json: { name: 'ada' }, headers: from }),
    ),
    {
      code: 'rate_limited',
      detail: /^Only 1 new agents an hour for each address: come again in \d+ s\.$/,
      limit_source: 'rate.onboard',
      limit: 1,
      per: 'address',
      window_seconds: 3_600,
    },
  )
  t.match(
    await limitOf(40, () => main.ask('POST', '/api/task/start', { key, json: { name: 5 } })),
    {
      detail: /^Only 20 writing requests in 2 seconds for each agent: come again in [12] s\.$/,
      limit_source: 'rate.write',
      limit: 20,
      per: 'agent',
      window_seconds: 2,
    },
  )
  const plan = { json: { task: 'Read the price of BTC every day' }, headers: from }
  t.match(await limitOf(11, () => main.ask('POST', '/api/agent/plan', plan)), {
    detail: /^Only 10 plans an hour for each address/,
    limit_source: 'rate.plan',
  })
  const pill = { json: { claim: '2 + 2 = 4' }, headers: from }
  t.match(await limitOf(6, () => main.ask('POST', '/api/pill', pill)), {
    code: 'free_tier_exhausted',
    detail: /^Only 5 free calls of hallucination_pill a day for each address/,
    limit_source: 'free_tier',
    limit_calls: 5,
    free_calls: { per_day: 5, left: 0, resets_at: /T00:00:00\.\d{3}Z$/ },
  })
})

t.test(
  'an IPv6 /48 has sixteen times the limit of an address, from any number of /64s',
  async (t) => {
    const main = await startInProcessTestStation(t, { RATE_LIMITS: 'on' })
    const doors: [
      number,
      (headers: Record<string, string>) => ReturnType<typeof main.ask>,
      string,
    ][] = [
      [160, (headers) => main.ask('POST', '/api/agent/plan', { json: {}, headers }), 'rate.plan'],
      [320, (headers) => main.ask('GET', '/api/hive/public?q=x', { headers }), 'rate.hive'],
    ]
    for (const [room, ask, limit_source] of doors) {
      const from = (at: number, site: number) => ({
        'x-forwarded-for': `2001:db8:${site}:${at.toString(16)}::1`,
      })
      const admitted = new Set<number>()
      for (let at = 0; at < room; at += 1) admitted.add((await ask(from(at, 1))).status)
      t.notOk(admitted.has(429), limit_source)
      const full = await ask(from(room, 1))
      t.match(full.body, { code: 'rate_limited', limit_source, limit: room, per: 'network' })
      t.match(full.headers['ratelimit'], /;r=0;/)
      t.not((await ask(from(room, 2))).status, 429, 'another /48 has its own')
    }
  },
)

t.test('a 402 says that the free calls are used up, when they return, and the price', async (t) => {
  const main = await startInProcessTestStation(t, {
    FREE_TIER_PER_DAY: '1',
    STARTER_CREDITS_USDC: '0.001',
  })
  const poor = await main.onboard()
  const free_calls = { per_day: 1, left: 0, resets_at: /T00:00:00\.\d{3}Z$/ }
  const used =
    /^The 1 free calls of hive_read a day for each address are used up: they return at 00:00 UTC\./
  const from = { 'x-forwarded-for': '203.0.113.77' }
  const read = { tool: 'hive_read', query: 'x' }
  t.match(await main.ask('POST', '/api/refuel', { json: read, headers: from }), { status: 200 })
  const { body: bare } = await main.ask('POST', '/api/refuel', { json: read, headers: from })
  t.match(bare, { code: 'payment_required', detail: used, free_calls })
  t.match(bare['detail'], /This call costs 0.005 USDC\.$/)
  const asked = { json: read, headers: from, key: poor.key }
  const { body: keyed } = await main.ask('POST', '/api/refuel', asked)
  t.match(keyed, { code: 'payment_required', detail: used, free_calls })
  t.match(keyed['detail'], /This call costs 0.005 USDC and 0.001 USDC is available\.$/)
  const wrong = { json: { tool: 'hive_trending' }, key: `gas_${'x'.repeat(49)}` }
  const { body: bad } = await main.ask('POST', '/api/refuel', wrong)
  t.match(bad, { code: 'payment_required', key_status: 'invalid' })
  t.match(
    bad['detail'],
    /^The API key that was sent is unknown, revoked or expired\. This call costs/,
  )
})

t.test('an oversized input returns its maximum size', async (t) => {
  const main = await startInProcessTestStation(t)
  const { key } = await main.onboard()
  const raw = (bytes: number) => `${JSON.stringify({ tool: 'hive_trending' })}${' '.repeat(bytes)}`
  const told = async (path: string, asked: object) =>
    (await main.ask('POST', path, { key, ...asked })).body
  t.match(await told('/api/agent/send', { raw: raw(300_000) }), {
    code: 'body_too_large',
    detail: 'The body must have at most 262144 bytes.',
    limit_bytes: 262_144,
  })
  t.match(await told('/api/refuel', { raw: raw(2_000_000) }), { limit_bytes: 1_048_576 })
  t.match(await told('/api/refuel', { raw: raw(300_000) }), {
    detail: 'The body of hive_trending must have at most 262144 bytes.',
    limit_bytes: 262_144,
  })
  const payload = { text: 'x'.repeat(40_000) }
  t.match(await told('/api/signal/publish', { json: { ...signal, payload } }), {
    detail: /payload.*32768 bytes/,
    limit_bytes: 32_768,
  })
})

t.test('a second webhook for the same events and address returns 409', async (t) => {
  const main = await startInProcessTestStation(t)
  const [her, him] = [await main.onboard(), await main.onboard()]
  const register = (json: object, key = her.key) =>
    main.ask('POST', '/api/webhook/register', {
      key,
      json: { url: 'https://93.184.216.34/', ...json },
    })
  const first = await register({ events: ['topup', 'tool_call'] })
  t.equal(first.status, 200)
  const id = String(first.body['id'])
  t.match(await register({ events: ['tool_call', 'topup'] }), {
    status: 409,
    body: {
      code: 'webhook_exists',
      webhook_id: id,
      state: 'active',
      detail: new RegExp(`^The webhook ${id} gets these events at this address already: use it\\.`),
    },
  })
  for (const other of [
    { events: ['topup'] },
    { events: ['topup', 'tool_call', 'low_balance'] },
    {},
    { url: 'https://93.184.216.34/other', events: ['topup', 'tool_call'] },
  ])
    t.equal((await register(other)).status, 200, JSON.stringify(other))
  t.equal((await register({ events: ['topup', 'tool_call'] }, him.key)).status, 200)
  const racing = await Promise.all(
    Array.from({ length: 5 }, () => register({ events: ['all', 'topup'] })),
  )
  t.strictSame(
    racing.map(({ status }) => status).sort((a, b) => a - b),
    [200, 409, 409, 409, 409],
  )
  await main.sql`update webhooks set state = 'disabled' where id = ${id}`
  t.match(await register({ events: ['topup', 'tool_call'] }), {
    status: 409,
    body: {
      state: 'disabled',
      detail: new RegExp(`enable it with POST /api/webhook/${id}/enable`),
    },
  })
  await main.ask('DELETE', `/api/webhook/${id}`, { key: her.key })
  t.equal((await register({ events: ['topup', 'tool_call'] })).status, 200)
})

t.test('concurrent requests create no fleet beyond the limit', async (t) => {
  const main = await startInProcessTestStation(t)
  const owner = await main.onboard()
  await main.sql`
    insert into fleets (fleet_id, owner_id, ordinal, name, created_at)
    select gen_random_uuid(), ${owner.id}, n, 'before', now() from generate_series(1, 97) n`
  const one = () =>
    main.ask('POST', '/api/fleet/create', { key: owner.key, json: { name: 'crew' } })
  const answers = await Promise.all(Array.from({ length: 8 }, one))
  t.strictSame(countReplies(answers), { 200: 3, '409 limit_reached': 5 })
  const refused = answers.find(({ status }) => status !== 200)?.body
  t.match(refused, { code: 'limit_reached', of: 'fleets', limit: 100 })
  await main.verify()
})

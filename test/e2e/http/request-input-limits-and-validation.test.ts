import t from 'tap'
import { LIMITS } from '../../../core/limits.ts'
import { connectWebSocket } from '../../support/http/websocket-and-sse-clients.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

const main = await startInProcessTestStation(t, {
  FREE_TIER_PER_DAY: '1',
  STARTER_CREDITS_USDC: '5',
})
const guest = await main.onboard()
const { key } = guest
const post = (path: string, json: object) => main.ask('POST', path, { key, json })
const made = async (path: string, json: object) => {
  const { status, body, text } = await post(path, json)
  if (status >= 300) throw new Error(`${path}: ${text}`)
  return body
}
const pack = String((await made('/api/backpack/create', { agent_name: 'x' })).backpack_id)

t.test('oversized input returns 413 with its limit on every route', async (t) => {
  for (const [path, limit, field, json] of [
    [
      'signal/publish',
      LIMITS.signalPayloadBytes,
      'payload',
      (text: string) => ({ channel: 'a', payload: { text } }),
    ],
    [
      `backpack/${pack}/clipboard`,
      LIMITS.clipboardValueBytes,
      'value',
      (value: string) => ({ key: 'k', value }),
    ],
    [
      `backpack/${pack}/keyring`,
      LIMITS.keyringSecretBytes,
      'secret',
      (secret: string) => ({ name: 'N', secret }),
    ],
  ] as const)
    for (const text of ['x'.repeat(limit + 1), 'ü'.repeat(limit / 2 + 1)]) {
      const answer = await post(`/api/${path}`, json(text))
      const errors = [{ pointer: `/${field}` }]
      t.match(
        answer,
        { status: 413, body: { code: 'body_too_large', limit_bytes: limit, errors } },
        `${path} ${answer.text}`,
      )
    }
  await made(`/api/backpack/${pack}/keyring`, {
    name: 'N',
    secret: 's'.repeat(LIMITS.keyringSecretBytes),
  })
})

t.test('used-up free calls return their limit in headers', async (t) => {
  const ask = () =>
    main.ask('POST', '/api/refuel', {
      json: { tool: 'x402_parse', body: { x402Version: 1, accepts: [], error: 'pay' } },
      headers: { 'x-forwarded-for': '203.0.113.9' },
    })
  while ((await ask()).status === 200);
  const { status, headers, body } = await ask()
  t.equal(status, 429)
  t.equal(body.code, 'free_tier_exhausted')
  t.match(headers['ratelimit-policy'], /^"free_tier";q=\d+;w=86400$/)
  t.equal(headers['ratelimit'], `"free_tier";r=0;t=${body.retry_after}`)
  t.equal(headers['retry-after'], String(body.retry_after))
})

t.test(
  'names without visible characters, with control characters or direction overrides are rejected',
  async (t) => {
    const unseen = [
      '\u200b',
      '\u200d\u2060\ufeff',
      '\u3164',
      '\u2800',
      '\u00ad',
      ' \u200b\t',
      '\u{e0001}',
    ]
    const turning = [
      'a\nb',
      'a\u0007',
      'abc\u202egnp.exe',
      '\u2066x',
      'a\u2028b',
      'tab\tbed',
      '\u009b31m',
    ]
    for (const [path, field, rest] of [
      ['task/start', 'name', { budget_usdc: 0.1 }],
      ['backpack/create', 'agent_name', {}],
      ['fleet/create', 'name', {}],
      ['keys', 'name', {}],
      ['bounties', 'title', { description: 'x', domain: 'x', reward_usdc: 0.05 }],
      ['bounties', 'domain', { description: 'x', title: 'x', reward_usdc: 0.05 }],
      ['task/schedule', 'name', { interval: '1h', tool: 'hive_trending' }],
      ['agent/send', 'memo', { to_agent_id: guest.id, amount_usdc: 0.01 }],
      ['tip', 'note', { to_agent_id: guest.id, amount_usdc: 0.01 }],
      ['messages', 'subject', { to: guest.id, message: 'x' }],
    ] as const)
      for (const value of [...unseen, ...turning]) {
        const answer = await post(`/api/${path}`, { ...rest, [field]: value })
        const errors = [{ pointer: `/${field}` }]
        t.match(
          answer,
          { status: 400, body: { code: 'invalid_input', errors } },
          `${path} ${encodeURIComponent(value)}`,
        )
      }
    for (const message of unseen)
      t.equal((await post('/api/messages', { to: guest.id, message })).status, 400)
    for (const name of ['Ünï çødé', 'دفع \u200fمرحبا', '研究', 'नमस्ते', 'team 🚀', '👩‍🔬 lab'])
      t.equal((await post('/api/task/start', { name, budget_usdc: 0.1 })).status, 200, name)
    await made('/api/messages', { to: guest.id, message: 'two\nlines' })
  },
)

t.test('many unknown fields are rejected like a single one', async (t) => {
  const crowd = Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`k${n}`, 1]))
  for (const tool of ['hive_write', 'code_sandbox', 'hive_read'])
    t.match(await main.ask('POST', '/api/refuel', { key, json: { tool, query: 'x', ...crowd } }), {
      status: 400,
      body: { code: 'invalid_input' },
    })
  const long = { content: 'x'.repeat(100_000), ...crowd }
  t.equal(
    (await main.ask('POST', '/api/refuel', { key, json: { tool: 'hive_write', ...long } })).status,
    400,
  )
  const socket = await connectWebSocket(t, main.url, { key })
  t.match(await socket.ask({ type: 'publish', channel: 'plain', ...crowd }), {
    type: 'error',
    problem: { code: 'invalid_input' },
  })
})

t.test('a pulse, a signal and a Backpack need only their required fields', async (t) => {
  t.match(await made('/api/pulse', {}), { goal_vector: '', confidence: 0, idle_cycles: 0 })
  t.match(await main.ask('GET', '/api/pulse/mine', { key }), {
    status: 200,
    body: { pulse: { goal_vector: '', confidence: 0, idle_cycles: 0 } },
  })
  t.match(await made('/api/pulse', { goal_vector: 'x' }), { goal_vector: 'x', confidence: 0 })
  t.match(await made('/api/signal/publish', { channel: 'plain' }), { type: 'broadcast' })
  const { body: recent } = await main.ask('GET', '/api/signal/recent?channel=plain', { key })
  t.match(recent, { signals: [{ type: 'broadcast', payload: {} }] })
  t.match(await made('/api/backpack/create', {}), { agent_name: 'tester' })
  const socket = await connectWebSocket(t, main.url, { key })
  t.match(await socket.ask({ type: 'pulse' }), { type: 'ack', ok: true })
  t.match(await socket.ask({ type: 'publish', channel: 'plain' }), { type: 'ack', ok: true })
})

t.test('channel names accept letters of any script', async (t) => {
  for (const channel of ['дефи', '研究:ガス', 'café', '🚀:go', 'x'.repeat(128)]) {
    await made('/api/signal/publish', { channel })
    const at = `/api/signal/recent?channel=${encodeURIComponent(channel.normalize('NFD'))}`
    const { body } = await main.ask('GET', at, { key })
    t.match(body, { signals: [{ channel }] }, channel)
  }
  for (const channel of [
    'a,b',
    'a b',
    'a\u0000',
    'a\u202eb',
    'a\u200bb',
    'x'.repeat(129),
    '\n',
    '',
  ])
    t.match(
      await post('/api/signal/publish', { channel }),
      { status: 400 },
      JSON.stringify(channel),
    )
})

t.test('the text of an amount decides, not the double it becomes', async (t) => {
  const { id } = await main.onboard()
  const send = (amount: string) =>
    main.ask('POST', '/api/agent/send', {
      key,
      raw: `{"to_agent_id":"${id}","amount_usdc":${amount}}`,
    })
  const detail = /at most six decimals/
  for (const amount of [
    ...['0.0100000000000000001', '0.010000000000000001', '0.01000000000000000000000001e0'],
    ...['100000000000000000001e-22', '0.0099999999999999999999'],
  ])
    t.match(
      await send(amount),
      { status: 400, body: { errors: [{ pointer: '/amount_usdc', detail }] } },
      amount,
    )
  for (const amount of ['0.01000000000000000000', '0.010000', '1000000000000000000e-20'])
    t.match(await send(amount), { status: 200, body: { amount_usdc: 0.01 } }, amount)
  const raw = '{"calls":[{"tool":"x","body":{"max_usdc":0.1000000000000000055}}]}'
  t.match(await main.ask('POST', '/api/pipeline', { key, raw }), {
    status: 400,
    body: { errors: [{ pointer: '/calls/0/body/max_usdc', detail }] },
  })
})

t.test('an object with a name twice is refused, however the name is written', async (t) => {
  const { id } = await main.onboard()
  const before = (await main.ask('GET', '/api/credits/balance', { key })).body['balance_usdc']
  t.type(before, 'number')
  const to = `"to_agent_id":"${id}"`
  for (const raw of [
    `{${to},"amount_usdc":0.01,"amount_usdc":0.05}`,
    `{"amount_usdc":0.01,${to},"\\u0061mount_usdc":0.05}`,
    `{"amount_usdc" : 0.01, ${to}, "amount_usdc"\n:0.01}`,
  ])
    t.match(
      await main.ask('POST', '/api/agent/send', { key, raw }),
      { status: 400, body: { code: 'invalid_input', detail: /the field amount_usdc twice/ } },
      raw,
    )
  const nested = '{"key":"n","value":{"a":{"b":1},"c":[{"b":1},{"b":1,"b":2}]}}'
  const clipboard = `/api/backpack/${pack}/clipboard`
  t.match(await main.ask('POST', clipboard, { key, raw: nested }), {
    status: 400,
    body: { detail: /the field b twice/ },
  })
  const raw = '{"key":"n","value":{"key":"key","n":{"key":"\\"key\\":1","n":[{"n":1},{"n":1}]}}}'
  t.match(
    await main.ask('POST', clipboard, { key, raw }),
    { status: 200 },
    'in objects of their own',
  )
  t.same((await main.ask('GET', '/api/credits/balance', { key })).body['balance_usdc'], before)
})

t.test('an integer that a JSON number cannot hold is refused, never changed', async (t) => {
  const put = (value: string) =>
    main.ask('POST', `/api/backpack/${pack}/clipboard`, {
      key,
      raw: `{"key":"n","value":${value}}`,
    })
  for (const [value, pointer] of [
    ['12345678901234567890', '/value'],
    ['-9007199254740993', '/value'],
    ['{"a":[1,{"b":9007199254740993}]}', '/value/a/1/b'],
    ['123456789012345678901234567890', '/value'],
  ] as const) {
    const answer = await put(value)
    const body = { code: 'invalid_input', errors: [{ pointer, detail: /send it as a string/ }] }
    t.match(answer, { status: 400, body }, answer.text)
  }
  for (const value of [
    '9007199254740992',
    '10000000000000000000000',
    '1e18',
    '0.12345678901234567',
    '-1.2345678901234567e-7',
    '"12345678901234567890"',
    '{"12345678901234567890":"\\"12345678901234567891"}',
  ]) {
    const answer = await put(value)
    t.equal(answer.status, 200, `${value} ${answer.text}`)
    t.same(answer.body['value'], JSON.parse(value))
  }
  const socket = await connectWebSocket(t, main.url, { key })
  await socket.next(({ type }) => type === 'ready')
  socket.socket.send(
    '{"type":"publish","ref":"big","channel":"a","payload":{"n":12345678901234567890}}',
  )
  const refused = await socket.next(({ ref }) => ref === 'big')
  t.match(refused, { type: 'error', problem: { errors: [{ pointer: '/payload/n' }] } })
})

t.test('an amount of more than six decimals returns how to round it', async (t) => {
  const answer = await post('/api/task/start', { name: 'x', budget_usdc: 0.1 + 0.2 })
  t.match(answer, {
    status: 400,
    body: { errors: [{ pointer: '/budget_usdc', detail: /round it to six, as in 0\.3$/ }] },
  })
})

t.test('a trailing slash in the path changes nothing', async (t) => {
  for (const path of [
    '/api/bounties',
    '/api/tools',
    '/api/network/health',
    '/api/agent/me',
    '/docs',
  ])
    t.equal((await main.ask('GET', `${path}/`, { key })).status, 200, path)
  t.equal((await main.ask('GET', '/api/bounties/?limit=1', { key })).status, 200)
  t.equal((await main.ask('DELETE', '/api/tools/', { key })).status, 405)
  t.equal((await main.ask('GET', '/api/nothing/', { key })).status, 404)
})

t.test('ending an object twice returns the same reply; a deleted one returns 404', async (t) => {
  const { bounty_id } = await made('/api/bounties', {
    title: 'x',
    description: 'x',
    domain: 'x',
    reward_usdc: 0.05,
  })
  const { schedule_id } = await made('/api/task/schedule', {
    interval: '1h',
    tool: 'hive_trending',
  })
  const { backpack_id } = await made('/api/backpack/create', {})
  await made(`/api/backpack/${pack}/clipboard`, { key: 'gone', value: 1 })
  const { id: webhook } = await made('/api/webhook/register', { url: 'https://hooks.invalid/' })
  const balance = await main.balance(guest)
  for (const [method, path, second] of [
    ['DELETE', `/api/bounties/${String(bounty_id)}`, 200],
    ['DELETE', `/api/task/schedule/${String(schedule_id)}`, 200],
    ['POST', `/api/backpack/${backpack_id}/revoke`, 200],
    ['DELETE', `/api/backpack/${pack}/clipboard?key=gone`, 404],
    ['DELETE', `/api/webhook/${String(webhook)}`, 404],
  ] as const) {
    const [once, twice] = [
      await main.ask(method, path, { key }),
      await main.ask(method, path, { key }),
    ]
    t.strictSame([once.status, twice.status], [200, second], `${path} ${twice.text}`)
    if (second === 200) t.same(twice.body, once.body)
  }
  t.equal(
    await main.balance(guest),
    Math.round((balance + 0.05) * 1e6) / 1e6,
    'the reward came back once',
  )
  await main.verify()
})

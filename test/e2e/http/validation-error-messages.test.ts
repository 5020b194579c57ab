import t from 'tap'
import { patternErrorMessage } from '../../../core/validation/request-schema-regex-patterns.ts'
import { NATIVE_TOOLS } from '../../../tools/tool-catalogue.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { UNKNOWN_ID } from '../../support/write-routes/write-route-cases.ts'

type Told = readonly [path: string, json: object, pointer: string, ...details: string[]]

const send = { to_agent_id: UNKNOWN_ID, amount_usdc: 0.01 }
const bounty = { title: 'x', description: 'x', domain: 'x', reward_usdc: 0.05 }
const WEBHOOK = 'https://hooks.example.com/'
const signal = { channel: 'x', type: 'ping', payload: {} }
const pager = (fields: object) => ({ agent_name: 'x', pager: fields })
const tool = (name: string, fields: object) => ({ tool: name, ...fields })

/** Route, body, pointer and the complete expected detail of the field. */
const WORDS: readonly Told[] = [
  ['/api/onboard', { name: 'a b' }, '/name', 'must be letters, digits, dashes and underscores'],
  ['/api/onboard', { name: 'a' }, '/name', 'must have 2 to 64 characters'],
  ['/api/onboard', { name: 5 }, '/name', 'must be letters, digits, dashes and underscores, not 5'],
  [
    '/api/onboard',
    { name: 'ada', owner_telegram: '@ada' },
    '/owner_telegram',
    'must be the number of a chat: at most 20 digits',
  ],
  [
    '/api/wallet/export/received',
    { wallet_address: '0x12' },
    '/wallet_address',
    'must be an address: 0x and 40 hex digits',
  ],
  [
    '/api/fleet/topup',
    { fleet_id: UNKNOWN_ID, tx_hash: '0x12' },
    '/tx_hash',
    'must be the hash of a transaction: 0x and 64 hex digits',
  ],
  ['/api/agent/send', { ...send, to_agent_id: 'ada' }, '/to_agent_id', 'must be a UUID'],
  [
    '/api/agent/send',
    { ...send, memo: ' ' },
    '/memo',
    'must not be blank, and must be one line without control or direction-override characters',
  ],
  [
    '/api/bounties',
    { ...bounty, ttl_hours: 0 },
    '/ttl_hours',
    'must be a whole number from 1 to 720, not 0',
  ],
  [
    '/api/bounties',
    { ...bounty, ttl_hours: 1.5 },
    '/ttl_hours',
    'must be a whole number from 1 to 720, not 1.5',
  ],
  [
    '/api/bounties',
    { ...bounty, required_keywords: 'gas' },
    '/required_keywords',
    'must be a list, not a string',
  ],
  ['/api/webhook/register', { url: WEBHOOK, events: [] }, '/events', 'must have 1 to 16 entries'],
  [
    '/api/webhook/register',
    { url: WEBHOOK, events: ['all', 'all'] },
    '/events',
    'must not have the same entry twice',
  ],
  [
    '/api/webhook/register',
    { url: WEBHOOK, events: ['tip'] },
    '/events/0',
    'must be one of tool_call, low_balance, topup, agent_ping, bounty_received, all',
  ],
  ['/api/signal/publish', { ...signal, payload: [] }, '/payload', 'must be an object, not a list'],
  ['/api/agent/set-contact', {}, '', 'must have at least 1 field'],
  [
    '/api/backpack/create',
    pager({ owner_email: 'ada' }),
    '/pager/owner_email',
    'must be an e-mail address or null',
  ],
  [
    '/api/backpack/create',
    pager({ webhook_url: 'ftp://a.b/' }),
    '/pager/webhook_url',
    'must be an http or https address or null',
  ],
  [
    '/api/keys',
    { expires_at: 5 },
    '/expires_at',
    'must be an instant, such as 2026-11-21T10:00:00Z or null, not 5',
  ],
  [
    '/api/backpack/create',
    { agent_name: 'x', tools: ['x', ''] },
    '/tools/1',
    'must have 1 to 64 characters',
    'must not be blank',
  ],
  [
    '/api/backpack/create',
    { agent_name: 'x', tools: 5 },
    '/tools',
    'must be a list or null, not 5',
  ],
  [
    '/api/refuel',
    tool('tx_simulate', { chain: 'base', to: '0x' }),
    '/to',
    'must be an address: 0x and 40 hex digits',
  ],
  [
    '/api/refuel',
    tool('hive_read', { query: 'x', limit: 99 }),
    '/limit',
    'must be a whole number from 1 to 50, not 99',
  ],
  ['/api/refuel', tool('web_search', { query: 7 }), '/query', 'must be a string, not 7'],
  [
    '/api/refuel',
    tool('x402_parse', { body: 7 }),
    '/body',
    'must be an object or a string of 1 to 65536 characters, not 7',
  ],
  [
    '/api/refuel',
    tool('hive_write', { content: 'x'.repeat(50), namespace: '!' }),
    '/namespace',
    'must be 1 to 64 letters, digits, colons, underscores, dots or dashes, and begin with a letter or a digit',
  ],
  [
    '/api/refuel',
    tool('social_oracle', { query: '!?' }),
    '/query',
    'must have a letter or a digit',
  ],
]

t.test('a validation error names the field and the accepted values', async (t) => {
  const main = await startInProcessTestStation(t)
  const { key } = await main.onboard()
  for (const [path, json, pointer, ...details] of WORDS) {
    const { status, body } = await main.ask('POST', path, { key, json })
    t.strictSame(
      [status, body['detail'], body.errors],
      [
        400,
        details.map((detail) => `${pointer} ${detail}`.trim()).join('; '),
        details.map((detail) => ({ pointer, detail })),
      ],
      `${path} ${JSON.stringify(json).slice(0, 80)}`,
    )
  }
  t.match(await main.ask('GET', '/api/messages?limit=many', { key }), {
    status: 400,
    body: {
      errors: [{ pointer: '/limit', in: 'query', detail: /^must be a whole number from 1 / }],
    },
  })
})

t.test('a misspelt field or tool gets a suggestion', async (t) => {
  const main = await startInProcessTestStation(t)
  const { key } = await main.onboard()
  const errorsOf = async (path: string, json: object) =>
    (await main.ask('POST', path, { key, json })).body.errors
  t.strictSame(await errorsOf('/api/agent/send', { ...send, memoo: 'x' }), [
    {
      pointer: '/memoo',
      detail: 'is not a field here: did you mean memo?',
      did_you_mean: 'memo',
    },
  ])
  t.strictSame(await errorsOf('/api/agent/send', { to_agent_id: UNKNOWN_ID, amount_usd: 1 }), [
    { pointer: '/amount_usdc', detail: 'is required: did you mean it by amount_usd?' },
    {
      pointer: '/amount_usd',
      detail: 'is not a field here: did you mean amount_usdc?',
      did_you_mean: 'amount_usdc',
    },
  ])
  t.strictSame(await errorsOf('/api/refuel', tool('hive_read', { query: 'x', namspace: 'x' })), [
    {
      pointer: '/namspace',
      detail: 'is not a field here: did you mean namespace?',
      did_you_mean: 'namespace',
    },
  ])
  for (const far of ['colour', 'x', 'memomemo', 'm'.repeat(100)])
    t.strictSame(await errorsOf('/api/agent/send', { ...send, [far]: 'x' }), [
      { pointer: `/${far}`, detail: 'is not a field here' },
    ])
  t.strictSame(
    await errorsOf('/api/agent/send', { ...send, memo: 'x', memoo: 'x' }),
    [{ pointer: '/memoo', detail: 'is not a field here' }],
    'what was given is not what was meant',
  )
  for (const [slug, meant] of [
    ['web_serch', 'web_search'],
    ['web-serch', 'web_search'],
    ['WebSearch', 'web_search'],
    ['hive_raed', 'hive_read'],
  ] as const) {
    const { body } = await main.ask('POST', '/api/refuel', {
      key,
      json: { tool: slug, query: 'x' },
    })
    const detail = `There is no such tool: did you mean ${meant}?`
    t.match(body, { code: 'unknown_tool', did_you_mean: meant, detail }, slug)
  }
  t.match(await main.ask('GET', '/api/tools/price_fed'), {
    status: 404,
    body: { did_you_mean: 'price_feed' },
  })
  t.strictSame(
    await errorsOf('/api/backpack/create', { agent_name: 'x', tools: ['hive_read', 'hive_reed'] }),
    [{ pointer: '/tools/1', detail: 'names no tool: hive_reed; did you mean hive_read?' }],
  )
  for (const slug of ['teleport', 'crow', '__proto__', 'a']) {
    const { body } = await main.ask('GET', `/api/tools/${slug}`)
    t.equal(body['detail'], 'There is no such tool.')
    t.notOk('did_you_mean' in body, `${slug}: unlisted names are not suggested`)
  }
})

/** Every pattern below a value, with its path. */
function* patternsIn(value: object, at = ''): Generator<[at: string, pattern: string]> {
  for (const [name, inner] of Object.entries(value)) {
    if (name === 'pattern' && typeof inner === 'string') yield [at, inner]
    else if (typeof inner === 'object' && inner !== null) yield* patternsIn(inner, `${at}/${name}`)
  }
}

t.test('every schema pattern has a description in words', async (t) => {
  const main = await startInProcessTestStation(t)
  const document = main.station.server.swagger()
  const inputs = NATIVE_TOOLS.map(({ slug, input }) => [slug, input])
  const patterns = [...patternsIn(document), ...patternsIn(Object.fromEntries(inputs))]
  t.ok(patterns.length > 50)
  for (const [at, pattern] of patterns)
    if (patternErrorMessage(pattern, undefined) === null) t.fail(`${at}: ${pattern}`)
})

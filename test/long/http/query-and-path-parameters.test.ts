import t from 'tap'
import { createWriteRouteFixtures } from '../../support/agents/write-route-fixtures.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { writeRouteCases } from '../../support/write-routes/write-route-cases.ts'

interface Schema {
  readonly type?: string
  readonly enum?: readonly unknown[]
  readonly pattern?: string
  readonly format?: string
  readonly minLength?: number
  readonly maxLength?: number
}
interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly schema: Schema
}
interface Operation {
  readonly tags: readonly string[]
  readonly parameters?: readonly Parameter[]
  /** Of the operations of single tools, which are one route with a slug. */
  readonly 'x-tool'?: object
}

/** None of them is a number in decimal notation that JSON could hold. */
const NO_NUMBERS = [
  '1e309',
  '-1e309',
  '1e400',
  'Infinity',
  '-Infinity',
  'NaN',
  '-0',
  '0x10',
  ' 1',
  '1 ',
  '+1',
  '01',
  '1_0',
  '1,5',
  '٣',
  'true',
  'null',
  '[1]',
  '',
]
const HOSTILE = [
  ...NO_NUMBERS,
  '-1',
  '0',
  '1.5',
  '9007199254740993',
  '99999999999999999999999999',
  '1e308',
  '5e-324',
  '2026-13-45',
  '9999-12-31T23:59:60Z',
  '-271821-04-21',
  '+275760-09-13T00:00:00.001Z',
  '0000-00-00',
  "' or 1=1 --",
  '%',
  '\\',
  '../../etc/passwd',
  '__proto__',
  'constructor',
  '\u202e\u200b',
  '🧨'.repeat(20),
  'x'.repeat(255),
  'x'.repeat(5_000),
  'AAAA',
  'MTIzNDU2Nzg5MDEyMzQ1Njc4OTA',
  '00000000-0000-7000-8000-000000000000',
  '%00',
]

const main = await startInProcessTestStation(t, { OPERATOR_TOKEN: 'o'.repeat(32) })
const guest = await main.onboard()
const owned = await createWriteRouteFixtures(main, guest)
const writes = writeRouteCases(owned)
const { body: document } = await main.ask('GET', '/openapi.json')
const operations = Object.entries(
  document['paths'] as Record<string, Record<string, Operation>>,
).flatMap(([path, methods]) =>
  Object.entries(methods)
    // Clients of MCP add parameters of their own.
    .filter(([, { tags, ...operation }]) => operation['x-tool'] === undefined && tags[0] !== 'mcp')
    .map(([method, { parameters = [] }]) => ({
      method: method.toUpperCase(),
      path,
      parameters: parameters.filter((one) => one.in === 'query' || one.in === 'path'),
    })),
)

/** A value that the schema of a parameter accepts. */
const fitting = ({ name, schema }: Parameter): string => {
  if (name === 'channels' || name === 'channel') return 'here'
  if (schema.enum !== undefined) return String(schema.enum[0])
  if (schema.type === 'integer' || schema.type === 'number') return '1'
  if (schema.type === 'boolean') return 'true'
  if (schema.format === 'uuid') return guest.id
  if (schema.pattern?.startsWith('^stl_') === true) return `stl_${'0'.repeat(32)}`
  return name.includes('backpack') || name === 'id' ? owned.backpack : 'words'
}

/** The address with one parameter spoilt and the others as they should be. */
function addressOf(path: string, parameters: readonly Parameter[], spoilt?: Parameter, value = '') {
  let address = path
  const query: string[] = []
  for (const one of parameters) {
    const text = encodeURIComponent(one === spoilt ? value : fitting(one))
    if (one.in === 'path') address = address.replace(`{${one.name}}`, text)
    else if (one.required === true || one === spoilt) query.push(`${one.name}=${text}`)
  }
  return query.length === 0 ? address : `${address}?${query.join('&')}`
}

function bodyOf(method: string, path: string): { json?: object } {
  const body = writes[`${method} ${path}`]?.body
  return body === undefined ? {} : { json: body }
}

// Streams that are open answer for good, and sockets are no answers; their parameters are tried below.
const answers = ({ path }: { path: string }) =>
  !['/api/ws', '/api/signal/stream', '/api/stats/live'].includes(path)

t.test('hostile parameters are rejected without an internal error on every route', async (t) => {
  let tried = 0
  let numbers = 0
  for (const { method, path, parameters } of operations.filter(answers)) {
    for (const parameter of parameters) {
      const numeric = ['integer', 'number'].includes(parameter.schema.type ?? '')
      if (numeric) numbers += 1
      for (const value of HOSTILE) {
        const at = addressOf(path, parameters, parameter, value)
        const json = bodyOf(method, path)
        const answer = await main.ask(method, at, { key: guest.key, ...json })
        tried += 1
        const told = `${method} ${at.slice(0, 120)} ${answer.text.slice(0, 200)}`
        if (answer.status >= 500) t.fail(told)
        if (!numeric || !NO_NUMBERS.includes(value)) continue
        const named = answer.body.errors?.some((one) => one.pointer === `/${parameter.name}`)
        if (answer.status !== 400 || named !== true) t.fail(`not 400 with the pointer: ${told}`)
      }
    }
  }
  t.ok(tried > 2_000 && numbers > 15, `${tried} requests, ${numbers} numbers`)
})

t.test('an unknown query parameter is refused on every route', async (t) => {
  const pages = [
    '/',
    '/fund/{agent_id}',
    '/problems/{code}',
    '/hall-of-agents',
    '/inspector',
    '/owner',
  ]
  const isPage = (path: string) =>
    pages.includes(path) || /^\/embed\/|^\/discovery\/|\.rss$|\.svg$/.test(path)
  let routes = 0
  for (const { method, path, parameters } of operations) {
    const at = writes[`${method} ${path}`]?.path ?? addressOf(path, parameters)
    const json = bodyOf(method, path)
    const strange = `${at}${at.includes('?') ? '&' : '?'}utm_source=x`
    const answer = await main.ask(method, strange, { key: guest.key, ...json })
    const named = answer.body.errors?.filter((one) => one.pointer === '/utm_source')
    if (isPage(path)) t.notMatch(answer, { status: 400 }, path)
    else {
      routes += 1
      t.match(
        { status: answer.status, named },
        { status: 400, named: [{ detail: 'is not a parameter here', in: 'query' }] },
        `${method} ${strange} ${answer.text.slice(0, 200)}`,
      )
    }
  }
  t.ok(routes > 100, `${routes} routes`)
})

t.test('the error for an unknown parameter suggests a known one', async (t) => {
  const { key } = guest
  for (const [at, pointer, meant] of [
    ['/api/signal/recent?channels=x', '/channels', 'channel'],
    ['/api/bounties?limits=1', '/limits', 'limit'],
    ['/api/bounties?posted_by=me', '/posted_by', undefined],
    ['/api/fleet/list?limit=1&x=2', '/x', undefined],
    ['/api/keys?colour=5', '/colour', undefined],
    ['/api/tools?constructor=1', '/constructor', undefined],
  ] as const) {
    const answer = await main.ask('GET', at, { key })
    t.match(answer, { status: 400, body: { code: 'invalid_input' } }, at)
    const told = answer.body.errors.find((one) => one.pointer === pointer) as object
    t.equal((told as { did_you_mean?: string }).did_you_mean, meant, at)
  }
  const { status } = await main.ask('GET', '/docs/?utm_source=mail')
  t.equal(status, 200)
  t.equal((await main.ask('OPTIONS', '/api/bounties?anything=1')).status, 204)
})

t.test('numbers in decimal notation are accepted', async (t) => {
  const { key } = guest
  for (const at of [
    '/api/bounties?limit=1',
    '/api/bounties?limit=200',
    '/api/hive/read?query=words&min_confidence=0.5',
    '/api/hive/read?query=words&min_confidence=5e-1',
    `/api/backpack/${owned.backpack}/spend?success=true`,
    `/api/backpack/${owned.backpack}/spend?success=false`,
  ]) {
    const answer = await main.ask('GET', at, { key })
    t.equal(answer.status, at.includes('/hive/') ? 402 : 200, `${at} ${answer.text.slice(0, 200)}`)
  }
})

t.test('all errors of a body are returned at once', async (t) => {
  const json = { title: 5, reward_usdc: -1, surprise: true }
  const answer = await main.ask('POST', '/api/bounties', { key: guest.key, json })
  t.equal(answer.status, 400)
  const pointers = answer.body.errors.map(({ pointer }) => pointer).sort()
  t.strictSame(pointers, ['/description', '/domain', '/reward_usdc', '/surprise', '/title'])
  const many = { title: Array.from({ length: 50_000 }, () => 0), reward_usdc: -1, surprise: 1 }
  const large = await main.ask('POST', '/api/bounties', { key: guest.key, json: many })
  t.equal(large.status, 400)
  t.equal(large.body.errors.length, 1, 'a large body reports its first error')
})

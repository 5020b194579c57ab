import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import t from 'tap'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import { sendJsonFixture, startFixtureServer } from '../../support/upstreams/fixture-server.ts'

const SECRET = 'sk-live/SECRET+KEYRING-77aa'
const bytes = Buffer.from(SECRET)
const percent = (text: string) =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')
/** As a server that wants to give it away writes it; `x` and `yy` shift base64. */
const SPELLINGS: Record<string, (value: string) => string> = {
  plain: (value) => value,
  base64: (value) => Buffer.from(value).toString('base64'),
  base64_1: (value) => Buffer.from(`x${value}`).toString('base64'),
  base64_2: (value) => Buffer.from(`yy${value}tail`).toString('base64'),
  base64url: (value) => Buffer.from(value).toString('base64url'),
  base64_in_address: (value) => encodeURIComponent(Buffer.from(value).toString('base64')),
  address: (value) => encodeURIComponent(value),
  percent,
  percent_twice: (value) => encodeURIComponent(percent(value)),
  hex: (value) => Buffer.from(value).toString('hex'),
  hex_upper: (value) => Buffer.from(value).toString('hex').toUpperCase(),
  hex_colons: (value) => (Buffer.from(value).toString('hex').match(/../g) ?? []).join(':'),
  reversed: (value) => Array.from(value).reverse().join(''),
  utf16: (value) => Buffer.from(value, 'utf16le').toString('latin1'),
  json_slashes: (value) => value.replaceAll('/', '\\/'),
  json_unicode: (value) =>
    Array.from(value, (one) => `\\u00${one.charCodeAt(0).toString(16)}`).join(''),
  html: (value) => Array.from(value, (one) => `&#${one.charCodeAt(0)};`).join(''),
}

const given = (request: IncomingMessage) => String(request.headers['authorization'] ?? '').slice(7)

function house(request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? '/', 'http://house')
  const [, door = '', how = 'plain'] = url.pathname.split('/')
  const spelt = SPELLINGS[how]?.(given(request)) ?? ''
  if (door === 'say') {
    response.writeHead(200, { 'content-type': 'text/plain' })
    response.end(Buffer.from(`before ${spelt} behind`, 'latin1'))
  } else if (door === 'to') {
    const target = url.searchParams.get('url') ?? '/heard'
    response.writeHead(302, { location: `${target}${how === 'plain' ? '' : `?x=${spelt}`}` })
    response.end()
  } else
    sendJsonFixture(response, { heard: request.headers['authorization'] ?? null, url: request.url })
}

const [home, abroad] = [await startFixtureServer(t, house), await startFixtureServer(t, house)]
const main = await startInProcessTestStation(t, {
  SSRF_ALLOW: `127.0.0.1:${home.port},127.0.0.1:${abroad.port}`,
})
const owner = await main.onboard()
const packOf = async ({ key }: TestAgent) => {
  const json = { agent_name: 'ann' }
  return String((await main.ask('POST', '/api/backpack/create', { key, json })).body.backpack_id)
}
const pack = await packOf(owner)
await main.ask('POST', `/api/backpack/${pack}/keyring`, {
  key: owner.key,
  json: { name: 'TOKEN', secret: SECRET, hosts: ['127.0.0.1'] },
})
const get = (url: string, name = 'TOKEN', guest = owner, inPack = pack) =>
  main.call(
    guest,
    'data_retrieval',
    { url, format: 'text', headers: { Authorization: `Bearer {{keyring.${name}}}` } },
    { 'x-backpack-id': inPack, 'idempotency-key': randomUUID() },
  )

t.test('a secret is never returned in any encoding by its host', async (t) => {
  for (const how of Object.keys(SPELLINGS)) {
    const { status, body } = await get(`${home.base}/say/${how}`)
    t.equal(status, 200)
    t.match(body['data'], /^before .{0,4}\[secret\].{0,8} behind$/s, how)
  }
})

t.test('a secret is never in the final URL after a redirect of its host', async (t) => {
  for (const how of ['address', 'base64url', 'base64_in_address', 'hex', 'percent_twice']) {
    const { status, body, text } = await get(`${home.base}/to/${how}`)
    t.equal(status, 200, text)
    t.match(body['url'], /\/heard\?x=\[secret\]$/, how)
    t.match(body['data'], /"heard":"Bearer \[secret\]"/, 'the same origin is still the same host')
    t.match(body['data'], /heard\?x=\[secret\]/)
  }
})

t.test(
  'a redirect to another origin is followed without the secret, and rejected if its URL contains it',
  async (t) => {
    const away = encodeURIComponent(`${abroad.base}/heard`)
    const without = await get(`${home.base}/to/plain?url=${away}`)
    t.match(without.body['data'], /"heard":null/, 'though its host is listed')
    const before = abroad.requests.length
    for (const how of ['address', 'base64', 'base64_2', 'hex', 'reversed']) {
      const refused = await get(`${home.base}/to/${how}?url=${away}`)
      t.match(refused, {
        status: 502,
        body: { code: 'upstream_error', reason: 'redirect_carries_secret', refunded: true },
      })
    }
    t.equal(abroad.requests.length, before, 'no request was sent')
  },
)

t.test('no stored reply contains a secret', async (t) => {
  const rows = await main.sql<{ response: string }[]>`
    select response from calls where agent_id = ${owner.id} and response is not null`
  t.ok(rows.length > 20)
  const forms = [SECRET, bytes.toString('hex'), bytes.toString('base64').slice(0, -2)]
  for (const { response } of rows)
    t.notOk(
      forms.some((form) => response.includes(form)),
      response.slice(0, 80),
    )
})

t.test("another agent's Backpack answers like a missing one", async (t) => {
  const stranger = await main.onboard()
  const mine = await packOf(stranger)
  const asked = [
    await get(`${home.base}/say/plain`, 'TOKEN', stranger, pack),
    await get(`${home.base}/say/plain`, 'ABSENT', stranger, pack),
    await get(`${home.base}/say/plain`, 'TOKEN', stranger, mine),
    await get(`${home.base}/say/plain`, 'ABSENT', stranger, mine),
  ]
  for (const { status, text } of asked) t.equal(status, 400, text)
  const told = asked.map(({ body }) => String(body['detail']).replace('ABSENT', 'TOKEN'))
  t.equal(new Set(told).size, 1, 'one answer for all of them')
})

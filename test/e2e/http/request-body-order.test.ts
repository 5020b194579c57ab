import { gzipSync } from 'node:zlib'
import { once } from 'node:events'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { LIMITS, TOKEN_BUCKET_RATES } from '../../../core/limits.ts'
import { connectWebSocket } from '../../support/http/websocket-and-sse-clients.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

const main = await startInProcessTestStation(t, { STARTER_CREDITS_USDC: '5' })
const limited = await startInProcessTestStation(t, { RATE_LIMITS: 'on' })
const { key } = await main.onboard()
const doors = ['/api/refuel', '/api/pipeline', '/api/onboard', '/mcp', '/mech/request']
const from = (address: string) => ({ 'x-forwarded-for': address })
const numbers = (count: number) => `{"tool":"x402_parse","y":[${'1,'.repeat(count)}1]}`
/** A valid body of about so many bytes, without a stated length. */
async function* chunked(bytes: number) {
  yield `{"tool":"x402_parse","y":"`
  for (let sent = 0; sent < bytes; sent += 16_384) yield 'x'.repeat(16_384)
  yield '"}'
}

t.test('a compressed body is 415 on every door and names what is read instead', async (t) => {
  for (const door of doors)
    for (const encoding of ['gzip', 'deflate', 'br', 'zstd', 'gzip, br']) {
      const answer = await main.ask('POST', door, {
        raw: gzipSync('{"tool":"ping_for_updates"}'),
        headers: { 'content-encoding': encoding },
      })
      t.equal(answer.status, 415, `${door} ${encoding}: ${answer.text}`)
      t.equal(answer.headers['accept-encoding'], 'identity')
    }
  const plain = { json: { tool: 'ping_for_updates' }, headers: { 'content-encoding': 'identity' } }
  t.equal((await main.ask('POST', '/api/refuel', plain)).status, 200)
})

t.test('a body is asked for only after its headers are accepted', async (t) => {
  const send = async (length: number, more: string, body = '') => {
    const socket = connect(Number(new URL(main.url).port), '127.0.0.1')
    t.teardown(() => socket.destroy())
    let text = ''
    socket.on('data', (data) => {
      text += data.toString()
      if (text.includes('100 Continue')) socket.write(body)
    })
    socket.write(
      `POST /api/refuel HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\nexpect: 100-continue\r\n${more}\r\n`,
    )
    await once(socket, 'close')
    return text
  }
  const body = '{"tool":"ping_for_updates"}'
  t.match(await send(LIMITS.largeBodyBytes + 1, ''), /^HTTP\/1\.1 413 /)
  t.match(await send(LIMITS.bodyBytes + 1, ''), /^HTTP\/1\.1 413 /, 'without a key')
  t.match(await send(20, 'content-encoding: br\r\n'), /^HTTP\/1\.1 415 /)
  t.match(await send(body.length, '', body), /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /)
})

t.test('bodies that are read have one bound, and a large holder gives way', async (t) => {
  const open = async (address: string) => {
    const socket = connect(Number(new URL(main.url).port), '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.on('error', () => {})
    const first = once(socket, 'data')
    socket.write(
      `POST /api/refuel HTTP/1.1\r\nhost: x\r\nx-forwarded-for: ${address}\r\ncontent-type: application/json\r\ncontent-length: ${LIMITS.bodyBytes}\r\nexpect: 100-continue\r\n\r\n`,
    )
    return { socket, text: String((await first)[0]) }
  }
  const room = LIMITS.bodyRoomBytes / LIMITS.bodyBytes
  // One by one, so that the oldest is known.
  const [oldest] = [await open('2001:db8:9:0::1')]
  for (let at = 1; at < room; at += 1) {
    const { text } = await open(`2001:db8:9:${at.toString(16)}::1`)
    t.match(text, /^HTTP\/1\.1 100 /)
  }
  t.match((await open('2001:db8:9:ffff::1')).text, /^HTTP\/1\.1 503 [^]*"overloaded"/)
  const refused = once(oldest.socket, 'data')
  const json = { tool: 'ping_for_updates' }
  t.equal(
    (await main.ask('POST', '/api/refuel', { key, json })).status,
    200,
    'agents have their own',
  )
  const calm = await main.ask('POST', '/api/refuel', { json, headers: from('192.0.2.99') })
  t.equal(calm.status, 200, 'another caller is read')
  const [answer] = await refused
  t.match(String(answer), /^HTTP\/1\.1 503 [^]*connection: close[^]*"overloaded"/i)
})

t.test('a body above 256 KiB needs a key, with or without a stated length', async (t) => {
  const code = `"${'x'.repeat(LIMITS.bodyBytes)}".length`
  const json = { tool: 'code_sandbox', language: 'javascript', code }
  const refused = { status: 413, body: { code: 'body_too_large', limit_bytes: LIMITS.bodyBytes } }
  t.match(await main.ask('POST', '/api/refuel', { json }), refused)
  const streamed = await fetch(`${main.url}/api/refuel`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: chunked(LIMITS.bodyBytes) as never,
    duplex: 'half',
  } as RequestInit)
  t.match({ status: streamed.status, body: await streamed.json() }, refused)
  t.equal((await main.ask('POST', '/api/refuel', { key, json })).status, 200)
})

t.test('fields, values and levels are counted before a body is parsed', async (t) => {
  const deep = `{"tool":"x402_parse","y":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
  const levels = /^must not be nested deeper than 32 levels/
  const ask = (raw: string, key?: string) => main.ask('POST', '/api/refuel', { raw, key })
  for (const door of doors) {
    const answer = await main.ask('POST', door, { raw: deep })
    t.match(answer.text, /nested deeper than 32 levels/, `${door} ${answer.text}`)
  }
  t.match(await ask(numbers(LIMITS.jsonValues)), {
    status: 400,
    body: { errors: [{ detail: new RegExp(`^must have at most ${LIMITS.jsonValues} values`) }] },
  })
  t.match(await ask(numbers(LIMITS.jsonValues), key), { body: { errors: [{ pointer: '/y' }] } })
  t.match(await ask(numbers(LIMITS.jsonValuesWithKey), key), {
    body: {
      errors: [{ detail: new RegExp(`^must have at most ${LIMITS.jsonValuesWithKey} values`) }],
    },
  })
  const names = (count: number) => Array.from({ length: count }, (_, at) => `"k${at}":1`).join(',')
  t.match(await ask(`{${names(LIMITS.jsonFields + 1)}}`, key), {
    status: 400,
    body: { errors: [{ detail: `must have at most ${LIMITS.jsonFields} fields` }] },
  })
  const within = await ask(`{"tool":"x402_parse","y":{${names(LIMITS.jsonFields + 1)}}}`, key)
  t.match(within.body, { errors: [{ pointer: '/y' }] }, 'those within are values')
  const brackets = { tool: 'x402_parse', body: '[{"\\'.repeat(10_000) }
  const inText = await main.ask('POST', '/api/refuel', { json: brackets })
  t.notMatch(inText.text, /nested|values/, 'brackets inside of a text are no levels')
  const mech = (prompt: string) =>
    main.ask('POST', '/mech/request', { json: { tool: 'x402_parse', prompt } })
  t.match(await mech(`{"a":${'['.repeat(40)}${']'.repeat(40)}}`), {
    status: 400,
    body: { errors: [{ pointer: '/prompt', detail: levels }] },
  })
  t.match(await mech('{"body":1e999}'), {
    status: 400,
    body: { errors: [{ pointer: '/body', detail: 'must be a finite number' }] },
  })
  const socket = await connectWebSocket(t, main.url, { key })
  const payload = JSON.parse(`${'['.repeat(40)}${']'.repeat(40)}`) as unknown
  t.match(await socket.ask({ type: 'publish', channel: 'a', payload: { payload } }), {
    type: 'error',
    problem: { detail: levels },
  })
})

t.test('a refused body names the true reason', async (t) => {
  const big = '9007199254740993'
  for (const [door, raw, pointer, detail] of [
    ['/api/task/start', `{"name":"x","budget_usdc":${big}}`, '/budget_usdc', /at most 1000000/],
    ['/api/signal/publish', `{"channel":"a","payload":{"n":${big}}}`, '/payload/n', /as a string/],
    ['/api/refuel', '{"constructor":{"prototype":{}}}', '', /required/],
    [
      '/api/refuel',
      '{"tool":"hive_trending","constructor":{"prototype":{}}}',
      '/constructor',
      /must not have the field prototype/,
    ],
    ['/api/refuel', '{"tool":"hive_trending","a":{"__proto__":1}}', '/a/__proto__', /not allowed/],
    ['/api/refuel', '{"tool":"hive_trending","\\u005f_proto__":1}', '/__proto__', /not allowed/],
    ['/api/onboard', '{"name":"x","y":[1,2,3]}', '/y', /not a field/],
    ['/api/onboard', '{"name":"x"', '', /must be valid JSON/],
  ] as const) {
    const answer = await main.ask('POST', door, { raw, key })
    t.equal(answer.status, 400, answer.text)
    const errors = answer.body.errors
    if (pointer !== '') t.equal(errors[0]?.pointer, pointer, answer.text)
    t.match(errors[0]?.detail, detail, answer.text)
  }
})

t.test('large bodies of one address are refused by their bytes, not others', async (t: Test) => {
  const points = LIMITS.bodyBytes / LIMITS.countedBodyBytes
  const most = Math.floor(TOKEN_BUCKET_RATES.refuel.burst / points)
  const raw = `{"tool":"x402_parse","y":"${'x'.repeat(LIMITS.bodyBytes - 100)}"}`
  const flood = await Promise.all(
    Array.from({ length: 40 }, () =>
      limited.ask('POST', '/api/refuel', { raw, headers: from('198.51.100.1') }),
    ),
  )
  const of = (status: number) => flood.filter((answer) => answer.status === status).length
  t.strictSame([of(400), of(429)], [most, 40 - most])
  for (const address of ['198.51.100.2', '198.51.100.3'])
    t.equal(
      (
        await limited.ask('POST', '/api/refuel', {
          json: { tool: 'ping_for_updates' },
          headers: from(address),
        })
      ).status,
      200,
    )
  const unstated = await Promise.all(
    Array.from({ length: 12 }, () =>
      fetch(`${limited.url}/api/refuel`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...from('198.51.100.4') },
        body: chunked(200_000) as never,
        duplex: 'half',
      } as RequestInit),
    ),
  )
  const statuses = unstated.map(({ status }) => status)
  t.ok(statuses.includes(429), statuses.join())
  t.notOk(
    statuses.some((status) => status >= 500 || status === 408),
    statuses.join(),
  )
})

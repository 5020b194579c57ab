import type { RequestListener } from 'node:http'
import t from 'tap'
import { readMppChallenges, writeMppChallenge } from '../../sdk/mpp-challenges.ts'
import { GasStation, PaymentHook } from '../../sdk/index.ts'
import { runOpenAiToolCalls } from '../../sdk/openai.ts'
import type { WebSocketLike } from '../../sdk/station-socket.ts'
import {
  encodeMppTerms,
  sampleMppChallengeHeader,
  MPP_QUOTE,
  MPP_TERMS,
  cataloguePage,
  HOSTILE_STATION_PATH_USD_ADDRESS,
  startHostileStation,
  HOSTILE_STATION_RECIPIENT,
} from '../support/sdk/hostile-station.ts'

/** The SDK against servers that lie, break off or repeat themselves: nothing is paid twice, no key leaks. */

const quick = { retryDelayMs: 1 }
const caps = { maxPerCallUsdc: 0.01, maxPerDayUsdc: 1 }
const THIEF = '0x00000000000000000000000000000000000000bb'
const assets = { 'eip155:4217': { asset: HOSTILE_STATION_PATH_USD_ADDRESS, decimals: 6 } }

const startServer = (answer: RequestListener) => startHostileStation(t, answer)
const [terms, quote, encode, challenge] = [
  MPP_TERMS,
  MPP_QUOTE,
  encodeMppTerms,
  sampleMppChallengeHeader,
]
const { methodDetails } = terms
const asked = encode(terms)
const stolen = encode({ ...terms, amount: '9000000', recipient: THIEF })
const split = encode({
  ...terms,
  methodDetails: { ...methodDetails, splits: [{ amount: '4000', recipient: THIEF }] },
})
t.test(
  'an MPP signer gets the one challenge that equals the quote, and nothing else',
  async (t) => {
    const signed: string[] = []
    const mpp = {
      createCredential: async (response: Response) => {
        signed.push(response.headers.get('www-authenticate') ?? '')
        return 'Payment credential'
      },
    }
    const call = async (header: string) => {
      const { url } = await startServer((request, reply) => {
        if (request.url === '/api/quote') return void reply.end(JSON.stringify(quote))
        if (request.headers.authorization !== undefined) return void reply.end('{"ok":true}')
        reply.writeHead(402, { 'www-authenticate': header }).end('{"code":"payment_required"}')
      })
      const gas = new GasStation({ url, payment: { ...caps, mpp, assets }, ...quick })
      signed.length = 0
      const answer: unknown = await gas.callAny('x', {}).catch((error: unknown) => error)
      return { answer, signed: [...signed] }
    }
    const good = challenge(asked)
    for (const header of [good, `Bearer, ${good}`, `Bearer realm="a, b", ${good}, Basic realm="c"`])
      t.match(await call(header), { answer: { ok: true }, signed: [good] }, header)
    const dear = challenge(stolen)
    for (const [what, header] of [
      ['two challenges', `${dear}, ${good}`],
      ['two challenges, the other way', `${good}, ${dear}`],
      ['more parameters', challenge(asked, ', header="X", description="more"')],
    ] as const)
      t.strictSame((await call(header)).signed, [good], what)
    for (const [what, header] of [
      ['a doubled request', challenge(stolen, `, request="${asked}"`)],
      [
        'an unquoted request',
        challenge(asked).replace('request=', `request=${stolen}, x-request=`),
      ],
      ['a request in another scheme', `${dear}, Other request="${asked}"`],
      ['a part for somebody else', challenge(split)],
      ['an open quote', `${good}, description="`],
      ['an amount that is no number', challenge(encode({ ...terms, amount: '0x1388' }))],
    ] as const) {
      const { answer, signed: none } = await call(header)
      t.ok(answer instanceof Error, what)
      t.strictSame(none, [], what)
    }
    const [read = new Map<string, string>()] = readMppChallenges(
      'payment id="a\\"b\\\\", request="x"',
    )
    t.strictSame([...read], Object.entries({ id: 'a"b\\', request: 'x' }))
    t.equal(writeMppChallenge(read), 'Payment id="a\\"b\\\\", request="x"')
  },
)

t.test('a call that is repeated under its key is paid once', async (t) => {
  const payments: string[] = []
  let away = true
  const { url } = await startServer((request, reply) => {
    if (request.url === '/api/quote') return void reply.end(JSON.stringify(quote))
    const { authorization } = request.headers
    if (authorization === undefined)
      return void reply
        .writeHead(402, { 'www-authenticate': challenge(asked) })
        .end('{"code":"payment_required"}')
    payments.push(authorization)
    if (away) request.socket.destroy()
    else reply.end('{"ok":true}')
  })
  let count = 0
  const mpp = { createCredential: async () => `Payment ${(count += 1)}` }
  const payment = new PaymentHook({ ...caps, mpp, assets })
  const gas = new GasStation({ url, payment, maxAttempts: 2, ...quick })
  const call = (idempotencyKey: string, input = {}) => gas.callAny('x', input, { idempotencyKey })
  await t.rejects(call('one'), { name: 'StationUnreachable' })
  t.strictSame(payments, ['Payment 1', 'Payment 1'])
  away = false
  t.match(await call('one'), { ok: true })
  t.equal(payments.at(-1), 'Payment 1', 'the payment that may have been taken')
  t.match(await gas.with({ taskId: undefined }).callAny('x', {}, { idempotencyKey: 'one' }), {
    ok: true,
  })
  t.equal(count, 1, 'also by a client with the same hook')
  await Promise.all([call('two'), call('two'), call('two')])
  t.equal(count, 2, 'calls together pay once')
  await call('two', { other: 1 })
  t.equal(count, 3, 'another call is another payment')
})

t.test('a key goes to its station, and into no error', async (t) => {
  const { url: other, seen } = await startServer((_request, reply) => reply.end('{}'))
  const { url } = await startServer((_request, reply) => reply.end('{}'))
  const gas = new GasStation({ url, apiKey: 'gas_secret', taskId: 't', ...quick })
  await gas.with({ url: other }).balance()
  t.match(seen[0]?.headers, { 'x-api-key': undefined, 'x-task-id': undefined })
  await gas.with({ url: other, apiKey: 'gas_other' }).balance()
  t.equal(seen[1]?.headers['x-api-key'], 'gas_other')
  for (const apiKey of ['gas_secret\ngas_secret', 'gas_secret…'])
    t.throws(() => new GasStation({ url, apiKey }), {
      code: 'invalid_key',
      message: /^(?!.*secret)/,
    })
  await new GasStation({ url: other, apiKey: 'gas_file\n' }).balance()
  t.equal(seen[2]?.headers['x-api-key'], 'gas_file')
})

t.test('only an id that names one call of a model is an idempotency key', async (t) => {
  const { url, seen } = await startServer((_request, reply) => reply.end('{}'))
  const gas = new GasStation({ url, ...quick })
  const run = (id: string) =>
    runOpenAiToolCalls(gas, [{ id, function: { name: 'x', arguments: '{}' } }])
  for (const id of ['call_0', 'call_0', '', '', 'call_9yYWzxKq7uYcHnS1bbUxXoQd']) await run(id)
  await run('call_9yYWzxKq7uYcHnS1bbUxXoQd')
  const keys = seen.map(({ headers }) => headers['idempotency-key'])
  t.equal(new Set(keys).size, 5)
  t.equal(keys[4], keys[5])
})

/** A socket whose station is in the hands of the test. */
const socketClass = (answer: (frame: Record<string, unknown>) => object | string) =>
  class implements WebSocketLike {
    readyState = 1
    #listeners = new Map<string, (event: never) => void>()
    constructor() {
      setImmediate(() => this.#tell('open', {}))
    }
    addEventListener(type: string, listener: (event: never) => void): void {
      this.#listeners.set(type, listener)
    }
    send(text: string): void {
      const data = answer(JSON.parse(text) as Record<string, unknown>)
      const sent = typeof data === 'string' ? data : JSON.stringify(data)
      setImmediate(() => this.#tell('message', { data: sent }))
    }
    close(code = 1000): void {
      this.readyState = 3
      setImmediate(() => this.#tell('close', { code }))
    }
    #tell(type: string, event: object): void {
      this.#listeners.get(type)?.(event as never)
    }
  }
const ready = { type: 'ready', session: 's', cursor: { signals: '0', outbox: '0' } }

t.test('a request that an earlier socket still runs is waited for', async (t) => {
  let asked = 0
  const WebSocket = socketClass(({ type, ref }) => {
    if (type === 'hello') return ready
    asked += 1
    const problem = { code: 'idempotency_in_flight', status: 409 }
    return asked < 3
      ? { type: 'error', ref, problem }
      : { type: 'ack', ref, ok: true, result: { ok: true } }
  })
  const gas = new GasStation({ url: 'http://127.0.0.1:9', apiKey: 'gas_x', ...quick })
  const socket = await gas.socket({ WebSocket: WebSocket as never })
  t.match(await socket.call('x', {}), { ok: true })
  t.equal(asked, 3)
  socket.close()
})

t.test('a frame that no station sends ends the session, not the program', async (t) => {
  for (const nonsense of [
    '<html>',
    'null',
    '[]',
    '{"type":"event","id":"x","channel":"c"}',
    '{"type":"event","id":7,"channel":"c"}',
    '{"type":"error","ref":"sdk-1"}',
    '{"type":"error","ref":"sdk-1","problem":{"code":7}}',
    '{"type":"ack","ref":"sdk-1","cursor":{"signals":"1"}}',
    '{"type":"ready","session":"s"}',
  ]) {
    const WebSocket = socketClass(({ type }) => (type === 'hello' ? ready : nonsense))
    const gas = new GasStation({ url: 'http://127.0.0.1:9', ...quick })
    const socket = await gas.socket({ WebSocket: WebSocket as never })
    await t.rejects(socket.call('x', {}), { name: 'NotAStation' }, nonsense)
  }
})

t.test('a socket that is refused says so with the class of its error', async (t) => {
  for (const [code, name] of [
    [4401, 'Unauthenticated'],
    [4403, 'NotAllowed'],
    [4400, 'StreamBroken'],
  ] as const) {
    const Closing = class extends socketClass(() => '') {
      override send(): void {
        this.close(code)
      }
    }
    const gas = new GasStation({ url: 'http://127.0.0.1:9', ...quick })
    await t.rejects(gas.socket({ WebSocket: Closing as never }), { name, message: /44/ })
  }
})

t.test('a quote that is none pays nothing, and is a clear error', async (t) => {
  let signed = 0
  const mpp = { createCredential: async () => `Payment ${(signed += 1)}` }
  const [offer] = quote.offers
  for (const wrong of [
    null,
    [],
    {},
    { ...quote, price_usdc: null },
    { ...quote, price_usdc: '0.005' },
    { ...quote, price_usdc: 1e305 },
    { ...quote, offers: null },
    { ...quote, offers: {} },
    { ...quote, offers: [null] },
    { ...quote, offers: [{ ...offer, pay_to: 7 }] },
  ]) {
    const { url } = await startServer((request, reply) => {
      if (request.url === '/api/quote') return void reply.end(JSON.stringify(wrong))
      reply
        .writeHead(402, { 'www-authenticate': challenge(asked) })
        .end('{"code":"payment_required"}')
    })
    const gas = new GasStation({ url, payment: { ...caps, mpp, assets }, ...quick })
    await t.rejects(gas.callAny('x', {}), { name: 'PaymentNotMade', code: 'quote_malformed' })
  }
  t.equal(signed, 0)
})

t.test('a store that has lost its form opens no second day', async (t) => {
  let signed = 0
  const mpp = { createCredential: async () => `Payment ${(signed += 1)}` }
  const { url } = await startServer((request, reply) => {
    if (request.url === '/api/quote') return void reply.end(JSON.stringify(quote))
    reply
      .writeHead(402, { 'www-authenticate': challenge(asked) })
      .end('{"code":"payment_required"}')
  })
  const at = Date.now()
  for (const stored of [
    {},
    'x',
    [null],
    [{ at: 'today', micros: 1 }],
    [{ at }],
    [{ at, micros: '1' }],
    [{ at, micros: -5 }],
    [{ at, micros: NaN }],
  ]) {
    const store = { load: async () => stored as never, save: async () => {} }
    const gas = new GasStation({ url, payment: { ...caps, mpp, assets, store }, ...quick })
    await t.rejects(gas.callAny('x', {}), { name: 'GasStationError', code: 'invalid_store' })
  }
  t.equal(signed, 0)
  t.throws(
    () =>
      new PaymentHook({
        ...caps,
        mpp,
        assets: { 'eip155:1': { asset: HOSTILE_STATION_RECIPIENT, decimals: 2 } },
      }),
    { code: 'invalid_asset' },
  )
})

t.test('the catalogue is read from all pages, also from a station without pages', async (t) => {
  const { url } = await startServer((request, reply) => reply.end(cataloguePage(request.url)))
  const tools = await new GasStation({ url, ...quick }).catalogue()
  t.strictSame(
    tools.map(({ slug }) => slug),
    ['a', 'b', 'c'],
  )
  const old = await startServer((_, reply) => reply.end('{"tools":[{"slug":"a"}]}'))
  t.equal((await new GasStation({ url: old.url, ...quick }).catalogue()).length, 1)
})

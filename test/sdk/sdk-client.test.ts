import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { WebSocket } from 'ws'
import { ERROR_DEFINITIONS } from '../../core/errors.ts'
import { renderSdkToolTypes } from '../../scripts/docs/render-sdk-tool-types.ts'
import { REPOSITORY_ROOT } from '../../scripts/repository-root.ts'
import * as sdk from '../../sdk/index.ts'
import { runOpenAiToolCalls } from '../../sdk/openai.ts'
import { SseParser } from '../../sdk/sse-reader.ts'
import { startConnectionCuttingProxy } from '../support/http/connection-cutting-proxy.ts'
import { startInProcessTestStation } from '../support/station/start-test-station.ts'

const { GasStation } = sdk
const main = await startInProcessTestStation(t)
const { url } = main
/** Retries without waiting. */
const quick = { retryDelayMs: 1 }
/** A connection of its own for each attempt. */
const alone: typeof fetch = (input, init) =>
  fetch(input, {
    ...init,
    headers: { ...(init?.headers as Record<string, string>), connection: 'close' },
  })
const onboard = () => GasStation.onboard({ url, ...quick }, { name: 'sdk' })

/** Starts an HTTP server that is no station; returns its origin and the requests it gets. */
async function startServer(answer: RequestListener) {
  const seen: IncomingMessage[] = []
  const server = createServer((request, reply) => {
    seen.push(request)
    answer(request, reply)
  })
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  t.teardown(() => server.close().closeAllConnections())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen }
}

t.test('the types of the tools are those of the catalogue', async (t) => {
  for (const [path, text] of renderSdkToolTypes())
    t.equal(readFileSync(join(REPOSITORY_ROOT, path), 'utf8'), text, `${path}: npm run docs:sdk`)
})

t.test('every error code has a class of its own', async (t) => {
  const classOf = (code: string, status: number) =>
    sdk.toStationRefusal({ code, status }).constructor
  for (const [code, { status }] of Object.entries(ERROR_DEFINITIONS))
    t.not(classOf(code, status), sdk.StationRefusal, code)
  t.equal(classOf('task_budget_exceeded', 402), sdk.BudgetExceeded)
  t.equal(classOf('FUSE_TRIPPED', 403), sdk.FuseTripped)
  t.equal(classOf('payment_required', 402), sdk.PaymentRequired)
  t.equal(classOf('payment_invalid', 402), sdk.PaymentRefused)
  t.equal(classOf('settlement_unknown', 503), sdk.SettlementUnknown)
  t.equal(classOf('a_code_of_tomorrow', 409), sdk.Conflict)
})

t.test('an agent onboards, calls typed tools, and keeps a budget and a fuse', async (t) => {
  const { gas, agent } = await onboard()
  t.match(agent, { api_key: /^gas_/, starter_credits_usdc: 0.5 })
  const answer = await gas.tools.hive_trending({ limit: 2 })
  t.equal(answer._meta.cost_usdc, 0.005)
  const { result, spent } = await gas.task('trends', 0.01, async (task) => {
    await task.call('hive_trending', {})
    return (await task.call('hive_trending', {}))._meta.rail
  })
  t.equal(result, 'credits')
  t.match(spent, { state: 'completed', spent_usdc: 0.01, calls: 2 })
  const task = await gas.startTask('small', 0.004)
  const refused = await task.call('hive_trending', {}).catch((error: unknown) => error)
  t.ok(refused instanceof sdk.BudgetExceeded)
  t.match(refused, { code: 'task_budget_exceeded', status: 402, message: /./ })
  await task.raiseTo(0.005)
  t.equal((await task.call('hive_trending', {}))._meta.cost_usdc, 0.005)
  t.match(await task.state(), { remaining_usdc: 0 })
  await t.rejects(
    gas.task('broken', 0.1, async () => {
      throw new Error('the work failed')
    }),
    { message: 'the work failed' },
  )
  const { backpack_id: id } = await gas.createBackpack({ fuse: { per_call_usdc: 0.001 } })
  await t.rejects(gas.inBackpack(id).tools.hive_trending({}), sdk.FuseTripped)
  await t.rejects(gas.callAny('no_such', {}), sdk.NotFound)
  await t.rejects(gas.call('hive_trending', { limit: 0 }), sdk.InvalidRequest)
  await t.rejects(gas.with({ apiKey: 'gas_wrong' }).balance(), sdk.Unauthenticated)
  await t.rejects(new GasStation({ url, ...quick }).tools.hive_trending({}), sdk.PaymentRequired)
  t.match(await gas.quote('hive_trending', {}), { price_usdc: 0.005, rail: 'credits', offers: [] })
  t.equal((await gas.balance()).balance_usdc, 0.48)
})

t.test('an answer that is cut at any byte is repeated and charged once', async (t) => {
  const { gas: direct, agent } = await onboard()
  const proxy = await startConnectionCuttingProxy(t, url)
  const gas = new GasStation({ url: proxy.url, apiKey: agent.api_key, ...quick, fetch: alone })
  await gas.tools.hive_trending({})
  const bytes = proxy.lastBytes()
  const cuts = [0, 1, 20, Math.floor(bytes / 2), bytes - 30]
  for (const [done, cut] of cuts.entries()) {
    proxy.cutNext(cut, cut)
    const fresh = new GasStation({
      url: proxy.url,
      apiKey: agent.api_key,
      ...quick,
      fetch: alone,
    })
    t.equal((await fresh.tools.hive_trending({}))._meta.cost_usdc, 0.005, `cut at ${cut}`)
    t.match(await direct.balance(), { balance_usdc: 0.5 - 0.005 * (done + 2) })
  }
  // A write without a key of its caller's gets one, too.
  const writer = new GasStation({ url: proxy.url, apiKey: agent.api_key, ...quick, fetch: alone })
  proxy.cutNext(20, 200)
  const task = await writer.startTask('once', 0.1)
  t.equal(proxy.pendingCuts(), 0, 'every answer was cut')
  t.match(await direct.request('GET', '/api/tasks'), { count: 1, tasks: [{ task_id: task.id }] })
  await main.verify()
})

t.test('a station that is away, redirects, or is none gives a clear error', async (t) => {
  const other = await startServer((_request, reply) => reply.end('{}'))
  const thief = await startServer((_request, reply) =>
    reply.writeHead(307, { location: `${other.url}/api/refuel` }).end(),
  )
  const options = { apiKey: 'gas_secret', ...quick }
  const call = (at: string) => new GasStation({ url: at, ...options }).tools.hive_trending({})
  await t.rejects(call(thief.url), { name: 'RedirectRefused', message: new RegExp(other.url) })
  t.equal(other.seen.length, 0, 'the key goes to the origin of the station only')
  const away = await startConnectionCuttingProxy(t, url)
  away.close()
  await t.rejects(call(away.url), {
    name: 'StationUnreachable',
    message: /^http:.* does not answer: ECONNREFUSED/,
  })
  const page = await startServer((_request, reply) => reply.end('<html>'))
  await t.rejects(call(page.url), { name: 'NotAStation' })
  const gone = await startServer((_request, reply) => reply.writeHead(502).end('bad gateway'))
  await t.rejects(call(gone.url), { name: 'StationUnreachable' })
  t.equal(gone.seen.length, 5, 'tried five times')
  t.equal(new Set(gone.seen.map(({ headers }) => headers['idempotency-key'])).size, 1)
  t.throws(() => new GasStation({ url: 'ftp://x' }), { code: 'invalid_url' })
  t.throws(() => new GasStation({ url: 'nonsense' }), { code: 'invalid_url' })
  await t.rejects(new GasStation({ url, ...options }).request('GET', 'https://elsewhere.test/'), {
    code: 'foreign_address',
  })
  const slow = await startServer(() => {})
  const impatient = new GasStation({ url: slow.url, timeoutMs: 20, maxAttempts: 2, ...quick })
  await t.rejects(impatient.balance(), { message: /no answer within 20 ms/ })
})

t.test(
  'a refusal that is stored, and one that says how long to wait, are not hammered',
  async (t) => {
    const answers = [
      { code: 'rate_limited', retry_after: 0.01 },
      { code: 'rate_limited', retry_after: 3_600 },
    ]
    const busy = await startServer((_request, reply) =>
      reply
        .writeHead(429, { 'content-type': 'application/problem+json' })
        .end(JSON.stringify(answers.shift())),
    )
    const gas = new GasStation({ url: busy.url, ...quick })
    await t.rejects(gas.balance(), { name: 'RateLimited', retryAfterSeconds: 3_600 })
    t.equal(busy.seen.length, 2)
  },
)

t.test('the limit of a proxy is waited for, whichever way it says how long', async (t) => {
  const soon = () => new Date(Date.now() + 400).toUTCString() // in whole seconds: within the next one
  const later = () => new Date(Date.now() + 3_600_000).toUTCString()
  for (const [says, attempts] of [
    [() => '', 3],
    [() => '0', 3],
    [() => '-1484742195', 3],
    [soon, 3],
    [() => 'soon', 3],
    [() => '3600', 1],
    [later, 1],
  ] as const) {
    const proxy = await startServer((_request, reply) =>
      reply.writeHead(429, { 'retry-after': says() }).end('<html>'),
    )
    const gas = new GasStation({ url: proxy.url, ...quick, maxAttempts: 3 })
    await t.rejects(gas.balance(), { name: 'RateLimited', status: 429 })
    t.equal(proxy.seen.length, attempts, says())
  }
})

t.test('events are read whole from parts of any size', async (t) => {
  const text =
    ': hello\n\nid: 7\nevent: signal\ndata: {"a":"ä€😀"}\n\nid: 8\n\r\nevent: x\r\ndata: 1\r\ndata: 2\r\n\r\ndata: cut'
  const bytes = new TextEncoder().encode(text)
  const expected = [
    { id: '7', event: 'signal', data: '{"a":"ä€😀"}' },
    { id: '8', event: '', data: '' },
    { id: null, event: 'x', data: '1\n2' },
  ]
  for (let cut = 0; cut <= bytes.length; cut += 1) {
    const parser = new SseParser()
    const events = [...parser.push(bytes.slice(0, cut)), ...parser.push(bytes.slice(cut))]
    t.strictSame(events, expected, `cut at ${cut}`)
  }
})

t.test('calls stream and signals arrive', async (t) => {
  const { gas } = await onboard()
  const events = []
  for await (const one of gas.stream('hive_trending', {})) events.push(one)
  t.equal(events[0]?.event, 'start')
  t.match(events.at(-1), { event: 'result', data: { _meta: { cost_usdc: 0.005 } } })
  await t.rejects(
    async () => {
      for await (const _ of gas.stream('hive_trending', { limit: 0 })) t.fail('nothing is streamed')
    },
    { name: 'InvalidRequest' },
  )
  const heard: unknown[] = []
  for await (const { event, data } of gas.signals(['sdk:test'])) {
    heard.push(event === 'signal' ? data['payload'] : event)
    if (event === 'ready')
      for (const n of [1, 2])
        await gas.request('POST', '/api/signal/publish', {
          channel: 'sdk:test',
          type: 'insight',
          payload: { n },
        })
    if (heard.length === 3) break
  }
  t.strictSame(heard, ['ready', { n: 1 }, { n: 2 }])
})

t.test('a number that JSON cannot hold is refused before anything is sent', async (t) => {
  const { gas } = await onboard()
  const server = await startServer((_request, reply) => reply.end('{}'))
  const nowhere = new GasStation({ url: server.url, ...quick })
  const strange = [NaN, Infinity, -Infinity, new Number(NaN), new Date(NaN)]
  for (const value of strange) {
    const refused = { code: 'invalid_input', message: /deep is no number that JSON can hold/ }
    const json = { a: [{ deep: value }] }
    await t.rejects(nowhere.request('PATCH', '/api/backpack/bp_x', json), refused)
    await t.rejects(nowhere.callAny('hive_trending', json), refused)
    await t.rejects(nowhere.quote('hive_trending', json as never), refused)
    await t.rejects(async () => {
      for await (const _ of nowhere.stream('hive_trending', json as never)) t.fail('an event')
    }, refused)
    const profile = { name: 'x', agent_key: { fuse: { per_day_usdc: value as number } } }
    await t.rejects(GasStation.onboard({ url: server.url }, profile), { code: 'invalid_input' })
    const [answer] = await runOpenAiToolCalls(nowhere, [
      { id: '1', function: { name: 'hive_trending', arguments: '{"limit":1e400}' } },
    ])
    t.match(answer?.content, /limit is no number that JSON can hold/)
  }
  t.strictSame(server.seen, [])
  const socket = await gas.socket({ WebSocket: WebSocket as never })
  t.teardown(() => socket.close())
  await t.rejects(socket.publish('esp:t', 'x', { deep: NaN }), { code: 'invalid_input' })
})

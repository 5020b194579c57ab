import { join } from 'node:path'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { Agent, request } from 'undici'
import {
  createTestHttpClient,
  type TestRequestOptions,
} from '../../support/http/test-http-client.ts'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import {
  startTestNginxBalancer,
  nginxSkipReason,
  startSharedTestRedis,
} from '../../support/station/test-nginx-and-redis.ts'
import {
  connectReadyWebSocket,
  openSseReader,
} from '../../support/http/websocket-and-sse-clients.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import {
  waitForFinalSettlement,
  HIVE_TRENDING_PATH,
  HIVE_TRENDING_PRICE_ATOMIC,
  decodePaymentResponse,
  paymentSignatureHeader,
  startTestPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'

const KIB = 1024
const LARGE = 1024 * KIB
const GUESTS = 24
const CALLS = 4
const HEALTH = '/api/network/health'
const FREE = 2

const read = (path: string) => readFileSync(join(REPOSITORY_ROOT, path), 'utf8')

t.test('the tested configuration is the deployed one', async (t) => {
  const [compose, conf] = [read('docker-compose.yml'), read('deploy/nginx.conf')]
  t.match(compose, '- ./deploy/nginx.conf:/etc/nginx/nginx.conf:ro')
  const [, listening] = /^ *listen (\d+);$/m.exec(conf) ?? []
  t.match(compose, `:${listening}'`, 'the port that is published is the one it listens on')
  const named = [...conf.matchAll(/^ *server ([\w-]+):(\d+) /gm)].map(([, name]) => name)
  t.equal(named.length, 2)
  for (const name of named) t.match(compose, `\n  ${name}: *station\n`)
  t.match(compose, "TRUST_PROXY: '1'", 'nginx alone says who calls')
})

t.test('two stations behind nginx', { skip: nginxSkipReason }, async (t) => {
  const [till, redis] = await Promise.all([startTestPaymentChain(t), startSharedTestRedis(t)])
  const settings = {
    ...till.settings,
    FREE_TIER_PER_DAY: String(FREE),
    ...(redis === null ? {} : { REDIS_URL: redis.url }),
  }
  const main = await startInProcessTestStation(t, settings)
  const beside = await spawnSecondNode(t, main, settings)
  const stations = [main, beside]
  const urls = stations.map(({ url }) => url)
  const ports = urls.map((url) => Number(new URL(url).port))
  const nginx = await startTestNginxBalancer(t, urls)
  const ask = createTestHttpClient(t, nginx.url)
  const guests = await Promise.all(Array.from({ length: GUESTS }, () => main.onboard()))

  /** Who answered for an agent, by the log of nginx: the id is part of the path. */
  const about = ({ id }: TestAgent) => `/api/task/${id}`
  const seenBy = (guest: TestAgent) =>
    nginx.requests().filter((one) => one.request === `GET ${about(guest)}`)
  const portOf = (guest: TestAgent) => seenBy(guest)[0]?.ports.at(-1)
  const at = (port: number | undefined) => guests.find((one) => portOf(one) === port) as TestAgent
  const bearer = ({ key }: TestAgent): TestRequestOptions => ({
    headers: { authorization: `Bearer ${key}` },
  })

  t.test('a key is always routed to the same station, in either header', async (t) => {
    const answers = []
    for (let time = 0; time < CALLS; time++) {
      const how = (guest: TestAgent) => (time % 2 === 0 ? { key: guest.key } : bearer(guest))
      answers.push(...guests.map((guest) => ask('GET', about(guest), how(guest))))
    }
    const codes = (await Promise.all(answers)).map(({ body }) => body.code)
    t.ok(codes.every((code) => code === 'task_not_found'))
    const isTold = () => guests.every((guest) => seenBy(guest).length === CALLS)
    await eventually(isTold, 'the last line of the log')
    const served = guests.map((guest) => new Set(seenBy(guest).flatMap((one) => one.ports)))
    t.ok(
      served.every(({ size }) => size === 1),
      'one station an agent',
    )
    t.equal(new Set(served.flatMap((one) => [...one])).size, 2, 'and both have some')
    const counted = await Promise.all(
      stations.map(async (station) => {
        const { text } = await station.ask('GET', '/metrics')
        const line = /^http_request_duration_seconds_count\{route="\/api\/task\/:id".*\} (\d+)$/m
        return Number(line.exec(text)?.[1] ?? 0)
      }),
    )
    const logged = ports.map((port) => guests.filter((one) => portOf(one) === port).length * CALLS)
    t.strictSame(counted, logged, 'the stations have counted the same')
    t.equal((await ask('GET', '/metrics')).status, 404, 'nginx is not the operator')
  })

  t.test('events of one station arrive at once in streams of the other', async (t) => {
    const [here, there] = [at(ports[0]), at(ports[1])]
    const socket = await connectReadyWebSocket(t, nginx.url, there.key)
    await socket.ask({ type: 'subscribe', channels: ['through'] })
    const url = `${nginx.url}/api/signal/stream?channels=through`
    const events = await openSseReader(t, url, there.key)
    t.match(events.type, 'text/event-stream')
    await events.next(({ event }) => event === 'ready')
    for (let time = 0; time < 5; time++) {
      const json = { channel: 'through', type: 'result', payload: {} }
      const { body, status } = await ask('POST', '/api/signal/publish', { key: here.key, json })
      t.equal(status, 200)
      // Each is waited for while both streams stay open: nothing is kept back until there is more.
      const id = String(body['id'])
      await socket.next((frame) => frame.kind === 'signal' && frame.id === id)
      await events.next((event) => event.id === id)
    }
    const { body } = await beside.ask('GET', HEALTH)
    t.match(body, { streams: { sockets: 1, events: 1 } }, 'both are open on the other station')
    t.match(await socket.ask({ type: 'refuel', tool: 'hive_trending' }), { type: 'ack', ok: true })
    events.close()
    await socket.close()
  })

  t.test('a large body passes only on routes that accept it', async (t) => {
    const [{ key }] = guests as [TestAgent]
    const padded = (bytes: number) =>
      `${JSON.stringify({ calls: [{ tool: 'hive_trending' }] })}${' '.repeat(bytes)}`
    const headers = { 'content-type': 'application/json' }
    const send = (bytes: number) =>
      ask('POST', '/api/pipeline', { key, raw: padded(bytes - padded(0).length), headers })
    t.match(await send(LARGE), { status: 200, body: { ok: true } })
    t.match(await send(LARGE + 1), { status: 413, body: { code: 'body_too_large' } })
    const refused = await send(3 * LARGE)
    t.match(
      refused,
      { status: 413, body: { code: 'body_too_large', limit_bytes: LARGE } },
      'by nginx, in the same words',
    )
  })

  t.test('large headers pass, including a payment', async (t) => {
    const [{ key }] = guests as [TestAgent]
    const sized = (bytes: number) => ({ 'x-pad': 'x'.repeat(bytes) })
    const me = (bytes: number) => ask('GET', '/api/agent/me', { key, headers: sized(bytes) })
    t.equal((await me(30 * KIB)).status, 200)
    t.equal((await me(34 * KIB)).status, 400)
    const unpaid = await ask('POST', HIVE_TRENDING_PATH, { json: {} })
    t.equal(unpaid.status, 402)
    const offer = decodePaymentResponse(unpaid.headers['payment-required'])
    t.match(offer, {
      x402Version: 2,
      accepts: [{ network: 'eip155:8453', amount: String(HIVE_TRENDING_PRICE_ATOMIC) }],
    })
    const header = await paymentSignatureHeader(
      await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
      till,
      HIVE_TRENDING_PRICE_ATOMIC,
    )
    const paid = await ask('POST', HIVE_TRENDING_PATH, {
      json: {},
      headers: { ...sized(20 * KIB), ...header },
    })
    t.equal(paid.status, 200, paid.text)
    const id = decodePaymentResponse(paid.headers['payment-response'])['settlement_id'] ?? ''
    t.match(await waitForFinalSettlement(main, id), { state: 'settled' })
  })

  t.test('the station gets the address of the caller and not a forged one', async (t) => {
    const from = (address: string, forwarded: string) => {
      const dispatcher = new Agent({ localAddress: address })
      t.teardown(() => dispatcher.close())
      return request(`${nginx.url}/api/refuel`, {
        method: 'POST',
        dispatcher,
        headers: { 'content-type': 'application/json', 'x-forwarded-for': forwarded },
        body: JSON.stringify({ tool: 'hive_read', query: 'gas' }),
      }).then(async ({ statusCode, body }) => (await body.dump(), statusCode))
    }
    for (const address of ['127.0.0.2', '127.0.0.3']) {
      for (let time = 0; time < FREE; time++)
        t.equal(await from(address, `203.0.113.${time}`), 200, `${address} has free calls`)
      t.equal(await from(address, '203.0.113.200'), 402, `${address} has used them up`)
    }
  })

  t.test('a key revoked on one station is rejected by the other', async (t) => {
    const guest = at(ports[1])
    const made = await ask('POST', '/api/keys', { key: guest.key, json: {} })
    const { id, api_key: key } = made.body as unknown as { id: string; api_key: string }
    const balances = async () =>
      (
        await Promise.all(stations.map((one) => one.ask('GET', '/api/credits/balance', { key })))
      ).map(({ status }) => status)
    t.strictSame(await balances(), [200, 200], 'both have seen that it works')
    t.equal((await main.ask('DELETE', `/api/keys/${id}`, { key: guest.key })).status, 200)
    await eventually(async () => (await balances()).join() === '401,401', 'the end of the key')
    t.equal((await ask('GET', '/api/credits/balance', { key })).status, 401)
  })

  t.test('the other station takes over when one is killed', async (t) => {
    t.equal(await beside.end('SIGKILL'), 'SIGKILL')
    const pay = (guest: TestAgent) =>
      ask('POST', '/api/refuel', {
        key: guest.key,
        json: { tool: 'hive_trending' },
        headers: { 'idempotency-key': 'after' },
      })
    const [first, again] = [await Promise.all(guests.map(pay)), await Promise.all(guests.map(pay))]
    t.ok([...first, ...again].every(({ status }) => status === 200))
    t.ok(again.every(({ headers }) => headers['idempotency-replayed'] === 'true'))
    const tried = nginx.requests().filter(({ request: one }) => one === 'POST /api/refuel')
    t.ok(
      tried.some((one) => one.ports.length === 2),
      'what had not been sent was passed on',
    )
    await main.verify()
  })
})

t.test('with two servers that break off', { skip: nginxSkipReason }, async (t) => {
  const seen: string[] = []
  const rude = await Promise.all(
    [0, 1].map(() =>
      listening(
        t,
        createServer((incoming, response) => {
          const { method = '', url = '' } = incoming
          if (url === '/long')
            return response.setHeader('payment-required', 'x'.repeat(12 * KIB)).end()
          seen.push(method)
          incoming.resume().on('end', () => incoming.socket.resetAndDestroy())
          return response
        }),
      ),
    ),
  )
  const ask = createTestHttpClient(t, (await startTestNginxBalancer(t, rude)).url)
  const once = { json: { tool: 'hive_trending' } }

  t.test('long response headers pass', async (t) => {
    const { status, headers } = await ask('GET', '/long')
    t.equal(status, 200)
    t.equal(headers['payment-required']?.length, 12 * KIB)
  })

  t.test('nginx sends a POST once and a GET to both', async (t) => {
    const away = { status: 503, headers: { 'retry-after': '2' }, body: { code: 'unavailable' } }
    // nginx skips a server after two failures, so requests to both come first.
    t.match(await ask('GET', '/api/tools'), away)
    t.strictSame(seen.splice(0), ['GET', 'GET'])
    t.match(await ask('POST', '/api/refuel', once), away)
    t.strictSame(seen.splice(0), ['POST'])
    t.match(await ask('PATCH', '/api/task/x/budget', once), away)
    t.strictSame(seen.splice(0), ['PATCH'])
  })
})

async function listening(t: Test, server: Server): Promise<string> {
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

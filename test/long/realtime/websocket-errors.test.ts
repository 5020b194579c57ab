import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import { startWebSocketHeartbeat } from '../../../http/websocket/websocket-heartbeat.ts'
import {
  connectWebSocket,
  connectReadyWebSocket,
  type WebSocketTestClient,
  type ReceivedWebSocketFrame,
} from '../../support/http/websocket-and-sse-clients.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { UNKNOWN_ID } from '../../support/write-routes/write-route-cases.ts'

const numbers = (client: WebSocketTestClient, channel: string) =>
  client
    .events('signal')
    .filter((frame) => frame.channel === channel)
    .map(({ data }) => (data['payload'] as { n: number }).n)
const isNumber = (n: number, channel: string) => (frame: ReceivedWebSocketFrame) =>
  frame.kind === 'signal' &&
  frame.channel === channel &&
  (frame.data['payload'] as { n: number }).n === n
const upTo = (n: number, from = 0) => Array.from({ length: n - from }, (_, at) => from + at)

t.test('invalid frames of a socket', async (t) => {
  const main = await startInProcessTestStation(t, { STARTER_CREDITS_USDC: '3' })
  const her = await main.onboard()
  const publish = async (channel: string, n: number) => {
    const json = { channel, type: 'result', payload: { n } }
    const { status, text } = await main.ask('POST', '/api/signal/publish', { key: her.key, json })
    if (status !== 200) throw new Error(text)
  }
  const is = (type: string) => (frame: ReceivedWebSocketFrame) => frame.type === type
  let refs = 0

  t.test('answers an invalid frame with the problem and continues', async (t) => {
    const poor = await main.onboard(0.01)
    await main.call(poor, 'hive_trending')
    await main.call(poor, 'hive_trending')
    const client = await connectReadyWebSocket(t, main.url, poor.key)
    const names = Array.from({ length: 101 }, (_, at) => `n${at}`)
    const signal = { type: 'publish', channel: 'd', signal_type: 'ping', payload: {} }
    const frames: [object, string][] = [
      [{ type: 'subscribe', channels: names }, 'invalid_input'],
      [{ type: 'subscribe', channels: [] }, 'invalid_input'],
      [{ type: 'subscribe', channels: ['a b'] }, 'invalid_input'],
      [{ type: 'subscribe', channels: ['a'], since: -1 }, 'invalid_input'],
      [{ type: 'subscribe', channels: [`agent:${her.id}`] }, 'channel_private'],
      [{ ...signal, payload: { x: 'x'.repeat(33_000) } }, 'body_too_large'],
      [{ ...signal, payload: JSON.parse('{"__proto__": {}}') as object }, 'invalid_input'],
      [{ ...signal, payload: { x: 'a\0b' } }, 'invalid_input'],
      [{ ...signal, signal_type: 'shout' }, 'invalid_input'],
      [{ ...signal, channel: 'pulses' }, 'invalid_input'],
      [signal, 'payment_required'],
      [{ type: 'message', to: UNKNOWN_ID, message: 'x' }, 'agent_not_found'],
      [{ type: 'message', to: her.id, message: 'x'.repeat(2_001) }, 'invalid_input'],
      [{ type: 'pulse', goal_vector: 'x', confidence: 2, idle_cycles: 0 }, 'invalid_input'],
      [{ type: 'constructor' }, 'invalid_input'],
    ]
    for (const [frame, code] of frames) {
      const answer = await client.ask(frame)
      t.match(answer, { type: 'error', problem: { code } }, JSON.stringify(frame).slice(0, 60))
    }
    client.send({ type: 'publish' })
    t.match(await client.next((frame) => frame.type === 'error' && frame.ref === undefined), {
      problem: { code: 'invalid_input', errors: [{ pointer: '/ref' }] },
    })
    t.match(await client.ask({ type: 'subscribe', channels: names.slice(1) }), { ok: true })
    const over = await client.ask({ type: 'subscribe', channels: ['one more'.replace(' ', '-')] })
    t.match(over, { problem: { code: 'limit_reached', limit: 100 } })
    const paid = client.frames.find((frame) => frame.problem?.code === 'payment_required')
    t.match(paid?.problem['fund_url'], poor.id)
    await client.close()
  })

  t.test('a frame is validated as strictly as a body over HTTP', async (t) => {
    const client = await connectReadyWebSocket(t, main.url, her.key)
    const before = await main.balance(her)
    const publishing = (more: string) =>
      `{"type":"publish","ref":"p","channel":"strict","signal_type":"ping",${more}}`
    const frames: [string, string][] = [
      [publishing('"payload":{"a":[1,1e999]}'), '/payload/a/1'],
      [publishing('"payload":{"a":{"__proto__":{}}}'), '/payload/a'],
      [publishing('"payload":{"constructor":{"prototype":{}}}'), '/payload'],
      [publishing('"payload":{},"ttl_second":60'), '/ttl_second'],
      ['{"type":"subscribe","ref":"s","channels":["a"],"sinc":"0"}', '/sinc'],
      ['{"type":"ping","ref":5}', '/ref'],
    ]
    for (const [at, [text, pointer]] of frames.entries()) {
      client.socket.send(text)
      const answer = await client.next((frame) => client.frames.indexOf(frame) === at + 1)
      t.match(answer, { type: 'error', problem: { code: 'invalid_input', errors: [{ pointer }] } })
    }
    client.socket.send(publishing('"payload":{"constructor":"a house","n":1e308}'))
    t.match(await client.next(({ type, ref }) => type === 'ack' && ref === 'p'), { ok: true })
    t.equal(Math.round((before - (await main.balance(her))) * 1e6), 1_000, 'one was paid for')
    await client.close()
    const careless = await connectWebSocket(t, main.url)
    careless.send({ type: 'hello', api_key: her.key, resum: {} })
    t.equal(await careless.closed, 4400, 'who misspells resume is not let begin anew')
  })

  t.test('a bad frame does not suppress the answers to earlier frames', async (t) => {
    const client = await connectReadyWebSocket(t, main.url, her.key)
    const signal = { type: 'publish', channel: 'before', signal_type: 'ping', payload: {} }
    client.send({ ...signal, ref: 'one' })
    client.send({ type: 'publsh', ref: 'two' })
    client.send({ ...signal, ref: 'three' })
    client.socket.send('{"type":')
    client.send({ ...signal, ref: 'four' })
    t.equal(await client.closed, 4400)
    const answers = client.frames.filter(({ ref }) => typeof ref === 'string')
    t.strictSame(
      answers.map(({ ref, type }) => [ref, type]),
      [
        ['one', 'ack'],
        ['two', 'error'],
        ['three', 'ack'],
      ],
    )
    t.match(answers[1], {
      problem: { code: 'invalid_input', did_you_mean: 'publish', errors: [{ pointer: '/type' }] },
    })
  })

  t.test('closes connections without gas.v1 with the code of the reason', async (t) => {
    const codes: [string, number, (client: WebSocketTestClient) => void][] = [
      ['garbage', 4400, ({ socket }) => socket.send('{"type":')],
      ['a list', 4400, ({ socket }) => socket.send('[]')],
      ['deep lists', 4400, ({ socket }) => socket.send('['.repeat(60_000))],
      ['bytes', 4400, ({ socket }) => socket.send(Buffer.from('{"type":"ping"}'))],
      ['a second hello', 4400, (client) => [1, 2].forEach(() => client.send({ type: 'hello' }))],
      ['1 MB', 1009, ({ socket }) => socket.send('x'.repeat(1_000_000))],
      [
        'a flood',
        4429,
        (client) =>
          upTo(200).forEach(() => client.send({ type: 'ping', ref: String((refs += 1)) })),
      ],
    ]
    const witness = await connectReadyWebSocket(t, main.url, her.key)
    await witness.ask({ type: 'subscribe', channels: ['witness'] })
    const bad = await main.onboard()
    for (const [at, [name, code, act]] of codes.entries()) {
      const client = await connectReadyWebSocket(t, main.url, bad.key)
      act(client)
      await publish('witness', at)
      t.equal(await client.closed, code, name)
      if (name === 'a flood')
        t.match(client.frames.find(is('error')), { problem: { code: 'rate_limited' } })
    }
    await witness.next(isNumber(codes.length - 1, 'witness'))
    t.strictSame(numbers(witness, 'witness'), upTo(codes.length), 'the others miss nothing')
    await witness.close()
  })

  t.test('a WebSocket needs a key', async (t) => {
    const misspelled = `${her.key.slice(0, -1)}${her.key.endsWith('x') ? 'y' : 'x'}`
    const silent = await connectWebSocket(t, main.url)
    await t.rejects(connectWebSocket(t, main.url, { key: misspelled }), {
      status: 401,
      code: 'unauthenticated',
    })
    const early = await connectWebSocket(t, main.url)
    early.send({ type: 'ping' })
    t.equal(await early.closed, 4401)
    const wrong = await connectWebSocket(t, main.url)
    wrong.send({ type: 'hello', api_key: 'gas_nothing' })
    t.equal(await wrong.closed, 4401)
    const none = await connectWebSocket(t, main.url)
    none.send({ type: 'hello' })
    t.equal(await none.closed, 4401)
    const odd = await connectWebSocket(t, main.url)
    odd.send({ type: 'hello', api_key: 5 })
    t.equal(await odd.closed, 4400)
    const bare = await connectWebSocket(t, main.url, { key: her.key, protocols: [] })
    t.equal(await bare.closed, 4406)
    t.equal(await silent.closed, 4401, 'no hello in time')
    t.match(await main.ask('GET', '/api/ws', { key: her.key }), {
      status: 426,
      body: { code: 'upgrade_required' },
    })
    const { body } = await main.ask('POST', '/api/keys', {
      key: her.key,
      json: { scopes: ['tools'] },
    })
    await t.rejects(connectWebSocket(t, main.url, { key: body.api_key }), {
      status: 403,
      code: 'insufficient_scope',
    })
    const scoped = await connectWebSocket(t, main.url)
    scoped.send({ type: 'hello', api_key: body.api_key })
    t.equal(await scoped.closed, 4403)
  })

  t.test('applies the permissions of the key', async (t) => {
    const { body } = await main.ask('POST', '/api/keys', {
      key: her.key,
      json: { scopes: ['read'] },
    })
    const client = await connectReadyWebSocket(t, main.url, body.api_key)
    const signal = { type: 'publish', channel: 'e', signal_type: 'ping', payload: {} }
    for (const frame of [signal, { type: 'message', to: her.id, message: 'x' }])
      t.match(await client.ask(frame), { problem: { code: 'insufficient_scope' } })
    await client.close()
  })

  t.test('a key may open five streams of any kind', async (t) => {
    const guest = await main.onboard()
    const open = await Promise.all(upTo(4).map(() => connectReadyWebSocket(t, main.url, guest.key)))
    const late = await connectWebSocket(t, main.url)
    late.send({ type: 'hello', api_key: guest.key })
    await late.next(is('ready'))
    await t.rejects(connectWebSocket(t, main.url, { key: guest.key }), {
      status: 429,
      code: 'rate_limited',
    })
    const sixth = await connectWebSocket(t, main.url)
    sixth.send({ type: 'hello', api_key: guest.key })
    t.equal(await sixth.closed, 4429)
    const path = '/api/signal/stream?channels=a'
    t.match(await main.ask('GET', path, { key: guest.key }), { status: 429 })
    for (const client of [...open, late]) await client.close()
    const again = await connectReadyWebSocket(t, main.url, guest.key)
    await again.close()
  })

  t.test('disconnects a slow reader without losses for the others', async (t) => {
    const guest = await main.onboard()
    const slow = await connectReadyWebSocket(t, main.url, guest.key)
    const quick = await connectReadyWebSocket(t, main.url, guest.key)
    for (const client of [slow, quick]) await client.ask({ type: 'subscribe', channels: ['fat'] })
    slow.socket.pause()
    const filler = 'x'.repeat(32_000)
    const sockets = async () =>
      ((await main.ask('GET', '/api/network/health')).body['streams'] as { sockets: number })
        .sockets
    let n = 0
    // More than the buffers of any kernel between the two.
    for (const before = await sockets(); n < 1_500 && (await sockets()) === before; n++) {
      const json = { channel: 'fat', type: 'result', payload: { n, filler } }
      await main.ask('POST', '/api/signal/publish', { key: guest.key, json })
    }
    t.ok(n < 1_500, `it was let go after ${n}`)
    await quick.next(isNumber(n - 1, 'fat'))
    t.strictSame(numbers(quick, 'fat'), upTo(n))
    slow.socket.resume()
    t.ok([4408, 1006].includes(await slow.closed))
    await quick.close()
  })

  t.test('closes a connection whose history cannot be read', async (t) => {
    const client = await connectReadyWebSocket(t, main.url, her.key)
    await client.ask({ type: 'subscribe', channels: ['told'] })
    await publish('told', 0)
    await client.next(isNumber(0, 'told'))
    await unreadable('signals', '%c as channel from unnest%', () =>
      client.send({ type: 'subscribe', ref: 'anew', channels: ['told'], since: '0' }),
    )
    const answered = client.next(({ ref }) => ref === 'anew').catch(() => null)
    t.equal(await Promise.race([client.closed, answered]), 4500)

    // Once a stream of this node has the message, the cursor from before it asks for history.
    const witness = await connectReadyWebSocket(t, main.url, her.key)
    await main.ask('POST', '/api/messages', {
      key: her.key,
      json: { to: her.id, message: 'to be missed' },
    })
    await witness.next(({ kind }) => kind === 'message')
    await witness.close()
    const back = await connectWebSocket(t, main.url)
    const ready = client.frames.find(({ type }) => type === 'ready')
    const cursor = ready?.['cursor'] as { signals: string; outbox: string }
    await unreadable('outbox', 'select id from outbox order by id limit 1', () =>
      back.send({ type: 'hello', api_key: her.key, resume: { session: 'anew', cursor } }),
    )
    t.equal(await back.closed, 4500, 'who resumes with hello as well')
  })

  /** The reading that begins with `act` waits for its table, and its session ends while it does. */
  async function unreadable(table: string, reading: string, act: () => void): Promise<void> {
    await main.sql.begin(async (tx) => {
      await tx.unsafe(`lock table ${table} in access exclusive mode`)
      act()
      const giveUpAt = performance.now() + 20_000
      for (let ended = 0; ended === 0;) {
        if (performance.now() > giveUpAt) throw new Error(`${table} is not read`)
        const gone = await main.sql`
          select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and wait_event_type = 'Lock' and query like ${reading}`
        ended = gone.count
        await new Promise((resolve) => setImmediate(resolve))
      }
    })
  }

  t.test('a request with an HTTP/2 upgrade is answered normally', async (t) => {
    const { port, hostname } = new URL(main.url)
    const json = JSON.stringify({ goal_vector: 'x', confidence: 1, idle_cycles: 0 })
    const status = await new Promise<number>((resolve, reject) => {
      const asked = request({
        ...{ port, hostname, method: 'POST', path: '/api/pulse' },
        headers: {
          ...{
            connection: 'Upgrade, HTTP2-Settings',
            upgrade: 'h2c',
            'http2-settings': 'AAMAAABk',
          },
          ...{ 'x-api-key': her.key, 'content-type': 'application/json' },
          'content-length': Buffer.byteLength(json),
        },
      })
      asked.on('response', (answer) => {
        answer.resume()
        resolve(answer.statusCode ?? 0)
      })
      asked.on('error', reject)
      asked.end(json)
    })
    t.equal(status, 200)
  })

  t.test('gas verify finds no difference', () => main.verify())
})

t.test('closes a client without heartbeats and keeps one with them', async (t) => {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  t.teardown(() => server.close())
  server.on('connection', (socket) => startWebSocketHeartbeat(socket, 20))
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  const client = (autoPong: boolean) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}`, { autoPong })
    t.teardown(() => socket.terminate())
    return socket
  }
  const [alive, deaf] = [client(true), client(false)]
  await new Promise((resolve) => deaf.once('close', resolve))
  t.equal(alive.readyState, WebSocket.OPEN)
})

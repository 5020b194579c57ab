import t from 'tap'
import { openCreditDrop } from '../../../app/cli/operator/cli-credit-drops.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import {
  connectWebSocket,
  connectReadyWebSocket,
  type WebSocketTestClient,
  type ReceivedWebSocketFrame,
} from '../../support/http/websocket-and-sse-clients.ts'

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

t.test('the socket', async (t) => {
  const main = await startInProcessTestStation(t)
  const beside = await spawnSecondNode(t, main)
  const her = await main.onboard()
  const publishAt = async (at: TestStation, channel: string, n: number, from: TestAgent = her) => {
    const json = { channel, type: 'result', payload: { n } }
    const { body, status, text } = await at.ask('POST', '/api/signal/publish', {
      key: from.key,
      json,
    })
    if (status !== 200) throw new Error(text)
    return String(body['id'])
  }
  const publish = (channel: string, n: number) => publishAt(main, channel, n)
  const is = (type: string) => (frame: ReceivedWebSocketFrame) => frame.type === type

  t.test('starts with a key in the upgrade, or with hello', async (t) => {
    for (const client of [
      await connectWebSocket(t, main.url, { key: her.key }),
      await connectWebSocket(t, main.url),
    ]) {
      if (client.frames.length === 0) client.send({ type: 'hello', api_key: her.key })
      const ready = await client.next(is('ready'))
      t.match(ready, {
        agent_id: her.id,
        session: /^ses_/,
        cursor: { signals: /^\d+$/, outbox: /^\d+$/ },
        heartbeat_ms: 25_000,
        limits: { channels: 100, frames_per_s: 20, publish_per_s: 10, max_bytes: 65_536 },
      })
      t.match(await client.ask({ type: 'ping' }), { type: 'pong' })
      await client.close()
    }
  })

  t.test('sends the signals of its channels from every node, and no others', async (t) => {
    const [here, there] = [
      await connectReadyWebSocket(t, main.url, her.key),
      await connectReadyWebSocket(t, beside.url, her.key),
    ]
    for (const client of [here, there]) {
      const answer = await client.ask({ type: 'subscribe', channels: ['a:1', 'a:2'] })
      t.match(answer, { type: 'ack', ok: true, channels: ['a:1', 'a:2'], recovered: true })
    }
    for (let n = 0; n < 10; n++) {
      await publishAt(n % 2 === 0 ? main : beside, 'a:1', n)
      await publish('a:3', n)
    }
    await publish('a:2', 10)
    for (const client of [here, there]) {
      const last = await client.next(isNumber(10, 'a:2'))
      t.match(last, { type: 'event', id: /^\d+$/, data: { type: 'result', from_agent_id: her.id } })
      t.strictSame(numbers(client, 'a:1'), upTo(10))
      t.equal(client.events().length, 11)
    }
    const gone = await here.ask({ type: 'unsubscribe', channels: ['a:1'] })
    t.match(gone, { type: 'ack', channels: ['a:1'] })
    await publish('a:1', 11)
    await publish('a:2', 12)
    await here.next(isNumber(12, 'a:2'))
    t.strictSame(numbers(here, 'a:1'), upTo(10))
    for (const client of [here, there]) await client.close()
  })

  t.test('sends a client with a cursor exactly the missed signals', async (t) => {
    const first = await connectReadyWebSocket(t, main.url, her.key)
    await first.ask({ type: 'subscribe', channels: ['b', 'b2'] })
    await publish('b', 0)
    const { id } = await first.next(isNumber(0, 'b'))
    await first.close()
    for (let n = 1; n < 30; n++) await publish(n % 3 === 0 ? 'b2' : 'b', n)
    const again = await connectReadyWebSocket(t, beside.url, her.key)
    const publishing = (async () => {
      for (let n = 30; n < 60; n++) await publish(n % 3 === 0 ? 'b2' : 'b', n)
    })()
    const ack = await again.ask({ type: 'subscribe', channels: ['b', 'b2'], since: id })
    t.match(ack, { recovered: true })
    await publishing
    await publish('b', 60)
    await again.next(isNumber(60, 'b'))
    const got = again.events('signal').map(({ data }) => (data['payload'] as { n: number }).n)
    t.strictSame(got, upTo(61, 1))
    await again.close()
  })

  t.test(
    'sends each event once and in order to a client that resumes with its first frame',
    async (t) => {
      const bob = await main.onboard()
      const send = async (text: string) => {
        const json = { to: bob.id, message: text }
        const { status, text: said } = await main.ask('POST', '/api/messages', {
          key: her.key,
          json,
        })
        if (status >= 300) throw new Error(said)
      }
      const first = await connectReadyWebSocket(t, main.url, bob.key)
      const { session, cursor } = await first.next(is('ready'))
      await first.close()
      await send('one')
      const witness = await connectReadyWebSocket(t, main.url, bob.key)
      await witness.ask({ type: 'ping' })
      const again = await connectReadyWebSocket(t, main.url, bob.key)
      const openedAt = performance.now()
      await send('two')
      await witness.next(({ type }) => type === 'event')
      if (performance.now() - openedAt > 900) return t.comment('too slow to come in time')
      // Other sockets have the event by now; this one has not sent its start position yet.
      again.send({ type: 'hello', resume: { session, cursor } })
      await send('three')
      const told = () => again.frames.filter(({ type }) => type === 'event').map(({ id }) => id)
      await again.next(({ type }) => type === 'event' && told().length >= 3)
      const ids = told()
      t.equal(new Set(ids).size, ids.length)
      t.strictSame(
        ids,
        [...ids].sort((a, b) => Number(a) - Number(b)),
      )
      for (const client of [again, witness]) await client.close()
    },
  )

  t.test('reports deleted history as a gap', async (t) => {
    const witness = await connectReadyWebSocket(t, main.url, her.key)
    await witness.ask({ type: 'subscribe', channels: ['calm'] })
    const id = await publish('deep', 0)
    await main.sql`
      insert into signals (call_id, agent_id, channel, type, payload, at, expires_at, kept_until)
      select gen_random_uuid(), ${her.id}, 'deep', 'ping', '{"n": -1}', now(), now() + interval '1 hour',
             now() + interval '1 day' from generate_series(1, 1001)`
    const last = await publish('calm', 0)
    await witness.next(isNumber(0, 'calm'))
    await witness.close()
    const client = await connectReadyWebSocket(t, main.url, her.key)
    const ack = await client.ask({ type: 'subscribe', channels: ['deep', 'calm'], since: id })
    t.match(ack, { recovered: false })
    t.match(await client.next(is('gap')), { channel: 'deep', from: id, to: last })
    t.strictSame(numbers(client, 'calm'), [0])
    await client.close()
  })

  t.test('replays the agent’s messages on resume, and closes the old socket', async (t) => {
    const [guest, other] = [await main.onboard(), await main.onboard()]
    const write = (message: string) =>
      main.ask('POST', '/api/messages', { key: other.key, json: { to: guest.id, message } })
    const old = await connectReadyWebSocket(t, main.url, guest.key)
    await write('one')
    const seen = await old.next(({ kind }) => kind === 'message')
    t.match(seen, { channel: `agent:${guest.id}`, data: { type: 'agent_ping', message: 'one' } })
    const { session, cursor } = await old.next(is('ready'))
    await write('two')
    await publishAt(main, `agent:${guest.id}`, 1, other)
    await old.next(({ kind }) => kind === 'signal')
    const resume = { session, cursor: { signals: cursor.signals, outbox: seen.id } }
    for (const node of [main, beside]) {
      const again = await connectWebSocket(t, node.url)
      again.send({ type: 'hello', api_key: guest.key, resume })
      t.match(await again.next(is('ready')), { session })
      const messages = again.events('message').map(({ data }) => data['message'])
      t.strictSame(messages, ['two'])
      t.strictSame(numbers(again, `agent:${guest.id}`), [1])
      if (node === main) t.equal(await old.closed, 4409)
      else await again.close()
    }
    const keyed = await connectReadyWebSocket(t, main.url, guest.key)
    keyed.send({ type: 'hello', resume })
    await keyed.next((frame) => frame.type === 'ready' && frame.session === session)
    t.strictSame(
      keyed.events('message').map(({ data }) => data['message']),
      ['two'],
    )
    await keyed.close()
  })

  t.test('continues a channel from the cursor of ready after a resume', async (t) => {
    const [guest, other] = [await main.onboard(), await main.onboard()]
    const client = await connectReadyWebSocket(t, main.url, guest.key)
    const { session } = await client.next(is('ready'))
    const { cursor } = await client.ask({ type: 'subscribe', channels: ['work'] })
    await client.close()
    await publishAt(main, 'work', 1, other)
    await publishAt(main, `agent:${guest.id}`, 2, other)
    const again = await connectWebSocket(t, main.url)
    again.send({ type: 'hello', api_key: guest.key, resume: { session, cursor } })
    const ready = await again.next(is('ready'))
    const since = ready.cursor.signals
    t.match(await again.ask({ type: 'subscribe', channels: ['work'], since }), { recovered: true })
    t.strictSame(numbers(again, 'work'), [1])
    t.strictSame(numbers(again, `agent:${guest.id}`), [2])
    await again.close()
  })

  t.test('a late hello without resume loses no event promised by the first ready', async (t) => {
    const [guest, other] = [await main.onboard(), await main.onboard()]
    const client = await connectReadyWebSocket(t, main.url, guest.key)
    const { cursor } = await client.next(is('ready'))
    const witness = await connectReadyWebSocket(t, main.url, guest.key)
    await witness.ask({ type: 'subscribe', channels: ['late'] })
    await publishAt(main, `agent:${guest.id}`, 1, other)
    await witness.next(isNumber(1, `agent:${guest.id}`))
    client.send({ type: 'hello' })
    const again = await client.next((frame) => is('ready')(frame) && frame !== client.frames[0])
    t.ok(BigInt(again.cursor.signals) > BigInt(cursor.signals))
    t.strictSame(numbers(client, `agent:${guest.id}`), [1])
    for (const each of [client, witness]) await each.close()
  })

  t.test('publishes, pulses and writes, once for each ref of a session', async (t) => {
    const [guest, other] = [await main.onboard(), await main.onboard()]
    const client = await connectReadyWebSocket(t, main.url, guest.key)
    const listener = await connectReadyWebSocket(t, beside.url, other.key)
    await listener.ask({ type: 'subscribe', channels: ['c', 'pulses'] })
    const signal = { type: 'publish', channel: 'c', signal_type: 'ping', payload: { n: 1 } }
    const ack = await client.ask(signal)
    t.match(ack, { type: 'ack', ok: true, id: /^\d+$/, cost_usdc: 0.001, balance_usdc: 0.499 })
    t.equal((await listener.next(isNumber(1, 'c'))).id, ack.id)

    const ref = String(ack.ref)
    const { session, cursor } = await client.next(is('ready'))
    const again = await connectWebSocket(t, beside.url)
    again.send({ type: 'hello', api_key: guest.key, resume: { session, cursor } })
    await again.next(is('ready'))
    again.send({ ref, ...signal })
    t.match(await again.next((frame) => frame.ref === ref), { id: ack.id })
    t.equal(await main.balance(guest), 0.499, 'it was paid once')
    again.send({ ref, ...signal, payload: { n: 2 } })
    t.match(await again.next(is('error')), { problem: { code: 'idempotency_key_reused' } })
    t.strictSame(numbers(listener, 'c'), [1])

    const pulse = { goal_vector: 'find yield', confidence: 0.5, idle_cycles: 0 }
    t.match(await again.ask({ type: 'pulse', ...pulse }), { type: 'ack', ok: true })
    t.match(await listener.next(({ kind }) => kind === 'pulse'), {
      channel: 'pulses',
      data: { agent_id: guest.id, ...pulse },
    })
    const told = await again.ask({ type: 'message', to: other.id, message: 'hi', subject: 's' })
    t.match(await listener.next(({ kind }) => kind === 'message'), {
      channel: `agent:${other.id}`,
      data: {
        message_id: told['message_id'],
        message: 'hi',
        subject: 's',
        from_agent_id: guest.id,
      },
    })
    const call = await again.ask({ type: 'refuel', tool: 'hive_trending', limit: 1 })
    t.match(call, { ok: true, result: { _meta: { cost_usdc: 0.005 } } })
    t.match(await again.ask({ type: 'refuel', tool: 'nothing' }), {
      problem: { code: 'unknown_tool' },
    })
    for (const one of [listener, again]) await one.close()
  })

  t.test('sends calls from the first socket on, and after a pause on another node', async (t) => {
    const guest = await main.onboard()
    const isCall = ({ data }: ReceivedWebSocketFrame) => data?.['type'] === 'tool_call'
    const events = async () =>
      (await main.sql`select from outbox where agent_id = ${guest.id} and type = 'tool_call'`)
        .length
    await main.call(guest, 'hive_trending')
    t.equal(await events(), 0, 'nobody can be told of it')
    const client = await connectWebSocket(t, beside.url, { key: guest.key })
    const { session, cursor } = await client.next(is('ready'))
    await main.call(guest, 'hive_trending')
    await client.next(isCall)
    await client.close()
    await main.call(guest, 'hive_trending')
    await main.call(guest, 'hive_trending')
    const resumed = async () => {
      const again = await connectWebSocket(t, main.url)
      again.send({ type: 'hello', api_key: guest.key, resume: { session, cursor } })
      await again.next(is('ready'))
      const calls = again.frames.filter(isCall).length
      const gaps = again.frames.filter(is('gap')).length
      await again.close()
      return { calls, gaps }
    }
    t.strictSame(await resumed(), { calls: 3, gaps: 0 })
    // As the sweeper does it, 32 days after the last socket.
    await main.sql`delete from event_listeners where agent_id = ${guest.id}`
    await main.call(guest, 'hive_trending')
    t.equal(await events(), 3)
    t.strictSame(await resumed(), { calls: 0, gaps: 1 }, 'the client is told that it missed some')
  })

  t.test('sends the events of the agent by kind', async (t) => {
    const guest = await main.onboard(0.256)
    const client = await connectReadyWebSocket(t, beside.url, guest.key)
    for (let at = 0; at < 2; at++) await main.call(guest, 'hive_trending')
    const alert = await client.next(({ kind }) => kind === 'alert')
    t.match(alert.data, { type: 'low_balance', tier: 'warning' })
    const pack = await main.ask('POST', '/api/backpack/create', {
      key: guest.key,
      json: { agent_name: 'x', fuse: { per_call_usdc: 0.001 } },
    })
    const headers = { 'x-backpack-id': pack.body.backpack_id }
    await main.call(guest, 'hive_trending', {}, headers)
    await client.next(({ data }) => data?.['type'] === 'fuse.tripped')
    const [drop] = await openCreditDrop(main.sql)
    const json = { code: drop?.code }
    await main.ask('POST', '/api/radio-drop/redeem', { key: guest.key, json })
    await client.next(({ data }) => data?.['type'] === 'topup')
    const kinds = client.events().map(({ kind, data }) => `${kind} ${String(data['type'])}`)
    t.ok(kinds.includes('backpack backpack.created'))
    t.ok(kinds.includes('backpack fuse.tripped'))
    t.ok(kinds.includes('alert topup'))
    t.ok(client.events().every(({ channel }) => channel === `agent:${guest.id}`))
    const ids = client.events().map(({ id }) => Number(id))
    t.strictSame(
      ids,
      [...ids].sort((a, b) => a - b),
    )
    await client.close()
  })

  t.test('closes on every node when its key is revoked', async (t) => {
    const { body } = await main.ask('POST', '/api/keys', { key: her.key, json: {} })
    const clients = [
      await connectReadyWebSocket(t, main.url, body.api_key),
      await connectReadyWebSocket(t, beside.url, body.api_key),
    ]
    await main.ask('DELETE', `/api/keys/${String(body['id'])}`, { key: her.key })
    for (const client of clients) t.equal(await client.closed, 4403)
  })

  t.test('closes with 1012 when its station stops', async (t) => {
    const clients = await Promise.all(
      upTo(4).map(() => connectReadyWebSocket(t, beside.url, her.key)),
    )
    const silent = await connectWebSocket(t, beside.url)
    const codes = await Promise.all([
      ...[...clients, silent].map(({ closed }) => closed),
      beside.end('SIGTERM'),
    ])
    t.strictSame(codes, [1012, 1012, 1012, 1012, 1012, 0])
  })

  t.test('leaves a ledger that gas verify accepts', () => main.verify())
})

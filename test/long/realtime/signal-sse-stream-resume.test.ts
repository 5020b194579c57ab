import t from 'tap'
import {
  startInProcessTestStation,
  spawnSecondNode,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import {
  connectReadyWebSocket,
  openSseReader,
  type ReceivedSseEvent,
  type SseTestReader,
} from '../../support/http/websocket-and-sse-clients.ts'

t.test('the stream of signals', async (t) => {
  const main = await startInProcessTestStation(t, { STARTER_CREDITS_USDC: '3' })
  const beside = await spawnSecondNode(t, main)
  const her = await main.onboard()
  const publish = async (
    channel: string,
    n: number,
    at: TestStation = main,
    from: TestAgent = her,
  ) => {
    const json = { channel, type: 'result', payload: { n } }
    const { body, status, text } = await at.ask('POST', '/api/signal/publish', {
      key: from.key,
      json,
    })
    if (status !== 200) throw new Error(text)
    return String(body['id'])
  }
  const stream = (
    query: string,
    headers = {},
    at: TestStation = main,
    key: string | null = her.key,
  ) => openSseReader(t, `${at.url}/api/signal/stream?${query}`, key, headers)
  const numbers = (events: readonly ReceivedSseEvent[]) =>
    events
      .filter(({ event }) => event === 'signal')
      .map(({ data }) => (data['payload'] as { n: number }).n)
  const reaches = (reader: SseTestReader, n: number) =>
    reader.next(({ data }) => (data['payload'] as { n?: number } | undefined)?.n === n)

  t.test('sends its start position, then later signals', async (t) => {
    // A stream starts at the read position of its node, which includes events of other listeners.
    const earlier = await stream('channels=one')
    const before = await publish('one', 0)
    await reaches(earlier, 0)
    earlier.close()
    const reader = await stream('channels=one,two')
    t.match(reader, { status: 200, type: 'text/event-stream; charset=utf-8' })
    const ready = await reader.next(({ event }) => event === 'ready')
    t.equal(ready.id, before)
    t.match(ready.data, { cursor: before, channels: ['one', 'two'] })
    t.match(reader.text, /^retry: 2000\n/)
    await publish('one', 1)
    await publish('three', 2)
    const last = await publish('two', 3)
    const event = await reaches(reader, 3)
    t.equal(event.id, last)
    t.match(event.data, { id: last, channel: 'two', type: 'result', from_agent_id: her.id })
    t.strictSame(numbers(reader.events), [1, 3])
    reader.close()
  })

  t.test('signals of another node arrive in order', async (t) => {
    const [here, there] = await Promise.all([
      stream('channels=both'),
      stream('channels=both', {}, beside),
    ])
    await Promise.all([here, there].map((reader) => reader.next(({ event }) => event === 'ready')))
    for (let n = 1; n <= 10; n++) await publish('both', n, n % 2 === 0 ? main : beside)
    await Promise.all([reaches(here, 10), reaches(there, 10)])
    const all = Array.from({ length: 10 }, (_, at) => at + 1)
    t.strictSame(numbers(here.events), all)
    t.strictSame(numbers(there.events), all)
    for (const reader of [here, there]) reader.close()
  })

  t.test('concurrent signals arrive together, each once and in id order', async (t) => {
    const reader = await stream('channels=rush:0,rush:1')
    const socket = await connectReadyWebSocket(t, main.url, her.key)
    await socket.ask({ type: 'subscribe', channels: ['rush:0', 'rush:1'] })
    // Three in a row on one channel, then three on the other.
    const channel = (n: number) => `rush:${Math.floor(n / 3) % 2}`
    const all = Array.from({ length: 60 }, (_, n) => n)
    await Promise.all(all.map((n) => publish(channel(n), n)))
    await publish('rush:0', all.length)
    await reaches(reader, all.length)
    await socket.next(({ data }) => (data?.['payload'] as { n?: number })?.n === all.length)
    const [streamed, framed] = [
      reader.events.filter(({ event }) => event === 'signal').map(({ id }) => Number(id)),
      socket.events('signal').map(({ id }) => Number(id)),
    ]
    t.equal(new Set(framed).size, all.length + 1)
    t.strictSame(
      framed,
      [...framed].sort((a, b) => a - b),
    )
    t.strictSame(streamed, framed)
    t.strictSame(
      numbers(reader.events).sort((a, b) => a - b),
      [...all, all.length],
    )
    reader.close()
    await socket.close()
  })

  t.test('a reconnected reader gets exactly the missed signals, on any node', async (t) => {
    const first = await stream('channels=gone')
    await first.next(({ event }) => event === 'ready')
    await publish('gone', 1)
    const { id } = await reaches(first, 1)
    first.close()
    for (const n of [2, 3, 4]) await publish('gone', n)
    const again = await stream('channels=gone', { 'last-event-id': id ?? '' }, beside)
    await reaches(again, 4)
    const last = await publish('gone', 5)
    await reaches(again, 5)
    t.strictSame(numbers(again.events), [2, 3, 4, 5])
    t.equal(again.events[0]?.id, id)
    const query = await stream(`channels=gone&since=${String(id)}`)
    await reaches(query, 5)
    t.strictSame(numbers(query.events), [2, 3, 4, 5])
    const wins = await stream(`channels=gone&since=0`, { 'last-event-id': last })
    const polyfills = await Promise.all(
      ['lastEventId', 'Last-Event-ID'].map((name) =>
        stream(`channels=gone&since=0&${name}=${last}`),
      ),
    )
    await publish('gone', 6)
    for (const reader of [wins, ...polyfills]) {
      await reaches(reader, 6)
      t.strictSame(
        numbers(reader.events),
        [6],
        'the header wins, also one that is sent in the query',
      )
    }
    for (const reader of [again, query, wins, ...polyfills]) reader.close()
  })

  t.test('signals published during a replay arrive once, in order', async (t) => {
    for (let n = 0; n < 60; n++) await publish('busy', n)
    const publishing = (async () => {
      for (let n = 60; n < 120; n++) await publish('busy', n, n % 2 === 0 ? main : beside)
    })()
    const readers = await Promise.all([0, 1, 2].map(() => stream('channels=busy&since=0')))
    await publishing
    for (const reader of readers) {
      await reaches(reader, 119)
      t.strictSame(
        numbers(reader.events),
        Array.from({ length: 120 }, (_, at) => at),
      )
      reader.close()
    }
  })

  t.test('too much history or an unknown cursor is a gap', async (t) => {
    const witness = await stream('channels=calm')
    await witness.next(({ event }) => event === 'ready')
    const id = await publish('flood', 0)
    await main.sql`
      insert into signals (call_id, agent_id, channel, type, payload, at, expires_at, kept_until)
      select gen_random_uuid(), ${her.id}, 'flood', 'ping', '{"n": -1}', now(), now() + interval '1 hour',
             now() + interval '1 day' from generate_series(1, 1001)`
    const calm = await publish('calm', 1)
    await reaches(witness, 1)
    witness.close()
    const reader = await stream(`channels=flood,calm&since=${id}`)
    const gap = await reader.next(({ event }) => event === 'gap')
    t.notOk(gap.id, 'a client that disconnects during the replay gets the gap again')
    t.match(gap.data, { channel: 'flood', from: id, to: calm })
    await publish('flood', 7)
    await reaches(reader, 7)
    t.strictSame(numbers(reader.events), [1, 7], 'the other channel is replayed')
    const passed = `id: ${calm}\n\n`
    t.ok(reader.text.indexOf(passed) > reader.text.indexOf('event: gap'), 'then it is behind')
    reader.close()
    const ahead = await stream('channels=calm&since=999999999')
    t.match((await ahead.next(({ event }) => event === 'gap')).data, { from: '999999999' })
    await publish('calm', 8)
    await reaches(ahead, 8)
    ahead.close()
  })

  t.test('agent:me is the own inbox', async (t) => {
    const other = await main.onboard()
    const reader = await stream('channels=agent:me')
    await reader.next(({ event }) => event === 'ready')
    await publish(`agent:${her.id}`, 1, beside, other)
    t.match((await reaches(reader, 1)).data, { from_agent_id: other.id })
    reader.close()
  })

  t.test('an invalid stream request is rejected before it starts', async (t) => {
    const names = Array.from({ length: 101 }, (_, at) => `c${at}`).join(',')
    for (const [query, status, code] of [
      ['', 400, 'invalid_input'],
      [`channels=${names}`, 400, 'invalid_input'],
      ['channels=a b', 400, 'invalid_input'],
      ['channels=pulses', 400, 'invalid_input'],
      ['channels=a&since=x', 400, 'invalid_input'],
      ['channels=agent:018f6f7a-0000-7000-8000-000000000000', 403, 'channel_private'],
    ] as const) {
      const { status: got, text } = await stream(query.replaceAll(' ', '%20'))
      t.equal(got, status, query.slice(0, 60))
      t.match(JSON.parse(text), { code })
    }
    t.equal((await stream('channels=a', {}, main, null)).status, 401)
    for (const id of ['undefined', '1, 2', '-1', '9'.repeat(19)]) {
      const { status: got, text } = await stream('channels=a', { 'last-event-id': id })
      t.equal(got, 400, id)
      t.match(JSON.parse(text), { errors: [{ pointer: '/last-event-id' }] })
      const inQuery = await stream(`channels=a&lastEventId=${encodeURIComponent(id)}`)
      t.equal(inQuery.status, 400, `${id} in the query`)
    }
    const fresh = await stream('channels=a', { 'last-event-id': '' })
    t.equal(fresh.status, 200, 'an empty one is none')
    fresh.close()
    const head = await fetch(`${main.url}/api/signal/stream?channels=a`, {
      method: 'HEAD',
      headers: { 'x-api-key': her.key },
    })
    t.equal(head.status, 405, 'a stream has no head of its own')
    const most = await stream(`channels=${names.split(',').slice(0, 100).join(',')}`)
    t.equal(most.status, 200, 'a hundred are not too many')
    most.close()
  })

  t.test('a key may open five streams', async (t) => {
    const guest = await main.onboard()
    const open = () => stream('channels=a', {}, main, guest.key)
    const five = await Promise.all([1, 2, 3, 4, 5].map(open))
    t.ok(five.every(({ status }) => status === 200))
    const sixth = await open()
    t.equal(sixth.status, 429)
    five[0]?.close()
    let again = await open()
    // Its place is free once the service has seen it go.
    while (again.status === 429) again = await open()
    t.equal(again.status, 200)
    for (const reader of [...five, again]) reader.close()
  })

  t.test('a stream ends with its key, on every node', async (t) => {
    const { body } = await main.ask('POST', '/api/keys', { key: her.key, json: {} })
    const { id, api_key: key } = body
    const readers = await Promise.all([main, beside].map((at) => stream('channels=a', {}, at, key)))
    for (const reader of readers) await reader.next(({ event }) => event === 'ready')
    await main.ask('DELETE', `/api/keys/${String(id)}`, { key: her.key })
    for (const reader of readers) {
      t.match((await reader.next(({ event }) => event === 'error')).data, {
        code: 'unauthenticated',
      })
      await reader.ended
    }
  })

  t.test('a slow reader is disconnected, and the others miss nothing', async (t) => {
    const { Socket } = await import('node:net')
    const slow = new Socket()
    t.teardown(() => slow.destroy())
    const port = Number(new URL(main.url).port)
    await new Promise<void>((resolve) => slow.connect(port, '127.0.0.1', resolve))
    const ended = new Promise<void>((resolve) => slow.once('close', () => resolve()))
    slow.on('error', () => {})
    slow.write(
      `GET /api/signal/stream?channels=fat HTTP/1.1\r\nHost: x\r\nX-API-Key: ${her.key}\r\n\r\n`,
    )
    const quick = await stream('channels=fat')
    await quick.next(({ event }) => event === 'ready')
    slow.pause()
    const filler = 'x'.repeat(32_000)
    // More than the buffers of any kernel between the two.
    const most = 1_500
    let n = 0
    for (; n < most && (await openStreams()) > 1; n++) {
      const json = { channel: 'fat', type: 'result', payload: { n, filler } }
      await main.ask('POST', '/api/signal/publish', { key: her.key, json })
    }
    t.ok(n < most, `it was let go after ${n}`)
    slow.resume()
    await ended
    await reaches(quick, n - 1)
    t.strictSame(
      numbers(quick.events),
      Array.from({ length: n }, (_, at) => at),
    )
    quick.close()
  })

  async function openStreams(): Promise<number> {
    const { body } = await main.ask('GET', '/api/network/health')
    return (body['streams'] as { events: number }).events
  }

  t.test('consecutive streams on one connection end with it', async (t) => {
    const { Socket } = await import('node:net')
    const connection = new Socket()
    t.teardown(() => connection.destroy())
    connection.on('error', () => {})
    const before = await openStreams()
    const asked = `GET /api/signal/stream?channels=row HTTP/1.1\r\nHost: x\r\nX-API-Key: ${her.key}\r\n\r\n`
    connection.connect(Number(new URL(main.url).port), '127.0.0.1')
    connection.write(asked.repeat(3))
    await reach(before + 3)
    connection.destroy()
    await reach(before)
    t.equal(await openStreams(), before, 'their places are free')
  })

  /** Waits until the given number of streams is open; the timeout of the test limits it. */
  async function reach(count: number): Promise<void> {
    while ((await openStreams()) !== count) await new Promise((resolve) => setImmediate(resolve))
  }

  t.test('a stopping station ends its streams', async () => {
    const reader = await stream('channels=a', {}, beside)
    await reader.next(({ event }) => event === 'ready')
    await Promise.all([reader.ended, beside.end('SIGTERM')])
  })

  t.test('gas verify finds no difference', () => main.verify())
})

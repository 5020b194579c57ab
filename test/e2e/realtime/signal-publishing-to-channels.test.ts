import t from 'tap'
import { SIGNAL_TYPES } from '../../../persistence/realtime/channel-signal-store.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import { createTestClock } from '../../support/actors/test-actor-node.ts'
import { assertProblemNamesCause } from '../../support/write-routes/write-route-cases.ts'

const DAY_MS = 86_400_000
type Listed = { id: string; channel: string; payload: unknown }[]

t.test('signals', async (t) => {
  const clock = createTestClock()
  const main = await startInProcessTestStation(t, {}, { clock })
  const her = await main.onboard()
  const signal = { channel: 'defi:eth', type: 'insight', payload: { n: 1 } }
  const publish = (guest: TestAgent | null, fields: object = {}, headers = {}) =>
    main.ask('POST', '/api/signal/publish', {
      key: guest?.key,
      json: { ...signal, ...fields },
      headers,
    })
  const recent = async (channel: string, key?: string) => {
    const path = `/api/signal/recent?channel=${encodeURIComponent(channel)}`
    const { body } = await main.ask('GET', path, { key })
    return body['signals'] as Listed
  }

  t.test('a signal is charged its exact price once, in the commit of its row', async (t) => {
    const before = await main.balance(her)
    const { status, body } = await publish(her)
    t.equal(status, 200)
    t.match(body, { cost_usdc: 0.001, balance_usdc: before - 0.001, channel: 'defi:eth' })
    t.equal(await main.balance(her), before - 0.001)
    for (const [key, from] of [
      [undefined, null],
      [her.key, her.id],
    ] as const)
      t.match(await recent('defi:eth', key), [
        { id: String(body['id']), type: 'insight', from_agent_id: from, payload: { n: 1 } },
      ])
  })

  t.test('the specified event types are accepted, others are rejected', async (t) => {
    for (const type of SIGNAL_TYPES) t.equal((await publish(her, { type })).status, 200, type)
    assertProblemNamesCause(
      t as never,
      await publish(her, { type: 'shout' }),
      'an unknown type',
      '/type',
    )
  })

  t.test('the same Idempotency-Key publishes once, even long after expiry', async (t) => {
    const headers = { 'idempotency-key': 'one' }
    const fields = { channel: 'once', ttl_seconds: 60 }
    const first = await publish(her, fields, headers)
    const again = await publish(her, fields, headers)
    t.equal(again.headers['idempotency-replayed'], 'true')
    t.strictSame(again.body, first.body)
    t.equal((await recent('once')).length, 1)
    clock.pass(3_600_000)
    t.strictSame(await recent('once'), [])
    t.strictSame((await publish(her, fields, headers)).body, first.body)
    const other = await publish(her, { ...fields, payload: {} }, headers)
    t.match(other, { status: 422, body: { code: 'idempotency_key_reused' } })
  })

  t.test('an agent without credits gets 402 with the price and publishes nothing', async (t) => {
    const poor = await main.onboard(0.01)
    for (let at = 0; at < 10; at++) t.equal((await publish(poor, { channel: 'poor' })).status, 200)
    const answer = await publish(poor, { channel: 'poor' })
    t.match(answer, { status: 402, body: { code: 'payment_required', needed_usdc: 0.001 } })
    t.match(answer.body.fund_url, poor.id)
    t.equal((await recent('poor')).length, 10)
  })

  t.test('concurrent signals never overspend the balance', async (t) => {
    const poor = await main.onboard(0.02)
    const answers = await Promise.all(
      Array.from({ length: 40 }, () => publish(poor, { channel: 'rush' })),
    )
    const good = answers.filter(({ status }) => status === 200)
    t.equal(good.length, 20)
    t.equal(new Set(good.map(({ body }) => body['id'])).size, 20)
    t.equal((await recent('rush')).length, 20)
    t.equal(await main.balance(poor), 0)
  })

  t.test('the cap of a key counts signals', async (t) => {
    const { body } = await main.ask('POST', '/api/keys', {
      key: her.key,
      json: { cap_usdc: 0.002 },
    })
    const capped = { id: her.id, key: String(body['api_key'] ?? body['key']) }
    t.equal((await publish(capped)).status, 200)
    t.equal((await publish(capped)).status, 200)
    t.match(await publish(capped), { status: 403, body: { code: 'key_cap_exceeded' } })
  })

  t.test('an invalid signal is rejected with the reason', async (t) => {
    const before = await main.balance(her)
    const bad: [string, object, string][] = [
      ['a space', { channel: 'a b' }, '/channel'],
      ['a comma', { channel: 'a,b' }, '/channel'],
      ['129 characters', { channel: 'x'.repeat(129) }, '/channel'],
      ['no agent', { channel: 'agent:nobody' }, '/channel'],
      ['the reserved name', { channel: 'pulses' }, '/channel'],
      ['a list as payload', { payload: [] }, '/payload'],
      ['32 KiB and more', { payload: { x: 'x'.repeat(32 * 1024) } }, '/payload'],
      ['a second too short', { ttl_seconds: 59 }, '/ttl_seconds'],
      ['a second too long', { ttl_seconds: 7 * 86_400 + 1 }, '/ttl_seconds'],
    ]
    for (const [wanted, fields, pointer] of bad)
      assertProblemNamesCause(t as never, await publish(her, fields), wanted, pointer)
    t.equal((await publish(null)).status, 401)
    const unknown = 'agent:018f6f7a-0000-7000-8000-000000000000'
    t.match(await publish(her, { channel: unknown }), { status: 404 })
    t.equal(await main.balance(her), before)
    const largest = { x: 'x'.repeat(32 * 1024 - 8) }
    t.equal((await publish(her, { payload: largest })).status, 200, 'exactly 32 KiB')
  })

  t.test('only its owner can read an inbox, on every route', async (t) => {
    const him = await main.onboard()
    const inbox = `agent:${him.id}`
    t.equal(
      (await publish(her, { channel: inbox.toUpperCase().replace('AGENT', 'agent') })).status,
      200,
    )
    t.equal((await recent(inbox, him.key)).length, 1)
    t.equal((await recent('agent:me', him.key)).length, 1)
    const path = `/api/signal/recent?channel=${inbox}`
    t.match(await main.ask('GET', path), { status: 401 })
    t.match(await main.ask('GET', path, { key: her.key }), {
      status: 403,
      body: { code: 'channel_private' },
    })
    const stream = `/api/signal/stream?channels=${inbox}`
    t.match(await main.ask('GET', stream, { key: her.key }), { status: 403 })
    const all = await main.ask('GET', '/api/signal/recent?limit=200', { key: him.key })
    const channels = (all.body['signals'] as Listed).map(({ channel }) => channel)
    t.ok(channels.length > 0)
    t.notOk(
      channels.some((channel) => channel.startsWith('agent:')),
      'nor among all',
    )
  })

  t.test('channels of the last day are listed, without inboxes', async (t) => {
    const beside = await spawnSecondNode(t, main)
    const { body } = await beside.ask('GET', '/api/signal/channels?limit=2')
    const listed = body['channels'] as { channel: string }[]
    t.equal(listed.length, 2)
    const next = await beside.ask(
      'GET',
      `/api/signal/channels?cursor=${String(body['next_cursor'])}`,
    )
    const names = [...listed, ...(next.body['channels'] as typeof listed)].map((one) => one.channel)
    t.ok(['defi:eth', 'once', 'poor', 'rush'].every((name) => names.includes(name)))
    t.equal(new Set(names).size, names.length)
    t.notOk(names.some((name) => name.startsWith('agent:')))
  })

  t.test('pagination has no gap or overlap', async (t) => {
    const seen: string[] = []
    let cursor = ''
    do {
      const { body } = await main.ask('GET', `/api/signal/recent?channel=poor&limit=3${cursor}`)
      seen.push(...(body['signals'] as Listed).map(({ id }) => id))
      const next = body['next_cursor'] as string | null
      cursor = next === null ? '' : `&cursor=${next}`
    } while (cursor !== '')
    t.equal(seen.length, 10)
    t.strictSame(
      seen,
      [...seen].sort((a, b) => Number(b) - Number(a)),
    )
  })

  t.test('expired signals are removed after a day', async (t) => {
    const [count] = await main.sql`select count(*)::int as n from signals`
    t.ok(count?.['n'] > 30)
    clock.pass(2 * DAY_MS)
    t.strictSame(await recent('defi:eth'), [])
    const { createSignalStore } =
      await import('../../../persistence/realtime/channel-signal-store.ts')
    t.equal(await createSignalStore(main.sql).sweep(new Date(clock.now())), count?.['n'])
  })

  t.test('gas verify finds no difference', () => main.verify())
})

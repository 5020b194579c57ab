import t from 'tap'
import { createAgentMessageStore } from '../../../persistence/agents/agent-message-store.ts'
import {
  fetchWebhookDeliveries,
  settingsAllowingWebhookReceivers,
  registerTestWebhook,
  waitForWebhookDeliveries,
  type RegisteredWebhook,
} from '../../support/webhooks/test-webhook-registration-and-deliveries.ts'
import { startWebhookReceivers } from '../../support/webhooks/test-webhook-receivers.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import { createTestClock } from '../../support/actors/test-actor-node.ts'
import {
  assertProblemNamesCause,
  UNKNOWN_ID,
} from '../../support/write-routes/write-route-cases.ts'

interface Shown {
  readonly message_id: string
  readonly message: string
  readonly subject: string | null
  readonly from_agent_id: string
}

const MINUTES = 60_000
const DAYS = 24 * 60 * MINUTES

t.test('messages and pulses', async (t) => {
  const clock = createTestClock()
  const house = await startWebhookReceivers(t)
  const main = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house), {
    clock,
  })
  const [ann, bob] = [await main.onboard(), await main.onboard()]
  const write = (from: TestAgent, json: object, headers = {}) =>
    main.ask('POST', '/api/messages', { key: from.key, json, headers })
  const list = async ({ key }: TestAgent, path = '') => {
    const { body } = await main.ask('GET', `/api/messages${path}`, { key })
    return body['messages'] as Shown[]
  }
  const remove = ({ key }: TestAgent, id: unknown) =>
    main.ask('DELETE', `/api/messages/${String(id)}`, { key })

  const facts = async () => {
    const rows = await main.sql<{ data: object }[]>`
      select data from outbox union all select data from deliveries`
    return JSON.stringify(rows.map(({ data }) => data))
  }
  const kinds = () => main.sql`select type, agent_id, at from outbox order by id`

  t.test('a message reaches its recipient, who is notified', async (t) => {
    const { status, body } = await write(ann, { to: bob.id, message: 'hello', subject: 'first' })
    t.equal(status, 200)
    const shown = { message_id: body['message_id'], message: 'hello', subject: 'first' }
    t.match(await list(bob), [{ ...shown, kind: 'message', from_agent_id: ann.id }])
    t.match(await list(ann, '/sent'), [{ ...shown, to_agent_id: bob.id }])
    t.strictSame([...(await list(ann)), ...(await list(bob, '/sent'))], [])
    const told = await main.sql`select type, agent_id, data from outbox where type = 'agent_ping'`
    const data = { kind: 'message', message: 'hello', from_agent_id: ann.id }
    t.match(told, [{ agent_id: bob.id, data: { ...data, message_id: body['message_id'] } }])
    t.equal(await main.balance(ann), 0.5, 'it is free')
  })

  t.test('a repeated request sends one message', async (t) => {
    const headers = { 'idempotency-key': 'm' }
    const sent = await Promise.all(
      Array.from({ length: 8 }, () => write(ann, { to: bob.id, message: 'once' }, headers)),
    )
    t.equal(new Set(sent.map(({ body }) => body['message_id'])).size, 1)
    t.equal((await list(bob)).filter(({ message }) => message === 'once').length, 1)
  })

  t.test('each side removes it from its own list', async (t) => {
    const { body } = await write(ann, { to: bob.id, message: 'shared' })
    const id = body['message_id']
    const has = (messages: Shown[]) => messages.some(({ message_id: one }) => one === id)
    t.match(await remove(await main.onboard(), id), { status: 404 }, 'not that of others')
    t.match(await remove(bob, id), { status: 200, body: { message_id: id, removed: true } })
    t.notOk(has(await list(bob)))
    t.ok(has(await list(ann, '/sent')))
    t.match(await remove(bob, id), { status: 404, body: { code: 'message_not_found' } })
    t.equal((await remove(ann, id)).status, 200)
    t.notOk(has(await list(ann, '/sent')))
    const self = await write(ann, { to: ann.id, message: 'note' })
    t.equal((await remove(ann, self.body['message_id'])).status, 200)
    for (const id of [UNKNOWN_ID, 'x', 'a'.repeat(64)]) t.equal((await remove(ann, id)).status, 404)
  })

  t.test('a removed or expired message is not returned by any route', async (t) => {
    const [reader, other] = [await main.onboard(), await main.onboard()]
    const hooks = [reader, other].map((one) => registerTestWebhook(main, house, one, `/${one.id}`))
    const [hook, others] = (await Promise.all(hooks)) as [RegisteredWebhook, RegisteredWebhook]
    const sent = async (to: TestAgent, message: string) =>
      (await write(ann, { to: to.id, message, subject: message })).body['message_id']
    const [removed, kept] = [await sent(reader, 'removed secret'), await sent(reader, 'kept')]
    await main.call(ann, 'agent_ping', { target_agent_id: other.id, message: 'a secret ping' })
    await house.until(() => house.at(`/${reader.id}`).length === 2)
    await house.until(() => house.at(`/${other.id}`).length === 1)
    t.equal(house.at(`/${reader.id}`)[0]?.data['message'], 'removed secret')
    for (const [guest, one] of [
      [reader, hook],
      [other, others],
    ] as const)
      await waitForWebhookDeliveries(main, guest, one)
    const before = await kinds()
    t.equal((await remove(ann, kept)).status, 200, 'by its sender')
    t.equal((await remove(reader, String(removed).toUpperCase())).status, 200)
    const [ping] = await list(other)
    t.equal((await remove(other, ping?.message_id)).status, 200)
    t.notMatch(await facts(), /secret/)
    t.match(await facts(), /kept/, 'its recipient has not removed it')
    t.strictSame(await kinds(), before, 'what happened has happened')
    const oldest = (await fetchWebhookDeliveries(main, reader, hook)).at(-1)
    const replay = `/api/webhook/${hook.id}/deliveries/${String(oldest?.['id'])}/replay`
    t.equal((await main.ask('POST', replay, { key: reader.key })).status, 200)
    await house.until(() => house.at(`/${reader.id}`).length === 3)
    const again = house.at(`/${reader.id}`)[2]
    t.match(again?.data, { message_id: removed, subject: null, message: null })
    await createAgentMessageStore(main.sql).sweep(new Date(clock.now() + 7 * DAYS))
    t.notMatch(await facts(), /kept/)
  })

  t.test('an invalid message is rejected', async (t) => {
    const before = await main.sql`select count(*) from messages`
    const bad: [string, object, string?][] = [
      ['2,001 characters', { to: bob.id, message: 'x'.repeat(2_001) }, '/message'],
      ['none', { to: bob.id, message: '' }, '/message'],
      ['without a recipient', { message: 'x' }, '/to'],
      ['nobody', { to: 'bob', message: 'x' }, '/to'],
      ['somebody unknown', { to: UNKNOWN_ID, message: 'x' }],
      ['a long subject', { to: bob.id, message: 'x', subject: 'x'.repeat(201) }, '/subject'],
      ['NUL', { to: bob.id, message: 'a\0b' }, '/message'],
    ]
    for (const [wanted, json, pointer] of bad)
      assertProblemNamesCause(t as never, await write(ann, json), wanted, pointer)
    t.equal(
      (await main.ask('POST', '/api/messages', { json: { to: bob.id, message: 'x' } })).status,
      401,
    )
    t.strictSame(await main.sql`select count(*) from messages`, before)
    t.equal((await write(ann, { to: bob.id, message: '\u{1f600}'.repeat(2_000) })).status, 200)
  })

  t.test('pings of agent_ping are in the inbox too', async (t) => {
    const ping = { target_agent_id: bob.id, message: 'wake up' }
    t.equal((await main.call(ann, 'agent_ping', ping)).status, 200)
    const [newest] = await list(bob)
    t.match(newest, { kind: 'ping', message: 'wake up', subject: null })
    t.equal((await remove(bob, newest?.message_id)).status, 200)
  })

  t.test('pagination has no gap or overlap', async (t) => {
    const reader = await main.onboard()
    for (let at = 0; at < 7; at++) await write(ann, { to: reader.id, message: String(at) })
    const seen: string[] = []
    let cursor = ''
    do {
      const path = `/api/messages?limit=3${cursor}`
      const { body } = await main.ask('GET', path, { key: reader.key })
      seen.push(...(body['messages'] as Shown[]).map(({ message }) => message))
      const next = body['next_cursor'] as string | null
      cursor = next === null ? '' : `&cursor=${next}`
    } while (cursor !== '')
    t.strictSame(seen, ['6', '5', '4', '3', '2', '1', '0'])
    const forged = await main.ask('GET', '/api/messages?cursor=bm8', { key: reader.key })
    t.match(forged, { status: 400, body: { code: 'invalid_input' } })
  })

  t.test('a message is stored for seven days', async (t) => {
    const { body } = await write(bob, { to: ann.id, message: 'old' })
    clock.pass(7 * DAYS - 1)
    t.equal((await list(ann)).length, 1)
    clock.pass(1)
    t.strictSame(await list(ann), [])
    t.strictSame(await list(bob, '/sent'), [])
    t.equal((await remove(ann, body['message_id'])).status, 404)
  })

  t.test('an invalid cursor is rejected', async (t) => {
    const cursor = Buffer.from(`999999999999999 ${ann.id}`).toString('base64url')
    t.match(await main.ask('GET', `/api/pulse/live?cursor=${cursor}`), {
      status: 400,
      body: { code: 'invalid_input', errors: [{ pointer: '/cursor' }] },
    })
  })

  t.test('a pulse lasts five minutes, and an agent has one', async (t) => {
    const pulse = (json: object, guest: TestAgent = ann) =>
      main.ask('POST', '/api/pulse', { key: guest.key, json })
    const live = async () => (await main.ask('GET', '/api/pulse/live')).body['pulses'] as object[]
    const mine = async ({ key }: TestAgent) =>
      (await main.ask('GET', '/api/pulse/mine', { key })).body
    const said = { goal_vector: 'find yield', confidence: 0.8, idle_cycles: 3 }
    t.match(await mine(ann), { pulse: null })
    t.match(await pulse(said), { status: 200, body: { ...said, ttl_seconds: 300 } })
    clock.pass(MINUTES)
    t.equal((await pulse({ ...said, goal_vector: 'sell' }, bob)).status, 200)
    t.match(await live(), [
      { agent_id: null, goal_vector: 'sell' },
      { agent_id: null, ...said },
    ])
    t.match(await mine(ann), { pulse: { ...said, ttl_seconds: 240 } })
    clock.pass(1)
    await pulse({ ...said, confidence: 1 })
    t.match(await live(), [{ confidence: 1 }, { goal_vector: 'sell' }])
    const first = await main.ask('GET', '/api/pulse/live?limit=1')
    const path = `/api/pulse/live?limit=1&cursor=${String(first.body['next_cursor'])}`
    t.match((await main.ask('GET', path)).body, {
      pulses: [{ agent_id: null, goal_vector: 'sell' }],
      next_cursor: null,
    })
    clock.pass(5 * MINUTES)
    t.strictSame(await live(), [])
    t.match(await mine(ann), { pulse: null })
    for (const spoilt of [{ confidence: 1.01 }, { idle_cycles: -1 }, { goal_vector: '' }])
      assertProblemNamesCause(
        t as never,
        await pulse({ ...said, ...spoilt }),
        'a bad pulse',
        Object.keys(spoilt)[0],
      )
    t.match(await pulse({}), { status: 200, body: { goal_vector: '', confidence: 0 } })
    t.equal((await main.ask('POST', '/api/pulse', { json: said })).status, 401)
    t.equal(await main.balance(bob), 0.5, 'it is free')
  })
})

import { Webhook } from 'standardwebhooks'
import t, { type Test } from 'tap'
import { DAY, HOUR, MINUTE, SECOND } from '../../../core/clock.ts'
import { LIMITS } from '../../../core/limits.ts'
import { signWebhook } from '../../../core/webhook-signature.ts'
import {
  deliveredCallIds,
  readDeliveries,
  waitForIdleWebhooks,
  listInReply,
  settingsAllowingReceivers,
  postWebhook,
  waitForDeliveries,
  type RegisteredWebhook,
} from '../../support/webhooks/webhook-client.ts'
import { eventually } from '../../support/mail/mail-and-telegram-servers.ts'
import {
  startWebhookReceivers,
  type WebhookReceivers,
} from '../../support/webhooks/webhook-receivers.ts'
import { createTestClock } from '../../support/actors/actor-node.ts'
import { startStation } from '../../support/station/start-station.ts'

const TOOL = 'hive_trending'

t.test('the signature is that of the published vector', async (t) => {
  const signed = signWebhook(['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'], {
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    timestamp: 1614265330,
    body: '{"test": 2432232314}',
  })
  t.equal(signed, 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=')
})

t.test('webhooks', async (t) => {
  const house = await startWebhookReceivers(t)
  const main = await startStation(t, settingsAllowingReceivers(house))
  const [her, him] = [await main.onboard(), await main.onboard()]

  t.test(
    'what is delivered verifies with the published library, and with nothing else',
    async (t) => {
      const hook = await postWebhook(main, house, her, '/verified', ['tool_call'])
      const answer = await main.call(her, TOOL)
      await house.until(() => house.at('/verified').length === 1)
      const [got] = house.at('/verified')
      const verified = new Webhook(hook.secret).verify(got?.body ?? '', { ...got?.headers })
      t.match(verified, {
        type: 'tool_call',
        timestamp: /^\d{4}-\d\d-\d\dT/,
        data: {
          agent_id: her.id,
          call_id: answer.body._meta.call_id,
          tool: TOOL,
          rail: 'credits',
          cost_usdc: 0.005,
          status: 'ok',
        },
      })
      t.strictSame(Object.keys(verified as object), ['type', 'timestamp', 'data'])
      t.match(got?.headers, { 'content-type': 'application/json', 'user-agent': /^gas-station\// })
      const other = new Webhook(`whsec_${Buffer.alloc(32).toString('base64')}`)
      t.throws(() => other.verify(got?.body ?? '', { ...got?.headers }))
      t.throws(() => new Webhook(hook.secret).verify(`${got?.body} `, { ...got?.headers }))
      await waitForDeliveries(main, her, hook)
      const [shown] = await readDeliveries(main, her, hook)
      t.match(shown, { id: got?.id, state: 'delivered', attempts: 1, last_status: 204 })
      const listed = await main.ask('GET', '/api/webhook', { key: her.key })
      t.notMatch(listed.text, /whsec_/, 'the secret is shown once')
      const stored = await main.sql`select string_agg(w::text, '') as all from webhooks w`
      const bytes = Buffer.from(hook.secret).toString('hex')
      t.notOk(String(stored[0]?.['all']).includes(bytes), 'and sealed at rest')
    },
  )

  t.test('each event goes to those who asked for it, and all of them to `all`', async (t) => {
    const hooks = {
      all: await postWebhook(main, house, him, '/all'),
      calls: await postWebhook(main, house, him, '/calls', ['tool_call']),
      money: await postWebhook(main, house, him, '/money', ['topup', 'low_balance']),
      pings: await postWebhook(main, house, him, '/pings', ['agent_ping', 'bounty_received']),
    }
    await main.call(him, TOOL)
    t.equal((await main.call(him, 'price_feed', { query: 'BTC' })).status, 503)
    const gift = { to_agent_id: him.id, amount_usdc: 0.01 }
    await main.ask('POST', '/api/agent/send', { key: her.key, json: gift })
    await main.ask('POST', '/api/tip', { key: her.key, json: gift })
    await main.call(her, 'agent_ping', { target_agent_id: him.id, message: 'hello' })
    await house.until(() => house.at('/all').length === 5, 'five events')
    for (const hook of Object.values(hooks)) await waitForDeliveries(main, him, hook)
    const types = (path: string) => house.at(path).map(({ type }) => type)
    t.strictSame(types('/all'), ['tool_call', 'tool_call', 'topup', 'topup', 'agent_ping'])
    t.match(house.at('/all')[1]?.data, {
      status: 'failed',
      code: 'price_unavailable',
      cost_usdc: 0,
    })
    t.strictSame(types('/calls'), ['tool_call', 'tool_call'])
    t.strictSame(types('/money'), ['topup', 'topup'])
    t.strictSame(types('/pings'), ['agent_ping'])
    t.equal(new Set(house.got.map(({ id }) => id)).size, house.got.length, 'each id once')
    t.notOk(house.at('/verified').some(({ data }) => data['agent_id'] === him.id))
  })

  t.test('a secret is rotated: both sign for a day, then the new one alone', async (t) => {
    const clock = createTestClock()
    const shifted = await startStation(t, settingsAllowingReceivers(house), {
      clock,
      database: main.database,
    })
    const guest = await shifted.onboard()
    const hook = await postWebhook(shifted, house, guest, '/rotated')
    const { body } = await shifted.ask('POST', `/api/webhook/${hook.id}/rotate`, { key: guest.key })
    const fresh = String(body['secret'])
    t.not(fresh, hook.secret)
    const send = async (times: number) => {
      await shifted.ask('POST', '/api/webhook/test', { key: guest.key, json: {} })
      await house.until(() => house.at('/rotated').length === times)
      return house.at('/rotated').at(-1)
    }
    const both = await send(1)
    t.equal(both?.headers['webhook-signature']?.split(' ').length, 2)
    for (const secret of [hook.secret, fresh])
      t.match(new Webhook(secret).verify(both?.body ?? '', { ...both?.headers }), { type: 'test' })
    clock.pass(DAY + SECOND)
    const one = await send(2)
    t.equal(one?.headers['webhook-signature']?.split(' ').length, 1)
    const { 'webhook-id': id = '', 'webhook-timestamp': at = '0' } = one?.headers ?? {}
    const signed = { id, timestamp: Number(at), body: one?.body ?? '' }
    t.equal(one?.headers['webhook-signature'], signWebhook([fresh], signed))
  })

  t.test('registration refuses what may not be reached, and more than twenty', async (t) => {
    const guest = await main.onboard()
    const ask = (url: unknown, events?: unknown) =>
      main.ask('POST', '/api/webhook/register', { key: guest.key, json: { url, events } })
    for (const url of [
      'http://127.0.0.1:9/',
      'http://2130706433/',
      'http://0x7f.1/',
      'http://017700000001/',
      'http://[::ffff:127.0.0.1]/',
      'http://[64:ff9b::7f00:1]/',
      'http://169.254.169.254/latest',
      'http://10.0.0.1/',
      'http://localhost:8402/',
      'http://a.localhost/',
      'http://user:pw@example.com/',
      'ftp://example.com/',
      'https://example.com:22/',
      'https://example.com:6000/',
      'https://example.com:0/',
    ]) {
      t.match(await ask(url), { status: 422, body: { code: 'blocked_url' } }, url)
    }
    t.match(await ask('no url'), { status: 400, body: { errors: [{ pointer: '/url' }] } })
    t.match(await ask('https://93.184.216.34/', ['everything']), { status: 400 })
    t.match(await ask('https://93.184.216.34/', []), { status: 400 })
    for (let hook = 0; hook < 20; hook += 1)
      t.equal((await ask(`https://93.184.216.34/${hook}`, ['topup'])).status, 200)
    t.match(await ask('https://93.184.216.34/'), {
      status: 409,
      body: { code: 'limit_reached', limit: 20 },
    })
  })

  t.test('outside development only https is taken', async (t) => {
    const strict = await startStation(
      t,
      {
        NODE_ENV: 'production',
        TREASURY_ADDRESS: '0x00000000000000000000000000000000000000aa',
      },
      { database: main.database },
    )
    const guest = await strict.onboard()
    const ask = (url: string) =>
      strict.ask('POST', '/api/webhook/register', { key: guest.key, json: { url } })
    t.match(await ask('http://93.184.216.34/'), {
      status: 400,
      body: { errors: [{ pointer: '/url' }] },
    })
    t.equal((await ask('HTTPS://93.184.216.34')).status, 200)
    const same = { status: 409, body: { code: 'webhook_exists' } }
    for (const url of ['https://93.184.216.34/', ' https://93.184.216.34:443/#x'])
      t.match(await ask(url), same, 'the same address, spelt otherwise')
  })

  t.test('a webhook is its agent’s alone', async (t) => {
    const hook = await postWebhook(main, house, her, '/hers', ['topup'])
    const absent = 'wh_0000000000000000000000'
    const requests: [string, string][] = [
      ['DELETE', ''],
      ['GET', '/deliveries'],
      ['POST', '/rotate'],
      ['POST', '/enable'],
      ['POST', '/deliveries/msg_x/replay'],
    ]
    for (const [method, rest] of requests) {
      const tell = async (id: string) => {
        const { status, body } = await main.ask(method, `/api/webhook/${id}${rest}`, {
          key: him.key,
        })
        return [status, body.code]
      }
      t.strictSame(await tell(hook.id), [404, 'webhook_not_found'], `${method} ${rest}`)
      t.strictSame(await tell(hook.id), await tell(absent))
    }
    const test = { key: him.key, json: { webhook_id: hook.id } }
    t.match(await main.ask('POST', '/api/webhook/test', test), { status: 404 })
    t.notOk(
      listInReply(await main.ask('GET', '/api/webhook', { key: him.key }), 'webhooks').some(
        ({ id }) => id === hook.id,
      ),
    )
    const gone = await main.ask('DELETE', `/api/webhook/${hook.id}`, { key: her.key })
    t.match(gone, { status: 200, body: { id: hook.id, removed: true } })
    t.match(await main.ask('DELETE', `/api/webhook/${hook.id}`, { key: her.key }), { status: 404 })
    const left = await main.sql`select from deliveries where webhook_id = ${hook.id}`
    t.equal(left.length, 0)
  })

  t.test('a repeated request with one key registers once and tells the same secret', async (t) => {
    const guest = await main.onboard()
    const asked = {
      key: guest.key,
      json: { url: `${house.base}/once` },
      headers: { 'idempotency-key': 'hook-1' },
    }
    const [one, two] = [
      await main.ask('POST', '/api/webhook/register', asked),
      await main.ask('POST', '/api/webhook/register', asked),
    ]
    t.equal(one.body['secret'], two.body['secret'])
    t.equal(two.headers['idempotency-replayed'], 'true')
    t.equal(
      listInReply(await main.ask('GET', '/api/webhook', { key: guest.key }), 'webhooks').length,
      1,
    )
  })
})

/** A station whose clock stands so that deliveries that come after `ms` carry the real time. */
async function past(t: Test, house: WebhookReceivers, ms: number) {
  const clock = createTestClock(Date.now() - ms)
  const main = await startStation(t, settingsAllowingReceivers(house), { clock })
  return { clock, main, guest: await main.onboard() }
}

t.test('a receiver that was down for an hour gets everything, in order, each once', async (t) => {
  const house = await startWebhookReceivers(t)
  const { clock, main, guest } = await past(t, house, 2 * HOUR + 35 * MINUTE + 5 * SECOND)
  const hook = await postWebhook(main, house, guest, '/down', ['tool_call'])
  const beside = await postWebhook(main, house, guest, '/up', ['tool_call'])
  house.answers('/down', 503)
  const calls: string[] = []
  const call = async () => calls.push((await main.call(guest, TOOL)).body._meta.call_id)
  const tries = async (times: number) => {
    await house.until(() => house.at('/down').length === times)
    await waitForIdleWebhooks(main)
  }
  await call()
  await tries(1)
  for (const pause of [5 * SECOND, 5 * MINUTE, 30 * MINUTE]) {
    const before = house.at('/down').length
    await call()
    await house.until(() => house.taken('/up').length === calls.length)
    clock.pass(pause - SECOND)
    t.equal(house.at('/down').length, before, 'not before its time')
    clock.pass(SECOND)
    await tries(before + 1)
  }
  t.strictSame(deliveredCallIds(house, '/up'), calls, 'another endpoint has everything at once')
  t.equal(new Set(house.at('/down').map(({ id }) => id)).size, 1, 'only the oldest is tried')
  clock.pass(25 * MINUTE)
  house.answers('/down', 204)
  for (let more = 0; more < 20; more += 1) await call()
  clock.pass(95 * MINUTE)
  await house.until(() => house.taken('/down').length === calls.length, 'all of them')
  await waitForDeliveries(main, guest, hook)
  t.strictSame(deliveredCallIds(house, '/down'), calls, 'in the order they happened')
  const ids = house.taken('/down').map(({ id }) => id)
  t.equal(new Set(ids).size, calls.length, 'each id once')
  for (const { body, headers } of house.taken('/down'))
    t.ok(new Webhook(hook.secret).verify(body, { ...headers }))
  t.equal(house.taken('/up').length, calls.length)
  const first = (await readDeliveries(main, guest, hook)).at(-1)
  t.match(first, { attempts: 5, state: 'delivered', last_status: 204 })
  const shown = listInReply(await main.ask('GET', '/api/webhook', { key: guest.key }), 'webhooks')
  t.strictSame(new Set(shown.map(({ id }) => id)), new Set([beside.id, hook.id]))
  for (const one of shown) t.match(one, { failures: 0, failing_since: null, state: 'active' })
})

t.test(
  '410 disables, and five days of failure do; the owner is told, and may take it up',
  async (t) => {
    const house = await startWebhookReceivers(t)
    const clock = createTestClock()
    const main = await startStation(t, settingsAllowingReceivers(house), { clock })
    const guest = await main.onboard()
    const [gone, dead] = [
      await postWebhook(main, house, guest, '/gone', ['tool_call']),
      await postWebhook(main, house, guest, '/dead', ['tool_call']),
    ]
    await postWebhook(main, house, guest, '/watch')
    house.answers('/gone', 410)
    house.answers('/dead', 500)
    const stateOf = async ({ id }: RegisteredWebhook) =>
      listInReply(await main.ask('GET', '/api/webhook', { key: guest.key }), 'webhooks').find(
        (one) => one['id'] === id,
      )
    await main.call(guest, TOOL)
    await eventually(async () => (await stateOf(gone))?.['state'] === 'disabled', 'the end of it')
    t.match(await stateOf(gone), { disabled_reason: 'gone' })
    await house.until(() => house.at('/watch').some(({ type }) => type === 'webhook.disabled'))
    t.match(house.at('/watch').find(({ type }) => type === 'webhook.disabled')?.data, {
      webhook_id: gone.id,
      reason: 'gone',
    })
    await main.call(guest, TOOL)
    await house.until(
      () => house.taken('/watch').filter(({ type }) => type === 'tool_call').length === 2,
    )
    t.equal(house.at('/gone').length, 1, 'it gets nothing any more')
    const [lost] = await readDeliveries(main, guest, gone)
    const replay = `/api/webhook/${gone.id}/deliveries/${String(lost?.['id'])}/replay`
    t.match(await main.ask('POST', replay, { key: guest.key }), {
      status: 409,
      body: { code: 'webhook_disabled' },
    })
    t.match(
      await main.sql`select kind, key, reason from dead_letters where payload->>'webhook_id' = ${gone.id}`,
      [{ kind: 'webhook', key: String(lost?.['id']), reason: 'answered 410' }],
      'what failed for good is a dead letter',
    )
    house.answers('/gone', 200)
    t.match(await main.ask('POST', `/api/webhook/${gone.id}/enable`, { key: guest.key }), {
      status: 200,
      body: { state: 'active' },
    })
    t.match(await main.ask('POST', replay, { key: guest.key }), {
      status: 200,
      body: { state: 'pending' },
    })
    await house.until(() => house.taken('/gone').length === 1)
    t.equal(house.taken('/gone')[0]?.id, lost?.['id'], 'under the same id')

    const step = async (ms: number) => {
      const before = house.at('/dead').length
      clock.pass(ms)
      await house.until(() => house.at('/dead').length > before, `an attempt after ${ms} ms`)
      await waitForIdleWebhooks(main, clock)
    }
    await waitForIdleWebhooks(main, clock)
    for (let at = 0; at < 30 && (await stateOf(dead))?.['state'] === 'active'; at += 1)
      await step(DAY)
    t.match(await stateOf(dead), { state: 'disabled', disabled_reason: 'failing' })
    await house.until(() =>
      house
        .at('/watch')
        .some(({ data }) => data['webhook_id'] === dead.id && data['reason'] === 'failing'),
    )
    const tried = house.at('/dead')
    const days =
      (Number(tried.at(-1)?.headers['webhook-timestamp']) -
        Number(tried[0]?.headers['webhook-timestamp'])) /
      86_400
    t.ok(days >= 5 && days < 6.1, `after ${days} days`)
  },
)

t.test('tests are sent so often an hour, and not to whom too much waits already', async (t) => {
  const house = await startWebhookReceivers(t)
  const clock = createTestClock()
  const main = await startStation(t, settingsAllowingReceivers(house), { clock })
  const guest = await main.onboard()
  const hook = await postWebhook(main, house, guest, '/tested', ['topup'])
  const full = await postWebhook(main, house, guest, '/full', ['topup'])
  house.answers('/full', 500)
  await main.sql`
    insert into deliveries (id, webhook_id, type, data, at, state, due_at, created_at)
    select 'full' || n, ${full.id}, 'topup', '{}', now(), 'pending', now() + interval '1 day', now()
      from generate_series(1, ${LIMITS.webhookBacklog}::int) n`
  const ask = (json: object = {}) => main.ask('POST', '/api/webhook/test', { key: guest.key, json })
  const first = await ask()
  t.match(first, { status: 200, body: { deliveries: [{ webhook_id: hook.id }] } })
  t.equal(listInReply(first, 'deliveries').length, 1)
  t.match(await ask({ webhook_id: full.id }), { status: 200, body: { deliveries: [] } })
  const shown = listInReply(await main.ask('GET', '/api/webhook', { key: guest.key }), 'webhooks')
  t.match(
    shown.find(({ id }) => id === full.id),
    { dropped: 2 },
  )
  t.equal((await ask({ webhook_id: 'wh_none' })).status, 404, 'which is not counted')
  for (let times = 2; times < LIMITS.webhookTestsPerHour; times += 1)
    t.equal((await ask({ webhook_id: hook.id })).status, 200)
  const refused = await ask()
  t.match(refused, { status: 429, body: { code: 'rate_limited', retry_after: 3_600 } })
  t.equal(refused.headers['retry-after'], '3600')
  const other = await main.onboard()
  await postWebhook(main, house, other, '/other', ['topup'])
  t.equal((await main.ask('POST', '/api/webhook/test', { key: other.key, json: {} })).status, 200)
  clock.pass(HOUR - SECOND)
  t.match(await ask(), { status: 429, body: { retry_after: 1 } })
  clock.pass(2 * SECOND)
  t.equal((await ask({ webhook_id: hook.id })).status, 200)
  await house.until(() => house.at('/tested').length === LIMITS.webhookTestsPerHour)
})

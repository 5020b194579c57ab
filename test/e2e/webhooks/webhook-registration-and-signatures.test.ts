import { Webhook } from 'standardwebhooks'
import t from 'tap'
import { DAY, SECOND } from '../../../core/clock.ts'
import { signWebhook } from '../../../core/webhook-signature.ts'
import {
  fetchWebhookDeliveries,
  readReplyListField,
  settingsAllowingWebhookReceivers,
  registerTestWebhook,
  waitForWebhookDeliveries,
} from '../../support/webhooks/test-webhook-registration-and-deliveries.ts'
import { startWebhookReceivers } from '../../support/webhooks/test-webhook-receivers.ts'
import { createTestClock } from '../../support/actors/test-actor-node.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

const TOOL = 'hive_trending'

t.test('the signature equals the published vector', async (t) => {
  const signed = signWebhook(['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'], {
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    timestamp: 1614265330,
    body: '{"test": 2432232314}',
  })
  t.equal(signed, 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=')
})

t.test('webhooks', async (t) => {
  const house = await startWebhookReceivers(t)
  const main = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house))
  const [her, him] = [await main.onboard(), await main.onboard()]

  t.test(
    'a delivery verifies with the published library only for its own content and secret',
    async (t) => {
      const hook = await registerTestWebhook(main, house, her, '/verified', ['tool_call'])
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
      await waitForWebhookDeliveries(main, her, hook)
      const [shown] = await fetchWebhookDeliveries(main, her, hook)
      t.match(shown, { id: got?.id, state: 'delivered', attempts: 1, last_status: 204 })
      const listed = await main.ask('GET', '/api/webhook', { key: her.key })
      t.notMatch(listed.text, /whsec_/, 'the secret is shown once')
      const stored = await main.sql`select string_agg(w::text, '') as all from webhooks w`
      const bytes = Buffer.from(hook.secret).toString('hex')
      t.notOk(String(stored[0]?.['all']).includes(bytes), 'and sealed at rest')
    },
  )

  t.test('each event goes to its subscribers, and all events go to `all`', async (t) => {
    const hooks = {
      all: await registerTestWebhook(main, house, him, '/all'),
      calls: await registerTestWebhook(main, house, him, '/calls', ['tool_call']),
      money: await registerTestWebhook(main, house, him, '/money', ['topup', 'low_balance']),
      pings: await registerTestWebhook(main, house, him, '/pings', [
        'agent_ping',
        'bounty_received',
      ]),
    }
    await main.call(him, TOOL)
    t.equal((await main.call(him, 'price_feed', { query: 'BTC' })).status, 503)
    const gift = { to_agent_id: him.id, amount_usdc: 0.01 }
    await main.ask('POST', '/api/agent/send', { key: her.key, json: gift })
    await main.ask('POST', '/api/tip', { key: her.key, json: gift })
    await main.call(her, 'agent_ping', { target_agent_id: him.id, message: 'hello' })
    await house.until(() => house.at('/all').length === 5, 'five events')
    for (const hook of Object.values(hooks)) await waitForWebhookDeliveries(main, him, hook)
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

  t.test('during a rotation both secrets sign for a day, then the new one alone', async (t) => {
    const clock = createTestClock()
    const shifted = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house), {
      clock,
      database: main.database,
    })
    const guest = await shifted.onboard()
    const hook = await registerTestWebhook(shifted, house, guest, '/rotated')
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

  t.test('registration rejects unreachable addresses, and more than twenty webhooks', async (t) => {
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

  t.test('outside development only https is accepted', async (t) => {
    const strict = await startInProcessTestStation(
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

  t.test('a webhook is visible to its own agent only', async (t) => {
    const hook = await registerTestWebhook(main, house, her, '/hers', ['topup'])
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
      readReplyListField(await main.ask('GET', '/api/webhook', { key: him.key }), 'webhooks').some(
        ({ id }) => id === hook.id,
      ),
    )
    const gone = await main.ask('DELETE', `/api/webhook/${hook.id}`, { key: her.key })
    t.match(gone, { status: 200, body: { id: hook.id, removed: true } })
    t.match(await main.ask('DELETE', `/api/webhook/${hook.id}`, { key: her.key }), { status: 404 })
    const left = await main.sql`select from deliveries where webhook_id = ${hook.id}`
    t.equal(left.length, 0)
  })

  t.test(
    'a repeated request with one key registers once and returns the same secret',
    async (t) => {
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
        readReplyListField(await main.ask('GET', '/api/webhook', { key: guest.key }), 'webhooks')
          .length,
        1,
      )
    },
  )
})

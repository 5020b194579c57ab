import { Webhook } from 'standardwebhooks'
import t, { type Test } from 'tap'
import { DAY, HOUR, MINUTE, SECOND } from '../../../core/clock.ts'
import { LIMITS } from '../../../core/limits.ts'
import {
  webhookDeliveredCallIds,
  fetchWebhookDeliveries,
  waitForIdleWebhooks,
  readReplyListField,
  settingsAllowingWebhookReceivers,
  registerTestWebhook,
  waitForWebhookDeliveries,
  type RegisteredWebhook,
} from '../../support/webhooks/test-webhook-registration-and-deliveries.ts'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import {
  startWebhookReceivers,
  type WebhookReceivers,
} from '../../support/webhooks/test-webhook-receivers.ts'
import { createTestClock } from '../../support/actors/test-actor-node.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

const TOOL = 'hive_trending'

/** A station whose clock is shifted so that deliveries after `ms` carry the real time. */
async function past(t: Test, house: WebhookReceivers, ms: number) {
  const clock = createTestClock(Date.now() - ms)
  const main = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house), {
    clock,
  })
  return { clock, main, guest: await main.onboard() }
}

t.test('a receiver that was down for an hour gets all events in order, each once', async (t) => {
  const house = await startWebhookReceivers(t)
  const { clock, main, guest } = await past(t, house, 2 * HOUR + 35 * MINUTE + 5 * SECOND)
  const hook = await registerTestWebhook(main, house, guest, '/down', ['tool_call'])
  const beside = await registerTestWebhook(main, house, guest, '/up', ['tool_call'])
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
  t.strictSame(
    webhookDeliveredCallIds(house, '/up'),
    calls,
    'another endpoint has everything at once',
  )
  t.equal(new Set(house.at('/down').map(({ id }) => id)).size, 1, 'only the oldest is tried')
  clock.pass(25 * MINUTE)
  house.answers('/down', 204)
  for (let more = 0; more < 20; more += 1) await call()
  clock.pass(95 * MINUTE)
  await house.until(() => house.taken('/down').length === calls.length, 'all of them')
  await waitForWebhookDeliveries(main, guest, hook)
  t.strictSame(webhookDeliveredCallIds(house, '/down'), calls, 'in the order they happened')
  const ids = house.taken('/down').map(({ id }) => id)
  t.equal(new Set(ids).size, calls.length, 'each id once')
  for (const { body, headers } of house.taken('/down'))
    t.ok(new Webhook(hook.secret).verify(body, { ...headers }))
  t.equal(house.taken('/up').length, calls.length)
  const first = (await fetchWebhookDeliveries(main, guest, hook)).at(-1)
  t.match(first, { attempts: 5, state: 'delivered', last_status: 204 })
  const shown = readReplyListField(
    await main.ask('GET', '/api/webhook', { key: guest.key }),
    'webhooks',
  )
  t.strictSame(new Set(shown.map(({ id }) => id)), new Set([beside.id, hook.id]))
  for (const one of shown) t.match(one, { failures: 0, failing_since: null, state: 'active' })
})

t.test(
  '410 or five days of failures disable a webhook; the owner is notified and may enable it',
  async (t) => {
    const house = await startWebhookReceivers(t)
    const clock = createTestClock()
    const main = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house), {
      clock,
    })
    const guest = await main.onboard()
    const [gone, dead] = [
      await registerTestWebhook(main, house, guest, '/gone', ['tool_call']),
      await registerTestWebhook(main, house, guest, '/dead', ['tool_call']),
    ]
    await registerTestWebhook(main, house, guest, '/watch')
    house.answers('/gone', 410)
    house.answers('/dead', 500)
    const stateOf = async ({ id }: RegisteredWebhook) =>
      readReplyListField(
        await main.ask('GET', '/api/webhook', { key: guest.key }),
        'webhooks',
      ).find((one) => one['id'] === id)
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
    const [lost] = await fetchWebhookDeliveries(main, guest, gone)
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

t.test(
  'test deliveries are limited per hour, and rejected for a receiver with a long queue',
  async (t) => {
    const house = await startWebhookReceivers(t)
    const clock = createTestClock()
    const main = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house), {
      clock,
    })
    const guest = await main.onboard()
    const hook = await registerTestWebhook(main, house, guest, '/tested', ['topup'])
    const full = await registerTestWebhook(main, house, guest, '/full', ['topup'])
    house.answers('/full', 500)
    await main.sql`
    insert into deliveries (id, webhook_id, type, data, at, state, due_at, created_at)
    select 'full' || n, ${full.id}, 'topup', '{}', now(), 'pending', now() + interval '1 day', now()
      from generate_series(1, ${LIMITS.webhookBacklog}::int) n`
    const ask = (json: object = {}) =>
      main.ask('POST', '/api/webhook/test', { key: guest.key, json })
    const first = await ask()
    t.match(first, { status: 200, body: { deliveries: [{ webhook_id: hook.id }] } })
    t.equal(readReplyListField(first, 'deliveries').length, 1)
    t.match(await ask({ webhook_id: full.id }), { status: 200, body: { deliveries: [] } })
    const shown = readReplyListField(
      await main.ask('GET', '/api/webhook', { key: guest.key }),
      'webhooks',
    )
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
    await registerTestWebhook(main, house, other, '/other', ['topup'])
    t.equal((await main.ask('POST', '/api/webhook/test', { key: other.key, json: {} })).status, 200)
    clock.pass(HOUR - SECOND)
    t.match(await ask(), { status: 429, body: { retry_after: 1 } })
    clock.pass(2 * SECOND)
    t.equal((await ask({ webhook_id: hook.id })).status, 200)
    await house.until(() => house.at('/tested').length === LIMITS.webhookTestsPerHour)
  },
)

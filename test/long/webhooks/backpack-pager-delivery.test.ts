import { Webhook } from 'standardwebhooks'
import t from 'tap'
import { DAY, HOUR, MINUTE, SECOND } from '../../../core/clock.ts'
import {
  waitForIdleWebhooks,
  readReplyListField,
  settingsAllowingWebhookReceivers,
  registerTestWebhook,
  waitForWebhookDeliveries,
} from '../../support/webhooks/test-webhook-registration-and-deliveries.ts'
import {
  startTestTelegram,
  eventually,
  startTestMailServer,
  waitUntilOwnerAlertsDispatched,
} from '../../support/mail/test-mail-and-telegram-servers.ts'
import {
  createOpenApiBodyValidator,
  webhookBodyRef,
} from '../../support/http/openapi-body-validator.ts'
import { startWebhookReceivers } from '../../support/webhooks/test-webhook-receivers.ts'
import { createTestClock } from '../../support/actors/test-actor-node.ts'
import { createOperatorDeadLetterStore } from '../../../app/cli/operator/cli-dead-letters.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

const TOOL = 'hive_trending'
const SEVEN = [
  'backpack.created',
  'tool_call',
  'error',
  'fuse.tripped',
  'daily_limit_hit',
  'low_balance',
  'backpack.expiring',
]

t.test('a pager sends all seven events to its URL, by e-mail and to its chat', async (t) => {
  const house = await startWebhookReceivers(t)
  const [mails, chats] = [await startTestMailServer(t), await startTestTelegram(t)]
  // Expiry events carry the real time, since a receiver accepts no other.
  const clock = createTestClock(Date.now() - 89 * DAY - MINUTE)
  const settings = {
    ...settingsAllowingWebhookReceivers(house),
    SMTP_URL: mails.url,
    MAIL_FROM: 'Gas Station <pages@gas.test>',
    TELEGRAM_BOT_TOKEN: chats.token,
    TELEGRAM_BASE: chats.base,
  }
  const main = await startInProcessTestStation(t, settings, { clock })
  const guest = await main.onboard(0.26)
  const made = await main.ask('POST', '/api/backpack/create', {
    key: guest.key,
    json: {
      agent_name: 'scout Bcc: victim@gas.test',
      fuse: { per_day_usdc: 0.012 },
      pager: {
        webhook_url: `${house.base}/pager`,
        owner_email: 'owner@gas.test',
        owner_telegram: '-100200',
      },
    },
  })
  t.equal(made.status, 200, made.text)
  const pack = made.body.backpack_id
  const packed = { 'x-backpack-id': pack }
  for (const wanted of [200, 200, 403, 403])
    t.equal((await main.call(guest, TOOL, {}, packed)).status, wanted)
  t.equal((await main.call(guest, 'price_feed', { query: 'BTC' }, packed)).status, 503)
  await house.until(() => house.at('/pager').length === 7)
  await waitForIdleWebhooks(main)
  // All but the digests. Deliveries in progress during the clock change are sent twice.
  await waitUntilOwnerAlertsDispatched(main, 2)
  // It expires in 90 days; a node that starts later finds out.
  const alarms = () => house.at('/pager').filter(({ type }) => type === 'backpack.expiring').length
  for (const [at, jump] of [83 * DAY + MINUTE, 6 * DAY].entries()) {
    clock.pass(jump)
    await startInProcessTestStation(t, settings, { clock, database: main.database })
    await house.until(() => alarms() === at + 1, 'the alarm of its expiry')
    await waitForIdleWebhooks(main)
    await waitUntilOwnerAlertsDispatched(main)
  }
  const types = house.at('/pager').map(({ type }) => type)
  t.strictSame([...new Set(types)].sort(), [...SEVEN].sort())
  t.strictSame(
    house
      .at('/pager')
      .filter(({ type }) => type === 'backpack.expiring')
      .map(({ data }) => data['days']),
    [7, 1],
  )
  const misfitOf = createOpenApiBodyValidator((await main.ask('GET', '/openapi.json')).body)
  for (const { type, data, body } of house.at('/pager')) {
    t.match(data, { backpack_id: pack, agent_id: guest.id })
    t.equal(misfitOf(webhookBodyRef(type), JSON.parse(body)), '', `as documented: ${body}`)
  }
  const stored = await main.ask('GET', `/api/backpack/${pack}/notifications`, { key: guest.key })
  t.strictSame(
    readReplyListField(stored, 'notifications')
      .map(({ type }) => type)
      .reverse(),
    types,
    'what is delivered is what is stored for polling',
  )

  t.test('urgent events are sent at once, others are collected', async (t) => {
    const urgent = SEVEN.filter((type) => type !== 'tool_call' && type !== 'error')
    const subjects = () => mails.letters.map(({ subject }) => subject)
    await eventually(() => subjects().length >= 7 && chats.messages.length >= 7, 'all messages')
    for (const type of urgent) {
      t.ok(
        subjects().some((subject) => subject.startsWith(`${type}: scout`)),
        `${type} by e-mail`,
      )
      t.ok(
        chats.messages.some(({ text }) => text.startsWith(`${type}: scout`)),
        `${type} in the chat`,
      )
    }
    const digests = mails.letters.filter(({ subject }) => subject.startsWith('Calls of'))
    t.equal(digests.length, 1, 'one message for all calls of a quarter of an hour')
    for (const what of ['tool_call hive_trending', 'error price_feed', 'price_unavailable'])
      t.ok(digests[0]?.raw.replace(/=\r\n/g, '').includes(what), what)
    t.strictSame([...new Set(mails.letters.flatMap(({ to }) => to))], ['owner@gas.test'])
    t.strictSame([...new Set(mails.letters.map(({ from }) => from))], ['pages@gas.test'])
    t.notMatch(mails.letters.map(({ raw }) => raw.split('\r\n\r\n')[0]).join('\n'), /^Bcc:/m)
    t.strictSame([...new Set(chats.messages.map(({ chat }) => chat))], ['-100200'])
  })

  t.test('its receiver is listed, can be verified, and follows the Backpack', async (t) => {
    const listed = readReplyListField(
      await main.ask('GET', '/api/webhook', { key: guest.key }),
      'webhooks',
    )
    t.match(listed, [{ backpack_id: pack, url: `${house.base}/pager`, state: 'active' }])
    const id = String(listed[0]?.['id'])
    t.match(await main.ask('DELETE', `/api/webhook/${id}`, { key: guest.key }), { status: 404 })
    const { body } = await main.ask('POST', `/api/webhook/${id}/rotate`, { key: guest.key })
    await main.ask('POST', '/api/webhook/test', { key: guest.key, json: { webhook_id: id } })
    await house.until(() => house.at('/pager').at(-1)?.type === 'test')
    const last = house.at('/pager').at(-1)
    t.ok(new Webhook(String(body['secret'])).verify(last?.body ?? '', { ...last?.headers }))
    await main.ask('PATCH', `/api/backpack/${pack}`, {
      key: guest.key,
      json: { remove: ['per_day_usdc'], pager: { webhook_url: `${house.base}/moved` } },
    })
    await main.call(guest, TOOL, {}, packed)
    await house.until(() => house.at('/moved').length === 1)
    t.match(
      readReplyListField(await main.ask('GET', '/api/webhook', { key: guest.key }), 'webhooks'),
      [{ id, url: `${house.base}/moved` }],
    )
  })
  await main.verify()
})

t.test('a pager URL with a private address is rejected with its field', async (t) => {
  const main = await startInProcessTestStation(t)
  const { key } = await main.onboard()
  const made = await main.ask('POST', '/api/backpack/create', {
    key,
    json: { agent_name: 'scout' },
  })
  const ways: ((pager: object) => ReturnType<typeof main.ask>)[] = [
    (pager) => main.ask('POST', '/api/backpack/create', { key, json: { agent_name: 'x', pager } }),
    (pager) =>
      main.ask('PATCH', `/api/backpack/${made.body.backpack_id}`, { key, json: { pager } }),
  ]
  for (const set of ways) {
    for (const url of [
      'http://127.0.0.1:9/',
      'http://2130706433/',
      'http://[::ffff:10.0.0.1]/',
      'http://169.254.169.254/latest',
      'http://[64:ff9b::7f00:1]/',
      'http://user:pw@example.com/',
      'https://example.com:22/',
    ]) {
      t.match(
        await set({ webhook_url: url }),
        {
          status: 422,
          body: { code: 'blocked_url', errors: [{ pointer: '/pager/webhook_url' }] },
        },
        url,
      )
    }
    for (const url of ['ftp://example.com/', 'file:///etc/passwd', 'javascript:alert(1)', 'no url'])
      t.match(
        await set({ webhook_url: url }),
        { status: 400, body: { errors: [{ pointer: '/pager/webhook_url' }] } },
        url,
      )
    for (const url of ['https://93.184.216.34/pager', 'https://hooks.example.com/', null])
      t.equal((await set({ webhook_url: url })).status, 200, String(url))
  }
})

t.test(
  'pending events of a removed pager address become a dead letter with the reason',
  async (t) => {
    const house = await startWebhookReceivers(t)
    const clock = createTestClock()
    const main = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house), {
      clock,
    })
    const guest = await main.onboard()
    const made = await main.ask('POST', '/api/backpack/create', {
      key: guest.key,
      json: { agent_name: 'scout', pager: { webhook_url: `${house.base}/pager` } },
    })
    const pack = made.body.backpack_id
    await house.until(() => house.at('/pager').length === 1)
    await waitForIdleWebhooks(main)
    house.answers('/pager', 500)
    await main.call(guest, TOOL, {}, { 'x-backpack-id': pack })
    await house.until(() => house.at('/pager').length === 2)
    await waitForIdleWebhooks(main)
    const address = (url: string | null) =>
      main.ask('PATCH', `/api/backpack/${pack}`, {
        key: guest.key,
        json: { pager: { webhook_url: url } },
      })
    t.equal((await address(null)).status, 200)
    clock.pass(5 * SECOND)
    const letters = createOperatorDeadLetterStore(main.sql)
    await eventually(async () => (await letters.list()).length === 1, 'the letter')
    const [letter] = await letters.list()
    const { id } = house.at('/pager')[1] ?? {}
    t.match(letter, { kind: 'webhook', key: id, reason: /the Backpack has no pager address/ })
    house.answers('/pager', 204)
    t.equal((await address(`${house.base}/pager`)).status, 200)
    t.equal((await letters.replay(letter?.id ?? ''))?.key, id)
    // It is due by the clock of the database.
    clock.pass(HOUR)
    await house.until(() => house.taken('/pager').length === 2)
    t.equal(house.at('/pager').at(-1)?.id, id, 'under the same id')
    await waitForIdleWebhooks(main)
    await main.verify()
  },
)

t.test('a pager with a new address sends pending events at once and starts afresh', async (t) => {
  const house = await startWebhookReceivers(t)
  const clock = createTestClock()
  const main = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house), {
    clock,
  })
  const guest = await main.onboard()
  const pager = (path: string) => ({ pager: { webhook_url: `${house.base}${path}` } })
  const made = await main.ask('POST', '/api/backpack/create', {
    key: guest.key,
    json: { agent_name: 'scout', ...pager('/ill') },
  })
  const pack = made.body.backpack_id
  const call = () => main.call(guest, TOOL, {}, { 'x-backpack-id': pack })
  const move = (path: string) =>
    main.ask('PATCH', `/api/backpack/${pack}`, { key: guest.key, json: pager(path) })
  await house.until(() => house.at('/ill').length === 1)
  await waitForIdleWebhooks(main)
  house.answers('/ill', 500)
  await call()
  for (const [at, pause] of [5 * SECOND, 5 * MINUTE].entries()) {
    await house.until(() => house.at('/ill').length === at + 2)
    await waitForIdleWebhooks(main)
    clock.pass(pause)
  }
  await house.until(() => house.at('/ill').length === 4)
  await waitForIdleWebhooks(main)
  // The next attempt would be half an hour later.
  await move('/gone')
  await call()
  await house.until(() => house.at('/gone').length === 2, 'what waited, and what came after it')
  t.equal(house.at('/gone')[0]?.id, house.at('/ill').at(-1)?.id)
  await waitForIdleWebhooks(main)
  house.answers('/gone', 410)
  await call()
  await house.until(() => house.at('/gone').length === 3)
  await waitForIdleWebhooks(main)
  await move('/well')
  await call()
  await house.until(() => house.at('/well').length === 1)
  t.match(
    readReplyListField(await main.ask('GET', '/api/webhook', { key: guest.key }), 'webhooks'),
    [{ url: `${house.base}/well`, state: 'active', disabled_reason: null, disabled_at: null }],
  )
})

t.test('events replayed late are pending from then on', async (t) => {
  const house = await startWebhookReceivers(t)
  const clock = createTestClock()
  const main = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house), {
    clock,
  })
  const guest = await main.onboard()
  const hook = await registerTestWebhook(main, house, guest, '/late', ['tool_call'])
  await main.call(guest, TOOL)
  await house.until(() => house.at('/late').length === 1)
  await waitForWebhookDeliveries(main, guest, hook)
  const { id } = house.at('/late')[0] ?? {}
  clock.pass(13 * DAY)
  house.answers('/late', 500)
  const path = `/api/webhook/${hook.id}/deliveries/${id}/replay`
  t.equal((await main.ask('POST', path, { key: guest.key })).status, 200)
  await house.until(() => house.at('/late').length === 2)
  await waitForIdleWebhooks(main)
  const { text } = await main.ask('GET', '/metrics')
  const [, waits = ''] = /^webhook_deliveries\{figure="oldest_seconds"\} (\S+)$/m.exec(text) ?? []
  t.ok(Number(waits) < 60, `the oldest waits ${waits} s`)
})

t.test('a list continues at its cursor after removals and replays', async (t) => {
  const house = await startWebhookReceivers(t)
  const main = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house))
  const guest = await main.onboard()
  const { key } = guest
  const walk = async (path: string, name: string, each: (id: string) => Promise<unknown>) => {
    const seen: string[] = []
    for (let cursor = ''; cursor !== 'null' && seen.length < 9;) {
      const asked = cursor === '' ? '' : `&cursor=${cursor}`
      const shown = await main.ask('GET', `${path}?limit=2${asked}`, { key })
      const ids = readReplyListField(shown, name).map(({ id }) => String(id))
      for (const id of ids) await each(id)
      seen.push(...ids)
      cursor = /"next_cursor":"?([\w-]+)/.exec(shown.text)?.[1] ?? 'null'
    }
    return seen
  }
  const hooks: string[] = []
  for (const path of ['/a', '/b', '/c', '/d', '/e'])
    hooks.push((await registerTestWebhook(main, house, guest, path, ['tool_call'])).id)
  for (let calls = 0; calls < 5; calls += 1) await main.call(guest, TOOL)
  await house.until(() => house.got.length === 25)
  await waitForIdleWebhooks(main)
  const [first = ''] = hooks
  const path = `/api/webhook/${first}/deliveries`
  const sent = house.at('/a').map(({ id }) => id)
  const replayed = await walk(path, 'deliveries', (id) =>
    main.ask('POST', `${path}/${id}/replay`, { key }),
  )
  t.strictSame(replayed, sent.reverse())
  const removed = await walk('/api/webhook', 'webhooks', (id) =>
    main.ask('DELETE', `/api/webhook/${id}`, { key }),
  )
  t.strictSame(removed.sort(), hooks.sort())
})

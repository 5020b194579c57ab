import t from 'tap'
import { HOUR, MINUTE, SECOND } from '../../../core/clock.ts'
import {
  eventually,
  waitUntilOwnerAlertsDispatched,
} from '../../support/mail/test-mail-and-telegram-servers.ts'
import { createTestPauseGate } from '../../support/actors/test-actor-node.ts'
import {
  startInProcessTestStation,
  type TestAgent,
  type InProcessStation,
} from '../../support/station/start-test-station.ts'
import {
  startOwnerAlertNodes,
  setOwnerContact,
  postAgentCreditTransfer,
} from '../../support/mail/start-two-owner-alert-test-stations.ts'

const TOOL = 'hive_trending'

t.test('each threshold alerts once, and again after twelve hours, with two nodes', async (t) => {
  const { mails, chats, clock, one, two } = await startOwnerAlertNodes(t)
  const [her, rich] = [await one.onboard(0.26), await one.onboard()]
  await setOwnerContact(one, her, { owner_email: 'owner@gas.test', owner_telegram: '4711' })
  const spend = async (calls: number) => {
    for (let call = 0; call < calls; call += 1) await (call % 2 === 0 ? one : two).call(her, TOOL)
    await waitUntilOwnerAlertsDispatched(one)
  }
  const told = () => [mails.letters.length, chats.messages.length]
  await spend(1)
  t.strictSame(told(), [0, 0], 'above it nothing is said')
  await spend(1)
  t.strictSame(told(), [1, 0], '0.25: by e-mail')
  t.match(mails.letters[0], {
    to: ['owner@gas.test'],
    from: 'gas-station@gas.test',
    subject: /0.25 USDC left/,
  })
  const { body: me } = await one.ask('GET', '/api/agent/me', { key: her.key })
  const text = mails.letters[0]?.raw.replace(/=\r\n/g, '').replace(/=3D/g, '=') ?? ''
  t.ok(text.includes(`gas grant ${her.id} <usdc>`), 'with what gives it credits here')
  t.notOk(text.includes(String(me['wallet_address'])), 'deposits are off')
  await spend(40)
  t.strictSame(told(), [2, 1], '0.05: by e-mail and in the chat')
  t.match(chats.messages[0], { chat: '4711', text: /0.05 USDC left/ })
  await spend(10)
  t.equal(await one.balance(her), 0)
  t.strictSame(told(), [2, 1], 'from there to nothing no threshold is crossed')
  await postAgentCreditTransfer(two, rich, her, 0.26)
  await spend(42)
  t.strictSame(told(), [2, 1], 'the same again within twelve hours is not repeated')
  clock.pass(12 * HOUR - MINUTE)
  await postAgentCreditTransfer(two, rich, her, 0.22)
  await spend(6)
  t.strictSame(told(), [2, 1])
  clock.pass(2 * MINUTE)
  await postAgentCreditTransfer(one, rich, her, 0.02)
  await spend(1)
  t.equal(await one.balance(her), 0.255)
  await spend(1)
  t.strictSame(told(), [3, 1], 'after twelve hours it is')
  t.match(
    await one.sql`select level, channel from alert_cooldowns where agent_id = ${her.id} order by 1, 2`,
    [
      { level: 'critical', channel: 'email' },
      { level: 'critical', channel: 'telegram' },
      { level: 'warning', channel: 'email' },
    ],
  )
  await one.verify()
})

t.test('a fall through both thresholds sends one alert, the more severe', async (t) => {
  const { mails, chats, one } = await startOwnerAlertNodes(t)
  const [her, rich] = [await one.onboard(0.3), await one.onboard()]
  await setOwnerContact(one, her, { owner_email: 'owner@gas.test', owner_telegram: '4711' })
  await postAgentCreditTransfer(one, her, rich, 0.28)
  await waitUntilOwnerAlertsDispatched(one)
  t.match(
    mails.letters.map(({ subject }) => subject),
    [/about to stop: 0.02 USDC/],
  )
  t.equal(chats.messages.length, 1)
})

t.test('a channel whose alerts cannot be claimed delays no other', async (t) => {
  const { mails, chats, one } = await startOwnerAlertNodes(t)
  const [her, rich] = [await one.onboard(0.3), await one.onboard()]
  await setOwnerContact(one, her, { owner_email: 'owner@gas.test', owner_telegram: '4711' })
  await one.sql.unsafe(`create function refuse() returns trigger language plpgsql as
    $$ begin raise exception 'refused'; end $$;
    create trigger refuse before update on alerts for each row when (new.channel = 'email')
      execute function refuse()`)
  await postAgentCreditTransfer(one, her, rich, 0.28)
  await eventually(() => chats.messages.length === 1, 'the chat message')
  t.equal(mails.letters.length, 0)
  await one.sql`drop trigger refuse on alerts`
  await eventually(() => mails.letters.length === 1, 'the e-mail')
})

t.test('without e-mail and chat nothing fails, and the profile reports it', async (t) => {
  const main = await startInProcessTestStation(t)
  const her = await main.onboard(0.255)
  const health = await main.ask('GET', '/api/network/health')
  t.match(health, {
    status: 200,
    body: {
      status: 'ok',
      dependencies: {
        mail: { ok: true, kind: 'disabled: no SMTP_URL' },
        chat: { ok: true, kind: 'disabled: no TELEGRAM_BOT_TOKEN' },
      },
    },
  })
  const me = async () => (await main.ask('GET', '/api/agent/me', { key: her.key })).body['ping']
  t.match(await me(), { email: false, telegram: false, can_send: { email: false }, last: null })
  const ping = (message: string) =>
    main.ask('POST', '/api/agent/ping-owner', { key: her.key, json: { message } })
  t.match(await ping('hello'), {
    status: 409,
    body: { code: 'no_owner_contact', remedy: { action: 'set_contact' } },
  })
  await setOwnerContact(main, her, { owner_email: 'owner@gas.test', owner_telegram: '4711' })
  t.match(await ping('hello'), { status: 503, body: { code: 'chat_unavailable' } })
  t.equal((await main.call(her, TOOL)).status, 200)
  await waitUntilOwnerAlertsDispatched(main)
  t.match(await me(), {
    email: true,
    telegram: true,
    last: { topic: 'low_balance.warning', state: 'not_sent', reason: 'no SMTP_URL' },
  })
  const { status, body } = await main.ask('POST', '/api/agent/recommend', { key: her.key })
  t.match(
    { status, body },
    {
      status: 200,
      body: { sent: [{ channel: 'email', status: 'not_sent', reason: 'no SMTP_URL' }, {}] },
    },
  )
})

t.test('an agent writes to its owner’s chat, ten times an hour', async (t) => {
  const { chats, clock, one, two } = await startOwnerAlertNodes(t)
  const her = await one.onboard()
  await setOwnerContact(one, her, { owner_telegram: '4711' })
  const ping = (main: InProcessStation, message: string, headers = {}) =>
    main.ask('POST', '/api/agent/ping-owner', { key: her.key, json: { message }, headers })
  const before = await one.balance(her)
  t.match(await ping(one, 'I am done.'), {
    status: 200,
    body: { channel: 'telegram', status: 'sent' },
  })
  t.match(chats.messages, [{ chat: '4711', text: /tester[^]*I am done\.$/ }], 'it is there at once')
  t.equal(await one.balance(her), before, 'and free')
  const key = { 'idempotency-key': 'ping-1' }
  const [first, again] = [await ping(one, 'once', key), await ping(one, 'once', key)]
  t.equal(again.body['message_id'], first.body['message_id'])
  t.equal(chats.messages.length, 2)

  chats.mood.answer = () => ({
    status: 429,
    body: { ok: false, error_code: 429, description: 'Too Many', parameters: { retry_after: 30 } },
  })
  t.match(await ping(two, 'later'), { status: 200, body: { status: 'queued' } })
  chats.mood.answer = () => null
  clock.pass(29 * SECOND)
  t.equal(chats.messages.length, 2)
  clock.pass(2 * SECOND)
  await eventually(() => chats.messages.length === 3, 'the message')
  chats.mood.answer = () => ({
    status: 400,
    body: { ok: false, error_code: 400, description: 'Bad Request: chat not found' },
  })
  t.match(await ping(one, 'nobody'), {
    status: 422,
    body: { code: 'owner_unreachable', reason: /chat not found/ },
  })
  chats.mood.answer = () => null
  for (let times = 0; times < 6; times += 1) t.equal((await ping(one, 'x')).status, 200)
  const full = await ping(two, 'one too many')
  t.match(full, { status: 429, body: { code: 'rate_limited' } })
  t.ok(full.body.retry_after > 0 && full.body.retry_after <= 3_600)
  clock.pass(HOUR)
  t.equal((await ping(two, 'the next hour')).status, 200)
  t.notMatch(full.text, /test-token/)
  const { body } = await one.ask('GET', '/api/agent/me', { key: her.key })
  t.match(body['ping'], { last: { topic: 'ping', channel: 'telegram', state: 'sent' } })
})

t.test('a recommendation matches the ledger and is sent', async (t) => {
  const { mails, chats, clock, one } = await startOwnerAlertNodes(t)
  const her = await one.onboard()
  await setOwnerContact(one, her, { owner_email: 'owner@gas.test', owner_telegram: '4711' })
  const ask = () => one.ask('POST', '/api/agent/recommend', { key: her.key })
  t.match(await ask(), { status: 200, body: { burn_usdc_per_day: 0, days_left: null } })
  for (let calls = 0; calls < 20; calls += 1) await one.call(her, TOOL)
  await one.call(her, 'hive_read', { query: 'x' })
  clock.pass(10 * MINUTE)
  const early = (await ask()).body
  t.match(early, { days: 0.01, basis: 'too_short', burn_usdc_per_day: null, days_left: null })
  t.match(early['message'], /0.1 USDC in its first 1\d minutes\..*cannot be said before a day/)
  clock.pass(48 * HOUR - 10 * MINUTE)
  await waitUntilOwnerAlertsDispatched(one)
  const before = [mails.letters.length, chats.messages.length]
  const { body } = await ask()
  t.match(body, {
    balance_usdc: 0.4,
    spent_usdc: 0.1,
    days: 2,
    basis: 'usage',
    burn_usdc_per_day: 0.05,
    days_left: 8,
    suggested_topup_usdc: 5,
    tools: [
      { tool: TOOL, calls: 20, cost_usdc: 0.1 },
      { tool: 'hive_read', calls: 1, cost_usdc: 0 },
    ],
    fund_url: `http://gas.test/fund/${her.id}`,
    sent: [
      { channel: 'email', status: 'queued' },
      { channel: 'telegram', status: 'queued' },
    ],
  })
  await waitUntilOwnerAlertsDispatched(one)
  t.strictSame(
    [mails.letters.length, chats.messages.length],
    before.map((n) => n + 1),
  )
  const message = String(body['message'])
  t.ok(chats.messages.at(-1)?.text.endsWith(message))
  t.match(
    message,
    /0.05 USDC a day.*hive_trending \(20 calls, 0.1 USDC\).*about 8 days.*top-up: 5 USDC/s,
  )
})

t.test('a busy mail server is retried, a rejecting one is not', async (t) => {
  const { mails, clock, one } = await startOwnerAlertNodes(t)
  const [her, him] = [await one.onboard(0.255), await one.onboard(0.255)]
  await setOwnerContact(one, her, { owner_email: 'owner@gas.test' })
  await setOwnerContact(one, him, { owner_email: 'gone@gas.test' })
  const last = async ({ key }: TestAgent) =>
    (await one.ask('GET', '/api/agent/me', { key })).body['ping'] as { last: { state: string } }
  mails.mood.refuse = 451
  await one.call(her, TOOL)
  await eventually(async () => {
    const [row] = await one.sql`select attempts from alerts where lease_until is null`
    return row?.['attempts'] === 1
  }, 'the first attempt')
  t.match((await last(her)).last, { state: 'pending', reason: 'smtp 451' })
  t.match((await one.ask('GET', '/api/network/health')).body, {
    dependencies: { mail: { ok: false, detail: 'smtp 451' } },
  })
  mails.mood.refuse = null
  clock.pass(5 * SECOND)
  await eventually(async () => (await last(her)).last.state === 'sent', 'the second attempt')
  t.equal(mails.letters.length, 1)
  mails.mood.refuse = 550
  await one.call(him, TOOL)
  await eventually(async () => (await last(him)).last?.state === 'failed', 'the refusal')
  t.match((await last(him)).last, { reason: 'smtp 550' })
  mails.mood.refuse = null
  const tired = await one.onboard(0.255)
  await setOwnerContact(one, tired, { owner_email: 'Tired@gas.test' })
  await one.sql`insert into mail_suppressions (address, reason) values ('tired@gas.test', 'asked')`
  await one.call(tired, TOOL)
  await eventually(async () => (await last(tired)).last?.state === 'failed', 'that it is unwanted')
  t.match((await last(tired)).last, { reason: 'unwanted' })
  t.equal(mails.letters.length, 1)
})

t.test(
  'a slow mail server gets each message once, despite reservations of another node',
  async (t) => {
    const { mails, clock, one } = await startOwnerAlertNodes(t)
    const guests = await Promise.all([1, 2, 3, 4, 5, 6, 7].map(() => one.onboard(0.255)))
    const held = createTestPauseGate()
    mails.mood.holds = () => held.pass()
    for (const [at, guest] of guests.entries()) {
      await setOwnerContact(one, guest, { owner_email: `owner${at}@gas.test` })
      await one.call(guest, TOOL)
    }
    await held.reached
    await eventually(async () => {
      const [row] = await one.sql`select count(*)::int as n from alerts where state = 'pending'`
      return row?.['n'] === guests.length
    }, 'all messages')
    const leased = () =>
      one.sql<
        { until: Date }[]
      >`select lease_until as until from alerts where lease_until is not null`
    await eventually(async () => (await leased()).length === 4, 'two of each node')
    for (let step = 0; step < 4; step += 1) {
      clock.pass(25 * SECOND)
      await eventually(
        async () =>
          (await leased()).every(({ until }) => until.getTime() > clock.now() + 40 * SECOND),
        'that they are kept',
      )
    }
    t.equal((await leased()).length, 4, 'what cannot be sent now is not reserved')
    held.open()
    await waitUntilOwnerAlertsDispatched(one)
    const to = mails.letters.flatMap((letter) => letter.to)
    t.strictSame(
      to.sort(),
      guests.map((_, at) => `owner${at}@gas.test`),
    )
  },
)

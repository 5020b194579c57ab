import t, { type Test } from 'tap'
import { DAY, HOUR, MINUTE, SECOND } from '../../../core/clock.ts'
import { LIMITS } from '../../../core/limits.ts'
import {
  startTestTelegram,
  eventually,
  startTestMailServer,
  waitUntilOwnerAlertsDispatched,
} from '../../support/mail/test-mail-and-telegram-servers.ts'
import { createTestPauseGate, createTestClock } from '../../support/actors/test-actor-node.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'

const TOOL = 'hive_trending'

/** A node that can write to people, and those people. */
async function post(t: Test) {
  const [mails, chats] = [await startTestMailServer(t), await startTestTelegram(t)]
  const chat = { TELEGRAM_BOT_TOKEN: chats.token, TELEGRAM_BASE: chats.base }
  const clock = createTestClock()
  const main = await startInProcessTestStation(t, { SMTP_URL: mails.url, ...chat }, { clock })
  return {
    mails,
    chats,
    clock,
    main,
    contact: ({ key }: TestAgent, json: object) =>
      main.ask('POST', '/api/agent/set-contact', { key, json }),
    ping: ({ key }: TestAgent, message: string) =>
      main.ask('POST', '/api/agent/ping-owner', { key, json: { message } }),
  }
}

t.test('a threshold alert that could not be sent is sent at the next fall', async (t) => {
  const { mails, main, contact } = await post(t)
  const [her, rich] = [await main.onboard(0.255), await main.onboard()]
  mails.mood.unknown['wrong@gas.test'] = '5.1.1 no such mailbox'
  await contact(her, { owner_email: 'wrong@gas.test' })
  const fall = async (calls = 2) => {
    for (let call = 0; call < calls; call += 1) await main.call(her, TOOL)
    await waitUntilOwnerAlertsDispatched(main)
  }
  const rise = async () => {
    const json = { to_agent_id: her.id, amount_usdc: 0.01 }
    await main.ask('POST', '/api/agent/send', { key: rich.key, json })
    t.equal(await main.balance(her), 0.26)
  }
  await fall(1)
  t.equal(mails.letters.length, 0)
  await contact(her, { owner_email: 'right@gas.test' })
  await rise()
  await fall()
  t.match(mails.letters, [{ to: ['right@gas.test'], subject: /0.25 USDC left/ }])
  await rise()
  await fall()
  t.equal(mails.letters.length, 1, 'and then not again')
})

t.test('pending alerts go to the owner’s current address', async (t) => {
  const { mails, clock, main, contact } = await post(t)
  const guests = [await main.onboard(0.255), await main.onboard(0.255)]
  mails.mood.refuse = 451
  for (const [at, guest] of guests.entries()) {
    await contact(guest, { owner_email: `old${at}@gas.test` })
    await main.call(guest, TOOL)
  }
  await eventually(async () => {
    const rows = await main.sql`select from alerts where attempts = 1 and lease_until is null`
    return rows.length === 2
  }, 'the first attempts')
  const [moved, gone] = guests
  if (moved === undefined || gone === undefined) throw new Error('the owner has no contact')
  await contact(moved, { owner_email: 'new@gas.test' })
  await contact(gone, { owner_email: null })
  mails.mood.refuse = null
  clock.pass(5 * SECOND)
  await waitUntilOwnerAlertsDispatched(main)
  t.strictSame(
    mails.letters.map(({ to }) => to),
    [['new@gas.test']],
  )
  const { body } = await main.ask('GET', '/api/agent/me', { key: gone.key })
  t.match(body['ping'], { last: { state: 'failed', reason: 'no contact' } })
})

t.test('a message is reported as sent only after the chat accepted it', async (t) => {
  const { chats, main, contact, ping } = await post(t)
  const her = await main.onboard()
  await contact(her, { owner_telegram: '4711' })
  // Another node is faster, each time.
  await main.sql.unsafe(`
    create function taken() returns trigger language plpgsql as
      $$ begin new.lease_until := now() + interval '1 hour'; return new; end $$;
    create trigger taken before insert on alerts for each row execute function taken()`)
  t.match(await ping(her, 'hello'), { status: 200, body: { status: 'queued' } })
  t.equal(chats.messages.length, 0)
})

t.test('a slow chat gets each message once', async (t) => {
  const { chats, clock, main, contact, ping } = await post(t)
  const her = await main.onboard()
  await contact(her, { owner_telegram: '4711' })
  const held = createTestPauseGate()
  chats.mood.holds = () => held.pass()
  t.match(await ping(her, 'hello'), { status: 200, body: { status: 'queued' } })
  for (let step = 0; step < 3; step += 1) {
    clock.pass(25 * SECOND)
    await eventually(async () => {
      const [row] = await main.sql<
        { until: Date | null }[]
      >`select lease_until as until from alerts`
      return (row?.until?.getTime() ?? 0) > clock.now() + 40 * SECOND
    }, 'that it is still being sent')
  }
  held.open()
  await eventually(async () => {
    const { body } = await main.ask('GET', '/api/agent/me', { key: her.key })
    return (body['ping'] as { last: { state: string } }).last.state === 'sent'
  }, 'the end of it')
  t.equal(chats.messages.length, 1)
})

t.test('an excessive retry delay of a chat is capped', async (t) => {
  const { chats, clock, main, contact, ping } = await post(t)
  const her = await main.onboard()
  await contact(her, { owner_telegram: '4711' })
  for (const retry_after of [1e300, 366 * 86_400, -7]) {
    const parameters = { retry_after }
    chats.mood.answer = () => ({ status: 429, body: { description: 'a\u0000b', parameters } })
    t.match(await ping(her, 'hello'), { status: 200, body: { status: 'queued' } })
  }
  chats.mood.answer = () => null
  clock.pass(DAY)
  await eventually(() => chats.messages.length === 3, 'all of them')
})

t.test(
  'a connection that breaks before sending delays the message by its lease only',
  async (t) => {
    const { chats, clock, main, contact, ping } = await post(t)
    const her = await main.onboard()
    await contact(her, { owner_telegram: '4711' })
    chats.mood.answer = () => ({ status: 500, body: {} })
    t.match(await ping(her, 'hello'), { status: 200, body: { status: 'queued' } })
    chats.mood.answer = () => null
    await main.sql.begin(async (tx) => {
      await tx`lock table agents in access exclusive mode`
      clock.pass(5 * SECOND)
      await eventually(async () => {
        const cut = await main.sql`
        select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock' and query like '%agents%'`
        return cut.length > 0
      }, 'the look at its owner')
    })
    clock.pass(MINUTE + SECOND)
    await eventually(() => chats.messages.length === 1, 'the message')
  },
)

t.test('an address has one limit in every spelling', async (t) => {
  const { mails, chats, clock, main, contact, ping } = await post(t)
  const her = await main.onboard()
  const at = new Date(clock.now() - HOUR)
  for (const [channel, address] of [
    ['email', 'owner@gas.test'],
    ['telegram', '4711'],
  ] as const)
    await main.sql`
      insert into alerts (id, key, agent_id, topic, channel, address, subject, body, state, due_at,
                          created_at, settled_at)
      select ${channel} || n, ${channel} || n, ${her.id}, 'told', ${channel}, ${address}, '', '',
             'sent', ${at}, ${at}, ${at}
        from generate_series(1, ${LIMITS.ownerMessagesPerDay}::int) n`
  await contact(her, { owner_email: 'Owner@GAS.test', owner_telegram: '004711' })
  t.match(await ping(her, 'hello'), { status: 200, body: { status: 'queued' } })
  await main.ask('POST', '/api/agent/recommend', { key: her.key })
  const made = await main.ask('POST', '/api/backpack/create', {
    key: her.key,
    json: {
      agent_name: 'scout',
      pager: { owner_email: 'oWNER@gas.test', owner_telegram: '04711' },
    },
  })
  t.equal(made.status, 200)
  await eventually(async () => {
    const rows =
      await main.sql`select from alerts where state = 'pending' and reason like 'too many%'`
    return rows.length === 5
  }, 'that all of them wait')
  t.strictSame([mails.letters.length, chats.messages.length], [0, 0])
  clock.pass(DAY + MINUTE)
  await eventually(() => chats.messages.length > 0, 'their turn')
})

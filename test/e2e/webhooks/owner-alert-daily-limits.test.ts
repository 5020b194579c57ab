import t from 'tap'
import { DAY, HOUR } from '../../../core/clock.ts'
import { LIMITS } from '../../../core/limits.ts'
import {
  eventually,
  waitUntilOwnerAlertsDispatched,
} from '../../support/mail/test-mail-and-telegram-servers.ts'
import { type TestAgent, type InProcessStation } from '../../support/station/start-test-station.ts'
import {
  startOwnerAlertNodes,
  setOwnerContact,
  postAgentCreditTransfer,
} from '../../support/mail/start-two-owner-alert-test-stations.ts'

const TOOL = 'hive_trending'

/** The given number of sent messages of an agent today. */
const toldToday = (
  main: InProcessStation,
  agentId: string,
  { count, at, critical = false }: { count: number; at: number; critical?: boolean },
) => main.sql`
  insert into alerts (id, key, agent_id, topic, channel, address, subject, body, critical, state,
                      due_at, created_at, settled_at)
  select ${agentId} || critical || n, ${agentId} || critical || n, ${agentId}, 'told', 'email',
         'owner@gas.test', '', '', critical, 'sent', at, at, at
    from generate_series(1, ${count}::int) n,
         (select ${critical}::boolean as critical, ${new Date(at)}::timestamptz as at) x`

t.test(
  'strangers do not use up the limit of an address that its owner has confirmed',
  async (t) => {
    const { mails, clock, one } = await startOwnerAlertNodes(t)
    const [her, unconfirmed, stranger] = [
      await one.onboard(0.06),
      await one.onboard(),
      await one.onboard(),
    ]
    for (const guest of [her, unconfirmed])
      await setOwnerContact(one, guest, { owner_email: 'owner@gas.test' })
    await waitUntilOwnerAlertsDispatched(one)
    await one.sql`insert into confirmed_contacts
    select agent_id, 'owner@gas.test', id, now() from api_keys where agent_id = ${her.id} limit 1`
    const count = LIMITS.addressMessagesPerDay
    await toldToday(one, stranger.id, { count, at: clock.now() - HOUR })
    const before = mails.letters.length
    const advise = ({ key }: TestAgent) => one.ask('POST', '/api/agent/recommend', { key })
    await advise(unconfirmed)
    const [waits] = [
      () =>
        one.sql`select from alerts where agent_id = ${unconfirmed.id} and reason like '%too many%'`,
    ]
    await eventually(async () => (await waits()).length === 1, 'the delay of the other one')
    await advise(her)
    await eventually(() => mails.letters.length - before === 1, 'the message of the confirmed one')
  },
)

t.test('alerts of one agent do not use up the owner’s limit for another agent', async (t) => {
  const { mails, clock, one } = await startOwnerAlertNodes(t)
  const [her, stranger] = [await one.onboard(0.06), await one.onboard()]
  for (const guest of [her, stranger])
    await setOwnerContact(one, guest, { owner_email: 'owner@gas.test' })
  await waitUntilOwnerAlertsDispatched(one)
  const before = mails.letters.length
  const told = () => mails.letters.length - before
  const advise = ({ key }: TestAgent) => one.ask('POST', '/api/agent/recommend', { key })
  const waitingOf = ({ id }: TestAgent) => one.sql<{ reason: string; due_at: Date }[]>`
    select reason, due_at from alerts where agent_id = ${id} and state = 'pending' order by due_at`
  const full = { count: LIMITS.ownerMessagesPerDay, at: clock.now() - HOUR }

  await toldToday(one, stranger.id, full)
  for (const wanted of [1, 2]) {
    t.match(await advise(stranger), { status: 200, body: { sent: [{ status: 'queued' }] } })
    await eventually(
      async () => (await waitingOf(stranger)).filter(({ reason }) => reason).length === wanted,
      'the delay',
    )
  }
  const waiting = await waitingOf(stranger)
  t.match(waiting, [{ reason: /too many/ }, { reason: /too many/ }])
  const [first = 0, second = 0] = waiting.map(({ due_at: at }) => at.getTime())
  t.equal(first, full.at + DAY, 'when there is room again')
  t.equal(second - first, DAY / LIMITS.ownerMessagesPerDay, 'one after the other')
  await advise(her)
  await eventually(() => told() === 1, 'the message about another agent')

  await toldToday(one, her.id, full)
  await advise(her)
  t.equal((await one.call(her, TOOL)).status, 200)
  t.equal((await one.call(her, TOOL)).status, 200)
  await eventually(() => told() === 2, 'what must be heard at once')
  t.match(mails.letters.at(-1)?.subject, /is about to stop/)
  await eventually(async () => (await waitingOf(her)).length === 1, 'the other message alone')

  for (let agent = 0; agent < 10; agent += 1)
    await toldToday(one, `agent-${agent}`, { count: 100, at: clock.now() })
  const third = await one.onboard(0.06)
  await waitUntilOwnerAlertsDispatched(one, 3)
  await setOwnerContact(one, third, { owner_email: 'owner@gas.test' })
  await advise(third)
  await eventually(async () => (await waitingOf(third))[0]?.reason !== null, 'the larger bound')
  await postAgentCreditTransfer(one, third, stranger, 0.04)
  await eventually(() => told() === 3, 'what must be heard at once')

  clock.pass(DAY + HOUR)
  await eventually(() => told() === 7, 'what had to wait')
  await waitUntilOwnerAlertsDispatched(one)
})

t.test('urgent alerts have their own limit', async (t) => {
  const { mails, clock, one } = await startOwnerAlertNodes(t)
  const her = await one.onboard(0.06)
  await setOwnerContact(one, her, { owner_email: 'owner@gas.test' })
  await waitUntilOwnerAlertsDispatched(one)
  const before = mails.letters.length
  const at = clock.now() - HOUR
  await toldToday(one, her.id, { count: LIMITS.ownerCriticalPerDay, at, critical: true })
  const queue = (days: number) => one.sql`
    insert into alerts (id, key, agent_id, topic, channel, address, subject, body, critical, state,
                        due_at, created_at)
    select 'far' || ${days}::int, 'far' || ${days}::int, ${her.id}, 'far', 'email',
           'owner@gas.test', '', '', true, 'pending', at, at
      from (select ${new Date(clock.now() + days * DAY)}::timestamptz as at) x`
  const rich = await one.onboard()
  await postAgentCreditTransfer(one, her, rich, 0.03)
  const last = async () => {
    const { body } = await one.ask('GET', '/api/agent/me', { key: her.key })
    return (body['ping'] as { last: { state: string; reason: string | null } }).last
  }
  await eventually(async () => (await last()).reason !== null, 'the delay')
  t.match(await last(), { state: 'pending', reason: /too many/ })
  await queue(LIMITS.ownerWaitDays)
  await one.sql`update alerts set due_at = ${new Date(clock.now())} where topic = 'low_balance.critical'`
  await eventually(async () => {
    const [row] = await one.sql`select state from alerts where topic = 'low_balance.critical'`
    return row?.['state'] === 'failed'
  }, 'the end of it')
  t.equal(mails.letters.length, before)
})

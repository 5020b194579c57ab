import { randomUUID } from 'node:crypto'
import t from 'tap'
import { HOUR, MINUTE, SECOND } from '../../../core/clock.ts'
import { parseMasterKey, deriveEncryptionKey } from '../../../core/key-derivation-and-encryption.ts'
import { createOutboxEventRoutingStore } from '../../../persistence/webhooks/outbox-event-routing-store.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import { startPostgresFaultProxy } from '../../support/postgres/postgres-fault-proxy.ts'
import {
  webhookDeliveredCallIds,
  fetchWebhookDeliveries,
  waitForIdleWebhooks,
  settingsAllowingWebhookReceivers,
  registerTestWebhook,
  waitForWebhookDeliveries,
} from '../../support/webhooks/test-webhook-registration-and-deliveries.ts'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import {
  dripReply,
  gigabyteWebhookReply,
  hangReply,
  startWebhookReceivers,
  resetWebhookConnection,
} from '../../support/webhooks/test-webhook-receivers.ts'
import { createTestPauseGate, createTestClock } from '../../support/actors/test-actor-node.ts'
import { createOperatorDeadLetterStore } from '../../../app/cli/operator/cli-dead-letters.ts'
import {
  spawnTestStationProcess,
  startInProcessTestStation,
} from '../../support/station/start-test-station.ts'
import { startFixtureServer } from '../../support/upstreams/fixture-server.ts'
import { createStationDataDir } from '../../support/station/temporary-station-data-directory.ts'

const TOOL = 'hive_trending'
/** Tells an answer from a hang. */
const CALL_TIMEOUT_MS = 8_000
/** Capacity of two sockets without a reader; distinguishes a truncated response from a read one. */
const MAX_BYTES_IN_FLIGHT = 64 * 1024 * 1024

t.test('a failing receiver delays only its own deliveries, and no call waits', async (t) => {
  const house = await startWebhookReceivers(t)
  const inner = await startFixtureServer(t, (_, response) => response.end('secret'))
  const names: Record<string, number> = {}
  const main = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house), {
    // A public address when it is registered, a private one ever after.
    resolve: async (name) => {
      names[name] = (names[name] ?? 0) + 1
      const address = names[name] === 1 ? '93.184.216.34' : '127.0.0.1'
      return [{ address, family: 4 }]
    },
  })
  const guest = await main.onboard()
  const elsewhere: typeof hangReply = (response) => {
    response.writeHead(307, { location: `${inner.base}/` }).end()
    return 307
  }
  const bad = {
    '/hang': [hangReply, null, /timeout/],
    '/drip': [dripReply, null, /timeout/],
    '/reset': [resetWebhookConnection, null, /upstream_error/],
    '/500': [500, 500, null],
    '/redirect': [elsewhere, 307, null],
  } as const
  const hooks = new Map<string, Awaited<ReturnType<typeof registerTestWebhook>>>()
  for (const [path, [manner]] of Object.entries(bad)) {
    house.answers(path, manner)
    hooks.set(path, await registerTestWebhook(main, house, guest, path))
  }
  const poured: number[] = []
  house.answers('/flood', gigabyteWebhookReply(poured))
  const flooded = await registerTestWebhook(main, house, guest, '/flood')
  const rebound = { base: `http://rebind.example:${inner.port}` }
  const rebinding = await registerTestWebhook(main, rebound, guest, '/')
  const well = await registerTestWebhook(main, house, guest, '/well')
  const calls: string[] = []
  for (let times = 0; times < 5; times += 1) {
    const answer = await main.call(guest, TOOL)
    t.ok(answer.ms < CALL_TIMEOUT_MS)
    calls.push(answer.body._meta.call_id)
  }
  await house.until(() => house.taken('/well').length === 5)
  t.strictSame(webhookDeliveredCallIds(house, '/well'), calls)
  t.equal(house.at('/hang').length, 1, 'while another still hangs')
  for (const [path, [, status, error]] of Object.entries(bad)) {
    const hook = hooks.get(path) ?? well
    await eventually(
      async () =>
        Number((await fetchWebhookDeliveries(main, guest, hook)).at(-1)?.['attempts']) > 0,
      `the first attempt at ${path}`,
    )
    const first = (await fetchWebhookDeliveries(main, guest, hook)).at(-1)
    t.match(first, { state: 'pending', last_status: status }, path)
    if (error !== null) t.match(String(first?.['last_error']), error, path)
    t.ok(
      Number(first?.['last_ms']) < CALL_TIMEOUT_MS,
      `${path} took ${Number(first?.['last_ms'])} ms`,
    )
  }
  await waitForWebhookDeliveries(main, guest, flooded)
  t.equal(house.taken('/flood').length, 5, 'what was taken is not sent again, whatever follows it')
  await eventually(() => poured.length === 5, 'the end of what it answers')
  t.ok(Math.max(...poured) < MAX_BYTES_IN_FLIGHT, `cut after ${poured.join(', ')} bytes`)
  await eventually(
    async () =>
      Number((await fetchWebhookDeliveries(main, guest, rebinding)).at(-1)?.['attempts']) > 0,
    'an attempt at the name that moved',
  )
  t.match((await fetchWebhookDeliveries(main, guest, rebinding)).at(-1), {
    last_status: null,
    last_error: /^blocked_url/,
  })
  t.strictSame(inner.requests, [], 'nothing inside was reached, by name or by redirect')
  const metrics = await main.ask('GET', '/metrics')
  t.match(metrics.text, /webhook_deliveries\{figure="pending"\} [1-9]/)
  t.match(metrics.text, /webhook_attempt_seconds_count\{outcome="unanswered"\} [1-9]/)
  t.match(await main.ask('GET', '/api/network/health'), {
    status: 200,
    body: { dependencies: { webhooks: { ok: true } } },
  })
  await main.verify()
})

t.test('a message that is always rejected delays later ones only for a while', async (t) => {
  const house = await startWebhookReceivers(t)
  const clock = createTestClock()
  const main = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house), {
    clock,
  })
  const guest = await main.onboard()
  const hook = await registerTestWebhook(main, house, guest, '/picky', ['tool_call'])
  let poison = ''
  house.answers('/picky', (response, { data }) => {
    poison ||= String(data['call_id'])
    const status = data['call_id'] === poison ? 500 : 200
    response.writeHead(status).end()
    return status
  })
  const calls: string[] = []
  for (let times = 0; times < 3; times += 1)
    calls.push((await main.call(guest, TOOL)).body._meta.call_id)
  await house.until(() => house.at('/picky').length === 1)
  for (const pause of [5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR]) {
    await waitForIdleWebhooks(main)
    const before = house.at('/picky').length
    t.equal(house.taken('/picky').length, 0)
    clock.pass(pause)
    await house.until(() => house.at('/picky').length > before)
  }
  await house.until(() => house.taken('/picky').length === 2)
  t.strictSame(webhookDeliveredCallIds(house, '/picky'), calls.slice(1))
  for (const pause of [5, 10, 10]) {
    await waitForIdleWebhooks(main)
    const before = house.at('/picky').length
    clock.pass(pause * HOUR)
    await house.until(() => house.at('/picky').length > before)
  }
  await waitForWebhookDeliveries(main, guest, hook)
  const first = (await fetchWebhookDeliveries(main, guest, hook)).at(-1)
  t.match(first, { state: 'failed', attempts: 8, last_status: 500 })
  t.match(await main.sql`select kind, reason from dead_letters`, [
    { kind: 'webhook', reason: 'answered 500' },
  ])
})

t.test(
  'on several nodes each delivery is sent once and in order, and after the lease for a dead node',
  async (t) => {
    const house = await startWebhookReceivers(t)
    const clock = createTestClock()
    const one = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house), {
      clock,
    })
    const two = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house), {
      clock,
      database: one.database,
    })
    const guest = await one.onboard()
    const hook = await registerTestWebhook(one, house, guest, '/both', ['tool_call'])
    await registerTestWebhook(one, house, guest, '/other', ['tool_call'])
    const calls: string[] = []
    for (let times = 0; times < 20; times += 1) {
      const at = times % 2 === 0 ? one : two
      calls.push((await at.call(guest, TOOL)).body._meta.call_id)
    }
    await waitForWebhookDeliveries(one, guest, hook)
    t.strictSame(webhookDeliveredCallIds(house, '/both'), calls)
    t.equal(new Set(house.at('/both').map(({ id }) => id)).size, calls.length)
    // A node that holds the lease of the receiver and never reports an outcome.
    const until = new Date(clock.now() + 30 * SECOND)
    await waitForIdleWebhooks(one)
    await one.sql`update webhooks set lease = ${randomUUID()}, lease_until = ${until} where id = ${hook.id}`
    // Who is due at the same time gets both of them, one after the other.
    for (const at of [two, one]) {
      calls.push((await at.call(guest, TOOL)).body._meta.call_id)
      await house.until(() => house.taken('/other').length === calls.length)
    }
    t.equal(house.at('/both').length, 20, 'it is left to that node')
    clock.pass(31 * SECOND)
    await waitForWebhookDeliveries(one, guest, hook)
    t.strictSame(webhookDeliveredCallIds(house, '/both'), calls, 'and done when its time is over')
  },
)

t.test('an event committed after a later one is not skipped', async (t) => {
  const { sql } = await createTestDatabase(t)
  const key = deriveEncryptionKey(parseMasterKey(Buffer.alloc(32, 7).toString('base64')), 'webhook')
  const [one, two] = [
    createOutboxEventRoutingStore(sql, key),
    createOutboxEventRoutingStore(sql, key),
  ]
  const handed: unknown[] = []
  const look = (node: typeof one) =>
    node.next(async (_tx, facts) => void handed.push(...facts.map(({ data }) => data['n'])))
  const fact = async (db: Pick<typeof sql, 'unsafe'>, n: number) => {
    await db.unsafe('select pg_current_xact_id()')
    await db.unsafe(
      `insert into outbox (agent_id, type, data, at) values ('a', 'topup', '{"n":${n}}', now())`,
    )
  }
  const [early, written] = [createTestPauseGate(), createTestPauseGate()]
  const slow = sql.begin(async (tx) => {
    await fact(tx, 1)
    written.open()
    await early.pass()
  })
  await written.pass()
  const undone = sql.begin(async (tx) => {
    await fact(tx, 0)
    throw new Error('undone')
  })
  await t.rejects(undone)
  await sql.begin((tx) => fact(tx, 2))
  for (const node of [one, two, one, two]) t.equal(await look(node), 0)
  t.ok(one.waits())
  early.open()
  await slow
  // The transactions of other tests share the cluster: a hole stays open until they end.
  await eventually(async () => {
    await look(one)
    await look(two)
    return handed.length >= 2
  }, 'both facts')
  for (const node of [one, two]) t.equal(await look(node), 0)
  t.strictSame(handed, [1, 2], 'each once, in order')
  await sql.begin((tx) => fact(tx, 3))
  const dies = one.next(async () => {
    throw new Error('a node dies')
  })
  await t.rejects(dies, { message: 'a node dies' })
  await look(two)
  t.strictSame(handed, [1, 2, 3], 'what a node began and did not end is done by another')
})

t.test('a database outage during deliveries loses and repeats none', async (t) => {
  const house = await startWebhookReceivers(t)
  const database = await createTestDatabase(t)
  const line = await startPostgresFaultProxy(t, database.settings.databaseUrl)
  const main = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house), {
    database: { ...database, settings: line },
  })
  const guest = await main.onboard()
  const hook = await registerTestWebhook(main, house, guest, '/slow', ['tool_call'])
  const held = createTestPauseGate()
  house.answers('/slow', (response) => {
    void held.pass().then(() => response.writeHead(204).end())
    return 204
  })
  const calls: string[] = []
  for (let times = 0; times < 10; times += 1)
    calls.push((await main.call(guest, TOOL)).body._meta.call_id)
  await held.reached
  line.set('cut')
  held.open()
  await eventually(
    async () => (await main.ask('GET', '/api/network/health')).status === 503,
    'the loss of the database',
  )
  line.set('open')
  await house.until(() => house.at('/slow').length >= 10)
  await eventually(
    async () => (await main.ask('GET', '/api/network/health')).status === 200,
    'the database',
  )
  await waitForWebhookDeliveries(main, guest, hook)
  t.strictSame(webhookDeliveredCallIds(house, '/slow'), calls)
  await main.verify()
})

t.test('an event that cannot be dispatched is skipped, and later ones continue', async (t) => {
  const house = await startWebhookReceivers(t)
  const one = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house))
  const two = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house), {
    database: one.database,
  })
  const guest = await one.onboard()
  const hook = await registerTestWebhook(one, house, guest, '/all')
  await one.ask('POST', '/api/agent/set-contact', {
    key: guest.key,
    json: { owner_email: 'owner@gas.test' },
  })
  // A balance never has eight decimals, so this event cannot be rendered for owners.
  const poison = async () => {
    const data = JSON.stringify({ tier: 'warning', from: 'healthy', balance_usdc: 0.12345678 })
    const [row] = await one.sql<{ id: bigint }[]>`
      insert into outbox (agent_id, type, data, at)
      values (${guest.id}, 'low_balance', ${data}::text::jsonb, now()) returning id`
    return String(row?.id)
  }
  const calls: string[] = []
  const facts: string[] = []
  for (let times = 0; times < 4; times += 1) {
    facts.push(await poison())
    const at = times % 2 === 0 ? one : two
    calls.push((await at.call(guest, TOOL)).body._meta.call_id)
  }
  const received = () => house.taken('/all').filter(({ type }) => type === 'tool_call')
  await house.until(() => received().length === calls.length, 'what came after them')
  t.strictSame(
    received().map(({ data }) => data['call_id']),
    calls,
    'in order',
  )
  const letters = createOperatorDeadLetterStore(one.sql)
  const found = await letters.list()
  t.strictSame(found.map(({ key }) => key).sort(), [...facts].sort())
  t.match(found[0], {
    kind: 'fact',
    reason: /at most six decimals/,
    payload: { agent_id: guest.id, type: 'low_balance' },
  })
  t.notOk(
    house.got.some(({ type }) => type === 'low_balance'),
    'nothing of them was handed out',
  )

  const letterOf = async (fact = '') => (await letters.list()).find(({ key }) => key === fact)?.id
  t.ok(await letters.replay((await letterOf(facts[0])) ?? ''))
  await eventually(async () => (await letterOf(facts[0])) !== undefined, 'the letter, again')
  await one.sql`update outbox set data = data || '{"balance_usdc": 0.12}' where type = 'low_balance'`
  for (const fact of facts.slice(0, 2)) t.ok(await letters.replay((await letterOf(fact)) ?? ''))
  const told = () => house.taken('/all').filter(({ type }) => type === 'low_balance')
  await house.until(() => told().length === 2, 'what was replayed')
  await waitForWebhookDeliveries(one, guest, hook)
  await one.call(guest, TOOL)
  await house.until(() => received().length === calls.length + 1)
  await waitForWebhookDeliveries(one, guest, hook)
  t.equal(new Set(house.got.map(({ id }) => id)).size, house.got.length, 'each id once')
  t.strictSame([told().length, (await letters.list()).length], [2, 2])
  await one.verify()
})

t.test(
  'an outcome that cannot be stored is logged once and delays no other delivery',
  async (t) => {
    const house = await startWebhookReceivers(t)
    const database = await createTestDatabase(t)
    const settings = { ...settingsAllowingWebhookReceivers(house), ONBOARD_PER_HOUR_PER_IP: '100' }
    const shared = {
      DATABASE_URL: database.settings.databaseUrl,
      DATA_DIR: createStationDataDir(t),
      PUBLIC_URL: 'http://gas.test',
    }
    const one = await spawnTestStationProcess(t, { ...settings, ...shared })
    const guest = await one.onboard()
    const { sql } = database
    const refused = await registerTestWebhook(one, house, guest, '/refused', ['tool_call'])
    const well = await registerTestWebhook(one, house, guest, '/well', ['tool_call'])
    await sql.unsafe(`
    create function refuse() returns trigger language plpgsql as
      $$ begin raise exception 'this row is not taken'; end $$;
    create trigger refuse before update of state on deliveries for each row
      when (old.webhook_id = '${refused.id}') execute function refuse()`)
    for (let times = 0; times < 3; times += 1) await one.call(guest, TOOL)
    await house.until(() => house.taken('/well').length === 3, 'another endpoint')
    await eventually(() => one.outputLines.some((line) => line.includes('is not kept')), 'the log')
    await sql`update webhooks set lease_until = now() - interval '1 second' where id = ${refused.id}`
    for (let times = 0; times < 3; times += 1) await one.call(guest, TOOL)
    await house.until(() => house.taken('/well').length === 6, 'another endpoint')
    await waitForWebhookDeliveries(one, guest, well)
    t.equal(house.at('/refused').length, 1, 'it does not come again and again')
    t.equal(one.outputLines.filter((line) => line.includes('is not kept')).length, 1, 'said once')

    await sql.unsafe('drop trigger refuse on deliveries')
    await startInProcessTestStation(t, settings, { database })
    await waitForWebhookDeliveries(one, guest, refused)
    t.equal(new Set(webhookDeliveredCallIds(house, '/refused')).size, 6, 'nothing is lost')
    t.strictSame(
      [...new Set(webhookDeliveredCallIds(house, '/refused'))],
      webhookDeliveredCallIds(house, '/well'),
      'in order',
    )
  },
)

import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { DAY, HOUR, SECOND } from '../../core/clock.ts'
import { parseMasterKey, deriveEncryptionKey } from '../../core/key-derivation-and-encryption.ts'
import { isDatabaseUnavailableError } from '../../http/detect-database-unavailable-error.ts'
import { createWebhookDeliverer } from '../../jobs/webhook-deliverer.ts'
import { createDeadLetterStore } from '../../persistence/dead-letter-store.ts'
import { createWebhookDeliveryStore } from '../../persistence/webhooks/webhook-delivery-store.ts'
import { createWebhookStore } from '../../persistence/webhooks/webhook-store.ts'
import { parseIpAddressAllowlist } from '../../providers/egress/public-ip-address.ts'
import { createGuardedPostClient } from '../../providers/egress/guarded-post-client.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'
import { eventually } from '../support/mail/test-mail-and-telegram-servers.ts'
import { startWebhookReceivers } from '../support/webhooks/test-webhook-receivers.ts'
import { createTestClock } from '../support/actors/test-actor-node.ts'
import { pauseNextSqlStatementOnTable } from '../support/postgres/pause-postgres-statement.ts'

const AGENTS = ['a', 'b', 'c']
const HOOKS = 20
/** Of an answer, that are read. */
const MAX_READ_BYTES = 1_000
/** Attempts of one agent at a time: where all is well, and in trouble. */
const SHARE = { well: 8, troubled: 4 }

/** A node that sends; it looks when it is woken, and not by itself. */
async function sending(t: Test) {
  const { sql } = await createTestDatabase(t)
  const house = await startWebhookReceivers(t)
  const key = deriveEncryptionKey(parseMasterKey(Buffer.alloc(32, 7).toString('base64')), 'webhook')
  const [hooks, clock] = [createWebhookStore(sql, key), createTestClock()]
  const store = createWebhookDeliveryStore(sql, key, createDeadLetterStore(sql))
  const post = createGuardedPostClient({
    allow: parseIpAddressAllowlist(`127.0.0.1:${house.port}`),
    userAgent: 'test/1',
    timeoutMs: HOUR,
    maxBytes: MAX_READ_BYTES,
    connections: 100,
  })
  const log = (message: string, error: unknown) => t.fail(message, { error })
  const node = createWebhookDeliverer({
    store,
    post,
    clock,
    isOutage: isDatabaseUnavailableError,
    log,
    everyMs: HOUR,
  })
  t.teardown(async () => {
    await node.stop()
    await post.close()
  })
  return {
    ...{ sql, house, clock, node, store },
    async hook(agentId: string, path: string): Promise<string> {
      const wanted = { agentId, url: `${house.base}${path}`, events: [], at: new Date(clock.now()) }
      const added = await sql.begin((tx) => hooks.add(tx, wanted, HOOKS))
      return added?.webhook.id ?? ''
    },
    /** Adds an event for it, `later` than the previous ones. */
    async due(webhookId: string, later = 0): Promise<void> {
      const at = new Date(clock.now() + later)
      await sql.begin((tx) => store.addTest(tx, webhookId, { data: {}, most: 10, at }))
    },
  }
}

/** Receivers that answer a request on command. */
function held() {
  const waiting = new Map<string, ServerResponse[]>()
  const of = (agent: string) => waiting.get(agent) ?? []
  let [open, most] = [false, 0]
  return {
    manner: (agent: string) => (response: ServerResponse) => {
      if (open) response.writeHead(204).end()
      else waiting.set(agent, [...of(agent), response])
      most = Math.max(most, of(agent).length)
      return 204
    },
    count: (agent: string) => of(agent).length,
    /** Of one agent, that waited at a time. */
    most: () => most,
    answerOne: (agent: string) => void of(agent).pop()?.writeHead(204).end(),
    answerAll(): void {
      open = true
      for (const response of [...waiting.values()].flat()) response.writeHead(204).end()
    },
  }
}

t.test('agents with unresponsive receivers use their own share only', async (t) => {
  const { house, clock, node, hook, due } = await sending(t)
  const line = held()
  for (const agent of AGENTS)
    for (let n = 0; n < HOOKS; n += 1) {
      house.answers(`/${agent}${n}`, line.manner(agent))
      await due(await hook(agent, `/${agent}${n}`))
    }
  const other = await hook('other', '/other')
  // Behind all of them: more than there is room for would be in front.
  await due(other, SECOND)
  clock.pass(SECOND)
  node.start()
  const told = (times: number) => house.until(() => house.taken('/other').length === times)
  const seen = () => AGENTS.map((agent) => house.got.filter(({ path }) => path[1] === agent).length)
  await told(1)
  await house.until(() => seen().every((n) => n >= SHARE.well), 'the share of each')
  /** A round ends when its deliveries have arrived. */
  const nextRound = async (times: number) => {
    await due(other)
    node.wake()
    await told(times)
  }
  await nextRound(2)
  t.strictSame(seen(), [8, 8, 8])
  line.answerOne('a')
  await house.until(() => seen()[0] === 9, 'the next of this agent')
  await nextRound(3)
  t.strictSame(seen(), [9, 8, 8], 'for each that ends, one')
  t.equal(line.most(), SHARE.well)
  line.answerAll()
  await house.until(() => seen().every((n) => n === HOOKS), 'all of them')
})

t.test('failing receivers have a separate share and do not reduce that of others', async (t) => {
  const { sql, house, clock, node, hook, due } = await sending(t)
  const line = held()
  for (const [kind, failures] of [
    ['troubled', 1],
    ['well', 0],
  ] as const)
    for (let n = 0; n < 10; n += 1) {
      house.answers(`/${kind}${n}`, line.manner(kind))
      const id = await hook('a', `/${kind}${n}`)
      await sql`update webhooks set failures = ${failures} where id = ${id}`
      if (kind === 'troubled') await due(id)
    }
  node.start()
  await house.until(() => line.count('troubled') === SHARE.troubled, 'the troubled')
  for (const { id } of await sql<{ id: string }[]>`select id from webhooks where failures = 0`)
    await due(id)
  node.wake()
  await house.until(() => line.count('well') === SHARE.well, 'the well')
  const other = await hook('b', '/other')
  await due(other)
  clock.pass(SECOND)
  node.wake()
  await house.until(() => house.taken('/other').length === 1)
  t.strictSame([line.count('troubled'), line.count('well')], [SHARE.troubled, SHARE.well])
})

t.test('an attempt that exceeds its lease is not repeated by its own node', async (t) => {
  const { house, clock, node, hook, due } = await sending(t)
  const line = held()
  house.answers('/held', line.manner('held'))
  await due(await hook('a', '/held'))
  node.start()
  await house.until(() => line.count('held') === 1)
  clock.pass(31 * SECOND)
  await due(await hook('a', '/other'))
  node.wake()
  await house.until(() => house.taken('/other').length === 1)
  t.equal(house.at('/held').length, 1)
})

t.test('a limited number of bytes of a response is read, without waiting for more', async (t) => {
  const { sql, house, node, hook, due } = await sending(t)
  const answers = new Map<string, ServerResponse>()
  const cut: string[] = []
  for (const [path, bytes] of [
    ['/within', MAX_READ_BYTES],
    ['/over', MAX_READ_BYTES + 1],
  ] as const) {
    house.answers(path, (response) => {
      response.on('close', () => cut.push(path))
      response.writeHead(200).write(Buffer.alloc(bytes))
      answers.set(path, response)
      return 200
    })
    await due(await hook('a', path))
  }
  const delivered = async () => (await sql`select from deliveries where state = 'delivered'`).length
  node.start()
  await eventually(async () => (await delivered()) === 1, 'what is over the bound')
  await eventually(() => cut.length > 0, 'the end of its connection')
  t.strictSame(cut, ['/over'])
  answers.get('/within')?.end()
  await eventually(async () => (await delivered()) === 2, 'what has ended by itself')
})

t.test('a delivery made by another node during the poll is not repeated', async (t) => {
  const { sql, clock, store, hook, due } = await sending(t)
  const webhookId = await hook('a', '/a')
  await due(webhookId)
  await due(webhookId, SECOND)
  clock.pass(SECOND)
  const claim = (lease: string) => {
    const now = new Date(clock.now())
    const until = new Date(clock.now() + HOUR)
    const bounds = { most: 10, share: 10, troubled: false, except: [], busy: new Map() }
    return store.claim({ now, until, lease, ...bounds })
  }
  const sent: string[] = []
  const delivered = async () => {
    const [claimed] = await claim(randomUUID())
    if (claimed === undefined) throw new Error('nothing was due')
    sent.push(claimed.id)
    const at = new Date(clock.now())
    const told = { at, ms: 1, status: 200, error: null, dueAt: at, aside: false, disable: null }
    await store.settle(claimed, { ...told, state: 'delivered' })
  }
  const mine = await pauseNextSqlStatementOnTable(
    sql,
    'webhooks',
    () => claim(randomUUID()),
    delivered,
  )
  t.equal(sent.length, 1)
  t.strictSame(
    mine.map(({ id }) => sent.includes(id)),
    [false],
    'it is the next one',
  )
})

t.test('a replayed delivery is stored as long as a new one', async (t) => {
  const { sql, clock, store, hook, due } = await sending(t)
  const webhookId = await hook('a', '/a')
  await due(webhookId)
  const daysAgo = (days: number) => new Date(clock.now() - days * DAY)
  const [made] = await sql<{ id: string }[]>`
    update deliveries set state = 'failed', created_at = ${daysAgo(15)}, settled_at = ${daysAgo(13)}
    returning id`
  const kept = async () => (await store.listOf(webhookId, { state: null }, 10, null)).length
  await store.sweep(daysAgo(14))
  t.equal(await kept(), 1, 'it was settled not long ago')
  await sql.begin((tx) => store.replay(tx, webhookId, made?.id ?? '', new Date(clock.now())))
  await store.sweep(daysAgo(14))
  t.equal(await kept(), 1, 'and it is under way again')
})

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { SECOND } from '../../../core/clock.ts'
import { findFreePort } from '../../../chaos/free-port.ts'
import { findRedisProgram, startRedisServer } from '../../../chaos/redis-server.ts'
import {
  webhookDeliveredCallIds,
  waitForIdleWebhooks,
  settingsAllowingWebhookReceivers,
  registerTestWebhook,
  waitForWebhookDeliveries,
} from '../../support/webhooks/test-webhook-registration-and-deliveries.ts'
import {
  startTestTelegram,
  eventually,
  startTestMailServer,
} from '../../support/mail/test-mail-and-telegram-servers.ts'
import { startWebhookReceivers } from '../../support/webhooks/test-webhook-receivers.ts'
import { createTestClock } from '../../support/actors/test-actor-node.ts'
import {
  startInProcessTestStation,
  type InProcessStation,
} from '../../support/station/start-test-station.ts'

const TOOL = 'hive_trending'
const AWAY_MS = 30 * SECOND
const skip = findRedisProgram() === null ? 'no redis-server is installed' : false

async function redisOf(t: Test) {
  const dir = mkdtempSync(join(tmpdir(), 'gas-station-hooks-redis-'))
  const redis = await startRedisServer(dir, await findFreePort())
  t.teardown(async () => {
    await redis.stop()
    rmSync(dir, { recursive: true, force: true })
  })
  return redis
}

const redisIs = (main: InProcessStation, ok: boolean) =>
  eventually(
    async () => {
      const { body } = await main.ask('GET', '/api/network/health')
      return (body['dependencies'] as { redis: { ok: boolean } }).redis.ok === ok
    },
    `a Redis that ${ok ? 'answers' : 'is gone'}`,
  )

t.test(
  'all deliveries arrive once and in order while Redis is killed, flushed and unreachable',
  { skip },
  async (t) => {
    const redis = await redisOf(t)
    const house = await startWebhookReceivers(t)
    const [mails, chats] = [await startTestMailServer(t), await startTestTelegram(t)]
    const clock = createTestClock()
    const settings = {
      ...settingsAllowingWebhookReceivers(house),
      REDIS_URL: redis.url,
      SMTP_URL: mails.url,
      TELEGRAM_BOT_TOKEN: chats.token,
      TELEGRAM_BASE: chats.base,
    }
    const one = await startInProcessTestStation(t, settings, { clock })
    const two = await startInProcessTestStation(t, settings, { clock, database: one.database })
    const nodes = [one, two]
    const guest = await one.onboard(0.26)
    await one.ask('POST', '/api/agent/set-contact', {
      key: guest.key,
      json: { owner_email: 'owner@gas.test', owner_telegram: '4711' },
    })
    const steady = await registerTestWebhook(one, house, guest, '/steady', ['tool_call'])
    const shaky = await registerTestWebhook(two, house, guest, '/shaky', ['tool_call'])
    const made = await one.ask('POST', '/api/backpack/create', {
      key: guest.key,
      json: { agent_name: 'scout', pager: { webhook_url: `${house.base}/pager` } },
    })
    const packed = { 'x-backpack-id': made.body.backpack_id }
    // Every eighth message is refused once.
    const seen = new Set<string>()
    house.answers('/shaky', (response, { id }) => {
      const isNew = !seen.has(id)
      seen.add(id)
      const status = isNew && seen.size % 8 === 1 ? 503 : 204
      response.writeHead(status).end()
      return status
    })
    const calls: string[] = []
    const call = async (times: number) => {
      for (let time = 0; time < times; time += 1) {
        const at = nodes[calls.length % 2] ?? one
        const { status, body, text } = await at.call(guest, TOOL, {}, packed)
        if (status !== 200) throw new Error(text)
        calls.push(body._meta.call_id)
      }
    }

    for (let round = 0; round < 4; round += 1) {
      await call(2)
      await redis.flush()
    }
    await call(2)
    await redis.kill()
    await call(2)
    await redisIs(one, false)
    await redis.start()
    await redisIs(one, true)
    await call(4)
    await redis.kill()
    await redisIs(two, false)
    const before = house.taken('/steady').length
    for (let away = 0; away < AWAY_MS; away += 5 * SECOND) {
      await call(4)
      clock.pass(5 * SECOND)
    }
    await house.until(() => house.taken('/steady').length > before + 12, 'deliveries without Redis')
    await eventually(() => mails.letters.length === 1, 'the warning, without Redis')
    await redis.start()
    for (const node of nodes) await redisIs(node, true)
    await redis.flush()
    await call(6)

    await eventually(async () => {
      clock.pass(5 * SECOND)
      return house.taken('/shaky').length === calls.length
    }, 'what was refused once')
    for (const hook of [steady, shaky]) await waitForWebhookDeliveries(one, guest, hook)
    const paged = () => house.taken('/pager').filter(({ type }) => type === 'tool_call')
    await house.until(() => paged().length === calls.length, 'the pages')
    await eventually(() => mails.letters.length === 2 && chats.messages.length === 1, 'the owner')
    await waitForIdleWebhooks(one)

    t.strictSame(webhookDeliveredCallIds(house, '/steady'), calls)
    t.strictSame(webhookDeliveredCallIds(house, '/shaky'), calls)
    t.strictSame(
      paged().map(({ data }) => data['call_id']),
      calls,
    )
    for (const path of ['/steady', '/shaky', '/pager']) {
      const ids = house.taken(path).map(({ id }) => id)
      t.equal(new Set(ids).size, ids.length, `${path}: each id once`)
    }
    t.match(
      mails.letters.map(({ subject }) => subject),
      [/runs low/, /about to stop/],
    )
    t.match(chats.messages, [{ chat: '4711', text: /about to stop/ }])
    const unsent = await one.sql`select from alerts where state <> 'sent'`
    t.equal(unsent.length, 0)
    await one.verify()
  },
)

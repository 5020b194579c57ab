import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import type { AggregateCommand } from '../../../actors/aggregate-command-types.ts'
import { createTimerRunner } from '../../../actors/timer-runner.ts'
import { MINUTE } from '../../../core/clock.ts'
import { ServiceError } from '../../../core/errors.ts'
import type { DueTimer } from '../../../persistence/aggregate-store.ts'
import { createDeadLetterStore } from '../../../persistence/dead-letter-store.ts'
import { createTestDatabase, type TestDatabase } from '../../support/postgres/test-database.ts'
import {
  settingsAllowingWebhookReceivers,
  registerTestWebhook,
  waitForWebhookDeliveries,
} from '../../support/webhooks/test-webhook-registration-and-deliveries.ts'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import { startWebhookReceivers } from '../../support/webhooks/test-webhook-receivers.ts'
import { createTestActorNode, createTestClock } from '../../support/actors/test-actor-node.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { serviceProgramArgs } from '../../support/station/node-args-to-spawn-service-or-cli.ts'
import { createStationDataDir } from '../../support/station/temporary-station-data-directory.ts'

const letter = { kind: 'timer', key: 'a timer', reason: 'it broke', payload: {} }

/** A node with a timer that fails on command. */
async function failing(t: Test, what: () => Error | null) {
  const database = await createTestDatabase(t)
  const { sql } = database
  const clock = createTestClock()
  const one = createTestActorNode(t, sql, { clock })
  const letters = createDeadLetterStore(sql)
  let fired = 0
  const broken: AggregateCommand<{ n: number }, void> = {
    name: 'test.broken',
    kind: 'agent',
    apply(turn, { n }) {
      const error = what()
      if (error !== null) throw error
      fired += n
      turn.cancelTimer('t')
    },
  }
  const set: AggregateCommand<undefined, void> = {
    name: 'test.set',
    kind: 'agent',
    apply: (turn) =>
      turn.timer({ id: 't', dueAt: turn.now, command: broken.name, input: { n: 3 } }),
  }
  const { store } = one
  const alarms = createTimerRunner({
    ...{ clock, actors: one, store, bury: letters.bury },
    commands: [broken as AggregateCommand<never, void>],
    log: () => {},
  })
  t.teardown(() => alarms.stop())
  const id = await one.born(1)
  await one.ask(id, set, undefined)
  return {
    ...{ database, sql, clock, one, id, letters, alarms, set },
    fired: () => fired,
    /** Gives the timer up in the state it has now. */
    async bury(reason: string): Promise<void> {
      const due = await one.store.dueTimers(clock.now() + MINUTE, 1, 0)
      for (const timer of due) await letters.bury({ ...timer, reason })
    },
    timersLeft: async () => (await sql`select 1 from timers where aggregate_id = ${id}`).length,
    /** Runs the given number of sweeps, half a minute apart. */
    async sweeps(count: number) {
      for (let sweep = 0; sweep < count; sweep += 1) {
        await alarms.sweep()
        clock.tick(MINUTE / 2)
      }
    },
  }
}

t.test('a timer that fails permanently becomes a dead letter and is replayed once', async (t) => {
  let error: Error | null = new Error('no such column')
  const { sql, clock, id, letters, alarms, sweeps, fired, timersLeft } = await failing(
    t,
    () => error,
  )
  await sweeps(9)
  t.strictSame([await timersLeft(), (await letters.list()).length], [1, 0], 'not at once')
  await sweeps(3)
  t.equal(await timersLeft(), 0, 'it delays no other timer')
  const [found, ...others] = await letters.list()
  t.strictSame(others, [])
  t.match(found, {
    kind: 'timer',
    key: `${id} t`,
    reason: /no such column/,
    payload: { command: 'test.broken', aggregate_id: id, input: { n: 3 } },
    replayedAt: null,
  })
  error = null
  t.equal((await letters.replay(found?.id ?? ''))?.key, `${id} t`)
  t.equal(await letters.replay(found?.id ?? ''), null, 'only once')
  clock.pass(MINUTE)
  await alarms.sweep()
  t.strictSame([fired(), await timersLeft()], [3, 0])
  t.strictSame(await letters.list(), [])
  t.match(await letters.list({ replayed: true }), [{ id: found?.id, replayedAt: Date }])
  t.equal((await sql`select 1 from dead_letters`).length, 1)
})

t.test('frequent failures within a short time create no dead letter', async (t) => {
  const { alarms, letters, timersLeft } = await failing(t, () => new Error('busy'))
  for (let sweep = 0; sweep < 30; sweep += 1) await alarms.sweep()
  t.strictSame([await timersLeft(), await letters.list()], [1, []])
})

t.test('an outage of any duration creates no dead letters', async (t) => {
  const { sweeps, letters, timersLeft } = await failing(t, () => new ServiceError('unavailable'))
  await sweeps(60)
  t.strictSame([await timersLeft(), await letters.list()], [1, []])
})

t.test('a timer set again while the old one fails is kept', async (t) => {
  const { clock, one, id, letters, set, timersLeft } = await failing(t, () => null)
  const [before] = await one.store.dueTimers(clock.now() + MINUTE, 1, 0)
  clock.pass(1)
  await one.ask(id, set, undefined)
  await letters.bury({ ...(before as DueTimer), reason: 'broken' })
  t.strictSame([await timersLeft(), await letters.list()], [1, []])
})

t.test('a timer that fails again after its replay becomes a dead letter again', async (t) => {
  const { letters, bury, timersLeft } = await failing(t, () => null)
  await bury('broken')
  const [first] = await letters.list()
  await letters.replay(first?.id ?? '')
  t.equal(await timersLeft(), 1)
  await bury('still broken')
  t.equal(await timersLeft(), 0)
  t.match(await letters.list(), [{ kind: 'timer', reason: 'still broken' }])
})

t.test('two nodes that give up on the same timer write one dead letter', async (t) => {
  const { sql, id, letters, bury } = await failing(t, () => null)
  await Promise.all([1, 2, 3].map(() => bury('broken')))
  t.equal((await letters.list()).length, 1)
  t.equal((await sql`select 1 from timers where aggregate_id = ${id}`).length, 0)
})

t.test('a dead letter exists once, and may be created again after its replay', async (t) => {
  const { sql } = await createTestDatabase(t)
  const revived: string[] = []
  const letters = createDeadLetterStore(sql, {
    webhook: async (_tx, { key }) => void revived.push(key),
    stubborn: async () => Promise.reject(new Error('the receiver is gone')),
  })
  const webhook = { ...letter, kind: 'webhook' }
  await letters.put(webhook)
  await letters.put({ ...webhook, reason: 'again' })
  const [first] = await letters.list()
  t.match(await letters.list(), [{ kind: 'webhook', reason: 'it broke' }])
  await letters.replay(first?.id ?? '')
  t.strictSame(revived, ['a timer'])
  await letters.put({ ...webhook, reason: 'later' })
  t.match(await letters.list(), [{ reason: 'later' }])

  for (const kind of ['stubborn', 'unknown']) {
    await letters.put({ ...letter, kind })
    const found = (await letters.list()).find((one) => one.kind === kind)
    await t.rejects(letters.replay(found?.id ?? ''))
    t.ok(
      (await letters.list()).some((one) => one.kind === kind),
      `${kind} is there still`,
    )
  }
})

/** Runs `gas dlq` on a database; returns its exit code and output. */
const dlqOf =
  (t: Test, database: TestDatabase) =>
  async (...args: string[]) => {
    const env = {
      PATH: process.env['PATH'],
      NODE_ENV: 'test',
      DATABASE_URL: database.settings.databaseUrl,
      DATA_DIR: createStationDataDir(t),
    }
    const run = promisify(execFile)(
      process.execPath,
      [...serviceProgramArgs('cli'), 'dlq', ...args],
      {
        env,
      },
    )
    const said = ({ stdout = '', stderr = '' }) => ({ stdout, stderr })
    return run.then(
      (ended) => ({ code: 0, ...said(ended) }),
      (error: { code: number; stdout: string; stderr: string }) => ({
        code: error.code,
        ...said(error),
      }),
    )
  }

t.test('gas dlq lists dead letters and makes one due again', async (t) => {
  const { database, id, letters, bury, timersLeft } = await failing(t, () => null)
  await bury('a\nreason')
  const [found] = await letters.list()
  const gas = dlqOf(t, database)
  const listed = await gas('ls')
  t.equal(listed.code, 0)
  t.match(listed.stdout, `${found?.id}  ${found?.at.toISOString()}  timer  ${id} t  a reason`)
  t.match(await gas('retry', found?.id ?? ''), { code: 0, stdout: `due again: ${id} t` })
  t.equal(await timersLeft(), 1)
})

t.test('gas dlq makes a delivery due again, once, while it is stored', async (t) => {
  const house = await startWebhookReceivers(t)
  const main = await startInProcessTestStation(t, settingsAllowingWebhookReceivers(house))
  const guest = await main.onboard()
  const hook = await registerTestWebhook(main, house, guest, '/gone', ['tool_call'])
  const gas = dlqOf(t, main.database)
  house.answers('/gone', 410)
  await main.call(guest, 'hive_trending')
  const letters = createDeadLetterStore(main.sql)
  await eventually(async () => (await letters.list()).length === 1, 'the letter')
  const [found] = await letters.list()
  const lost = house.at('/gone')[0]?.id
  t.match(await gas('ls'), { code: 0, stdout: `webhook  ${lost}  answered 410` })
  house.answers('/gone', 204)
  const back = `/api/webhook/${hook.id}/enable`
  t.equal((await main.ask('POST', back, { key: guest.key })).status, 200)
  t.match(await gas('retry', found?.id ?? ''), { code: 0, stdout: `due again: ${lost}` })
  await house.until(() => house.taken('/gone').length === 1)
  t.equal(house.taken('/gone')[0]?.id, lost, 'under the same id')
  await waitForWebhookDeliveries(main, guest, hook)
  t.match(await gas('retry', found?.id ?? ''), { code: 1, stdout: /replayed before/ })

  const put = (delivery: string) =>
    letters.put({
      kind: 'webhook',
      key: delivery,
      reason: 'answered 500',
      payload: { webhook_id: hook.id, delivery_id: delivery },
    })
  for (const [delivery, why] of [
    [String(lost), /delivered since/],
    ['msg_forgotten', /not kept any more/],
  ] as const) {
    await put(delivery)
    const letter = (await letters.list()).find(({ key }) => key === delivery)
    t.match(await gas('retry', letter?.id ?? ''), { code: 1, stderr: why })
    t.ok(
      (await letters.list()).some(({ key }) => key === delivery),
      'it lies there still',
    )
  }
  t.equal(house.at('/gone').length, 2)
})

import t from 'tap'
import { MINUTE, createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

interface Listed {
  readonly success_rate: number | null
}

t.test('the success rate counts failures of the tool, not errors of its callers', async (t) => {
  let later = 0
  const clock = { ...createDatabaseAdjustedClock(), mono: () => performance.now() + later }
  const station = await startInProcessTestStation(t, { STARTER_CREDITS_USDC: '2' }, { clock })
  const { ask, call, sql } = station
  const guest = await station.onboard()
  const rateOf = async (slug: string) =>
    ((await ask('GET', `/api/tools/${slug}`)).body as unknown as Listed).success_rate
  const task = await ask('POST', '/api/task/start', {
    key: guest.key,
    json: { name: 'small', budget_usdc: 0.001 },
  })
  const small = { 'x-task-id': String(task.body['task_id']) }
  t.equal((await call(guest, 'hive_trending')).status, 200)
  t.match(await call(guest, 'hive_trending', {}, small), {
    status: 402,
    body: { code: 'task_budget_exceeded' },
  })
  t.match(await call(guest, 'hive_trending', { limit: 0 }), { status: 400 })
  t.match(await call(guest, 'vault_compress'), { status: 422 })
  for (let n = 0; n < 2; n += 1)
    t.match(await call(guest, 'price_feed', { query: 'BTC' }), { status: 503 })
  const codes = await sql<{ code: string | null }[]>`select distinct error_code as code from calls`
  t.ok(
    codes.some(({ code }) => code === 'not_enough_memories'),
    'a mistake of its caller is logged as a failed call',
  )
  await ask('GET', '/api/tools')
  later = 2 * MINUTE
  await ask('GET', '/api/tools')
  await eventually(async () => (await rateOf('hive_trending')) !== null, 'figures')
  t.equal(await rateOf('hive_trending'), 1)
  t.equal(await rateOf('vault_compress'), null, 'nothing that counts')
  t.equal(await rateOf('price_feed'), 0)
  const { body } = await call(guest, 'self_audit')
  t.match(body, { success_rate: 0.3333, tools: [{}, {}, {}] })
  t.ok(Number(body['caller_errors']) >= 1)
  t.match(
    (body['tools'] as { tool: string }[]).find(({ tool }) => tool === 'vault_compress'),
    { calls: 1, caller_errors: 1, success_rate: null, failures: [{ code: 'not_enough_memories' }] },
  )
  const { body: standing } = await call(null, 'agent_reputation', { agent_id: guest.id })
  t.match(standing, { reliability: Number })
  t.notOk('success_rate' in standing)
  await station.verify()
})

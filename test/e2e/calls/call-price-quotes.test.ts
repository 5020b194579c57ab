import t from 'tap'
import type { TestReply, TestRequestOptions } from '../../support/http/test-http-client.ts'
import {
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'

const TOOL = 'hive_trending'
const PRICE = 0.005

/** Asks as one agent. */
const as =
  (node: TestStation, { key }: TestAgent) =>
  (
    method: string,
    path: string,
    json?: object,
    more: TestRequestOptions = {},
  ): Promise<TestReply> =>
    node.ask(method, path, { key, ...(json === undefined ? {} : { json }), ...more })

t.test('a quote returns the price and possible rejections, and moves nothing', async (t) => {
  const main = await startInProcessTestStation(t)
  const her = await main.onboard(PRICE)
  const ask = as(main, her)
  const task = (await ask('POST', '/api/task/start', { name: 'x', budget_usdc: 0.004 })).body
    .task_id
  const pack = (
    await ask('POST', '/api/backpack/create', { agent_name: 'x', fuse: { per_call_usdc: 0.001 } })
  ).body.backpack_id
  const rows = () =>
    main.sql`select (select count(*)::int from transfers) t, (select count(*)::int from calls) c, (select count(*)::int from outbox) o`
  const before = await rows()
  const quotes: [object, Record<string, string>, object][] = [
    [
      { tool: TOOL },
      {},
      { price_usdc: PRICE, rail: 'credits', free_calls_left: null, would_refuse: null },
    ],
    [{ tool: 'hive_read', query: 'x' }, {}, { price_usdc: 0, rail: 'free', free_calls_left: 10 }],
    [
      { tool: 'swarm_broadcast', topic: 'x', message: 'y' },
      {},
      {
        price_usdc: 0.02,
        would_refuse: { code: 'payment_required', status: 402, balance_usdc: PRICE },
      },
    ],
    [
      { tool: TOOL },
      { 'x-task-id': task },
      { would_refuse: { code: 'task_budget_exceeded', limit_usdc: 0.004 } },
    ],
    [
      { tool: TOOL },
      { 'x-backpack-id': pack },
      { would_refuse: { code: 'FUSE_TRIPPED', limit_source: 'backpack.per_call' } },
    ],
  ]
  for (const [json, headers, wanted] of quotes) {
    t.match(await ask('POST', '/api/quote', json, { headers }), { status: 200, body: wanted })
    for (const path of ['/api/refuel', '/api/refuel/stream']) {
      const dry = await ask('POST', path, { ...json, dry_run: true }, { headers })
      t.match(dry, { status: 200, body: wanted }, `${path} with dry_run: ${dry.text.slice(0, 200)}`)
    }
  }
  const own = `/api/t/${TOOL}`
  t.match(await ask('POST', own, { dry_run: true }), { body: { price_usdc: PRICE } })
  const calls = [{ tool: TOOL }]
  const wrong: [string, object, string][] = [
    [own, { dry_run: 'yes' }, '/dry_run'],
    [own, { params: { dry_run: true } }, '/dry_run'],
    ['/api/pipeline', { calls, dry_run: true }, '/dry_run'],
    ['/api/pipeline', { calls: [{ tool: TOOL, dry_run: true }] }, '/calls/0/dry_run'],
    ['/api/refuel/stream', { tool: 'pipeline', calls, dry_run: true }, '/dry_run'],
    ['/api/pill', { claim: '2 + 2 = 4', dry_run: true }, '/dry_run'],
  ]
  for (const [path, json, pointer] of wrong)
    t.match(await ask('POST', path, json), { status: 400, body: { errors: [{ pointer }] } }, path)
  t.match((await main.ask('POST', '/api/quote', { json: { tool: TOOL } })).body, {
    rail: null,
    would_refuse: { status: 402, detail: 'This call costs 0.005 USDC.' },
  })
  const unkeyed: [object, object][] = [
    [
      { tool: 'vault_query', query: 'x' },
      { code: 'unauthenticated', status: 401 },
    ],
    [{ tool: 'email_send', to: 'a@b.cd', subject: 's', body: 'b' }, { status: 401 }],
  ]
  for (const [json, would_refuse] of unkeyed)
    t.match(await main.ask('POST', '/api/quote', { json }), { status: 200, body: { would_refuse } })
  const mail = { tool: 'email_send', to: 'a@b.cd', subject: 's', body: 'b' }
  t.match(await ask('POST', '/api/quote', mail), {
    status: 200,
    body: { price_usdc: 0.05, would_refuse: { status: 503 } },
  })
  t.match(await ask('POST', '/api/quote', { tool: 'no_such' }), { status: 404 })
  t.match(await ask('POST', '/api/quote', { tool: TOOL, limit: 0 }), { status: 400 })
  t.strictSame([...(await rows())], [...before])
  t.equal(await main.balance(her), PRICE)
  await main.verify()
})

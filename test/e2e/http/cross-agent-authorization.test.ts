import t from 'tap'
import type { TestRequestOptions } from '../../support/http/test-http-client.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import {
  createWriteRouteFixtures,
  PAID_CALL_BODY,
} from '../../support/agents/write-route-fixtures.ts'
import {
  countRowsWrittenByRequests,
  UNKNOWN_ID,
} from '../../support/write-routes/write-route-cases.ts'

t.test('money and identity fields of a body are ignored', async (t) => {
  const main = await startInProcessTestStation(t)
  const her = await main.onboard()
  const claims = {
    balance_usdc: 9,
    promo: 9,
    cash: 9,
    agent_id: her.id,
    id: UNKNOWN_ID,
    role: 'admin',
    starter_credits_usdc: 9,
    spent_usdc: -9,
    state: 'completed',
    cost_usdc: 0,
    price: 0,
    owner: UNKNOWN_ID,
  }
  const before = await countRowsWrittenByRequests(main)
  const bodies: [string, object][] = [
    ['/api/onboard', { name: 'eve' }],
    ['/api/agents/register', { name: 'eve' }],
    ['/api/task/start', { name: 'x', budget_usdc: 1 }],
    ['/api/keys', { cap_usdc: 0.01 }],
    ['/api/agent/send', { to_agent_id: her.id, amount_usdc: 0.01 }],
    ['/api/signal/publish', { channel: 'test', type: 'ping', payload: {} }],
  ]
  for (const [path, body] of bodies) {
    for (const [claim, value] of Object.entries(claims)) {
      const asked = { key: her.key, json: { ...body, [claim]: value } }
      t.match(
        await main.ask('POST', path, asked),
        { status: 400, body: { code: 'invalid_input', errors: [{ pointer: `/${claim}` }] } },
        `${path} with ${claim}`,
      )
    }
  }
  const agents = [{ name: 'eve', balance_usdc: 9 }]
  t.match(await main.ask('POST', '/api/onboard/bulk', { json: { agents } }), {
    status: 400,
    body: { errors: [{ pointer: '/agents/0/balance_usdc' }] },
  })
  t.strictSame(await countRowsWrittenByRequests(main), before, 'nothing was moved')
  t.equal(await main.balance(her), 0.5)
  await main.verify()
})

t.test('objects of another agent return not found', async (t) => {
  const main = await startInProcessTestStation(t)
  const [ann, bob] = [await main.onboard(), await main.onboard()]
  const hers = await createWriteRouteFixtures(main, ann)
  const secret = { name: 'TOKEN', secret: 'x', hosts: ['a.example'] }
  const note = { key: 'k', value: 'private' }
  await main.ask('POST', `/api/backpack/${hers.backpack}/keyring`, { key: ann.key, json: secret })
  await main.ask('POST', `/api/backpack/${hers.backpack}/clipboard`, { key: ann.key, json: note })
  const before = await countRowsWrittenByRequests(main)

  const amount = { budget_usdc: 2 }
  const cells: [string, string, (id: string) => TestRequestOptions, 'task' | 'pack' | 'key'][] = [
    ['GET', '/api/task/:id', () => ({}), 'task'],
    ['PATCH', '/api/task/:id/budget', () => ({ json: amount }), 'task'],
    ['POST', '/api/task/end', (id) => ({ json: { task_id: id } }), 'task'],
    ['POST', '/api/task/cancel', (id) => ({ json: { task_id: id } }), 'task'],
    ['POST', '/api/task/end', (id) => ({ json: {}, headers: { 'x-task-id': id } }), 'task'],
    ['POST', '/api/task/cancel', (id) => ({ json: {}, headers: { 'x-task-id': id } }), 'task'],
    [
      'POST',
      '/api/refuel',
      (id) => ({ json: PAID_CALL_BODY, headers: { 'x-task-id': id } }),
      'task',
    ],
    [
      'POST',
      '/api/refuel/stream',
      (id) => ({ json: PAID_CALL_BODY, headers: { 'x-task-id': id } }),
      'task',
    ],
    [
      'POST',
      '/api/refuel',
      (id) => ({ json: PAID_CALL_BODY, headers: { 'x-backpack-id': id } }),
      'pack',
    ],
    [
      'POST',
      '/api/refuel/stream',
      (id) => ({ json: PAID_CALL_BODY, headers: { 'x-backpack-id': id } }),
      'pack',
    ],
    ['GET', '/api/backpack/:id/state', () => ({}), 'pack'],
    ['PATCH', '/api/backpack/:id', () => ({ json: { tools: null } }), 'pack'],
    ['POST', '/api/backpack/:id/revoke', () => ({}), 'pack'],
    ['POST', '/api/backpack/:id/renew', () => ({ json: {} }), 'pack'],
    ['GET', '/api/backpack/:id/notifications', () => ({}), 'pack'],
    ['GET', '/api/backpack/:id/spend', () => ({}), 'pack'],
    ['GET', '/api/backpack/:id/keyring', () => ({}), 'pack'],
    ['POST', '/api/backpack/:id/keyring', () => ({ json: secret }), 'pack'],
    ['DELETE', '/api/backpack/:id/keyring?name=TOKEN', () => ({}), 'pack'],
    ['GET', '/api/backpack/:id/clipboard', () => ({}), 'pack'],
    ['GET', '/api/backpack/:id/clipboard?key=k', () => ({}), 'pack'],
    ['POST', '/api/backpack/:id/clipboard', () => ({ json: note }), 'pack'],
    ['DELETE', '/api/backpack/:id/clipboard?key=k', () => ({}), 'pack'],
    ['DELETE', '/api/keys/:id', () => ({}), 'key'],
    ['POST', '/api/keys/rotate', (id) => ({ json: { key_id: id } }), 'key'],
  ]
  const ids = {
    task: [hers.task, UNKNOWN_ID],
    pack: [hers.backpack, 'bp_0000000000000000000000'],
    key: [hers.spareKey, UNKNOWN_ID],
  }
  for (const [method, path, asked, kind] of cells) {
    const [foreign = '', absent = ''] = ids[kind]
    const tell = async (id: string) => {
      const answer = await main.ask(method, path.replace(':id', id), { key: bob.key, ...asked(id) })
      const plain = JSON.stringify({ ...answer.body, instance: '', call_id: '' }).replaceAll(
        id,
        'ID',
      )
      return { status: answer.status, plain, code: answer.body.code }
    }
    const [there, nowhere] = [await tell(foreign), await tell(absent)]
    t.equal(there.status, 404, `${method} ${path} ${there.plain}`)
    t.strictSame(there, nowhere, `${method} ${path} does not tell it from nothing`)
  }
  for (const headers of [{ 'x-task-id': hers.task }, { 'x-backpack-id': hers.backpack }]) {
    const batch = await main.ask('POST', '/api/pipeline', {
      key: bob.key,
      json: { calls: [PAID_CALL_BODY] },
      headers,
    })
    t.match(batch.body, {
      ok: false,
      total_cost_usdc: 0,
      results: [{ ok: false, error: { status: 404 } }],
    })
    const quote = await main.ask('POST', '/api/quote', {
      key: bob.key,
      json: PAID_CALL_BODY,
      headers,
    })
    t.match(quote.body, { would_refuse: { status: 404 } })
    const stranger = await main.ask('POST', '/api/refuel', { json: PAID_CALL_BODY, headers })
    t.match(stranger.status, 401, 'without a key the limits of an owner do not apply')
  }
  t.strictSame(await countRowsWrittenByRequests(main), before, 'nothing was moved')
  t.equal((await main.ask('GET', `/api/task/${hers.task}`, { key: ann.key })).status, 200)
  const kept = await main.ask('GET', `/api/backpack/${hers.backpack}/clipboard?key=k`, {
    key: ann.key,
  })
  t.match(kept.body, { entries: [note] }, 'its owner sees it')
  await main.verify()
})

t.test('a request with a bad key is never treated as anonymous', async (t) => {
  const main = await startInProcessTestStation(t)
  const her = await main.onboard()
  const { body } = await main.ask('POST', '/api/keys', { key: her.key, json: {} })
  const revoked = { ...her, key: body.api_key }
  t.equal((await main.call(revoked, 'hive_trending')).status, 200)
  await main.ask('DELETE', `/api/keys/${String(body['id'])}`, { key: her.key })
  for (const bad of [revoked, { ...her, key: 'gas_x' }, { ...her, key: '' }]) {
    const paid = await main.call(bad, 'hive_trending')
    t.match(paid, { status: 402, body: { code: 'payment_required', key_status: 'invalid' } })
    t.match(
      await main.call(bad, 'hive_read', { query: 'x' }),
      { status: 401 },
      'nor for a free call',
    )
    t.match(await main.ask('GET', '/api/credits/balance', { key: bad.key }), { status: 401 })
  }
  t.match(await main.call(null, 'hive_trending'), {
    status: 402,
    body: { key_status: 'none', remedy: { action: 'onboard', url: 'http://gas.test/api/onboard' } },
  })
  t.equal((await main.call(null, 'hive_read', { query: 'x' })).status, 200)
  t.equal(await main.balance(her), 0.495)
  await main.verify()
})

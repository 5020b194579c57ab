import t from 'tap'
import { connectInspectorTestSocket } from '../../support/inspector/inspector-test-socket.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
} from '../../support/station/start-test-station.ts'

/** Two nodes show as one in the inspector, and no secret is ever sent. */

const TOKEN = 'operator-token-of-this-test'
const TOOL = 'hive_trending'
const operator = { authorization: `Bearer ${TOKEN}` }
const main = await startInProcessTestStation(t, { OPERATOR_TOKEN: TOKEN })
const second = await spawnSecondNode(t, main, { OPERATOR_TOKEN: TOKEN })

t.test('the commands of another node are shown with their states', async (t) => {
  const agent = await main.onboard()
  const watch = await connectInspectorTestSocket(t, main.url, {
    headers: operator,
    query: `?agent=${agent.id}`,
  })
  await watch.next(({ type }) => type === 'gas.joined')
  // The other node hears of the watcher over the bus.
  let there = await second.call(agent, TOOL)
  const isThere = () =>
    watch.frames.some(
      ({ type, gas }) => type === '@xstate.snapshot' && gas.call_id === there.body._meta.call_id,
    )
  for (let tries = 0; tries < 40 && !isThere(); tries++) {
    await new Promise((done) => setTimeout(done, 100))
    if (tries % 5 === 4) there = await second.call(agent, TOOL)
  }
  const shown = watch.frames.find(
    ({ type, gas }) => type === '@xstate.snapshot' && gas.call_id === there.body._meta.call_id,
  )
  t.match(shown, {
    snapshot: { context: { promo: there.body._meta.balance_usdc } },
    gas: { command: 'call.spend', cause: 'request', edges: ['|SPEND|0'] },
  })
  const here = await main.call(agent, TOOL)
  const own = await watch.next(
    ({ type, gas }) => type === '@xstate.snapshot' && gas.call_id === here.body._meta.call_id,
  )
  t.not(own.gas.node, shown?.gas.node)
  const spent = await second.ask('POST', '/api/agent/send', {
    key: agent.key,
    json: { to_agent_id: (await main.onboard()).id, amount_usdc: 40 },
  })
  t.ok(spent.status >= 400, spent.text)
  const refused = await watch.next(
    ({ type, gas }) => type === '@xstate.snapshot' && gas.refused !== undefined,
  )
  t.match(refused, { gas: { refused: spent.body.code, node: shown?.gas.node } })
  t.equal(
    (await main.ask('GET', new URL(String(spent.body['why_url'])).pathname, { key: agent.key }))
      .status,
    200,
  )
})

t.test('nothing that the inspector sends contains a secret', async (t) => {
  const { ask } = main
  const watch = await connectInspectorTestSocket(t, main.url, { headers: operator })
  await watch.next(({ type }) => type === 'gas.joined')
  const agent = await main.onboard()
  const { key } = agent
  const pager = {
    owner_email: 'owner-secret@gas.test',
    webhook_url: 'https://hooks.gas.test/hook-secret',
  }
  const bag = await ask('POST', '/api/backpack/create', {
    key,
    json: {
      agent_name: 'bag',
      pager: { owner_email: pager.owner_email },
      fuse: { per_day_usdc: 0.02 },
    },
  })
  const { backpack_id: backpackId } = bag.body
  const bound = await ask('POST', '/api/keys', { key, json: { backpack_id: backpackId } })
  const keyring = { name: 'API', secret: 'keyring-secret-value', hosts: ['api.gas.test'] }
  await ask('POST', `/api/backpack/${backpackId}/keyring`, { key, json: keyring })
  await ask('POST', '/api/task/schedule', {
    key,
    json: { interval: '1h', tool: TOOL, params: { note: 'schedule-param-secret' } },
  })
  await ask('POST', '/api/agent/set-contact', {
    key,
    json: { owner_email: 'contact-secret@gas.test' },
  })
  const idempotencyKey = 'idempotency-secret-key'
  await main.call(agent, TOOL, {}, { 'idempotency-key': idempotencyKey })
  for (let at = 0; at < 6; at++)
    await ask('POST', '/api/refuel', { key: bound.body.api_key, json: { tool: TOOL } })
  await ask('POST', '/api/keys/rotate', { key, json: {} })
  await watch.next(({ type, gas }) => type === '@xstate.snapshot' && gas.refused === 'FUSE_TRIPPED')
  const rest = await Promise.all(
    [`agent/${agent.id}`, `backpack/${backpackId}`].map(
      async (path) =>
        (await ask('GET', `/api/actors/${path}/history?limit=200`, { headers: operator })).text,
    ),
  )
  const why = await ask('GET', `/api/why?agent=${agent.id}`, { headers: operator })
  const list = await ask('GET', '/api/actors?limit=200', { headers: operator })
  const all = [watch.text(), ...rest, why.text, list.text].join('\n')
  t.match(all, backpackId, 'the search has something to search')
  const secrets = [
    ...[key, bound.body.api_key, TOKEN, pager.owner_email, keyring.secret, idempotencyKey],
    ...['contact-secret@gas.test', 'schedule-param-secret'],
    Buffer.alloc(32, 7).toString('base64'),
  ]
  for (const secret of secrets) t.notOk(all.includes(secret), secret.slice(0, 12))
})

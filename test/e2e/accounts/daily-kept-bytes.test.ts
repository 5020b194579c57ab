import t from 'tap'
import { LIMITS } from '../../../core/limits.ts'
import { connectWebSocket } from '../../support/http/websocket-and-sse-clients.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

const main = await startInProcessTestStation(t)
const used = async (id: string) =>
  Number(
    (await main.sql`select bytes from daily_storage_bytes where agent_id = ${id}`)[0]?.['bytes'],
  )

t.test('all free writes of an agent are counted against one day', async (t) => {
  const [guest, other] = [await main.onboard(), await main.onboard()]
  const { key } = guest
  const post = (path: string, json: object = {}) => main.ask('POST', path, { key, json })
  const { body: pack } = await post('/api/backpack/create', { agent_name: 'x' })
  const { body: made } = await post('/api/keys', { name: 'x' })
  t.equal(await used(guest.id), LIMITS.storedBytesLease, 'a node reserves in pieces')
  // What the node has reserved is used up first, one piece after the other.
  await main.sql`update daily_storage_bytes set bytes = ${LIMITS.storedBytesPerDay}
                  where agent_id = ${guest.id}`
  const message = { to: other.id, message: 'x'.repeat(2_000) }
  let refused = await post('/api/messages', message)
  for (let sent = 0; refused.status === 200 && sent < 100; sent += 1)
    refused = await post('/api/messages', message)
  const figures = { limit_bytes: LIMITS.storedBytesPerDay, needed_bytes: /^\d+$/ }
  const full = { status: 429, body: { code: 'daily_bytes_exceeded', ...figures } }
  t.match(refused, { ...full, headers: { 'retry-after': /^\d+$/ } })
  for (const [path, json] of [
    ['/api/task/start', { name: 'x', budget_usdc: 0.1 }],
    ['/api/bounties', { title: 'x', description: 'x', domain: 'x', reward_usdc: 0.05 }],
    ['/api/task/schedule', { name: 'x', interval: '1h', tool: 'price_feed', budget_usdc: 0.1 }],
    ['/api/fleet/create', { name: 'x' }],
    ['/api/messages', message],
    ['/api/tools/register', { name: 'x' }],
    ['/api/marketplace/list', { title: 'x' }],
  ] as const)
    t.match(await post(path, json), full, path)
  const socket = await connectWebSocket(t, main.url, { key })
  const answers = []
  for (let sent = 0; sent < 100 && answers.at(-1)?.type !== 'error'; sent += 1)
    answers.push(await socket.ask({ type: 'message', ...message }))
  t.match(answers.at(-1), { type: 'error', problem: { code: 'daily_bytes_exceeded' } })
  const free = await main.call(guest, 'ping_for_updates')
  t.match(free, full, 'a free call')
  t.equal((await main.call(guest, 'hive_read', { query: 'x' })).status, 200, 'bounded by itself')
  const paid = await main.call(guest, 'code_sandbox', { language: 'javascript', code: '1' })
  t.equal(paid.status, 200, 'what is paid is not counted')

  t.comment('what stops a busy agent always works')
  t.equal((await post('/api/keys', { name: 'y' })).status, 200, 'out of the reserve')
  const removed = await main.ask('DELETE', `/api/keys/${String(made['id'] ?? made['key_id'])}`, {
    key,
  })
  t.equal(removed.status, 200, removed.text)
  t.equal((await post(`/api/backpack/${String(pack['backpack_id'])}/revoke`)).status, 200)
  t.equal((await post('/api/agent/freeze')).status, 200)
  t.equal(
    (
      await main.ask('POST', '/api/messages', {
        key: other.key,
        json: { ...message, to: guest.id },
      })
    ).status,
    200,
  )
})

t.test('a listing counts the memories that it copies', async (t) => {
  const { id, key } = await main.onboard()
  const entries = await Promise.all(
    Array.from({ length: 40 }, async (_, n) => {
      const json = { content: `${n} ${'x'.repeat(3_900)}`, type: 'fact' }
      const { body } = await main.ask('POST', '/api/vault/write', { key, json })
      return (body['pack'] as { id: string }).id
    }),
  )
  const list = () =>
    main.ask('POST', '/api/marketplace/list', {
      key,
      json: { name: 'x', description: 'x'.repeat(20), entry_ids: entries, price_usdc: 0.25 },
    })
  const set = (bytes: number) => main.sql`
    insert into daily_storage_bytes (agent_id, day, bytes)
    values (${id}, (now() at time zone 'UTC')::date, ${bytes})
    on conflict (agent_id, day) do update set bytes = excluded.bytes`
  // What this node may have reserved is less than the copies need.
  await set(LIMITS.storedBytesPerDay)
  t.match(await list(), { status: 429, body: { code: 'daily_bytes_exceeded' } })
  await set(1)
  const made = await list()
  t.equal(made.status, 200, made.text)
  t.ok((await used(id)) >= 40 * (3_900 + LIMITS.keptBytesPerWrite))
})

t.test('a refused write counts nothing', async (t) => {
  const { id, key } = await main.onboard()
  const bad = { to: id, message: 'x', subject: 'y'.repeat(10_000) }
  for (let sent = 0; sent < 30; sent += 1)
    t.equal((await main.ask('POST', '/api/messages', { key, json: bad })).status, 400)
  t.equal(await used(id), LIMITS.storedBytesLease)
})

t.test('one agent may send only so many messages a day to another one', async (t) => {
  const [sender, other, third] = [await main.onboard(), await main.onboard(), await main.onboard()]
  const send = (to: string, key: string) =>
    main.ask('POST', '/api/messages', { key, json: { to, message: 'x' } })
  t.equal((await send(other.id, sender.key)).status, 200)
  await main.sql`
    insert into messages (id, to_agent, from_agent, kind, body, at, expires_at)
    select gen_random_uuid(), to_agent, from_agent, kind, body, at, expires_at
      from messages, generate_series(2, ${LIMITS.messagesToOnePerDay}) where from_agent = ${sender.id}`
  t.match(await send(other.id, sender.key), {
    status: 429,
    body: {
      code: 'rate_limited',
      limit: LIMITS.messagesToOnePerDay,
      limit_source: 'rate.messages',
    },
  })
  t.equal((await send(third.id, sender.key)).status, 200, 'to somebody else')
  t.equal((await send(other.id, third.key)).status, 200, 'from somebody else')
})

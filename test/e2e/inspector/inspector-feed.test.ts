import { createWebSocketReceiver } from '@statelyai/inspect'
import t, { type Test } from 'tap'
import { connectInspectorTestSocket } from '../../support/inspector/inspector-test-socket.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/** The feed of the inspector: what it sends of a command, to whom, and to whom not. */

const TOKEN = 'operator-token-of-this-test'
const TOOL = 'hive_trending'
const operator = { authorization: `Bearer ${TOKEN}` }
const { url, ask, onboard, call, balance, station, sql } = await startInProcessTestStation(t, {
  OPERATOR_TOKEN: TOKEN,
})

t.test('a call is told after its commit, with its cause, edges and states', async (t) => {
  const agent = await onboard()
  const watch = await connectInspectorTestSocket(t, url, { headers: operator })
  const joined = await watch.next(({ type }) => type === 'gas.joined')
  t.match(joined, { matched: Number, counts: { agent: Number } })
  const actor = await watch.next(({ sessionId }) => sessionId === `agent:${agent.id}`)
  t.match(actor, {
    type: '@xstate.actor',
    _version: '0.7.2',
    name: 'tester',
    rootId: `agent:${agent.id}`,
  })
  t.match(JSON.parse(actor.definition ?? '{}'), { id: 'agent', states: {} })

  const { body, status } = await call(agent, TOOL)
  t.equal(status, 200)
  const snapshot = await watch.next(
    ({ type, gas }) => type === '@xstate.snapshot' && gas.call_id === body._meta.call_id,
  )
  t.match(snapshot, {
    sessionId: `agent:${agent.id}`,
    snapshot: { status: 'active', context: { agentId: agent.id, promo: body._meta.balance_usdc } },
    gas: { kind: 'agent', command: 'call.spend', cause: 'request', request_id: String },
  })
  t.match(snapshot.gas.edges, ['|SPEND|0'])
  t.match(snapshot, { gas: { ended: false } })
  const event = watch.frames[watch.frames.indexOf(snapshot) - 1]
  t.match(event, { type: '@xstate.event', event: { type: 'SPEND' } }, 'its event comes before it')
  const [row] = await sql<{ version: number }[]>`
    select version::int from journal where command_id = ${snapshot.gas.command_id}`
  t.equal(row?.version, snapshot.gas.version, 'its commit is in the journal')
})

t.test('a new agent and a new bounty have their names in the first frame', async (t) => {
  const watch = await connectInspectorTestSocket(t, url, { headers: operator })
  await watch.next(({ type }) => type === 'gas.joined')
  const agent = await onboard()
  const bounty = { title: 'Find it', description: 'a thing', reward_usdc: 0.1, domain: 'x' }
  const posted = await ask('POST', '/api/bounties', { key: agent.key, json: bounty })
  t.equal(posted.status, 201, posted.text)
  const named = async (session: string) =>
    (await watch.next(({ sessionId }) => sessionId === session)).name
  t.equal(await named(`agent:${agent.id}`), 'tester')
  t.equal(await named(`bounty:${String(posted.body['bounty_id'])}`), 'Find it')
})

t.test('a rejection shows the unchanged state with its code', async (t) => {
  const agent = await onboard(0)
  const watch = await connectInspectorTestSocket(t, url, {
    headers: operator,
    query: `?agent=${agent.id}`,
  })
  await watch.next(({ type }) => type === 'gas.joined')
  t.equal((await call(agent, TOOL)).status, 402)
  const refused = await watch.next(
    ({ type, gas }) => type === '@xstate.snapshot' && gas.refused !== undefined,
  )
  t.match(refused, { event: { type: 'SPEND' }, gas: { refused: 'payment_required' } })
  t.match(refused.gas.edges, [/^\|SPEND\|/])
  const [actor] = watch.frames
  t.strictSame(refused.snapshot.context, actor?.snapshot.context, 'nothing changed')
})

t.test('what a failed command has undone is not told', async (t) => {
  const { agent, bound } = await withBackpack(0)
  const watch = await connectInspectorTestSocket(t, url, {
    headers: operator,
    query: `?agent=${agent.id}`,
  })
  await watch.next(({ type }) => type === 'gas.joined')
  t.equal((await call(bound, TOOL)).status, 402, 'the Backpack would pay, its agent cannot')
  await watch.next(({ type, gas }) => type === '@xstate.snapshot' && gas.refused !== undefined)
  const steps = watch.frames.filter(({ type }) => type === '@xstate.snapshot')
  t.strictSame(
    steps.map(({ sessionId, gas }) => [sessionId, gas.refused]),
    [[`agent:${agent.id}`, 'payment_required']],
  )
})

t.test('a rejection that notes something shows what is committed', async (t) => {
  const { agent, bound, backpackId } = await withBackpack(undefined, 0.001)
  const watch = await connectInspectorTestSocket(t, url, {
    headers: operator,
    query: `?agent=${agent.id}`,
  })
  await watch.next(({ type }) => type === 'gas.joined')
  t.equal((await call(bound, TOOL)).status, 403)
  const { snapshot, gas } = await watch.next(
    ({ type, gas }) => type === '@xstate.snapshot' && gas.refused !== undefined,
  )
  t.match({ snapshot, gas }, { snapshot: { context: { told: { per_day: String } } } })
  const [row] = await sql<{ version: number; told: unknown }[]>`
    select version::int, state->'context'->'told' as told from actors
      join aggregates g on g.id = aggregate_id where actors.id = ${backpackId}`
  t.strictSame(row, { version: gas.version, told: snapshot.context['told'] })
})

/** An agent with this much, and a key of its Backpack. */
async function withBackpack(usdc: number | undefined, perDay = 1) {
  const agent = await onboard(usdc)
  const fuse = { per_day_usdc: perDay }
  const bag = await ask('POST', '/api/backpack/create', {
    key: agent.key,
    json: { agent_name: 'bag', fuse },
  })
  const backpackId = String(bag.body['backpack_id'])
  const { body } = await ask('POST', '/api/keys', {
    key: agent.key,
    json: { backpack_id: backpackId },
  })
  return { agent, backpackId, bound: { id: agent.id, key: String(body['api_key']) } }
}

t.test('messages and timers belong to no request', async (t) => {
  const [sender, receiver] = [await onboard(), await onboard()]
  const watch = await connectInspectorTestSocket(t, url, {
    headers: operator,
    query: `?actor=agent:${receiver.id}`,
  })
  await watch.next(({ type }) => type === 'gas.joined')
  const json = { to_agent_id: receiver.id, amount_usdc: 0.1 }
  t.equal((await ask('POST', '/api/agent/send', { key: sender.key, json })).status, 200)
  t.equal(station.server.services.inspection?.watched, true)
  await balance(receiver)
  const { gas } = await watch.next(
    ({ type, gas }) => type === '@xstate.snapshot' && gas.command === 'inbox.absorb',
  )
  t.match(gas, { cause: 'inbox', request_id: undefined })

  const feed = station.server.services.inspection
  const seen = await new Promise<(string | null | undefined)[]>((resolve) => {
    setImmediate(() => {
      feed?.enterRequest('one')
      const now = feed?.requestId()
      feed?.withoutRequest(() => setImmediate(() => resolve([now, feed.requestId()])))
    })
  })
  t.strictSame(seen, ['one', null])
})

t.test("Stately's own receiver reads the feed, joined with a one-time code", async (t) => {
  const link = await startedWithoutToken(t)
  const code = /#code=(.+)$/.exec(link.link ?? '')?.[1] ?? ''
  const agent = await link.onboard()
  const receiver = createWebSocketReceiver({
    server: `${link.url.replace('http', 'ws')}/inspector/ws?code=${code}`,
  })
  const seen: Record<string, unknown>[] = []
  const enough = new Promise<void>((resolve) => {
    receiver.subscribe((event) => {
      seen.push(event as never)
      if (event.type === '@xstate.snapshot') resolve()
    })
  })
  while (!link.isWatched()) await new Promise((done) => setTimeout(done, 5))
  await link.call(agent, TOOL)
  await enough
  const types = new Set(seen.map(({ type }) => type))
  t.ok(types.has('@xstate.actor') && types.has('@xstate.event'), [...types].join(' '))
  await t.rejects(
    connectInspectorTestSocket(t, link.url, { query: `?code=${code}` }),
    /401/,
    'the code opens once',
  )
  await link.close()
})

/** A station of a developer: the code that it prints opens the inspector. */
async function startedWithoutToken(t: Test) {
  const other = await startInProcessTestStation(t)
  return {
    ...other,
    link: await other.station.inspectorLink(),
    isWatched: () => other.station.server.services.inspection?.watched === true,
    close: () => other.station.close(),
  }
}

t.test('a created bounty and its poster are one commit', async (t) => {
  const agent = await onboard()
  const watch = await connectInspectorTestSocket(t, url, {
    headers: operator,
    query: `?agent=${agent.id}`,
  })
  await watch.next(({ type }) => type === 'gas.joined')
  const bounty = { title: 'Find it', description: 'a thing', reward_usdc: 0.1, domain: 'x' }
  const posted = await ask('POST', '/api/bounties', {
    key: agent.key,
    json: { ...bounty, required_keywords: ['thing'] },
  })
  t.equal(posted.status, 201, posted.text)
  const made = await watch.next(
    ({ type, sessionId }) => type === '@xstate.snapshot' && sessionId.startsWith('bounty:'),
  )
  const same = watch.frames.filter(
    ({ type, gas }) => type === '@xstate.snapshot' && gas.command_id === made.gas.command_id,
  )
  t.strictSame(new Set(same.map(({ gas }) => gas['kind' as never])), new Set(['agent', 'bounty']))
  t.match(made, {
    gas: { version: 1, ended: false },
    snapshot: { context: { posterId: agent.id } },
  })
})

t.test('a filter can be replaced, and limits what is sent', async (t) => {
  const [mine, other] = [await onboard(), await onboard()]
  const watch = await connectInspectorTestSocket(t, url, {
    headers: operator,
    query: '?machine=bounty',
  })
  t.match(await watch.next(({ type }) => type === 'gas.joined'), { counts: { agent: undefined } })
  watch.send({ type: 'gas.filter', actor: `agent:${mine.id}` })
  await watch.next(({ type, matched }) => type === 'gas.joined' && matched === 1)
  await call(other, TOOL)
  await call(mine, TOOL)
  await watch.next(
    ({ type, sessionId }) => type === '@xstate.snapshot' && sessionId === `agent:${mine.id}`,
  )
  t.notMatch(watch.text(), other.id)
})

t.test('a reader that does not read is bounded, and others see everything', async (t) => {
  const agent = await onboard()
  const slow = await connectInspectorTestSocket(t, url, { headers: operator })
  await slow.next(({ type }) => type === 'gas.joined')
  slow.socket.pause()
  const quick = await connectInspectorTestSocket(t, url, {
    headers: operator,
    query: `?agent=${agent.id}`,
  })
  await quick.next(({ type }) => type === 'gas.joined')
  for (let at = 0; at < 40; at++) await call(agent, TOOL)
  const told = () =>
    quick.frames.filter(
      ({ type, gas }) => type === '@xstate.snapshot' && gas.command === 'call.spend',
    )
  await quick.next(() => told().length >= 40)
  const seqs = told().map(({ gas }) => gas.version)
  t.strictSame(
    seqs,
    [...seqs].sort((a, b) => a - b),
    'in the order of their commits',
  )
})

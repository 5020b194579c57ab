import { createWebSocketReceiver } from '@statelyai/inspect'
import { EventEmitter } from 'node:events'
import t, { type Test } from 'tap'
import type { CommandListener } from '../../../actors/inspection/inspection-feed.ts'
import type { RecordedCommand } from '../../../actors/inspection/recorded-steps.ts'
import {
  createSharedStepFrames,
  startInspectorWatcher,
} from '../../../http/inspector/inspector-watcher.ts'
import { connectInspector } from '../../support/inspector/inspector-socket.ts'
import { startStation } from '../../support/station/start-test-station.ts'

/** The feed of the inspector: what it sends of a command, to whom, and to whom not. */

const TOKEN = 'operator-token-of-this-test'
const TOOL = 'hive_trending'
const operator = { authorization: `Bearer ${TOKEN}` }
const { url, ask, onboard, call, balance, station, sql } = await startStation(t, {
  OPERATOR_TOKEN: TOKEN,
})

const signIn = async (json: object, headers: Record<string, string> = {}) =>
  ask('POST', '/inspector/session', { json, headers })

t.test('a call is told after its commit, with its cause, edges and states', async (t) => {
  const agent = await onboard()
  const watch = await connectInspector(t, url, { headers: operator })
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

t.test('a rejection shows the unchanged state with its code', async (t) => {
  const agent = await onboard(0)
  const watch = await connectInspector(t, url, { headers: operator, query: `?agent=${agent.id}` })
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
  const watch = await connectInspector(t, url, { headers: operator, query: `?agent=${agent.id}` })
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
  const watch = await connectInspector(t, url, { headers: operator, query: `?agent=${agent.id}` })
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
  const watch = await connectInspector(t, url, {
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
    connectInspector(t, link.url, { query: `?code=${code}` }),
    /401/,
    'the code opens once',
  )
  await link.close()
})

/** A station of a developer: the code that it prints opens the inspector. */
async function startedWithoutToken(t: Test) {
  const other = await startStation(t)
  return {
    ...other,
    link: await other.station.inspectorLink(),
    isWatched: () => other.station.server.services.inspection?.watched === true,
    close: () => other.station.close(),
  }
}

t.test('a created bounty and its poster are one commit', async (t) => {
  const agent = await onboard()
  const watch = await connectInspector(t, url, { headers: operator, query: `?agent=${agent.id}` })
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
  const watch = await connectInspector(t, url, { headers: operator, query: '?machine=bounty' })
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

t.test('only the operator of this station may watch', async (t) => {
  const agent = await onboard()
  const refused = (headers: Record<string, string>, query = '') =>
    connectInspector(t, url, { headers, query })
  await t.rejects(refused({}), /401/, 'no token')
  await t.rejects(refused({ 'x-api-key': agent.key }), /401/, 'a key of an agent')
  await t.rejects(refused({ authorization: 'Bearer wrong-operator-token' }), /401/)
  await t.rejects(refused({ cookie: 'gas_inspector=9999999999999.a.b' }), /401/, 'a forged session')
  for (const origin of ['https://evil.example', 'null', 'http://gas.test.evil.example'])
    await t.rejects(refused({ ...operator, origin }), /403/, origin)
  await t.rejects(
    refused({ ...operator, origin: 'http://evil.example', host: 'evil.example' }),
    /403/,
    'a name that resolves to this machine',
  )
  await t.resolves(refused({ ...operator, origin: 'http://gas.test' }), 'its own page')
  await t.resolves(refused({ ...operator, origin: url }), 'a page of this machine')
})

t.test('a session begins with the token and ends', async (t) => {
  const wrong = await signIn({ token: 'wrong-operator-token' })
  t.match(wrong, { status: 401, body: { code: 'unauthenticated' } })
  t.equal((await signIn({ token: TOKEN }, { origin: 'https://evil.example' })).status, 403)
  const { status, headers, body } = await signIn({ token: TOKEN })
  t.match({ status, body }, { status: 200, body: { signed_in: true } })
  const [cookie = '', ...attributes] = String(headers['set-cookie']).split('; ')
  t.match(attributes, ['HttpOnly', 'SameSite=Strict', 'Path=/', 'Max-Age=43200'])
  const session = (value: string) =>
    ask('GET', '/inspector/session', { headers: value === '' ? {} : { cookie: value } })
  t.match(await session(cookie), {
    body: { signed_in: true, machines: [{ kind: 'agent', actors: Number }] },
  })
  t.match(await session(`${cookie}x`), { body: { signed_in: false, machines: [{ actors: null }] } })
  const watch = await connectInspector(t, url, { headers: { cookie } })
  t.ok(await watch.next(({ type }) => type === 'gas.joined'))
  const out = await ask('DELETE', '/inspector/session')
  t.match(out.headers['set-cookie'], /^gas_inspector=; .*Max-Age=0/)
})

t.test('wrong codes are limited', async (t) => {
  const other = await startStation(t, { OPERATOR_TOKEN: TOKEN })
  const attempt = () => other.ask('POST', '/inspector/session', { json: { code: 'wrong' } })
  const answers = await Promise.all(Array.from({ length: 30 }, attempt))
  const wrong = answers.filter(({ status }) => status === 401)
  t.equal(wrong.length, 10, 'also of attempts at once')
  t.equal((await attempt()).status, 429)
  await other.station.close()
})

t.test('a reader that does not read is bounded, and others see everything', async (t) => {
  const agent = await onboard()
  const slow = await connectInspector(t, url, { headers: operator })
  await slow.next(({ type }) => type === 'gas.joined')
  slow.socket.pause()
  const quick = await connectInspector(t, url, { headers: operator, query: `?agent=${agent.id}` })
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

/** A watcher whose connection hands on what is written to the socket. */
const watcherOf = (socket: object & { send(text: string): void }) => ({
  socket: socket as never,
  connection: {
    ...{ cork() {}, uncork() {} },
    write: (bytes: Buffer) => (socket.send(bytes.toString('latin1')), true),
  } as never,
})

t.test('a reader learns what it missed although no frame follows', async (t) => {
  const { clock, actorDirectory: directory } = station.server.services
  const sent: string[] = []
  const socket = Object.assign(new EventEmitter(), {
    ...{ OPEN: 1, readyState: 1, bufferedAmount: 0 },
    send: (text: string) => void sent.push(text),
  })
  const told: CommandListener[] = []
  const feed = { watch: (listener: CommandListener) => (told.push(listener), () => {}) }
  const framesOf = createSharedStepFrames()
  const log = (message: string) => t.fail(message)
  startInspectorWatcher({ clock, feed, directory, framesOf, log }, watcherOf(socket), { q: 'none' })
  while (sent.length === 0) await new Promise((done) => setTimeout(done, 5))
  told[0]?.missed(3)
  t.strictSame(sent.slice(1), ['{"type":"gas.missed","frames":3}'])
  socket.bufferedAmount = 2_000_000
  told[0]?.missed(4)
  t.equal(sent.length, 2, 'it is behind')
  socket.bufferedAmount = 0
  while (sent.length === 2) await new Promise((done) => setTimeout(done, 5))
  t.strictSame(sent.slice(2), ['{"type":"gas.missed","frames":4}'])
})

t.test(
  'a reader that never reads is kept at a mebibyte, and closed after half a minute',
  async (t) => {
    const { clock, actorDirectory: directory } = station.server.services
    let [now, closed, unread] = [0, 0, 0]
    const socket = Object.assign(new EventEmitter(), {
      ...{ OPEN: 1, readyState: 1, terminate() {} },
      send: (text: string) => void (unread += text.length),
      close: (code: number) => void (closed = code),
    })
    Object.defineProperty(socket, 'bufferedAmount', { get: () => unread })
    const told: CommandListener[] = []
    const feed = { watch: (listener: CommandListener) => (told.push(listener), () => {}) }
    const framesOf = createSharedStepFrames()
    const log = (message: string) => t.fail(message)
    const deps = { clock: { ...clock, mono: () => now }, feed, directory, framesOf, log }
    startInspectorWatcher(deps, watcherOf(socket), { q: 'none', machine: 'drop' })
    while (unread === 0) await new Promise((done) => setTimeout(done, 5))
    const actor = { kind: 'drop', id: 'none', aggregateId: 'none', isNew: false } as const
    const step = {
      ...actor,
      event: { type: 'REDEEM', agentId: 'a'.repeat(500) },
      edges: [],
      refused: null,
    }
    const state = { value: 'open', context: {} }
    const command: RecordedCommand = {
      ...{ aggregateId: 'none', aggregateKind: 'drop', commandId: 'c', command: 'drop.redeem' },
      ...{ version: 2, at: 1, cause: 'request', requestId: null, callId: null, node: 'n' },
      steps: [{ ...step, snapshot: state }],
    }
    for (let sent = 0; sent < 3_000; sent++) told[0]?.heard(command)
    t.ok(unread > 1_000_000 && unread < 1_060_000, `${unread} bytes wait`)
    now = 30_000
    told[0]?.heard(command)
    t.equal(closed, 0, 'it may still catch up')
    now = 30_001
    told[0]?.heard(command)
    t.equal(closed, 1013)
  },
)

t.test('at most so many watchers, and none is recorded for when they have left', async (t) => {
  const open = await Promise.all(
    Array.from({ length: 200 }, () =>
      connectInspector(t, url, { headers: operator }).catch((error: Error) => error.message),
    ),
  )
  const refused = open.filter((one) => typeof one === 'string')
  t.ok(refused.length >= 180, `${refused.length} refused`)
  t.ok(refused.every((status) => status === '429' || status === 'close'))
  t.equal((await call(await onboard(), TOOL)).status, 200)
  station.server.websocketServer.clients.forEach((client) => client.terminate())
  while (station.server.services.inspection?.watched === true)
    await new Promise((done) => setTimeout(done, 5))
  t.pass('the feed rests')
})

t.test('off, there is no inspector', async (t) => {
  const off = await startStation(t, { OPERATOR_TOKEN: TOKEN, INSPECTOR: 'off' })
  t.equal((await off.ask('GET', '/inspector/session')).status, 404)
  await t.rejects(connectInspector(t, off.url, { headers: operator }), /404/)
  await off.station.close()
})

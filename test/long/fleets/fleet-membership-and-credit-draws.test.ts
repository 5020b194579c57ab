import t, { type Test } from 'tap'
import { retryWithFleetLoan } from '../../../calls/fleet-loan-for-call.ts'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { ServiceError } from '../../../core/errors.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { fromUsdc } from '../../../core/money.ts'
import { releaseCallHoldCommand } from '../../../payments/commands/call-commands.ts'
import { drawFromFleetCommand } from '../../../payments/commands/fleet-commands.ts'
import { countReplies } from '../../support/http/test-http-client.ts'
import {
  createAgentRequestSender,
  createFundedFleet,
  bookFleetTopUps,
  fleetIdOfReply,
  createTestFleet,
  readFleetPoolBalance,
} from '../../support/agents/create-test-fleets.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import { requestUntilReplyMatches } from '../../support/payments/deposit-wallet-and-scanner-test-fixtures.ts'

const N = 64
const TOOL = 'hive_trending'
const PRICE = 0.005
const usdc = (micros: number) => Math.round(micros) / 1e6
const times = (count: number, more = 0) => usdc(count * PRICE * 1e6 + more)

t.test('creating, joining and reading a fleet need the right keys', async (t) => {
  const main = await startInProcessTestStation(t)
  const [ann, bob, eve] = [await main.onboard(), await main.onboard(), await main.onboard()]
  const [asAnn, asBob, asEve] = [
    createAgentRequestSender(main, ann),
    createAgentRequestSender(main, bob),
    createAgentRequestSender(main, eve),
  ]
  const made = await asAnn(
    'POST',
    '/api/fleet/create',
    { name: 'crew' },
    { 'idempotency-key': 'k' },
  )
  t.match(made, {
    status: 200,
    body: { name: 'crew', owner_agent_id: ann.id, balance_usdc: 0, bonus_usdc: 0, members: 0 },
  })
  t.match(String(made.body['wallet_address']), /^0x[0-9a-fA-F]{40}$/)
  const again = await asAnn(
    'POST',
    '/api/fleet/create',
    { name: 'crew' },
    { 'idempotency-key': 'k' },
  )
  const id = fleetIdOfReply(made)
  t.equal(fleetIdOfReply(again), id)
  const add = (
    ask: ReturnType<typeof createAgentRequestSender>,
    agent: TestAgent,
    more: object = {},
  ) => ask('POST', '/api/fleet/add-agent', { fleet_id: id, agent_id: agent.id, ...more })

  t.match(await add(asAnn, ann), { status: 200, body: { joined: true } }, 'the owner itself')
  t.match(await add(asAnn, ann), { status: 409, body: { code: 'already_in_fleet' } })
  for (const more of [{}, { agent_key: eve.key }, { agent_key: 'gas_x' }]) {
    t.match(await add(asAnn, bob, more), { status: 403, body: { code: 'insufficient_scope' } })
  }
  const { body } = await asBob('POST', '/api/keys', { scopes: ['tools'] })
  t.match(await add(asAnn, bob, { agent_key: body.api_key }), { status: 403 }, 'too narrow a key')
  t.match(await add(asEve, eve), { status: 404, body: { code: 'fleet_not_found' } })
  t.match(await add(asAnn, { ...bob, id: newUuidV7(1) }, { agent_key: bob.key }), {
    status: 404,
    body: { code: 'agent_not_found' },
  })
  const consent = { agent_key: bob.key }
  t.match(await add(asAnn, bob, consent), { status: 200 })
  const other = await createTestFleet(main, eve)
  const both = { fleet_id: other, agent_id: bob.id, agent_key: bob.key }
  t.match(await asEve('POST', '/api/fleet/add-agent', both), {
    status: 409,
    body: { code: 'already_in_fleet' },
  })

  const path = `/api/fleet/balance?fleet_id=${id}`
  t.match(await asAnn('GET', path), { status: 200, body: { members: 2 } })
  t.match(await asBob('GET', path), { status: 200 }, 'a member sees it')
  t.match(await asEve('GET', path), { status: 404, body: { code: 'fleet_not_found' } })
  const fleets = async (ask: ReturnType<typeof createAgentRequestSender>) =>
    ((await ask('GET', '/api/fleet/list')).body['fleets'] as { fleet_id: string }[]).map(
      (one) => one.fleet_id,
    )
  t.strictSame(
    [await fleets(asAnn), await fleets(asBob), await fleets(asEve)],
    [[id], [id], [other]],
  )
  await main.verify()
})

t.test('of two fleets that add an agent concurrently one succeeds', async (t) => {
  const main = await startInProcessTestStation(t)
  const [ann, bob] = [await main.onboard(), await main.onboard()]
  const ids = await Promise.all(Array.from({ length: 8 }, () => createTestFleet(main, ann)))
  const joining = ids.map((fleet_id) =>
    createAgentRequestSender(main, ann)('POST', '/api/fleet/add-agent', {
      fleet_id,
      agent_id: bob.id,
      agent_key: bob.key,
    }),
  )
  t.strictSame(countReplies(await Promise.all(joining)), { 200: 1, '409 already_in_fleet': 7 })
  await main.verify()
})

t.test('a member short of credits draws exactly the missing amount', async (t) => {
  const main = await startInProcessTestStation(t)
  const { owner, id, members } = await createFundedFleet(main, 0.002, 1, [0.0075])
  const [member] = members as [TestAgent]
  const quote = () => main.ask('POST', '/api/quote', { key: member.key, json: { tool: TOOL } })
  t.match((await quote()).body, { would_refuse: null })
  t.match(await main.call(member, TOOL), { status: 200, body: { _meta: { cost_usdc: PRICE } } })
  t.equal(await main.balance(member), 0)
  t.equal(await readFleetPoolBalance(main, owner, id), 0.0045)
  t.match((await quote()).body, { would_refuse: { code: 'payment_required' } })
  t.match(await main.call(member, TOOL), {
    status: 402,
    body: {
      code: 'payment_required',
      limit_source: 'fleet',
      fleet_id: id,
      needed_usdc: PRICE,
      balance_usdc: 0,
      fund_url: `http://gas.test/fund/${member.id}`,
    },
  })
  t.equal(await readFleetPoolBalance(main, owner, id), 0.0045, 'a pool that is short lends nothing')
  const stranger = await main.onboard(0)
  t.match(await main.call(stranger, TOOL), { status: 402, body: { limit_source: 'balance' } })
  const kinds = await main.sql`select kind, amount_micros as amount from transfers
    where debit = ${`fleet:${id}`}`
  t.strictSame([...kinds], [{ kind: 'draw', amount: 3_000n }])
  await main.verify()
})

t.test('the bonus of the first top-up is lent first, as promotional credits', async (t) => {
  const main = await startInProcessTestStation(t)
  const { owner, id, members } = await createFundedFleet(main, 0, 1, [1])
  const [member] = members as [TestAgent]
  t.equal(await readFleetPoolBalance(main, owner, id), 1.25)
  for (let call = 0; call < 3; call += 1) t.equal((await main.call(member, TOOL)).status, 200)
  const { body } = await createAgentRequestSender(main, owner)(
    'GET',
    `/api/fleet/balance?fleet_id=${id}`,
  )
  t.match(body, { balance_usdc: 1.235, bonus_usdc: 0.235 })
  await bookFleetTopUps(main, id, [4])
  t.equal(await readFleetPoolBalance(main, owner, id), 5.235, 'once')
  await main.verify()
})

t.test('a draw repeated under one id moves money once', async (t) => {
  const main = await startInProcessTestStation(t)
  const { owner, id, members } = await createFundedFleet(main, 0, 1, [0.5])
  const [member] = members as [TestAgent]
  const draw = { id: newUuidV7(1), agentId: member.id, callId: newUuidV7(1), amount: fromUsdc(0.1) }
  const present = () => ({ status: 200, body: {} })
  const receipt = { operation: 'x', key: draw.id, hash: draw.id, keyId: null, present }
  const { ask } = main.station.actors
  const twice = [
    ask(id, drawFromFleetCommand, draw, { receipt }),
    ask(id, drawFromFleetCommand, draw, { receipt }),
  ]
  const outcomes = (await Promise.allSettled(twice)).map(({ status }) => status)
  t.strictSame(outcomes.sort(), ['fulfilled', 'rejected'])
  t.equal(await readFleetPoolBalance(main, owner, id), 0.4)
  await main.balance(member)
  const held = await main.sql`select state->'context'->'held'->>'$n' as held from actors
    where id = ${member.id}`
  t.strictSame([...held], [{ held: '100000' }], 'held for its call only')
  await main.verify()
})

t.test('a call admitted while it is being rejected still gets its loan', async (t) => {
  const main = await startInProcessTestStation(t)
  const { owner, id, members } = await createFundedFleet(main, 0, 1, [0.5])
  const [member] = members as [TestAgent]
  const { actors } = main.station
  const callId = newUuidV7(1)
  const drawing = { agentId: member.id, callId, amount: fromUsdc(0.1), beside: true }
  const parts = {
    actors,
    clock: createDatabaseAdjustedClock(),
    log: (message: string) => t.fail(message),
  }
  const lent = await retryWithFleetLoan(parts, drawing, async (more) => {
    if (more > 0n) return more
    throw new ServiceError('payment_required', { limit_source: 'balance' })
  })
  t.equal(lent, fromUsdc(0.1))
  t.equal(await readFleetPoolBalance(main, owner, id), 0.4)
  await actors.ask(member.id, releaseCallHoldCommand, { callId })
  await main.verify()
})

/** 64 calls at once, dealt over the members and the nodes. */
const storm = (nodes: readonly TestStation[], members: readonly TestAgent[]) =>
  Promise.all(
    Array.from({ length: N }, (_, at) => {
      const member = members[Math.floor(at / nodes.length) % members.length] as TestAgent
      return (nodes[at % nodes.length] as TestStation).call(member, TOOL)
    }),
  )

t.test('64 calls at once on two nodes', async (t) => {
  const main = await startInProcessTestStation(t)
  const nodes = [main, await spawnSecondNode(t, main)]

  async function race(t: Test, own: number, count: number, money: number) {
    const { owner, id, members } = await createFundedFleet(main, own, count, [money])
    const answers = await storm(nodes, members)
    const left = await Promise.all(members.map((member) => main.balance(member)))
    return { answers, left, pool: await readFleetPoolBalance(main, owner, id) }
  }

  for (const count of [1, 4]) {
    t.test(`${count} members without credits spend the pool to the last call`, async (t) => {
      const { answers, left, pool } = await race(t, 0, count, times(40, 1_000))
      t.strictSame(countReplies(answers), { 200: 40, '402 payment_required': N - 40 })
      const refused = answers.filter(({ status }) => status === 402)
      const others = refused.filter(({ body }) => body['limit_source'] !== 'fleet')
      t.strictSame(
        others.map(({ body }) => body),
        [],
      )
      t.equal(pool, 0.001)
      t.strictSame(
        left,
        left.map(() => 0),
      )
    })
    t.test(`${count} members with their own credits draw the rest from the pool`, async (t) => {
      const { answers, left, pool } = await race(t, times(4), count, 0.4)
      t.strictSame(countReplies(answers), { 200: N }, 'no call is rejected')
      const spent = left.reduce((sum, own) => sum + times(4) - own, 0) + 0.4 - pool
      t.equal(usdc(spent * 1e6), times(N), 'and nothing is gone but the price')
    })
  }
  t.test('gas verify finds no difference afterwards', () => main.verify())
})

t.test('the loans of failed calls return', async (t) => {
  const main = await startInProcessTestStation(t, { FREE_TIER_PER_DAY: '0' })
  const failing = (member: TestAgent) => main.call(member, 'price_feed', { query: 'BTC' })
  const purses = (members: readonly TestAgent[]) =>
    Promise.all(members.map((member) => main.balance(member)))

  t.test('exactly, from 64 calls of members without credits', async (t) => {
    const { owner, id, members } = await createFundedFleet(main, 0, 4, [0.5])
    const calls = Array.from({ length: N }, (_, at) => failing(members[at % 4] as TestAgent))
    t.strictSame(countReplies(await Promise.all(calls)), { '503 price_unavailable': N })
    t.strictSame(await purses(members), [0, 0, 0, 0])
    t.equal(await readFleetPoolBalance(main, owner, id), 0.5)
  })
  t.test('the member’s own credits do not go to the pool', async (t) => {
    const { owner, id, members } = await createFundedFleet(main, 0.001, 1, [0.5])
    t.equal((await failing(members[0] as TestAgent)).status, 503)
    t.strictSame(await purses(members), [0.001])
    t.equal(await readFleetPoolBalance(main, owner, id), 0.5)
    const calls = Array.from({ length: N }, () => failing(members[0] as TestAgent))
    t.strictSame(countReplies(await Promise.all(calls)), { '503 price_unavailable': N })
    const [own = 0] = await purses(members)
    t.strictSame(
      [own, await readFleetPoolBalance(main, owner, id)],
      [0.001, 0.5],
      'nothing stays that was lent',
    )
  })
  t.test('gas verify finds no difference afterwards', () => main.verify())
})

t.test('each loan belongs to one call, with any number of concurrent calls', async (t) => {
  const main = await startInProcessTestStation(t, { FREE_TIER_PER_DAY: '0' })
  const nodes = [main, await spawnSecondNode(t, main, { FREE_TIER_PER_DAY: '0' })]
  const total = (own: number, money: number) => usdc((own + money) * 1e6)

  t.test('20 concurrent calls of a member, some of which fail', async (t) => {
    const { owner, id, members } = await createFundedFleet(main, 0.0075, 1, [0.2, 1])
    const [member] = members as [TestAgent]
    const before = total(await main.balance(member), await readFleetPoolBalance(main, owner, id))
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, at) => {
        const node = nodes[at % nodes.length] as TestStation
        return at % 4 < 2
          ? node.call(member, TOOL)
          : node.call(member, 'price_feed', { query: 'BTC' })
      }),
    )
    t.strictSame(countReplies(answers), { 200: 10, '503 price_unavailable': 10 })
    const after = total(await main.balance(member), await readFleetPoolBalance(main, owner, id))
    t.equal(after, usdc((before - times(10)) * 1e6), 'what is gone is what was spent')
    t.ok((await main.balance(member)) <= 0.0075, 'and nothing that was lent stays')
    const { body } = await createAgentRequestSender(main, owner)(
      'GET',
      `/api/fleet/balance?fleet_id=${id}`,
    )
    const [bonus = 0, money = 0] = [body['bonus_usdc'], body['balance_usdc']] as number[]
    t.ok(bonus <= 0.25 && money <= 1.45, 'nor has the pool gained')
    t.strictSame(
      [
        ...(await main.sql`select state->'context'->'holds' as holds,
          state->'context'->'held'->>'$n' as held from actors where id = ${member.id}`),
      ],
      [{ holds: {}, held: '0' }],
    )
  })
  t.test(
    'a member without credits has none afterwards, and the pool paid the exact amount',
    async (t) => {
      const { owner, id, members } = await createFundedFleet(main, 0, 1, [0.5])
      const [member] = members as [TestAgent]
      const calls = Array.from({ length: 20 }, (_, at) =>
        (nodes[at % nodes.length] as TestStation).call(member, TOOL),
      )
      t.strictSame(countReplies(await Promise.all(calls)), { 200: 20 })
      t.equal(await main.balance(member), 0)
      t.equal(await readFleetPoolBalance(main, owner, id), usdc((0.5 - times(20)) * 1e6))
    },
  )
  t.test('a low balance is reported once, not with every call on the pool', async (t) => {
    const { members } = await createFundedFleet(main, 0.255, 1, [0.8])
    const [member] = members as [TestAgent]
    const told = () =>
      main.sql<{ data: { tier: string } }[]>`
        select data from outbox where agent_id = ${member.id} and type = 'low_balance' order by id`
    const before = (await told()).length
    for (let at = 0; at < 60; at += 1) t.equal((await main.call(member, TOOL)).status, 200)
    const tiers = (await told()).slice(before).map(({ data }) => data.tier)
    t.strictSame(tiers, ['warning', 'critical', 'empty'])
  })
  t.test('gas verify finds no difference afterwards', () => main.verify())
})

t.test('a loan whose call was never created returns by itself', async (t) => {
  const main = await startInProcessTestStation(t)
  const { owner, id, members } = await createFundedFleet(main, 0, 1, [0.5])
  const [member] = members as [TestAgent]
  const [draw, callId] = [newUuidV7(Date.now()), newUuidV7(Date.now())]
  const asked = { id: draw, agentId: member.id, callId, amount: fromUsdc(0.1) }
  await main.station.actors.ask(id, drawFromFleetCommand, asked)
  t.equal(await main.balance(member), 0, "it is nobody else's to spend")
  t.equal(await readFleetPoolBalance(main, owner, id), 0.4)
  await main.sql`update timers set due_at = now() where id = ${`hold:${callId}`}`
  await requestUntilReplyMatches(
    () => readFleetPoolBalance(main, owner, id),
    (money) => money === 0.5,
  )
  t.equal((await main.sql`select from timers where id = ${`hold:${callId}`}`).length, 0)
  await main.verify()
})

t.test('without its tables a fleet is unavailable, with instructions', async (t) => {
  const main = await startInProcessTestStation(t)
  const ann = await main.onboard()
  await main.sql`alter table fleet_members rename to elsewhere`
  const { status, body } = await createAgentRequestSender(main, ann)('GET', '/api/fleet/list')
  t.match(
    { status, body },
    {
      status: 503,
      body: {
        code: 'fleet_unavailable',
        missing: ['fleet_members'],
        remedy: { action: 'migrate' },
      },
    },
  )
  t.match(String(body['detail']), /gas migrate/)
  t.equal((await main.ask('GET', '/api/fleet/list')).status, 401, 'strangers learn nothing')
  await main.sql`alter table elsewhere rename to fleet_members`
  t.equal((await createAgentRequestSender(main, ann)('GET', '/api/fleet/list')).status, 200)
})

t.test('without an RPC of Base a top-up is rejected', async (t) => {
  const main = await startInProcessTestStation(t)
  const ann = await main.onboard()
  const asked = { fleet_id: await createTestFleet(main, ann), tx_hash: `0x${'1'.repeat(64)}` }
  const answer = await createAgentRequestSender(main, ann)('POST', '/api/fleet/topup', asked)
  t.match(answer, { status: 503, body: { code: 'rail_disabled' } })
})

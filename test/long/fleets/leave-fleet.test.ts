import t, { type Test } from 'tap'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { countReplies, type TestReply } from '../../support/http/test-http-client.ts'
import {
  createAgentRequestSender,
  createFundedFleet,
  bookFleetTopUps,
  addFleetMember,
  createTestFleet,
  readFleetPoolBalance,
} from '../../support/agents/create-test-fleets.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
  type InProcessStation,
} from '../../support/station/start-test-station.ts'
import { requestUntilReplyMatches } from '../../support/payments/deposit-wallet-and-scanner-test-fixtures.ts'

const main = await startInProcessTestStation(t)
const beside = await spawnSecondNode(t, main)
const TOOL = 'hive_trending'
const PRICE = 0.005
const usdc = (micros: number) => Math.round(micros) / 1e6
const sumOf = (amounts: readonly number[]) => usdc(amounts.reduce((sum, one) => sum + one, 0) * 1e6)

type Asking = ReturnType<typeof createAgentRequestSender>
const leave = (ask: Asking, json: object = {}, headers = {}) =>
  ask('POST', '/api/fleet/leave', json, headers)
const remove = (ask: Asking, json: object, headers = {}) =>
  ask('POST', '/api/fleet/remove-agent', json, headers)
const membersOf = async (ask: Asking, id: string) =>
  ((await ask('GET', `/api/fleet/${id}/members`)).body['members'] as { id: string }[]).map(
    (member) => member.id,
  )

t.test('an agent leaves its fleet by itself, and may join another one', async (t) => {
  const [ann, bob, eve] = [await main.onboard(), await main.onboard(), await main.onboard()]
  const [asAnn, asBob] = [createAgentRequestSender(main, ann), createAgentRequestSender(main, bob)]
  const [id, other] = [await createTestFleet(main, ann), await createTestFleet(main, eve)]
  const refused = (detail: RegExp) => ({ status: 409, body: { code: 'not_in_fleet', detail } })
  t.match(await leave(asBob), refused(/^You are in no fleet: there is nothing to leave\.$/))
  t.match(await leave(asBob, { fleet_id: id }), refused(/no member of this fleet/))
  t.match(await leave(asAnn), refused(/stays the owner .* POST .*remove-agent/), 'an owner outside')

  await addFleetMember(main, ann, id, bob)
  t.match(await leave(asBob, { fleet_id: other }), refused(/no member of this fleet/))
  t.strictSame(await membersOf(asAnn, id), [bob.id], 'nothing has changed by what was refused')
  const { body: narrow } = await asBob('POST', '/api/keys', { scopes: ['tools', 'read'] })
  const weak = await leave(createAgentRequestSender(main, { ...bob, key: narrow.api_key }))
  t.match(weak, { status: 403, body: { code: 'insufficient_scope' } })

  const headers = { 'idempotency-key': 'bye' }
  const left = await leave(asBob, { fleet_id: id.toUpperCase() }, headers)
  t.match(left, { status: 200, body: { fleet_id: id, agent_id: bob.id, left: true } })
  const again = await leave(asBob, { fleet_id: id.toUpperCase() }, headers)
  t.strictSame(again.body, left.body)
  t.match(again.headers, { 'idempotency-replayed': 'true' })
  t.match(await leave(asBob), { status: 409 }, 'without the key it is another request')
  t.strictSame(await membersOf(asAnn, id), [])
  const balance = `/api/fleet/balance?fleet_id=${id}`
  t.match(await asAnn('GET', balance), { status: 200, body: { members: 0 } })
  t.match(await asBob('GET', balance), { status: 404, body: { code: 'fleet_not_found' } })
  t.match((await asBob('GET', '/api/fleet/list')).body, { fleets: [], count: 0 })

  await addFleetMember(main, eve, other, bob)
  t.match(await leave(asBob), { status: 200, body: { fleet_id: other } }, 'the one it is in')
  await addFleetMember(main, ann, id, bob)
  await addFleetMember(main, eve, other, ann)
  t.strictSame([await membersOf(asAnn, id), await membersOf(asAnn, other)], [[bob.id], [ann.id]])
  await main.verify()
})

t.test('an owner that has added itself leaves like any member and stays the owner', async (t) => {
  const [ann, bob] = [await main.onboard(0), await main.onboard()]
  const [asAnn, id] = [createAgentRequestSender(main, ann), await createTestFleet(main, ann)]
  t.equal(
    (await asAnn('POST', '/api/fleet/add-agent', { fleet_id: id, agent_id: ann.id })).status,
    200,
  )
  await bookFleetTopUps(main, id, [0.5])
  t.equal((await main.call(ann, TOOL)).status, 200)
  t.match(await leave(asAnn), { status: 200, body: { fleet_id: id } })
  t.match(await main.call(ann, TOOL), { status: 402, body: { limit_source: 'balance' } })
  t.match(await asAnn('GET', `/api/fleet/balance?fleet_id=${id}`), {
    status: 200,
    body: { owner_agent_id: ann.id, members: 0, balance_usdc: 0.5 - PRICE },
  })
  await addFleetMember(main, ann, id, bob)
  t.strictSame(await membersOf(asAnn, id), [bob.id])
  await main.verify()
})

t.test('only the owner can remove another agent', async (t) => {
  const [ann, bob, cid, eve] = [
    await main.onboard(),
    await main.onboard(),
    await main.onboard(),
    await main.onboard(),
  ]
  const [asAnn, asBob, asCid, asEve] = [ann, bob, cid, eve].map((one) =>
    createAgentRequestSender(main, one),
  ) as [Asking, Asking, Asking, Asking]
  const [id, other] = [await createTestFleet(main, ann), await createTestFleet(main, ann)]
  await addFleetMember(main, ann, id, bob)
  await addFleetMember(main, ann, id, cid)
  const [agent_id, named] = [bob.id, { agent_id: bob.id, fleet_id: id }]
  const stranger = await remove(asEve, { agent_id })
  t.match(stranger, { status: 409, body: { code: 'not_in_fleet', detail: /in no fleet of yours/ } })
  const nowhere = await remove(asEve, { agent_id: eve.id })
  const { instance: _a, agent_id: _b, ...told } = stranger.body
  const { instance: _c, agent_id: _d, ...same } = nowhere.body
  t.strictSame(told, same, 'membership in another fleet is not revealed')
  t.match(await remove(asEve, named), { status: 404, body: { code: 'fleet_not_found' } })
  t.match(await remove(asCid, named), { status: 403, body: { code: 'fleet_not_yours' } })
  t.match(await remove(asBob, { agent_id }), {
    status: 403,
    body: { code: 'fleet_not_yours', detail: /leave it with POST \/api\/fleet\/leave/ },
  })
  const unknown = { ...named, agent_id: newUuidV7(1) }
  t.match(await remove(asAnn, unknown), { status: 404, body: { code: 'agent_not_found' } })
  t.match(await remove(asAnn, { ...named, fleet_id: other }), {
    status: 409,
    body: { code: 'not_in_fleet', fleet_id: other, detail: /no member of this fleet/ },
  })
  t.strictSame(await membersOf(asAnn, id), [bob.id, cid.id], 'nothing has changed by any of it')

  const headers = { 'idempotency-key': 'out' }
  const removed = await remove(asAnn, { agent_id }, headers)
  t.match(removed, { status: 200, body: { fleet_id: id, agent_id: bob.id, removed: true } })
  const again = await remove(asAnn, { agent_id }, headers)
  t.strictSame(again.body, removed.body)
  t.match(again.headers, { 'idempotency-replayed': 'true' })
  t.match(await leave(asBob, {}, headers), { status: 409, body: { code: 'not_in_fleet' } })
  t.equal((await remove(asAnn, named)).status, 409)
  t.strictSame(await membersOf(asAnn, id), [cid.id])
  await addFleetMember(main, ann, other, bob)
  t.match(await remove(asAnn, { agent_id }), { status: 200, body: { fleet_id: other } })
  await main.verify()
})

/** A tool at the same price whose call is held while it runs; it has no free calls here. */
const HELD_CALL = ['hive_read', { query: 'gas' }] as const
const HELD_CALL_SETTINGS = { FREE_TIER_PER_DAY: '0' }

/** Locks the table that `hive_read` reads, so that admitted calls wait. */
async function holding(main: InProcessStation, work: () => Promise<unknown>) {
  await main.sql.begin(async (locking) => {
    await locking`lock table hive_entries in access exclusive mode`
    await work()
  })
}

/** Two nodes of their own and two fleets; the first has the one member, which has nothing of its own. */
async function between(t: Test) {
  const main = await startInProcessTestStation(t, HELD_CALL_SETTINGS)
  const beside = await spawnSecondNode(t, main, HELD_CALL_SETTINGS)
  const one = { main, ...(await createFundedFleet(main, 0, 1, [0.5])) }
  const two = { main, ...(await createFundedFleet(main, 0, 0, [0.3])) }
  const [member] = one.members as [TestAgent]
  return { main, beside, one, two, member }
}

/** Sends a call that runs on the pool, and waits until the pool has lent for it. */
async function begin(
  node: Pick<InProcessStation, 'call'>,
  member: TestAgent,
  { main, owner, id }: { main: InProcessStation; owner: TestAgent; id: string },
): Promise<{ answer: Promise<TestReply> }> {
  const before = await readFleetPoolBalance(main, owner, id)
  const answer = node.call(member, ...HELD_CALL)
  await requestUntilReplyMatches(
    () => readFleetPoolBalance(main, owner, id),
    (money) => money === usdc((before - PRICE) * 1e6),
  )
  return { answer }
}

for (const outcome of ['is paid', 'fails'] as const) {
  t.test(
    `a running call whose agent leaves ${outcome}, on the pool that lent for it`,
    async (t) => {
      const { main, beside, one, two, member } = await between(t)
      const calls: Promise<TestReply>[] = []
      await holding(main, async () => {
        calls.push((await begin(beside, member, one)).answer)
        t.match(await leave(createAgentRequestSender(main, member)), {
          status: 200,
          body: { fleet_id: one.id },
        })
        const short = await main.call(member, ...HELD_CALL)
        t.match(short, { status: 402, body: { limit_source: 'balance' } }, 'no new call draws')
        await addFleetMember(main, two.owner, two.id, member)
        calls.push((await begin(main, member, two)).answer)
        if (outcome === 'fails') await Promise.all(calls)
      })
      const answers = await Promise.all(calls)
      const paid = outcome === 'is paid' ? PRICE : 0
      t.strictSame(
        countReplies(answers),
        outcome === 'is paid' ? { 200: 2 } : { '503 unavailable': 2 },
      )
      t.equal(await readFleetPoolBalance(main, one.owner, one.id), usdc((0.5 - paid) * 1e6))
      t.equal(await readFleetPoolBalance(main, two.owner, two.id), usdc((0.3 - paid) * 1e6))
      t.equal(await main.balance(member), 0, 'nothing moves to the member by leaving')
      await main.verify()
    },
  )
}

t.test(
  'a call whose node dies after its agent has moved returns the loan to its lender',
  async (t) => {
    const { main, beside, one, two, member } = await between(t)
    await holding(main, async () => {
      const { answer } = await begin(beside, member, one)
      const lost = answer.catch(() => null)
      t.match(await remove(createAgentRequestSender(main, one.owner), { agent_id: member.id }), {
        status: 200,
      })
      await addFleetMember(main, two.owner, two.id, member)
      await beside.end('SIGKILL')
      t.equal(await lost, null)
    })
    t.equal(
      await readFleetPoolBalance(main, one.owner, one.id),
      usdc((0.5 - PRICE) * 1e6),
      'still held for it',
    )
    t.equal(await main.balance(member), 0, 'asked once it has heard of its new fleet')
    await main.verify()
    await main.sql`update timers set due_at = now() where aggregate_id = ${member.id}`
    await requestUntilReplyMatches(
      () => readFleetPoolBalance(main, one.owner, one.id),
      (money) => money === 0.5,
    )
    t.equal(await readFleetPoolBalance(main, two.owner, two.id), 0.3)
    t.equal(await main.balance(member), 0)
    await main.verify()
  },
)

t.test('of eight concurrent removals of one agent exactly one succeeds', async (t) => {
  const { owner, members } = await createFundedFleet(main, 0, 1, [0.1])
  const [member] = members as [TestAgent]
  const asked = Array.from({ length: 8 }, (_, at) => {
    const node = at % 2 === 0 ? main : beside
    return at % 4 < 2
      ? leave(createAgentRequestSender(node, member))
      : remove(createAgentRequestSender(node, owner), { agent_id: member.id })
  })
  t.strictSame(countReplies(await Promise.all(asked)), { 200: 1, '409 not_in_fleet': 7 })
  await main.verify()
})

t.test('concurrent leaving, drawing and topping up on two nodes', async (t) => {
  const nodes = [main, beside]

  /** Members call all the time while they move from one fleet to the other; top-ups arrive. */
  async function race(t: Test, own: number): Promise<void> {
    const one = await createFundedFleet(main, own, 4, [0.2])
    const two = await createFundedFleet(main, 0, 0, [0.2])
    const { members } = one
    const calls = members.flatMap((member, nth) =>
      Array.from({ length: 16 }, (_, at) => (nodes[(nth + at) % 2] ?? main).call(member, TOOL)),
    )
    const moves = members.map(async (member, nth) => {
      const node = nodes[nth % 2] ?? main
      const left =
        nth < 2
          ? await leave(createAgentRequestSender(node, member))
          : await remove(createAgentRequestSender(node, one.owner), { agent_id: member.id })
      t.equal(left.status, 200, left.text)
      const first = nth % 2 === 0
      if (first) await addFleetMember(node, two.owner, two.id, member)
      return Array.from({ length: 8 }, () => node.call(member, TOOL))
    })
    const filled = Promise.all([
      bookFleetTopUps(main, one.id, [0.04, 0.01]),
      bookFleetTopUps(main, two.id, [0.05]),
    ])
    const later = (await Promise.all(moves)).flat()
    const answers = await Promise.all([...calls, ...later])
    await filled
    for (const { status, text } of answers) t.ok(status === 200 || status === 402, text)
    const paid = answers.filter(({ status }) => status === 200).length
    const purses = await Promise.all(members.map((member) => main.balance(member)))
    const pools = [
      await readFleetPoolBalance(main, one.owner, one.id),
      await readFleetPoolBalance(main, two.owner, two.id),
    ]
    const there = 4 * own + 0.4 + 0.1
    t.equal(sumOf([...purses, ...pools, paid * PRICE]), sumOf([there]), 'what is gone was paid')
    t.ok(
      purses.every((left) => left <= own),
      'nothing that was lent stays',
    )
    t.strictSame(await membersOf(createAgentRequestSender(main, one.owner), one.id), [])
    t.equal((await membersOf(createAgentRequestSender(main, two.owner), two.id)).length, 2)
    const open = await main.sql`select id from actors where kind = 'agent'
      and state->'context'->'holds' <> '{}'`
    t.strictSame([...open], [])
    const before = pools[0]
    const late = await Promise.all(
      members.flatMap((member) => nodes.map((node) => node.call(member, TOOL))),
    )
    t.ok(late.every(({ status }) => status === 200 || status === 402))
    t.equal(
      await readFleetPoolBalance(main, one.owner, one.id),
      before,
      'and no later call draws on it',
    )
  }

  for (const own of [0, 0.02]) t.test(`members with ${own} USDC of their own`, (t) => race(t, own))
  t.test('gas verify finds no difference afterwards', () => main.verify())
})

import t from 'tap'
import { getAddress } from 'viem'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'

const main = await startInProcessTestStation(t, { RATE_LIMITS: 'off' })
const get = (path: string, guest?: TestAgent) => main.ask('GET', path, { key: guest?.key })
const post = async ({ key }: TestAgent, path: string, json: object = {}) => {
  const answer = await main.ask('POST', path, { key, json })
  if (answer.status >= 300) throw new Error(`${path} answered ${answer.status}: ${answer.text}`)
  return answer.body
}

interface Item {
  readonly id: string
  readonly state: string
  readonly [name: string]: unknown
}

/** A list, page by page; each page has its envelope. */
async function walk(guest: TestAgent, path: string, name: string, limit: number): Promise<Item[]> {
  const items: Item[] = []
  for (let cursor: unknown = ''; cursor !== null;) {
    const at = cursor === '' ? '' : `&cursor=${cursor as string}`
    const joint = path.includes('?') ? '&' : '?'
    const { body, status, text } = await get(`${path}${joint}limit=${limit}${at}`, guest)
    if (status !== 200) throw new Error(`${path} answered ${status}: ${text}`)
    const page = body[name] as Item[]
    if (body['count'] !== page.length) throw new Error(`${path} counts ${String(body['count'])}`)
    items.push(...page)
    cursor = body['next_cursor']
  }
  return items
}
const idsOf = (items: readonly Item[]) => items.map(({ id }) => id)

t.test('an agent lists all of its tasks, ended ones too', async (t) => {
  const [ann, bob] = [await main.onboard(), await main.onboard()]
  const made: string[] = []
  for (let task = 0; task < 5; task += 1)
    made.unshift(
      String((await post(ann, '/api/task/start', { name: 'x', budget_usdc: 0.01 }))['task_id']),
    )
  await post(bob, '/api/task/start', { name: 'x', budget_usdc: 0.01 })
  await post(ann, '/api/task/end', { task_id: made[1] })
  await post(ann, '/api/task/cancel', { task_id: made[3] })
  const tasks = await walk(ann, '/api/tasks', 'tasks', 2)
  t.strictSame(idsOf(tasks), made, 'the newest first')
  t.strictSame(
    tasks.map(({ state }) => state),
    ['active', 'completed', 'active', 'abandoned', 'active'],
  )
  t.match(tasks[0], { task_id: made[0], remaining: 0.01, remaining_usdc: 0.01 })
  t.strictSame(idsOf(await walk(ann, '/api/tasks?state=abandoned', 'tasks', 1)), [made[3]])
  t.equal((await get('/api/tasks?state=lost', ann)).status, 400)
})

t.test('an agent lists all of its Backpacks and reads each', async (t) => {
  const ann = await main.onboard()
  const made: string[] = []
  for (let pack = 0; pack < 5; pack += 1)
    made.unshift(
      String((await post(ann, '/api/backpack/create', { agent_name: `p${pack}` }))['backpack_id']),
    )
  await post(ann, `/api/backpack/${made[2]}/revoke`)
  const packs = await walk(ann, '/api/backpacks', 'backpacks', 2)
  t.strictSame(idsOf(packs), made)
  t.equal(packs[2]?.state, 'revoked')
  const [state, one] = [
    await get(`/api/backpack/${made[0]}/state`, ann),
    await get(`/api/backpack/${made[0]}`, ann),
  ]
  t.strictSame(one.body, state.body)
  t.equal((await get(`/api/backpack/${made[0]}`, await main.onboard())).status, 404)
  t.match((await get('/api/backpack')).body, {}, 'the manual stays')
})

t.test('an agent lists the bounties that it posted or was paid for', async (t) => {
  const [ann, bob] = [await main.onboard(), await main.onboard()]
  const bounty = { title: 'x', description: 'x', domain: 'x', reward_usdc: 0.05 }
  const made: string[] = []
  for (let nth = 0; nth < 3; nth += 1)
    made.unshift(String((await post(ann, '/api/bounties', bounty))['bounty_id']))
  await post(bob, '/api/bounties', bounty)
  await post(bob, `/api/bounties/${made[1]}/claim`, { content: 'done' })
  const mine = await walk(ann, '/api/bounties/mine', 'bounties', 1)
  t.strictSame(idsOf(mine), made)
  t.match(mine[1], { state: 'claimed', claimed_by_agent_id: bob.id, posted_by_agent_id: ann.id })
  const paid = await walk(bob, '/api/bounties/mine?role=claimed', 'bounties', 1)
  t.strictSame(idsOf(paid), [made[1]])
  t.strictSame(
    idsOf(await walk(ann, '/api/bounties/mine?role=posted&status=open', 'bounties', 2)),
    [made[0], made[2]],
  )
  t.equal((await get('/api/bounties/mine')).status, 401)
})

t.test('only the owner and the members list the members of a fleet', async (t) => {
  const owner = await main.onboard()
  const id = String((await post(owner, '/api/fleet/create', { name: 'crew' }))['fleet_id'])
  const members: TestAgent[] = []
  for (let nth = 0; nth < 3; nth += 1) {
    const member = await main.onboard()
    const asked = { fleet_id: id, agent_id: member.id, agent_key: member.key }
    await post(owner, '/api/fleet/add-agent', asked)
    members.push(member)
  }
  const path = `/api/fleet/${id}/members`
  const listed = await walk(owner, path, 'members', 1)
  t.strictSame(
    idsOf(listed),
    members.map((member) => member.id),
  )
  t.strictSame(await walk(members[0] as TestAgent, path, 'members', 2), listed)
  t.match(await get(path, await main.onboard()), {
    status: 404,
    body: { code: 'fleet_not_found' },
  })
  t.equal((await get('/api/fleet/x/members', owner)).status, 404)
})

t.test('every list returns items, count and cursor', async (t) => {
  const ann = await main.onboard()
  const pack = String((await post(ann, '/api/backpack/create', { agent_name: 'x' }))['backpack_id'])
  await main.call(ann, 'hive_trending', {}, { 'x-backpack-id': pack })
  await post(ann, `/api/backpack/${pack}/clipboard`, { key: 'a', value: 1 })
  await post(ann, `/api/backpack/${pack}/keyring`, { name: 'A', secret: 'b' })
  const lists = [
    ['/api/keys', 'keys'],
    ['/api/bounties', 'bounties'],
    ['/api/agent/transfers', 'transfers'],
    ['/api/wallet/deposits', 'deposits'],
    ['/api/webhook', 'webhooks'],
    ['/api/fleet/list', 'fleets'],
    ['/api/task/schedules', 'schedules'],
    ['/api/messages', 'messages'],
    ['/api/calls', 'calls'],
    ['/api/agent/statement', 'movements'],
    [`/api/backpack/${pack}/notifications`, 'notifications'],
    [`/api/backpack/${pack}/spend`, 'calls'],
    [`/api/backpack/${pack}/clipboard`, 'entries'],
    [`/api/backpack/${pack}/keyring`, 'secrets'],
  ] as const
  for (const [path, name] of lists) {
    const { body, status } = await get(path, ann)
    t.equal(status, 200, path)
    t.equal(body['count'], (body[name] as unknown[] | undefined)?.length, `${path} counts its page`)
    t.equal(body['next_cursor'], null, `${path} says that it ends`)
  }
  const { body } = await get('/api/keys', ann)
  const [key] = body['keys'] as Item[]
  t.equal(key?.['key_id'], key?.id)
})

t.test('the URL of a referral code returns instructions', async (t) => {
  const ann = await main.onboard()
  const { referral_code: code, onboard_url: url } = await post(ann, '/api/referrals/create')
  const path = String(url).replace('http://gas.test', '')
  const told = await get(path)
  t.match(told, { status: 200, body: { method: 'POST', body: { referral_code: code } } })
  const sent = await main.ask('POST', '/api/onboard', { json: told.body['body'] as object })
  t.equal(sent.status, 201, 'what it says works')
  t.match((await get('/api/referrals/me', ann)).body, { referred: 1, paid_out_usdc: 0 })
  t.equal((await get('/api/onboard')).status, 200)
  t.match(await get('/api/onboard?referral_code=ref_nobody'), {
    status: 400,
    body: { errors: [{ pointer: '/referral_code' }] },
  })
})

t.test('only callable tools are trending', async (t) => {
  const ann = await main.onboard()
  const json = { channel: 'news', type: 'insight', payload: {} }
  // What trends is counted of agents that have paid with money from outside.
  await main.sql`insert into agent_scores (agent_id, cash_micros) values (${ann.id}, 1)`
  const signal = await main.ask('POST', '/api/signal/publish', { key: ann.key, json })
  t.equal(signal.status, 200)
  await main.call(ann, 'hive_read', { query: 'gas' })
  // A node computes its trends at its start and keeps them for a minute: this one starts after the calls.
  const fresh = await startInProcessTestStation(t, {}, { database: main.database })
  const { body } = await fresh.call(ann, 'hive_trending', { limit: 50 })
  const slugs = (body['tools'] as { slug: string }[]).map(({ slug }) => slug)
  t.ok(slugs.includes('hive_read'))
  for (const slug of slugs) t.equal((await get(`/api/tools/${slug}`)).status, 200, slug)
})

t.test('a wallet address has one spelling', async (t) => {
  const ann = await main.onboard()
  const { body } = await get('/api/wallet', ann)
  const address = String(body['wallet_address'])
  t.equal(address, getAddress(address))
  await main.sql`insert into deposits (id, chain, tx, log_index, times, block, block_hash, agent_id, address,
      sender, amount_micros, state, seen_at, booked_at)
    values (${'01a20000-0000-7000-8000-000000000001'}, 'base', '0x1', 0, 1, 1, '0x2', ${ann.id},
      ${address.toLowerCase()}, ${address.toLowerCase()}, 1, 'final', now(), now())`
  const { body: after } = await get('/api/wallet', ann)
  t.match(after['recent_deposits'], [{ wallet_address: address, from: address }])
})

t.test('the ledger is sound', () => main.verify())

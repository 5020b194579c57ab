import { createHash } from 'node:crypto'
import t from 'tap'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { insertArrivedDeposit } from '../../support/payments/insert-test-deposit.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'

/** Two hundred agents with promotional credits that call, tip, fork and hire each other, beside one that pays. */

const CIRCLE = 200
const AT_ONCE = 20
const CACHE_MS = 31_000

const clock = createDatabaseAdjustedClock()
let later = 0
const main = await startInProcessTestStation(
  t,
  { PROMO_TRANSFERABLE: 'true', BULK_ONBOARD_MAX: '100' },
  { clock: { ...clock, mono: () => clock.mono() + later } },
)

async function enrolCircle(): Promise<TestAgent[]> {
  const circle: TestAgent[] = []
  while (circle.length < CIRCLE) {
    const agents = Array.from({ length: 100 }, (_, at) => ({
      name: `circle-${circle.length + at}`,
    }))
    const { body } = await main.ask('POST', '/api/onboard/bulk', { json: { agents } })
    for (const { agent_id: id, api_key: key } of body['agents'] as (TestAgent & {
      agent_id: string
      api_key: string
    })[])
      circle.push({ id, key })
  }
  await main.sql`update agents set discoverable = true`
  return circle
}

t.test('two hundred promotional agents gain no place', async (t) => {
  const circle = await enrolCircle()
  const statuses = new Map<number, number>()
  const took = ({ status }: { status: number }) =>
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
  const workEach = async (
    each: (agent: TestAgent, next: TestAgent, at: number) => Promise<void>,
  ) => {
    for (let from = 0; from < CIRCLE; from += AT_ONCE)
      await Promise.all(
        circle.slice(from, from + AT_ONCE).map(async (agent, offset) => {
          const at = from + offset
          await each(agent, circle[(at + 1) % CIRCLE] as TestAgent, at)
        }),
      )
  }
  const plans: string[] = []
  const hires: string[] = []
  await workEach(async (agent, next, at) => {
    took(await main.call(agent, 'hive_trending'))
    const plan = { title: `Plan ${at}`, description: 'Buy low.' }
    const published = await main.call(agent, 'strategy_publish', plan)
    took(published)
    plans[at] = String(published.body['id'])
    const json = { to_agent_id: next.id, amount_usdc: 0.05 }
    took(await main.ask('POST', '/api/tip', { key: agent.key, json }))
    // Nearly the same text of another author would be refused as a copy.
    const note = createHash('sha256').update(`note ${at}`).digest('hex').match(/.{4}/g)?.join(' ')
    took(await main.call(agent, 'hive_write', { content: note, namespace: 'circle' }))
    const job = { title: 'Work', description: 'Work.', domain: 'base', reward_usdc: 0.05 }
    const hired = await main.ask('POST', '/api/bounties', { key: agent.key, json: job })
    took(hired)
    hires[at] = String(hired.body['bounty_id'])
  })
  await workEach(async (agent, next, at) => {
    const there = (at + 1) % CIRCLE
    took(await main.call(agent, 'strategy_fork', { strategy_id: plans[there] }))
    const json = { content: 'done' }
    took(await main.ask('POST', `/api/bounties/${hires[at]}/claim`, { key: next.key, json }))
  })
  t.strictSame(
    [...statuses.keys()].toSorted((a, b) => a - b),
    [200, 201],
    'all of it worked',
  )

  const payer = await main.onboard()
  await main.ask('PATCH', '/api/agent/me', { key: payer.key, json: { discoverable: true } })
  await insertArrivedDeposit(main, payer.id, 10)
  t.ok((await main.balance(payer)) > 10)
  // The starter credits and the bonus of the deposit are promotional too, and pay first: 3 USDC.
  for (let at = 0; at < 5; at += 1)
    t.match(
      await main.call(payer, 'genesis_forge', {
        prompt: `agent ${at} that says hello`,
        framework: 'http',
      }),
      { status: 200 },
    )
  later += CACHE_MS
  const { body } = await main.ask('GET', '/api/leaderboard?limit=100')
  t.match(body, { count: 1, agents: [{ rank: 1, agent_id: payer.id }] })
  const hall = await main.ask('GET', '/hall-of-agents')
  t.notMatch(hall.text, /circle-/)
  for (const at of [0, 99, 199]) {
    const { text } = await main.ask('GET', `/embed/badge/${circle[at]?.id}.svg`)
    t.match(text, /circle-/)
    t.notMatch(text, /active|pro\b|elite|legendary|mythic/, 'a badge without a tier')
  }
  // A node keeps its trends for a minute: this one starts after the calls.
  const fresh = await startInProcessTestStation(t, {}, { database: main.database })
  const { body: trends } = await fresh.ask('GET', '/api/trending')
  t.match(trends, { tools: [{ slug: 'genesis_forge', payers: 1 }] })
  t.equal((trends['tools'] as object[]).length, 1, 'tools of the circle do not trend')
  const domains = trends['domains'] as { domain: string; payers: number }[]
  t.strictSame(
    domains.filter(({ domain, payers }) => domain === 'circle' || payers > 0),
    [],
    'nor what it writes',
  )
  const [scored] = await main.sql<{ scores: number }[]>`
    select count(*)::int as scores from agent_scores where cash_micros > 0`
  t.equal(scored?.scores, 1, 'the sums have no other agent')
  await main.verify()
})

import t from 'tap'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { insertArrivedDeposit } from '../../support/payments/insert-test-deposit.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'

/** Milestones of public agents: who is named, what is posted, and that nothing is posted twice. */

const TOOL = 'hive_trending'
const [clock, CACHE_MS] = [createDatabaseAdjustedClock(), 31_000]
let later = 0
const overrides = { clock: { ...clock, mono: () => clock.mono() + later } }
const main = await startInProcessTestStation(t, { BULK_ONBOARD_MAX: '100' }, overrides)
const second = await startInProcessTestStation(t, {}, { ...overrides, database: main.database })

interface Post {
  readonly agent_id: string
  readonly milestone: string
  readonly text: string
}
async function readPosts(node = main): Promise<readonly Post[]> {
  later += CACHE_MS
  return (await node.ask('GET', '/api/milestones')).body['milestones'] as Post[]
}
const postsOf = async ({ id }: TestAgent, node = main) =>
  (await readPosts(node))
    .filter(({ agent_id: agentId }) => agentId === id)
    .map(({ milestone }) => milestone)
    .toSorted()
const show = (agent: TestAgent, discoverable: boolean) =>
  main.ask('PATCH', '/api/agent/me', { key: agent.key, json: { discoverable } })

t.test('the first call of a public agent is posted, a private one is not', async (t) => {
  const [ann, hidden, ghost] = [await main.onboard(), await main.onboard(), await main.onboard()]
  await show(ann, true)
  await show(ghost, true)
  t.strictSame(await postsOf(ann), [], 'an agent that has not called has reached nothing')
  await main.call(ann, TOOL)
  await main.call(hidden, TOOL)
  await main.call(ghost, TOOL, {}, { 'x-ghost-mode': 'stealth' })
  t.strictSame(await postsOf(ann), ['first_call'])
  t.strictSame(await postsOf(hidden), [])
  t.strictSame(await postsOf(ghost), [], 'a ghost call reaches nothing')

  await show(hidden, true)
  t.strictSame(await postsOf(hidden), [], 'its private past is not told')
  await main.call(hidden, TOOL)
  t.strictSame(await postsOf(hidden), ['first_call'])
  await show(hidden, false)
  t.strictSame(await postsOf(hidden), [], 'hidden again')

  const feed = await main.ask('GET', '/milestones.rss')
  t.match(feed.headers['content-type'], /application\/rss\+xml/)
  t.match(feed.text, `<guid isPermaLink="false">urn:uuid:${ann.id}:first_call</guid>`)
  t.notMatch(feed.text, hidden.id)
})

t.test('the hundredth call and a tier are posted once, whichever node sums', async (t) => {
  const ann = await main.onboard()
  const other = await main.onboard()
  await insertArrivedDeposit(main, ann.id, 30)
  await show(ann, true)
  // Its promotional credits, with the bonus of the deposit: cash alone makes a tier.
  const sent = { to_agent_id: other.id, amount_usdc: 8 }
  await main.ask('POST', '/api/agent/send', { key: ann.key, json: sent })
  const forge = { prompt: 'an agent that says hello', framework: 'http' }
  for (let call = 0; call < 98; call += 1) await main.call(ann, TOOL)
  t.strictSame(await postsOf(ann), ['first_call'])
  for (let call = 0; call < 2; call += 1) await main.call(ann, 'genesis_forge', forge)
  // The next roll-up of both nodes at once, then each again.
  const [one] = await Promise.all([postsOf(ann), postsOf(ann, second)])
  t.strictSame(one, ['calls_100', 'first_call', 'tier_active'])
  await main.call(ann, TOOL)
  for (const node of [main, second])
    t.strictSame(await postsOf(ann, node), ['calls_100', 'first_call', 'tier_active'])
  const [kept] = await main.sql`
    select count(*)::int as n, min(posted_at)::text as first from milestones where agent_id = ${ann.id}`
  t.equal(kept?.['n'], 3)
  // A restored database sums all rows again: what was posted stays as it was.
  await main.sql`update statistics_cursor set cluster = 'another'`
  await readPosts()
  const [after] = await main.sql`
    select count(*)::int as n, min(posted_at)::text as first from milestones where agent_id = ${ann.id}`
  t.strictSame(after, kept)
})

t.test('a roll-up that fails posts nothing, and the next one posts it', async (t) => {
  const ann = await main.onboard()
  await show(ann, true)
  await main.call(ann, TOOL)
  await main.sql`
    create function refuse_posts() returns trigger language plpgsql as
      $$ begin raise exception 'a crash after the sums'; end $$`
  await main.sql`
    create trigger refuse before insert on milestones for each row execute function refuse_posts()`
  later += CACHE_MS
  t.not((await main.ask('GET', '/api/milestones')).status, 200)
  await main.sql`drop trigger refuse on milestones`
  t.strictSame(await postsOf(ann), ['first_call'], 'its row was not counted as seen')
})

t.test('a crowd of new agents displaces no post of an agent that pays', async (t) => {
  const payer = await main.onboard()
  await insertArrivedDeposit(main, payer.id, 5)
  await show(payer, true)
  const forge = { prompt: 'an agent that says hello', framework: 'http' }
  // Its promotional credits pay first, 1.75 USDC of them.
  for (let call = 0; call < 3; call += 1) await main.call(payer, 'genesis_forge', forge)
  const [, ...others] = await postsOf(payer)
  t.strictSame(others, ['tier_active'])
  const agents = Array.from({ length: 100 }, (_, at) => ({ name: `crowd-${at}` }))
  await main.ask('POST', '/api/onboard/bulk', { json: { agents } })
  await main.sql`update agents set discoverable = true where name like 'crowd-%'`
  await main.sql`
    insert into milestones (agent_id, milestone, posted_at)
    select agent_id, m, now() from agents, unnest(array['first_call', 'calls_100']) m
     where name like 'crowd-%'`
  const posts = await readPosts()
  t.equal(posts.filter(({ text }) => text.startsWith('crowd-')).length, 20)
  t.strictSame(await postsOf(payer), ['first_call', 'tier_active'])
  const feed = await main.ask('GET', '/milestones.rss')
  t.match(feed.text, `urn:uuid:${payer.id}:first_call`)
})

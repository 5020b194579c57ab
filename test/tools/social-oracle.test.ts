import t from 'tap'
import { socialHouse, type SocialHouse } from '../support/upstreams/social.ts'
import { createText } from '../../memory/text/text.ts'
import socialOracle from '../../tools/social-oracle.ts'
import { socialPlatforms, tagsOf } from '../../tools/social/platforms.ts'
import { createSocial, NOT_CONNECTED } from '../../tools/social/social.ts'
import { createSearch } from '../../tools/search/search.ts'
import { createUpstream } from '../../tools/upstream/client.ts'
import { AUTHOR, context, handClock, refusalOf } from './kit.ts'

const text = createText()
const ENTRY = {
  id: '018f2f6e-7c1a-7b3a-9c55-0000000000aa',
  content: 'The launch was a disaster: an awful, broken, miserable failure.',
  confidence: 0.9,
  namespace: 'launches',
  agentId: AUTHOR,
  at: '2026-11-20T00:00:00.000Z',
  firstReadToday: true,
}

/** The tool before real platforms; the Hive has the entries given. */
function oracle(t: Tap, house: SocialHouse, { login = true, entries = [ENTRY] } = {}) {
  const clock = handClock()
  const upstream = createUpstream({ clock, userAgent: 'test' })
  t.teardown(() => upstream.close())
  const { hackernews, mastodon, bluesky } = house.servers
  const blueskyLogin = login ? house.login : null
  const bases = { hackernews: hackernews.base, mastodon: mastodon.base, bluesky: bluesky.base }
  const social = createSocial(
    socialPlatforms(upstream, { ...bases, blueskyLogin }, 400),
    login ? NOT_CONNECTED : [{ name: 'bluesky', reason: 'no_login' }],
  )
  const hive = { search: async () => ({ entries, total: entries.length }) }
  const search = createSearch({ adapters: [], hive, clock, publicUrl: 'http://gas.test' })
  const { context: given, recorded } = context({ social, search, text, clock })
  return {
    ask: (input = { query: 'big launch' }) => socialOracle.run(input, given),
    given,
    recorded,
  }
}
type Tap = Parameters<typeof socialHouse>[0]

t.test('every platform is asked, and each post is felt', async (t) => {
  const house = await socialHouse(t)
  const { ask, recorded, given } = oracle(t, house)
  const answer = await ask()
  t.strictSame(answer.platforms_checked, ['hackernews', 'mastodon', 'bluesky', 'hive'])
  t.match(answer.platforms_skipped, [{ name: 'reddit', reason: 'not_connected' }])
  t.equal(answer.posts.length, 6)
  t.strictSame(
    answer.posts.map(({ platform, label }) => `${platform} ${label}`),
    [
      'hackernews positive',
      'mastodon positive',
      'bluesky positive',
      'hackernews negative',
      'mastodon positive',
      'hive negative',
    ],
    'newest first, the Hive last',
  )
  t.match(answer.posts[1], {
    author: 'tooter@social.test',
    text: 'An excellent, happy #launch & a success!',
    url: 'https://social.test/@tooter/0',
    likes: 3,
  })
  t.match(answer.posts[2], { url: 'https://bsky.app/profile/sky.test/post/3k0' })
  const mean = answer.posts.reduce((sum, { sentiment }) => sum + sentiment, 0) / 6
  t.match(answer.sentiment, { label: 'positive', n: 6, method: 'wink-lexicon' })
  t.ok(Math.abs(answer.sentiment.score - mean) < 1e-4)
  t.match(answer.by_platform, [{ n: 2 }, { n: 2, label: 'positive' }, { n: 1 }, { n: 1 }])
  t.strictSame(recorded.served, ['hackernews,mastodon,bluesky fixture'])
  t.match(house.servers.mastodon.seen, [
    'GET /api/v1/timelines/tag/biglaunch?limit=20',
    'GET /api/v1/timelines/tag/launch?limit=20',
  ])
  t.strictSame(socialOracle.availability?.(given).providers, answer.platforms_checked)
})

t.test('a platform that fails is skipped with its reason; a session is renewed', async (t) => {
  const house = await socialHouse(t)
  const { ask } = oracle(t, house)
  await ask()
  house.sessions += 1
  house.moods.mastodon = 'closed'
  house.moods.hackernews = 'hang'
  const answer = await ask()
  t.strictSame(answer.platforms_checked, ['bluesky', 'hive'])
  t.equal(house.sessions, 3, 'one more login, the lost one was not of ours')
  t.match(answer.platforms_skipped, [
    { name: 'hackernews', reason: 'upstream_timeout' },
    { name: 'mastodon', reason: 'upstream_error: status 422' },
  ])
  house.moods.mastodon = 'drift'
  const drifted = (await ask()).platforms_skipped.find(({ name }) => name === 'mastodon')
  t.equal(drifted?.reason, 'upstream_schema')
})

t.test('when no platform answers the call fails, whatever the Hive says', async (t) => {
  const house = await socialHouse(t)
  const { ask } = oracle(t, house, { login: false })
  house.moods.hackernews = '500'
  house.moods.mastodon = '429'
  t.match(await refusalOf(ask()), {
    code: 'upstream_error',
    platforms: [
      { name: 'hackernews', reason: 'upstream_error: status 500' },
      { name: 'mastodon', reason: 'upstream_rate_limited' },
      { name: 'bluesky', reason: 'no_login' },
    ],
  })
  t.equal(house.servers.bluesky.seen.length, 0)
})

t.test('where nobody speaks of it the call is free', async (t) => {
  const house = await socialHouse(t)
  const { ask, recorded } = oracle(t, house, { entries: [] })
  for (const name of ['hackernews', 'mastodon', 'bluesky'] as const) house.moods[name] = 'empty'
  t.match(await ask(), { posts: [], sentiment: { score: 0, label: 'neutral', n: 0 } })
  t.equal(recorded.waived.length, 1)
})

t.test('a query becomes tags', async (t) => {
  t.strictSame(tagsOf('Ethereum'), ['ethereum'])
  t.strictSame(tagsOf('gas fees, Base?'), ['gasfeesbase', 'fees'])
  t.strictSame(tagsOf('what do they say of decentralisation'), ['decentralisation'])
})

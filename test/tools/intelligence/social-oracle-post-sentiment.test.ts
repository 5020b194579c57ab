import t from 'tap'
import {
  startTestSocialApis,
  type SocialApiServers,
} from '../../support/upstreams/test-social-apis.ts'
import { createRuleBasedTextAnalysis } from '../../../memory/text/text-analysis.ts'
import socialOracle from '../../../tools/intelligence/social-oracle.ts'
import {
  createSocialPlatforms,
  toSocialSearchTags,
} from '../../../providers/social/select-social-platforms.ts'
import {
  createSocialSearch,
  UNCONNECTED_SOCIAL_PLATFORMS,
} from '../../../providers/social/social-search.ts'
import { createWebSearchClient } from '../../../providers/search/web-search-client.ts'
import { createUpstreamClient } from '../../../providers/upstream/upstream-client.ts'
import {
  TEST_AUTHOR_AGENT_ID,
  createRecordingToolContext,
  createManualClock,
  awaitRejectionDetails,
} from '../../support/tools/test-tool-context.ts'

const text = createRuleBasedTextAnalysis()
const ENTRY = {
  id: '018f2f6e-7c1a-7b3a-9c55-0000000000aa',
  content: 'The launch was a disaster: an awful, broken, miserable failure.',
  confidence: 0.9,
  namespace: 'launches',
  agentId: TEST_AUTHOR_AGENT_ID,
  author: null,
  at: '2026-11-20T00:00:00.000Z',
  firstReadToday: true,
}

/** The tool before real platforms; the Hive has the entries given. */
function oracle(t: Tap, house: SocialApiServers, { login = true, entries = [ENTRY] } = {}) {
  const clock = createManualClock()
  const upstream = createUpstreamClient({ clock, userAgent: 'test' })
  t.teardown(() => upstream.close())
  const { hackernews, mastodon, bluesky } = house.servers
  const blueskyLogin = login ? house.login : null
  const bases = { hackernews: hackernews.base, mastodon: mastodon.base, bluesky: bluesky.base }
  const social = createSocialSearch(
    createSocialPlatforms(upstream, { ...bases, blueskyLogin }, 400),
    login ? UNCONNECTED_SOCIAL_PLATFORMS : [{ name: 'bluesky', reason: 'no_login' }],
  )
  const hive = { search: async () => ({ entries, total: entries.length }) }
  const search = createWebSearchClient({ adapters: [], hive, clock, publicUrl: 'http://gas.test' })
  const { context: given, recorded } = createRecordingToolContext({ social, search, text, clock })
  return {
    ask: (input = { query: 'big launch' }) => socialOracle.run(input, given),
    given,
    recorded,
  }
}
type Tap = Parameters<typeof startTestSocialApis>[0]

t.test('every platform is queried, and each post gets a sentiment', async (t) => {
  const house = await startTestSocialApis(t)
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
  t.strictSame(recorded.providers, ['hackernews,mastodon,bluesky fixture'])
  t.match(house.servers.mastodon.requests, [
    'GET /api/v1/timelines/tag/biglaunch?limit=20',
    'GET /api/v1/timelines/tag/launch?limit=20',
  ])
  t.strictSame(socialOracle.availability?.(given).providers, answer.platforms_checked)
})

t.test('a failing platform is skipped with its reason; a session is renewed', async (t) => {
  const house = await startTestSocialApis(t)
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

t.test('a call fails if no platform answers, regardless of the Hive', async (t) => {
  const house = await startTestSocialApis(t)
  const { ask } = oracle(t, house, { login: false })
  house.moods.hackernews = '500'
  house.moods.mastodon = '429'
  t.match(await awaitRejectionDetails(ask()), {
    code: 'upstream_error',
    platforms: [
      { name: 'hackernews', reason: 'upstream_error: status 500' },
      { name: 'mastodon', reason: 'upstream_rate_limited' },
      { name: 'bluesky', reason: 'no_login' },
    ],
  })
  t.equal(house.servers.bluesky.requests.length, 0)
})

t.test('a call for a topic without posts is free', async (t) => {
  const house = await startTestSocialApis(t)
  const { ask, recorded } = oracle(t, house, { entries: [] })
  for (const name of ['hackernews', 'mastodon', 'bluesky'] as const) house.moods[name] = 'empty'
  t.match(await ask(), { posts: [], sentiment: { score: 0, label: 'neutral', n: 0 } })
  t.equal(recorded.waivedReasons.length, 1)
})

t.test('a query is converted to tags', async (t) => {
  t.strictSame(toSocialSearchTags('Ethereum'), ['ethereum'])
  t.strictSame(toSocialSearchTags('gas fees, Base?'), ['gasfeesbase', 'fees'])
  t.strictSame(toSocialSearchTags('what do they say of decentralisation'), ['decentralisation'])
})

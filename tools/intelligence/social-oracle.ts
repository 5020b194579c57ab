import { UNNAMED_AGENT } from '../public-author-field.ts'
import Type from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { fromUsdc } from '../../core/money.ts'
import { LETTER_OR_DIGIT_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool, callerIdOf } from '../define-tool.ts'
import type { HiveEntryWebSearchResult } from '../../providers/search/web-search-port.ts'
import type { SocialPost } from '../../providers/social/social-port.ts'
import type { RuleBasedTextAnalyzer } from '../../providers/text/text-analyzer-port.ts'

/** The tool `social-oracle`: posts about a topic and their sentiment. */

const DEFAULT_MAX_POSTS = 20
/** The built-in sentiment method. */
const METHOD = 'wink-lexicon' as const
/** A mean below this absolute value is neutral. */
const NEUTRAL_THRESHOLD = 0.05
const HIVE = 'hive'

const Label = Type.Enum(['positive', 'neutral', 'negative'])
const Score = Type.Number({ minimum: -1, maximum: 1 })

type ScoredPost = { readonly platform: string; readonly score: number }

/** Returns the unweighted mean of the posts. */
function averageSentiment(scored: readonly ScoredPost[]) {
  const mean = scored.reduce((sum, { score }) => sum + score, 0) / Math.max(1, scored.length)
  const score = Math.round(mean * 1e4) / 1e4
  const label =
    score > NEUTRAL_THRESHOLD ? 'positive' : score < -NEUTRAL_THRESHOLD ? 'negative' : 'neutral'
  return { score, label: label as 'positive' | 'neutral' | 'negative', n: scored.length }
}

async function scorePosts(posts: readonly SocialPost[], text: RuleBasedTextAnalyzer) {
  const scored: (SocialPost & Awaited<ReturnType<RuleBasedTextAnalyzer['sentiment']>>)[] = []
  for (const post of posts) scored.push({ ...post, ...(await text.sentiment(post.text)) })
  return scored
}

const hiveEntryToPost = ({ content, author, url, at }: HiveEntryWebSearchResult): SocialPost => ({
  platform: HIVE,
  author: author ?? UNNAMED_AGENT,
  text: content,
  url,
  at,
  likes: 0,
})

export default defineTool({
  slug: 'social_oracle',
  name: 'Social Oracle',
  category: 'intelligence',
  description:
    'Lists what people say about a topic right now on open platforms and in the Hive, with the sentiment of each post by a lexicon.',
  tags: ['social', 'sentiment', 'trends'],
  useCases: ['Read the mood about a token', 'See what people say about a product', 'Watch a topic'],
  examples: [{ query: 'ethereum' }, { query: 'base network', max_posts: 10 }],
  access: 'paid',
  price: fromUsdc(0.02),
  effect: 'none',
  timeoutMs: 15_000,
  input: Type.Object(
    {
      query: Type.String({ minLength: 1, maxLength: 200, pattern: LETTER_OR_DIGIT_PATTERN }),
      max_posts: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: 40,
          default: DEFAULT_MAX_POSTS,
          description: 'Per platform.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    query: Type.String(),
    posts: Type.Array(
      Type.Object({
        platform: Type.String(),
        author: Type.String(),
        text: Type.String(),
        url: Type.String(),
        created_at: Type.String({ format: 'date-time' }),
        likes: Type.Integer(),
        sentiment: Score,
        label: Label,
      }),
    ),
    sentiment: Type.Object({
      score: Score,
      label: Label,
      n: Type.Integer({ minimum: 0, description: 'Number of posts in the mean.' }),
      method: Type.Enum([METHOD]),
    }),
    by_platform: Type.Array(
      Type.Object({
        platform: Type.String(),
        score: Score,
        label: Label,
        n: Type.Integer({ minimum: 0 }),
      }),
    ),
    platforms_checked: Type.Array(Type.String()),
    platforms_skipped: Type.Array(Type.Object({ name: Type.String(), reason: Type.String() })),
  }),
  availability: ({ social }) => ({
    available: true,
    mode: 'live',
    requires: [],
    providers: [...social.platforms, HIVE],
  }),
  async run(
    { query, max_posts = DEFAULT_MAX_POSTS },
    { social, search, text, caller, signal, meter, emit },
  ) {
    const wanted = { query, limit: max_posts, owner: callerIdOf(caller) }
    const [heard, entries] = await Promise.all([
      social.search(wanted, signal, ({ platform, outcome }) =>
        emit({ type: 'partial', path: `/platforms/${platform}`, value: outcome }),
      ),
      search.searchHive(wanted),
    ])
    const { checked, skipped } = heard
    if (checked.length === 0)
      throw new ServiceError('upstream_error', { reason: 'all_platforms_down', platforms: skipped })
    const posts = await scorePosts([...heard.posts, ...entries.map(hiveEntryToPost)], text)
    if (posts.length === 0) meter.waive('no post mentions it')
    meter.served(checked.join(','), heard.mode)
    const platforms = [...checked, HIVE]
    return {
      query,
      posts: posts.map(({ at, score, ...post }) => ({
        ...post,
        created_at: at,
        sentiment: score,
      })),
      sentiment: { ...averageSentiment(posts), method: METHOD },
      by_platform: platforms.map((platform) => ({
        platform,
        ...averageSentiment(posts.filter((post) => post.platform === platform)),
      })),
      platforms_checked: platforms,
      platforms_skipped: [...skipped],
    }
  },
})

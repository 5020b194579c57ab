import { ServiceError } from '../../../core/errors.ts'
import { callerIdOf, type ToolContext } from '../../define-tool.ts'
import {
  interleaveSearchResults,
  toSnippetSource,
  readSourcePage,
  type ResearchSource,
} from '../../web/research/gather-web-sources.ts'
import type { WebSearchResult } from '../../../providers/search/web-search-port.ts'
import type { SocialPost } from '../../../providers/social/social-port.ts'

/** Web and social searches of crews. */

const RESULTS = 6
const POSTS = 15
/** Quoted posts. */
const QUOTES = 3
const MAX_QUOTE_CHARS = 200
/** A mean below this absolute value is neutral. */
const NEUTRAL_THRESHOLD = 0.05

export interface UnreadableSearchResultPage {
  readonly url: string
  readonly code: string
}

/** Runs several web searches at once and interleaves their results; throws when no source answers. */
export async function searchWebQueries(
  queries: readonly string[],
  { search, caller, signal, meter, emit }: ToolContext,
): Promise<readonly WebSearchResult[]> {
  const answers = await Promise.all(
    [...new Set(queries)].map((query) =>
      search.searchWeb({ query, limit: RESULTS, owner: callerIdOf(caller) }, signal, (heard) =>
        emit({ type: 'progress', step: `search:${heard.source}`, note: heard.outcome }),
      ),
    ),
  )
  const heard = answers.filter(({ degraded }) => !degraded)
  const [first] = heard
  if (first === undefined)
    throw new ServiceError('upstream_error', {
      reason: 'no_search_answers',
      failed: answers[0]?.failed,
    })
  meter.served(first.source, first.mode)
  return interleaveSearchResults(heard.map(({ results }) => results))
}

export interface SocialSentiment {
  readonly posts: readonly SocialPost[]
  readonly platforms: readonly string[]
  readonly score: number
  readonly label: 'positive' | 'neutral' | 'negative'
}

/** Returns posts and their sentiment; throws when no platform answers. */
export async function fetchSocialSentiment(
  query: string,
  { social, text, caller, signal, emit }: ToolContext,
): Promise<SocialSentiment> {
  const wanted = { query, limit: POSTS, owner: callerIdOf(caller) }
  const { posts, checked, skipped } = await social.search(wanted, signal, (heard) =>
    emit({ type: 'progress', step: `social:${heard.platform}`, note: heard.outcome }),
  )
  if (checked.length === 0)
    throw new ServiceError('upstream_error', { reason: 'all_platforms_down', platforms: skipped })
  let sum = 0
  for (const post of posts) sum += (await text.sentiment(post.text)).score
  const score = posts.length === 0 ? 0 : Math.round((sum / posts.length) * 1e4) / 1e4
  const label =
    score > NEUTRAL_THRESHOLD ? 'positive' : score < -NEUTRAL_THRESHOLD ? 'negative' : 'neutral'
  return { posts, platforms: checked, score, label }
}

/** Returns readable pages, and search snippets for the others. */
export async function readSearchResultPages(
  found: readonly WebSearchResult[],
  context: ToolContext,
): Promise<{
  readonly sources: readonly ResearchSource[]
  readonly unread: readonly UnreadableSearchResultPage[]
}> {
  const unread: UnreadableSearchResultPage[] = []
  const pages = await Promise.all(
    found.map(async (one) => {
      const page = await readSourcePage(one, context, unread)
      if (page !== null) context.emit({ type: 'progress', step: 'page', note: one.url })
      return page ?? toSnippetSource(one)
    }),
  )
  return { sources: pages.flatMap((page) => (page === null ? [] : [page])), unread }
}

/** Describes the sentiment of posts, and quotes the most liked ones. */
export function describeSocialSentiment({
  posts,
  platforms,
  score,
  label,
}: SocialSentiment): string {
  if (posts.length === 0) return `No post mentions it on ${platforms.join(', ')}.`
  const best = [...posts].sort((a, b) => b.likes - a.likes).slice(0, QUOTES)
  const quotes = best.map(({ platform, author, text, url }) => {
    const quote = text.length > MAX_QUOTE_CHARS ? `${text.slice(0, MAX_QUOTE_CHARS - 1)}…` : text
    return `- "${quote}" (${author}, ${platform}: ${url})`
  })
  const mood = `${posts.length} posts on ${platforms.join(', ')}; by a lexicon the feeling is ${label} (${score}).`
  return [mood, '', ...quotes].join('\n')
}

import { ServiceError } from '../../core/errors.ts'
import { ownerOf, type ToolContext } from '../define.ts'
import { merged, ofSnippet, readPage, type Source } from '../research/sources.ts'
import type { Found } from '../search/port.ts'
import type { Post } from '../social/port.ts'

const RESULTS = 6
const POSTS = 15
/** Posts that are quoted. */
const QUOTES = 3
const LONGEST_QUOTE = 200
/** A mean this near to zero leans to no side. */
const NEUTRAL = 0.05

export interface Unread {
  readonly url: string
  readonly code: string
}

/** Several searches of the web at once, their results in turn; fails where no source of it answers. */
export async function searched(
  queries: readonly string[],
  { search, caller, signal, meter, emit }: ToolContext,
): Promise<readonly Found[]> {
  const answers = await Promise.all(
    [...new Set(queries)].map((query) =>
      search.web({ query, limit: RESULTS, owner: ownerOf(caller) }, signal, (heard) =>
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
  return merged(heard.map(({ results }) => results))
}

export interface Mood {
  readonly posts: readonly Post[]
  readonly platforms: readonly string[]
  readonly score: number
  readonly label: 'positive' | 'neutral' | 'negative'
}

/** What people say, and the feeling in it; fails where no platform answers. */
export async function heard(
  query: string,
  { social, text, caller, signal, emit }: ToolContext,
): Promise<Mood> {
  const wanted = { query, limit: POSTS, owner: ownerOf(caller) }
  const { posts, checked, skipped } = await social.ask(wanted, signal, (heard) =>
    emit({ type: 'progress', step: `social:${heard.platform}`, note: heard.outcome }),
  )
  if (checked.length === 0)
    throw new ServiceError('upstream_error', { reason: 'all_platforms_down', platforms: skipped })
  let sum = 0
  for (const post of posts) sum += (await text.sentiment(post.text)).score
  const score = posts.length === 0 ? 0 : Math.round((sum / posts.length) * 1e4) / 1e4
  const label = score > NEUTRAL ? 'positive' : score < -NEUTRAL ? 'negative' : 'neutral'
  return { posts, platforms: checked, score, label }
}

/** The pages as far as they can be read, else what the search says of them. */
export async function pagesOf(
  found: readonly Found[],
  context: ToolContext,
): Promise<{ readonly sources: readonly Source[]; readonly unread: readonly Unread[] }> {
  const unread: Unread[] = []
  const pages = await Promise.all(
    found.map(async (one) => {
      const page = await readPage(one, context, unread)
      if (page !== null) context.emit({ type: 'progress', step: 'page', note: one.url })
      return page ?? ofSnippet(one)
    }),
  )
  return { sources: pages.flatMap((page) => (page === null ? [] : [page])), unread }
}

/** What posts say, as a text: the feeling, and the best liked ones. */
export function moodText({ posts, platforms, score, label }: Mood): string {
  if (posts.length === 0) return `Nobody speaks of it on ${platforms.join(', ')}.`
  const best = [...posts].sort((a, b) => b.likes - a.likes).slice(0, QUOTES)
  const quotes = best.map(({ platform, author, text, url }) => {
    const said = text.length > LONGEST_QUOTE ? `${text.slice(0, LONGEST_QUOTE - 1)}…` : text
    return `- "${said}" (${author}, ${platform}: ${url})`
  })
  const mood = `${posts.length} posts on ${platforms.join(', ')}; by a lexicon the feeling is ${label} (${score}).`
  return [mood, '', ...quotes].join('\n')
}

import Type from 'typebox'
import type { Upstream } from '../upstream/client.ts'
import { blueskyAt } from './bluesky.ts'
import type { Post } from './port.ts'
import { instantOf, postText, type Platform } from './post.ts'

export interface SocialSettings {
  readonly hackernews: string
  /** An instance whose timelines of tags are open. */
  readonly mastodon: string
  readonly bluesky: string
  /** Who searches there; null for nobody. */
  readonly blueskyLogin: { readonly identifier: string; readonly password: string } | null
}

/** Where each answers, unless the operator says otherwise; Hacker News is searched as web_search does. */
export const PUBLIC_SOCIAL = {
  mastodon: 'https://mastodon.social',
  bluesky: 'https://bsky.social',
}

const ANSWER_MS = 4_000
const MOST_TAGS = 2

/** Those that can be asked with these settings. */
export function socialPlatforms(
  upstream: Upstream,
  settings: SocialSettings,
  timeoutMs = ANSWER_MS,
): Platform[] {
  const { hackernews, mastodon, bluesky, blueskyLogin } = settings
  return [
    hackernewsAt(upstream, hackernews, timeoutMs),
    mastodonAt(upstream, mastodon, timeoutMs),
    ...(blueskyLogin === null ? [] : [blueskyAt(upstream, bluesky, blueskyLogin, timeoutMs)]),
  ]
}

const Maybe = Type.Optional(Type.Union([Type.String(), Type.Null()]))
const Hits = Type.Object({
  hits: Type.Array(
    Type.Object({
      objectID: Type.String(),
      author: Type.String(),
      created_at: Type.String(),
      title: Maybe,
      story_text: Maybe,
      comment_text: Maybe,
      points: Type.Optional(Type.Union([Type.Integer(), Type.Null()])),
    }),
  ),
})

function hackernewsAt(upstream: Upstream, base: string, timeoutMs: number): Platform {
  const name = 'hackernews'
  return {
    name,
    async ask({ query, limit, owner }, signal) {
      const url = `${base}/api/v1/search_by_date?tags=(story,comment)&hitsPerPage=${limit}&query=${encodeURIComponent(query)}`
      const { data, mode } = await upstream.json({
        provider: name,
        owner,
        url,
        schema: Hits,
        timeoutMs,
        signal,
      })
      const posts = data.hits.flatMap((hit): Post[] => {
        const text = postText([hit.title, hit.story_text, hit.comment_text].join(' '))
        const at = instantOf(hit.created_at)
        if (text === '' || at === null) return []
        const item = `https://news.ycombinator.com/item?id=${encodeURIComponent(hit.objectID)}`
        return [{ platform: name, author: hit.author, text, url: item, at, likes: hit.points ?? 0 }]
      })
      return { posts, mode }
    },
  }
}

const Statuses = Type.Array(
  Type.Object({
    uri: Type.String(),
    url: Maybe,
    created_at: Type.String(),
    content: Type.String(),
    account: Type.Object({ acct: Type.String() }),
    favourites_count: Type.Optional(Type.Integer()),
  }),
)

/** Search needs a token there, timelines of tags mostly none: a query is asked for as tags. */
function mastodonAt(upstream: Upstream, base: string, timeoutMs: number): Platform {
  const name = 'mastodon'
  return {
    name,
    async ask({ query, limit, owner }, signal) {
      const replies = await Promise.all(
        tagsOf(query).map((tag) => {
          const url = `${base}/api/v1/timelines/tag/${encodeURIComponent(tag)}?limit=${limit}`
          return upstream.json({ provider: name, owner, url, schema: Statuses, timeoutMs, signal })
        }),
      )
      const found = replies.flatMap(({ data }) => data)
      const posts = [...new Map(found.map((status) => [status.uri, status])).values()].flatMap(
        ({ uri, url, created_at, content, account, favourites_count = 0 }): Post[] => {
          const [text, at] = [postText(content), instantOf(created_at)]
          if (text === '' || at === null) return []
          const link = url ?? uri
          return [
            { platform: name, author: account.acct, text, url: link, at, likes: favourites_count },
          ]
        },
      )
      const mode = replies.some((reply) => reply.mode === 'fixture') ? 'fixture' : 'live'
      return { posts, mode }
    },
  }
}

/** A query of few words as one tag, and its longest word. */
export function tagsOf(query: string): string[] {
  const words = query.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? []
  const longest = [...words].sort((a, b) => b.length - a.length).slice(0, 1)
  const whole = words.length <= 3 ? [words.join('')] : []
  return [...new Set([...whole, ...longest])].filter((tag) => tag !== '').slice(0, MOST_TAGS)
}

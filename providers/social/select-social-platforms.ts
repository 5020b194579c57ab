import Type from 'typebox'
import type { UpstreamClient } from '../upstream/upstream-client.ts'
import { createBlueskySearchPlatform } from './bluesky-search.ts'
import type { SocialPost } from './social-port.ts'
import {
  parseSocialPostTime,
  toVisibleSocialPostText,
  type SocialPlatform,
} from './social-platform.ts'

/** Selects the social platforms of this station. */

export interface SocialPlatformSettings {
  readonly hackernews: string
  /** A Mastodon instance with public tag timelines. */
  readonly mastodon: string
  readonly bluesky: string
  /** The login that searches Bluesky; null for none. */
  readonly blueskyLogin: { readonly identifier: string; readonly password: string } | null
}

/** Default addresses; Hacker News is searched as in web_search. */
export const DEFAULT_SOCIAL_PLATFORM_URLS = {
  mastodon: 'https://mastodon.social',
  bluesky: 'https://bsky.social',
}

const PLATFORM_TIMEOUT_MS = 4_000
const MAX_SEARCH_TAGS = 2

/** Returns the platforms available with these settings. */
export function createSocialPlatforms(
  upstream: UpstreamClient,
  settings: SocialPlatformSettings,
  timeoutMs = PLATFORM_TIMEOUT_MS,
): SocialPlatform[] {
  const { hackernews, mastodon, bluesky, blueskyLogin } = settings
  return [
    createHackernewsPlatform(upstream, hackernews, timeoutMs),
    createMastodonPlatform(upstream, mastodon, timeoutMs),
    ...(blueskyLogin === null
      ? []
      : [createBlueskySearchPlatform(upstream, bluesky, blueskyLogin, timeoutMs)]),
  ]
}

const NullableString = Type.Optional(Type.Union([Type.String(), Type.Null()]))
const Hits = Type.Object({
  hits: Type.Array(
    Type.Object({
      objectID: Type.String(),
      author: Type.String(),
      created_at: Type.String(),
      title: NullableString,
      story_text: NullableString,
      comment_text: NullableString,
      points: Type.Optional(Type.Union([Type.Integer(), Type.Null()])),
    }),
  ),
})

function createHackernewsPlatform(
  upstream: UpstreamClient,
  base: string,
  timeoutMs: number,
): SocialPlatform {
  const name = 'hackernews'
  return {
    name,
    async search({ query, limit, owner }, signal) {
      const url = `${base}/api/v1/search_by_date?tags=(story,comment)&hitsPerPage=${limit}&query=${encodeURIComponent(query)}`
      const { data, mode } = await upstream.json({
        provider: name,
        owner,
        url,
        schema: Hits,
        timeoutMs,
        signal,
      })
      const posts = data.hits.flatMap((hit): SocialPost[] => {
        const text = toVisibleSocialPostText(
          [hit.title, hit.story_text, hit.comment_text].join(' '),
        )
        const at = parseSocialPostTime(hit.created_at)
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
    url: NullableString,
    created_at: Type.String(),
    content: Type.String(),
    account: Type.Object({ acct: Type.String() }),
    favourites_count: Type.Optional(Type.Integer()),
  }),
)

/** Searches tag timelines, since full search needs a token. */
function createMastodonPlatform(
  upstream: UpstreamClient,
  base: string,
  timeoutMs: number,
): SocialPlatform {
  const name = 'mastodon'
  return {
    name,
    async search({ query, limit, owner }, signal) {
      const replies = await Promise.all(
        toSocialSearchTags(query).map((tag) => {
          const url = `${base}/api/v1/timelines/tag/${encodeURIComponent(tag)}?limit=${limit}`
          return upstream.json({ provider: name, owner, url, schema: Statuses, timeoutMs, signal })
        }),
      )
      const found = replies.flatMap(({ data }) => data)
      const posts = [...new Map(found.map((status) => [status.uri, status])).values()].flatMap(
        ({ uri, url, created_at, content, account, favourites_count = 0 }): SocialPost[] => {
          const [text, at] = [toVisibleSocialPostText(content), parseSocialPostTime(created_at)]
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

/** Converts a short query to one tag, and its longest word. */
export function toSocialSearchTags(query: string): string[] {
  const words = query.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? []
  const longest = [...words].sort((a, b) => b.length - a.length).slice(0, 1)
  const whole = words.length <= 3 ? [words.join('')] : []
  return [...new Set([...whole, ...longest])].filter((tag) => tag !== '').slice(0, MAX_SEARCH_TAGS)
}

import Type from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import type { UpstreamClient } from '../upstream/upstream-client.ts'
import type { SocialPost, SocialSearchQuery } from './social-port.ts'
import {
  parseSocialPostTime,
  toVisibleSocialPostText,
  type SocialPlatform,
} from './social-platform.ts'

/** Searches Bluesky. */

const NAME = 'bluesky'

const Session = Type.Object({ accessJwt: Type.String({ minLength: 1 }) })
const Posts = Type.Object({
  posts: Type.Array(
    Type.Object({
      uri: Type.String(),
      author: Type.Object({ handle: Type.String() }),
      record: Type.Object({ text: Type.String(), createdAt: Type.String() }),
      likeCount: Type.Optional(Type.Integer()),
    }),
  ),
})

/** Creates the Bluesky platform. Search requires a login (app password); one session serves all calls. */
export function createBlueskySearchPlatform(
  upstream: UpstreamClient,
  base: string,
  { identifier, password }: { readonly identifier: string; readonly password: string },
  timeoutMs: number,
): SocialPlatform {
  let session: Promise<string> | undefined

  async function login(): Promise<string> {
    const { data } = await upstream.json({
      provider: NAME,
      url: `${base}/xrpc/com.atproto.server.createSession`,
      body: { identifier, password },
      schema: Session,
      timeoutMs,
      // Not the caller's signal: other calls may wait for the same session.
      signal: new AbortController().signal,
    })
    return data.accessJwt
  }

  async function sessionNow(): Promise<string> {
    const mine = (session ??= login())
    mine.catch(() => forget(mine))
    return mine
  }
  const forget = (old: Promise<string> | undefined) => {
    if (session === old) session = undefined
  }

  async function search({ query, limit, owner }: SocialSearchQuery, signal: AbortSignal) {
    const jwt = await sessionNow()
    const url = `${base}/xrpc/app.bsky.feed.searchPosts?sort=latest&limit=${limit}&q=${encodeURIComponent(query)}`
    const headers = { authorization: `Bearer ${jwt}` }
    return upstream.json({ provider: NAME, owner, url, headers, schema: Posts, timeoutMs, signal })
  }

  return {
    name: NAME,
    async search(wanted, signal) {
      const before = session
      const { data, mode } = await search(wanted, signal).catch((error: unknown) => {
        if (before === undefined || !isSessionExpired(error)) throw error
        forget(before)
        return search(wanted, signal)
      })
      return { posts: data.posts.flatMap(toBlueskyPosts), mode }
    },
  }
}

/** Returns whether the token has expired. */
const isSessionExpired = (error: unknown): boolean =>
  error instanceof ServiceError &&
  [400, 401, 403].includes(error.details['upstream_status'] as number)

function toBlueskyPosts({
  uri,
  author,
  record,
  likeCount = 0,
}: {
  uri: string
  author: { handle: string }
  record: { text: string; createdAt: string }
  likeCount?: number
}): SocialPost[] {
  const [text, at] = [toVisibleSocialPostText(record.text), parseSocialPostTime(record.createdAt)]
  if (text === '' || at === null) return []
  const { handle } = author
  const url = `https://bsky.app/profile/${handle}/post/${uri.split('/').at(-1) ?? ''}`
  return [{ platform: NAME, author: handle, text, url, at, likes: likeCount }]
}

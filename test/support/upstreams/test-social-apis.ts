import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import {
  sendJsonFixture,
  startFixtureServer,
  UPSTREAM_FAULTS,
  type FixtureServer,
  type TeardownScope,
  type UpstreamFault,
} from './fixture-server.ts'

/** Local Hacker News, Mastodon and Bluesky servers. */

type PlatformName = 'hackernews' | 'mastodon' | 'bluesky'

export interface SocialApiServers {
  /** `closed` requires a login, `empty` has no posts, `drift` changes the response format. */
  readonly moods: Partial<Record<PlatformName, 'ok' | 'closed' | 'empty' | 'drift' | UpstreamFault>>
  readonly servers: Record<PlatformName, FixtureServer>
  /** Posts by platform; HTML on Mastodon. */
  readonly says: Record<PlatformName, string[]>
  /** Number of Bluesky logins; a new session invalidates earlier ones. */
  sessions: number
  readonly login: { readonly identifier: string; readonly password: string }
  /** Station settings that use only these upstreams. */
  readonly settings: Record<string, string>
}

const AT = Date.UTC(2026, 10, 21, 9)
const MINUTE = 60_000
const instant = (n: number) => new Date(AT - n * MINUTE).toISOString()

/**
 * Serves Hacker News, a Mastodon instance and a Bluesky server in their documented formats
 * (`recorded: false`).
 */
export async function startTestSocialApis(t: TeardownScope): Promise<SocialApiServers> {
  const house = {
    moods: {},
    sessions: 0,
    login: { identifier: 'station.test', password: 'app-pass-word' },
    says: {
      hackernews: ['I love how great and wonderful this is', 'This is terrible and I hate it'],
      mastodon: [
        '<p>An excellent, happy <a href="#">#launch</a> &amp; a success!</p>',
        '<p>An awesome week.</p>',
      ],
      bluesky: ['A brilliant, beautiful thing'],
    },
  } as unknown as SocialApiServers & { servers: object; settings: object }
  const start = (name: PlatformName, answer: RespondWithPosts) =>
    startFixtureServer(t, (request, response) => {
      const mood = house.moods[name] ?? 'ok'
      if (mood in UPSTREAM_FAULTS) return UPSTREAM_FAULTS[mood as UpstreamFault](request, response)
      if (mood === 'closed')
        return sendJsonFixture(response, { error: 'This method requires an user' }, 422)
      if (mood === 'drift') return sendJsonFixture(response, { data: [] })
      void answer(request, response, mood === 'empty' ? [] : house.says[name], house)
    })
  const servers = {
    hackernews: await start('hackernews', hackernews),
    mastodon: await start('mastodon', mastodon),
    bluesky: await start('bluesky', bluesky),
  }
  const settings = {
    HACKERNEWS_BASE: servers.hackernews.base,
    MASTODON_BASE: servers.mastodon.base,
    BLUESKY_BASE: servers.bluesky.base,
  }
  return Object.assign(house, { servers, settings })
}

type RespondWithPosts = (
  request: IncomingMessage,
  response: ServerResponse,
  says: readonly string[],
  house: SocialApiServers,
) => unknown

const hackernews: RespondWithPosts = (_, response, says) =>
  sendJsonFixture(response, {
    hits: says.map((comment_text, n) => ({
      objectID: String(900 + n),
      author: `hacker${n}`,
      created_at: instant(10 * n),
      comment_text,
      points: null,
      story_title: 'a story',
    })),
  })

const mastodon: RespondWithPosts = ({ url = '' }, response, says) =>
  sendJsonFixture(
    response,
    says.map((content, n) => ({
      id: String(n),
      uri: `https://social.test/users/tooter/statuses/${n}`,
      url: `https://social.test/@tooter/${n}`,
      created_at: instant(10 * n + 5),
      content,
      account: { acct: 'tooter@social.test' },
      favourites_count: 3,
      tags: [{ name: url.split('/').at(-1) }],
    })),
  )

const bluesky: RespondWithPosts = async (request, response, says, house) => {
  if (request.url === '/xrpc/com.atproto.server.createSession') {
    const given = JSON.parse(await text(request)) as SocialApiServers['login']
    const { identifier, password } = house.login
    if (given.identifier !== identifier || given.password !== password)
      return sendJsonFixture(response, { error: 'AuthenticationRequired' }, 401)
    house.sessions += 1
    return sendJsonFixture(response, { accessJwt: `jwt-${house.sessions}`, did: 'did:plc:test' })
  }
  if (request.headers.authorization !== `Bearer jwt-${house.sessions}`)
    return sendJsonFixture(response, { error: 'ExpiredToken' }, 400)
  sendJsonFixture(response, {
    posts: says.map((said, n) => ({
      uri: `at://did:plc:test/app.bsky.feed.post/3k${n}`,
      author: { handle: 'sky.test' },
      record: { text: said, createdAt: instant(10 * n + 7) },
      likeCount: 8,
    })),
  })
}

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { toUsdc } from '../../../core/money.ts'
import { describeMilestone } from '../../../domain/agent-milestones.ts'
import { errorResponses } from '../../schemas/shared-schemas.ts'

/** Routes for RSS feeds: open bounties, the Hive, milestones, and the changelog. */

const FEED_SIZE = 50
const TITLE_CHARS = 80

const feedRoute = (operationId: string, summary: string) => ({
  config: { auth: 'none', ignoresUnknownQuery: true } as const,
  schema: {
    operationId,
    summary,
    tags: ['service'],
    response: {
      200: {
        description: 'An RSS 2.0 document.',
        content: { 'application/rss+xml': { schema: Type.String() } },
      },
      ...errorResponses,
    },
  },
})

/** Feeds for readers. Only milestones name agents, and only those that agreed to be found. */
export const rssFeedRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { bounties, config, hive, news, pages, statistics } = app.services
  const at = (path: string) => `${config.publicUrl}${path}`

  app.get('/bounties.rss', feedRoute('getBountyFeed', 'Open bounties as RSS'), async (_, reply) => {
    const open = await bounties.store.list('open', FEED_SIZE, null)
    const items = open.map((bounty) => ({
      title: `${bounty.title} (${toUsdc(bounty.reward)} USDC)`,
      link: at(`/api/bounties/${bounty.bountyId}`),
      guid: at(`/api/bounties/${bounty.bountyId}`),
      description: bounty.description,
      at: bounty.createdAt,
      categories: [bounty.domain],
    }))
    const description = 'Open bounties, newest first.'
    const about = {
      title: 'Gas Station: bounties',
      link: at('/api/bounties?status=open'),
      description,
    }
    return sendFeed(reply, pages.rss({ ...about, self: at('/bounties.rss'), items }))
  })

  app.get(
    '/hive.rss',
    feedRoute('getHiveFeed', 'The digest of the Hive as RSS'),
    async (_, reply) => {
      const { featured, entries } = await hive.digest()
      const items = [...featured, ...entries]
        .map((entry) => ({
          title: toTitle(entry.content),
          link: at(`/api/hive/public?q=${encodeURIComponent(toTitle(entry.content))}`),
          guid: `urn:uuid:${entry.id}`,
          description: entry.content,
          at: entry.at,
          categories: [entry.namespace],
        }))
        .sort((one, other) => other.at.getTime() - one.at.getTime())
      const description = 'What agents wrote and read most in the last 24 hours.'
      const about = { title: 'Gas Station: the Hive', link: at('/api/hive/digest'), description }
      return sendFeed(reply, pages.rss({ ...about, self: at('/hive.rss'), items }))
    },
  )

  app.get(
    '/milestones.rss',
    feedRoute('getMilestoneFeed', 'Milestones of public agents as RSS'),
    async (_, reply) => {
      const { value } = await statistics.milestones()
      const items = value.slice(0, FEED_SIZE).map(({ agentId, name, milestone, postedAt }) => ({
        title: toTitle(`${name} ${describeMilestone(milestone)}`),
        link: at('/hall-of-agents'),
        guid: `urn:uuid:${agentId}:${milestone}`,
        description: `${name} ${describeMilestone(milestone)}.`,
        at: postedAt,
        categories: [milestone],
      }))
      const description = 'What agents have reached: first calls, hundredth calls and tiers.'
      const about = { title: 'Gas Station: milestones', link: at('/api/milestones'), description }
      return sendFeed(reply, pages.rss({ ...about, self: at('/milestones.rss'), items }))
    },
  )

  app.get('/changelog.rss', feedRoute('getChangelogFeed', 'Releases as RSS'), async (_, reply) => {
    const items = news.releases.flatMap(({ version, releasedOn, notes }) =>
      releasedOn === null
        ? []
        : [
            {
              title: `Version ${version}`,
              link: at('/api/whats-new'),
              guid: `gas-station-${version}`,
              description: notes.map(({ text }) => text).join('\n'),
              at: new Date(`${releasedOn}T00:00:00Z`),
            },
          ],
    )
    const about = { title: 'Gas Station: releases', link: at('/api/whats-new') }
    const description = 'Released versions of this station.'
    return sendFeed(reply, pages.rss({ ...about, description, self: at('/changelog.rss'), items }))
  })
}

const sendFeed = (reply: FastifyReply, xml: string): never =>
  reply
    .type('application/rss+xml; charset=utf-8')
    .header('cache-control', 'public, max-age=60')
    .header('x-content-type-options', 'nosniff')
    .serializer(String)
    .send(xml) as never

/** The first line of a text, shortened at a word. */
function toTitle(text: string): string {
  const [line = ''] = text.split('\n')
  if (line.length <= TITLE_CHARS) return line
  // Half of a character would fit into no link.
  return `${line.slice(0, TITLE_CHARS).replace(/\s+\S*$|[\ud800-\udbff]$/, '')}…`
}

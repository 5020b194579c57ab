import { asMicros, type Micros } from '../../core/money.ts'
import { publicAgentIdsSql } from '../agents/public-agent-sql.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** The states of a bounty. */
export type BountyStatus = 'open' | 'claimed' | 'expired'

/** The terms of a bounty and its reward. */
export interface PostedBountyRecord {
  readonly bountyId: string
  readonly posterId: string
  readonly title: string
  readonly description: string
  readonly domain: string
  readonly requiredKeywords: readonly string[]
  readonly minQuality: number
  readonly reward: Micros
  /** The promotional part of the reward. */
  readonly promo: Micros
  readonly createdAt: Date
  readonly expiresAt: Date
}

export interface BountyRecord extends PostedBountyRecord {
  readonly status: BountyStatus
  readonly closedReason: string | null
  readonly closedAt: Date | null
  readonly claimedBy: string | null
  /** Its poster and its claimer, where public places name them. */
  readonly publicAgents: readonly string[]
}

/** The winning content; shown to the poster. */
export interface BountyClaimContent {
  readonly content: string
  readonly quality: number
}

/** Row of a new bounty, as a command stages it with `ctx.row`. */
export const toBountyRow = (posted: PostedBountyRecord) => ({
  bounty_id: posted.bountyId,
  poster_id: posted.posterId,
  title: posted.title,
  description: posted.description,
  domain: posted.domain,
  required_keywords: posted.requiredKeywords,
  min_quality: posted.minQuality,
  reward_micros: String(posted.reward),
  promo_micros: String(posted.promo),
  created_at: posted.createdAt.toISOString(),
  expires_at: posted.expiresAt.toISOString(),
  status: 'open',
  closed_reason: null,
  closed_at: null,
  claimed_by: null,
})

export interface BountyClosure {
  readonly bountyId: string
  readonly status: BountyStatus
  readonly reason: string
  readonly claim: (BountyClaimContent & { readonly agentId: string }) | null
  readonly at: number
}

/**
 * Row of a bounty's end, as a command stages it with `ctx.row`; it moves the bounty in all lists.
 */
export const toBountyClosureRow = ({ bountyId, status, reason, claim, at }: BountyClosure) => ({
  bounty_id: bountyId,
  status,
  reason,
  claimed_by: claim?.agentId ?? null,
  content: claim?.content ?? null,
  quality: claim?.quality ?? null,
  at: new Date(at).toISOString(),
})

/** Greater than all ids: the first page starts before it. */
const MAX_BOUNTY_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** Reads bounties; commits write them. */
export function createBountyStore(sql: Sql) {
  const columns = sql`b.*, ${publicAgentIdsSql(sql, sql`b.poster_id`, sql`b.claimed_by`)} as public_agents`
  return {
    async find(bountyId: string): Promise<BountyRecord | null> {
      const [row] = await sql<BountyRow[]>`
        select ${columns} from bounties b where bounty_id = ${bountyId}`
      return row === undefined ? null : fromRow(row)
    },

    /** Newest first; `before` is the id of the last one seen. */
    async list(status: BountyStatus | null, limit: number, before: string | null) {
      const earlier = sql`bounty_id < ${before ?? MAX_BOUNTY_ID}`
      const rows =
        status === null
          ? await sql<BountyRow[]>`
              select ${columns} from bounties b where ${earlier} order by bounty_id desc limit ${limit}`
          : await sql<BountyRow[]>`
              select ${columns} from bounties b where status = ${status} and ${earlier}
               order by bounty_id desc limit ${limit}`
      return rows.map(fromRow)
    },

    /** The bounties an agent posted or won, newest first. */
    async ofAgent(
      agentId: string,
      { role, status }: { role: 'posted' | 'claimed'; status: BountyStatus | null },
      limit: number,
      before: string | null,
    ) {
      const own = role === 'posted' ? sql`poster_id` : sql`claimed_by`
      const rows = await sql<BountyRow[]>`
        select ${columns} from bounties b where ${own} = ${agentId} and bounty_id < ${before ?? MAX_BOUNTY_ID}
           and (${status}::text is null or status = ${status})
         order by bounty_id desc limit ${limit}`
      return rows.map(fromRow)
    },

    /** The content that won a bounty. */
    async contentOf(bountyId: string): Promise<BountyClaimContent | null> {
      const [row] = await sql<BountyClaimContent[]>`
        select content, quality from bounty_closures
         where bounty_id = ${bountyId} and content is not null`
      return row === undefined ? null : { content: row.content, quality: row.quality }
    },
  }
}
export type BountyStore = ReturnType<typeof createBountyStore>

interface BountyRow {
  bounty_id: string
  poster_id: string
  title: string
  description: string
  domain: string
  required_keywords: string[]
  min_quality: number
  reward_micros: bigint
  promo_micros: bigint
  created_at: Date
  expires_at: Date
  status: BountyStatus
  closed_reason: string | null
  closed_at: Date | null
  claimed_by: string | null
  public_agents: string[]
}

const fromRow = (row: BountyRow): BountyRecord => ({
  bountyId: row.bounty_id,
  posterId: row.poster_id,
  title: row.title,
  description: row.description,
  domain: row.domain,
  requiredKeywords: row.required_keywords,
  minQuality: row.min_quality,
  reward: asMicros(row.reward_micros),
  promo: asMicros(row.promo_micros),
  createdAt: row.created_at,
  expiresAt: row.expires_at,
  status: row.status,
  closedReason: row.closed_reason,
  closedAt: row.closed_at,
  claimedBy: row.claimed_by,
  publicAgents: row.public_agents,
})

import { LIMITS } from '../../core/limits.ts'
import { asMicros } from '../../core/money.ts'
import type {
  CommunityToolDefinition,
  CommunityToolRecord,
  CommunityToolVerificationRequest,
  CommunityToolState,
  ListedOwnTool,
  OwnCommunityTool,
} from '../../domain/community-tool-record.ts'
import { toToolNameSkeleton } from '../../domain/tool-name-look-alikes.ts'
import { publicAgentIdsSql } from '../agents/public-agent-sql.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Reads the tools that agents sell. Commands write them as rows of `community_tool_changes`. */

/** What a change says; fields of null stay as they were. */
export interface CommunityToolChange extends Omit<
  CommunityToolRecord,
  'builderName' | 'isBuilderPublic' | 'builderVisitor' | 'definition'
> {
  readonly builderName: string | null
  readonly builderVisitor: string | null
  /** Of a new tool among those of its builder. */
  readonly place: number | null
  /** Of a new tool whole, else the fields that change. */
  readonly definition: Partial<CommunityToolDefinition> | null
}

/** The row of a tool that is new or has changed, at a time in milliseconds. */
export const toCommunityToolChangeRow = (change: CommunityToolChange, at: number) => ({
  change_id: change.changeId,
  slug: change.slug,
  looks: toToolNameSkeleton(change.slug),
  tool_id: change.toolId,
  builder_id: change.builderId,
  builder_name: change.builderName,
  builder_visitor: change.builderVisitor,
  place: change.place,
  state: change.state,
  definition: change.definition,
  price_micros: Number(change.price),
  next_price_micros: change.nextPrice === null ? null : Number(change.nextPrice.price),
  next_price_from: change.nextPrice === null ? null : toIso(change.nextPrice.from),
  accepts_promo: change.acceptsPromo,
  review: change.review,
  review_reason: change.reviewReason,
  secret_number: change.secretNumber,
  measured_from: toIso(change.measuredFrom),
  registered_at: toIso(change.registeredAt),
  at: toIso(at),
})

const toIso = (at: number): string => new Date(at).toISOString()

export function createCommunityToolStore(sql: Sql) {
  const columns = sql`t.*, ${publicAgentIdsSql(sql, sql`t.builder_id`)} as public_agents`
  return {
    /** Null without a tool of this slug, retired ones included. */
    async find(slug: string): Promise<CommunityToolRecord | null> {
      const [row] = await sql<CommunityToolRow[]>`
        select ${columns} from community_tools t where slug = ${slug}`
      return row === undefined ? null : fromRow(row)
    },

    /** All tools that are not retired, oldest first. */
    async active(): Promise<CommunityToolRecord[]> {
      const rows = await sql<CommunityToolRow[]>`
        select ${columns} from community_tools t where state <> 'retired' order by registered_at, slug`
      return rows.map(fromRow)
    },

    /** The taken slugs that one of these may be mistaken for, also those of retired tools. */
    async lookAlikes(slugs: readonly string[]): Promise<string[]> {
      const rows = await sql<{ slug: string }[]>`
        select slug from community_tools where looks = any(${slugs.map(toToolNameSkeleton)}::text[])`
      return rows.map(({ slug }) => slug)
    },

    /** Which of the slugs are tools of the builder, retired ones too. */
    async ownOf(builderId: string, slugs: readonly string[]): Promise<OwnCommunityTool[]> {
      return sql<OwnCommunityTool[]>`
        select slug, tool_id as "toolId", state from community_tools
         where slug = any(${[...slugs]}::text[]) and builder_id = ${builderId}`
    },

    /** A page of a builder's tools after a slug: oldest first, behind them the retired ones, newest first. */
    async pageOf(builderId: string, limit: number, after: string | null): Promise<ListedOwnTool[]> {
      const order = sql`(state = 'retired'), extract(epoch from registered_at) *
        case state when 'retired' then -1 else 1 end, slug`
      const rows = await sql<ListedOwnToolRow[]>`
        select t.slug, t.definition->>'name' as name, state, price_micros, accepts_promo as "acceptsPromo",
               review, review_reason as "reviewReason", registered_at as "registeredAt"
          from (select slug from community_tools where builder_id = ${builderId}
                  and (${after}::text is null
                       or (${order}) > (select ${order} from community_tools where slug = ${after}))
                 order by ${order} limit ${limit}) page
          join community_tools t using (slug) order by ${order}`
      return rows.map(({ price_micros: price, ...row }) => ({ ...row, price: asMicros(price) }))
    },

    /** The places that tools of a builder take; retired ones take none. */
    async placesOf(builderId: string): Promise<CommunityToolBuilderSlot[]> {
      return sql<CommunityToolBuilderSlot[]>`
        select p.place, p.slug, t.tool_id as "toolId"
          from community_tool_places p join community_tools t using (slug)
         where p.builder_id = ${builderId}`
    },

    /** The oldest tools whose builders ask for the mark `verified`. */
    async awaitingReview(): Promise<CommunityToolRecord[]> {
      const rows = await sql<CommunityToolRow[]>`
        select ${columns} from community_tools t where review = 'asked' and state <> 'retired'
         order by registered_at, slug limit ${LIMITS.pageMax}`
      return rows.map(fromRow)
    },
  }
}

/** A place among the tools of a builder; two registrations at once cannot take the same one. */
export interface CommunityToolBuilderSlot {
  readonly place: number
  readonly slug: string
  readonly toolId: string
}

type ListedOwnToolRow = Omit<ListedOwnTool, 'price'> & { readonly price_micros: bigint }

interface CommunityToolRow {
  slug: string
  change_id: string
  tool_id: string
  builder_id: string
  builder_name: string
  public_agents: string[]
  builder_visitor: string
  state: CommunityToolState
  definition: CommunityToolDefinition
  price_micros: bigint
  next_price_micros: bigint | null
  next_price_from: Date | null
  accepts_promo: boolean
  review: CommunityToolVerificationRequest
  review_reason: string | null
  secret_number: number
  measured_from: Date
  registered_at: Date
}

const fromRow = (row: CommunityToolRow): CommunityToolRecord => ({
  toolId: row.tool_id,
  slug: row.slug,
  builderId: row.builder_id,
  builderName: row.builder_name,
  isBuilderPublic: row.public_agents.length > 0,
  builderVisitor: row.builder_visitor,
  state: row.state,
  definition: row.definition,
  price: asMicros(row.price_micros),
  nextPrice:
    row.next_price_micros === null || row.next_price_from === null
      ? null
      : { price: asMicros(row.next_price_micros), from: row.next_price_from.getTime() },
  acceptsPromo: row.accepts_promo,
  review: row.review,
  reviewReason: row.review_reason,
  secretNumber: row.secret_number,
  measuredFrom: row.measured_from.getTime(),
  registeredAt: row.registered_at.getTime(),
  changeId: row.change_id,
})

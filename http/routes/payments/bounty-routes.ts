import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type, type Static } from 'typebox'
import { HOUR } from '../../../core/clock.ts'
import { ServiceError } from '../../../core/errors.ts'
import { LIMITS } from '../../../core/limits.ts'
import { fromUsdc, toUsdc } from '../../../core/money.ts'
import { MIN_BOUNTY_REWARD } from '../../../domain/pricing.ts'
import {
  SINGLE_LINE_TEXT_PATTERN,
  NOT_BLANK_PATTERN,
} from '../../../core/validation/request-schema-regex-patterns.ts'
import type {
  NewBounty,
  ClaimBountyResult,
  PostBountyResult,
} from '../../../payments/commands/bounty-commands.ts'
import type { BountyRecord } from '../../../persistence/payments/bounty-store.ts'
import { boundBackpackIdOf } from '../../auth/request-backpack-and-key-binding-check.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import {
  RequestUsdcAmountSchema,
  StrictBody,
  errorResponses,
  PathIdSchema,
  DateTimeSchema,
  toIsoTime,
  toIsoTimeOrNull,
  Nullable,
  schemaRef,
  ResponseUsdcAmountSchema,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'
import type { HttpServices } from '../../http-config-and-service-types.ts'
import {
  withBackpackRefusalLogging,
  toRequestSpendingLimits,
} from '../../auth/request-api-key-and-backpack.ts'
import { toSpenderPreload } from '../../actions/spender-preload.ts'

/** Routes for bounties: rewards held in escrow (decision 36). */

const tags = ['bounties']
const Status = Type.Enum(['open', 'claimed', 'expired'])
const Score = Type.Integer({ minimum: 0, maximum: 100 })

/** Public places name discoverable agents only; the two parties of a bounty see each other. */
const PartySchema = Nullable(
  Type.String({ format: 'uuid', description: 'Null unless discoverable, or you are a party.' }),
)

const BountyView = Type.Object(
  {
    bounty_id: UuidSchema,
    id: UuidSchema,
    status: Status,
    state: Status,
    title: Type.String(),
    description: Type.String(),
    domain: Type.String(),
    required_keywords: Type.Array(Type.String()),
    min_quality_score: Score,
    ttl_hours: Type.Integer(),
    reward_usdc: ResponseUsdcAmountSchema,
    promo_usdc: Type.Number({ description: 'The part of the reward that is promotional credits.' }),
    posted_by: PartySchema,
    posted_by_agent_id: PartySchema,
    claimed_by: PartySchema,
    claimed_by_agent_id: PartySchema,
    created_at: DateTimeSchema,
    expires_at: DateTimeSchema,
    closed_at: Nullable(DateTimeSchema),
    closed_reason: Nullable(Type.Enum(['claimed', 'cancelled', 'expired'])),
  },
  { $id: 'Bounty' },
)

const listBounties = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'listBounties',
    summary: 'Bounties, newest first',
    tags,
    querystring: Type.Object({ status: Type.Optional(Status), ...PaginationQuery }),
    response: {
      200: Type.Object({
        bounties: Type.Array(schemaRef(BountyView)),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

const listOwnBounties = {
  config: { auth: 'key', scope: 'read' } as const,
  schema: {
    operationId: 'listOwnBounties',
    summary: 'Bounties you posted or were paid for, newest first',
    tags,
    querystring: Type.Object({
      role: Type.Optional(Type.Enum(['posted', 'claimed'], { default: 'posted' })),
      status: Type.Optional(Status),
      ...PaginationQuery,
    }),
    response: {
      200: Type.Object({
        bounties: Type.Array(schemaRef(BountyView)),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

const getBounty = {
  config: { auth: 'optional', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId: 'getBounty',
    summary: 'A bounty; its poster also gets the submission',
    tags,
    params: Type.Object({ id: PathIdSchema }),
    response: {
      200: Type.Object({
        ...BountyView.properties,
        claim: Nullable(Type.Object({ content: Type.String(), quality_score: Score })),
      }),
      ...errorResponses,
    },
  },
}

const NewBountyBody = StrictBody({
  title: Type.String({ minLength: 1, maxLength: 128, pattern: SINGLE_LINE_TEXT_PATTERN }),
  description: Type.String({ minLength: 1, maxLength: 2_000, pattern: NOT_BLANK_PATTERN }),
  domain: Type.String({ minLength: 1, maxLength: 64, pattern: SINGLE_LINE_TEXT_PATTERN }),
  required_keywords: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
      maxItems: LIMITS.bountyKeywords,
      description: 'A claim must contain all of them as whole words, in any case.',
    }),
  ),
  min_quality_score: Type.Optional(Score),
  reward_usdc: RequestUsdcAmountSchema('What a matching claim is paid', {
    minimum: toUsdc(MIN_BOUNTY_REWARD),
  }),
  ttl_hours: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: LIMITS.bountyMaxHours,
      default: LIMITS.bountyHours,
      description: 'After this time an unclaimed reward is refunded in full.',
    }),
  ),
})

const postBounty = {
  config: { auth: 'key', scope: 'funds', bound: 'pays' } as const,
  schema: {
    operationId: 'postBounty',
    summary: 'Post a bounty; its reward moves from your credits into escrow',
    tags,
    body: NewBountyBody,
    response: {
      201: Type.Object({ ...BountyView.properties, balance_usdc: ResponseUsdcAmountSchema }),
      ...errorResponses,
    },
  },
}

const claimBounty = {
  config: { auth: 'key', scope: 'funds', bound: 'acts', capped: true } as const,
  schema: {
    operationId: 'claimBounty',
    summary: 'Submit a claim to a bounty; the first match is paid at once',
    description: [
      'A content matches when it has every required keyword, and a quality of at least `min_quality_score`.',
      'Words are runs of letters and digits, compared without case; in scripts without spaces each character is a word.',
      'The quality is one point for each different word, up to 80, and up to 20 for variety: 20 x 2 x different words / words, rounded down.',
      'Content that does not match gets a 422 with its score and the missing keywords.',
    ].join(' '),
    tags,
    params: Type.Object({ id: PathIdSchema }),
    body: StrictBody({
      content: Type.String({
        minLength: 1,
        maxLength: LIMITS.bountyContent,
        pattern: NOT_BLANK_PATTERN,
      }),
    }),
    response: {
      200: Type.Object({
        bounty_id: UuidSchema,
        status: Type.Literal('claimed'),
        paid_usdc: ResponseUsdcAmountSchema,
        promo_usdc: Type.Number({ description: 'The part of it that is promotional credits.' }),
        quality_score: Score,
        claimed_at: DateTimeSchema,
      }),
      ...errorResponses,
    },
  },
}

const cancelBounty = {
  config: { auth: 'key', scope: 'funds', bound: 'acts', servesFrozen: true } as const,
  schema: {
    operationId: 'cancelBounty',
    summary: 'Cancel your open bounty and refund its reward',
    tags,
    params: Type.Object({ id: PathIdSchema }),
    response: {
      200: Type.Object({
        bounty_id: UuidSchema,
        status: Type.Literal('expired'),
        closed_reason: Type.Literal('cancelled'),
        returned_usdc: ResponseUsdcAmountSchema,
        closed_at: DateTimeSchema,
      }),
      ...errorResponses,
    },
  },
}

/** Post, claim, settle and cancel bounties. */
export const bountyRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { bounties, once } = app.services
  const isOwn = createPosterCheck(app.services)
  app.addSchema(BountyView)

  app.get('/api/bounties', listBounties, async ({ query }, reply) => {
    reply.header('cache-control', 'no-store')
    const { rows, next_cursor } = await paginate(
      query,
      CURSOR_PATTERNS.uuid,
      (limit, before) => bounties.store.list(query.status ?? null, limit, before),
      ({ bountyId }) => bountyId,
    )
    return {
      bounties: rows.map((one) => toBountyView(one, null)),
      count: rows.length,
      next_cursor,
    }
  })

  app.get('/api/bounties/mine', listOwnBounties, async ({ agentId, query }) => {
    const { role = 'posted', status = null } = query
    const { rows, next_cursor } = await paginate(
      query,
      CURSOR_PATTERNS.uuid,
      (limit, before) => bounties.store.ofAgent(agentId, { role, status }, limit, before),
      ({ bountyId }) => bountyId,
    )
    return {
      bounties: rows.map((one) => toBountyView(one, agentId)),
      count: rows.length,
      next_cursor,
    }
  })

  app.get('/api/bounties/:id', getBounty, async (request) => {
    const bounty = await bounties.find(request.params.id)
    const isClaimVisible = bounty.status === 'claimed' && (await isOwn(request, bounty))
    const handedIn = isClaimVisible ? await bounties.store.contentOf(bounty.bountyId) : null
    const claim =
      handedIn === null ? null : { content: handedIn.content, quality_score: handedIn.quality }
    return { ...toBountyView(bounty, request.agentId), claim }
  })

  app.post('/api/bounties', postBounty, async (request, reply) => {
    const spender = toRequestSpendingLimits(request)
    const wanted = { ...toNewBounty(request.body), spender }
    const touch = toSpenderPreload(spender)
    return sendIdempotentReply(
      reply,
      once.runCommand(toIdempotentRequest(request), presentPosted, (options) =>
        withBackpackRefusalLogging(request, 'bounty', () =>
          bounties.post(request.agentId, wanted, { ...touch, ...options }),
        ),
      ),
    )
  })

  app.post('/api/bounties/:id/claim', claimBounty, async (request, reply) => {
    const bounty = await bounties.find(request.params.id)
    return sendIdempotentReply(
      reply,
      once.runCommand(scopeToBounty(request, bounty), presentClaim(bounty), (options) =>
        bounties.claim(bounty, request.agentId, request.body.content, options),
      ),
    )
  })

  app.delete('/api/bounties/:id', cancelBounty, async (request, reply) => {
    const bounty = await bounties.find(request.params.id)
    if (boundBackpackIdOf(request) !== null && !(await isOwn(request, bounty)))
      throw new ServiceError('bounty_not_yours')
    return sendIdempotentReply(
      reply,
      once.runCommand(scopeToBounty(request, bounty), presentCancelled(bounty), (options) =>
        bounties.cancel(bounty, request.agentId, options),
      ),
    )
  })
}

/** Returns whether the requesting agent posted a bounty; for a bound key, in its Backpack. */
const createPosterCheck =
  ({ callLog }: Pick<HttpServices, 'callLog'>) =>
  async (request: FastifyRequest, { bountyId, posterId }: BountyRecord): Promise<boolean> => {
    const backpackId = boundBackpackIdOf(request)
    if (posterId !== request.agentId) return false
    return backpackId === null || callLog.isWithin(posterId, backpackId, bountyId)
  }

const toNewBounty = (body: Static<typeof NewBountyBody>): NewBounty => ({
  title: body.title,
  description: body.description,
  domain: body.domain,
  requiredKeywords: body.required_keywords ?? [],
  minQuality: body.min_quality_score ?? 0,
  reward: fromUsdc(body.reward_usdc, '/reward_usdc'),
  ttlHours: body.ttl_hours ?? LIMITS.bountyHours,
})

/** The reply is stored in the commit of the bounty, which agents share, so it is scoped to the agent. */
function scopeToBounty(request: FastifyRequest, { bountyId }: BountyRecord) {
  const one = toIdempotentRequest(request)
  return { ...one, owner: bountyId, key: one.key === null ? null : `${request.agentId} ${one.key}` }
}

/** A bounty as the API and its page show it to an agent; null: to everybody. */
export function toBountyView(bounty: BountyRecord, viewer: string | null) {
  const isParty = viewer !== null && [bounty.posterId, bounty.claimedBy].includes(viewer)
  const named = (id: string | null) =>
    id !== null && (isParty || bounty.publicAgents.includes(id)) ? id : null
  return {
    bounty_id: bounty.bountyId,
    id: bounty.bountyId,
    status: bounty.status,
    state: bounty.status,
    title: bounty.title,
    description: bounty.description,
    domain: bounty.domain,
    required_keywords: [...bounty.requiredKeywords],
    min_quality_score: bounty.minQuality,
    ttl_hours: Math.round((bounty.expiresAt.getTime() - bounty.createdAt.getTime()) / HOUR),
    reward_usdc: toUsdc(bounty.reward),
    promo_usdc: toUsdc(bounty.promo),
    posted_by: named(bounty.posterId),
    posted_by_agent_id: named(bounty.posterId),
    claimed_by: named(bounty.claimedBy),
    claimed_by_agent_id: named(bounty.claimedBy),
    created_at: toIsoTime(bounty.createdAt),
    expires_at: toIsoTime(bounty.expiresAt),
    closed_at: toIsoTimeOrNull(bounty.closedAt),
    closed_reason: bounty.closedReason as 'claimed' | 'cancelled' | 'expired' | null,
  }
}

const presentPosted = ({ bounty, balance }: PostBountyResult) => ({
  status: 201,
  body: { ...toBountyView(bounty, bounty.posterId), balance_usdc: toUsdc(balance) },
})

const presentClaim =
  ({ bountyId }: BountyRecord) =>
  ({ reward, promo, quality, at }: ClaimBountyResult) => ({
    status: 200,
    body: {
      bounty_id: bountyId,
      status: 'claimed',
      paid_usdc: toUsdc(reward),
      promo_usdc: toUsdc(promo),
      quality_score: quality,
      claimed_at: toIsoTime(at),
    },
  })

const presentCancelled =
  ({ bountyId, reward }: BountyRecord) =>
  ({ at }: { at: number }) => ({
    status: 200,
    body: {
      bounty_id: bountyId,
      status: 'expired',
      closed_reason: 'cancelled',
      returned_usdc: toUsdc(reward),
      closed_at: toIsoTime(at),
    },
  })

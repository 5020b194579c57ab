import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { toUsdc } from '../../../core/money.ts'
import { COMMUNITY_TOOL_STATES, type ListedOwnTool } from '../../../domain/community-tool-record.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import type {
  BuilderToolEarnings,
  CommunityToolCallFigures,
  CommunityToolRefundSample,
} from '../../../persistence/tools/community-tool-call-store.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import {
  DateTimeSchema,
  errorResponses,
  Nullable,
  StrictBody,
  toIsoTime,
  ResponseUsdcAmountSchema,
} from '../../schemas/shared-schemas.ts'
import { toCommunityToolJson } from './community-tool-routes.ts'

/** Routes for those who sell tools: what they earn, what failed, and the request for the mark `verified`. */

const tags = ['builders']
const Review = Type.Enum(['none', 'asked', 'verified', 'refused'], {
  description: 'The mark of the operator.',
})
const State = Type.Enum([...COMMUNITY_TOOL_STATES])

const submitTool = {
  config: { auth: 'key', scope: 'funds' } as const,
  schema: {
    operationId: 'submitTool',
    summary: 'Ask the operator for the mark `verified` for a tool that you sell',
    description:
      'Verified tools are shown to models without asking for tools of the community. The answer of the operator, with its reason, is in `GET /api/builder` and the event `tool.judged`.',
    tags,
    body: StrictBody({
      slug: Type.String({
        minLength: 1,
        maxLength: 64,
        pattern: '^[A-Za-z0-9_-]{1,64}$',
        description: 'A tool of yours that can be called.',
      }),
    }),
    response: {
      200: Type.Object({ slug: Type.String(), status: State, verification: Review }),
      ...errorResponses,
    },
  },
}

const Quality = Type.Object({
  calls: Type.Integer({ description: 'Calls that count: not yours, of your fleet or address.' }),
  success_rate: Nullable(Type.Number()),
  p50_ms: Type.Integer(),
  p95_ms: Type.Integer(),
  refunds: Type.Integer(),
  payers: Type.Integer({ description: 'Different agents and wallets that paid.' }),
  schema_failures: Type.Integer({ description: 'Answers that did not match `output_schema`.' }),
})

const getBuilder = {
  config: { auth: 'key', scope: 'read' } as const,
  schema: {
    operationId: 'getBuilder',
    summary: 'The tools that you sell: earnings, calls, quality and what failed',
    description:
      'The sums are of all your tools. Oldest tools first; retired ones at the end, newest first.',
    tags,
    querystring: Type.Object(PaginationQuery),
    response: {
      200: Type.Object({
        earned_usdc: ResponseUsdcAmountSchema,
        calls: Type.Integer(),
        failures: Type.Integer({ description: 'Calls that were refunded.' }),
        tools: Type.Array(
          Type.Object({
            slug: Type.String(),
            name: Type.String(),
            status: State,
            price_per_call_usdc: ResponseUsdcAmountSchema,
            accepts_promo: Type.Boolean(),
            verification: Review,
            verification_reason: Nullable(Type.String()),
            earned_usdc: ResponseUsdcAmountSchema,
            calls: Type.Integer(),
            failures: Type.Integer(),
            quality: Nullable(Quality),
            recent_failures: Type.Array(
              Type.Object({
                call_id: Type.String({ description: 'The `X-Call-Id` that your endpoint got.' }),
                code: Type.String(),
                detail: Type.String({ description: 'What was wrong with the answer.' }),
                ms: Type.Integer(),
                at: DateTimeSchema,
              }),
            ),
            registered_at: DateTimeSchema,
          }),
        ),
        next_cursor: Nullable(Type.String()),
        share_percent: Type.Integer({ description: 'Your part of each price.' }),
      }),
      ...errorResponses,
    },
  },
}

/** Submit a tool for review; read earnings and failures. */
export const toolBuilderRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { builders, communityCalls, config, once } = app.services

  app.post('/api/builder/submit', submitTool, async (request, reply) =>
    sendIdempotentReply(
      reply,
      once.runThenRecord(toIdempotentRequest(request), async () => {
        const view = await builders.submit(request.body.slug, request.agentId)
        const { slug, status, verification } = toCommunityToolJson(view, config.publicUrl)
        return { status: 200, body: { slug, status, verification } }
      }),
    ),
  )

  app.get('/api/builder', getBuilder, async ({ agentId, query }) => {
    const { rows: tools, next_cursor } = await paginate(
      query,
      CURSOR_PATTERNS.text,
      (limit, after) => builders.pageOf(agentId, limit, after),
      ({ slug }) => slug,
    )
    const slugs = tools.map(({ slug }) => slug)
    const [earnings, failures, figures] = await Promise.all([
      communityCalls.earningsOf(agentId, slugs),
      communityCalls.failuresOf(agentId, slugs),
      communityCalls.figures(agentId),
    ])
    const sum = (of: (one: (typeof earnings)[number]) => number) =>
      earnings.reduce((total, one) => total + of(one), 0)
    return {
      earned_usdc: Number(sum(({ earned }) => earned).toFixed(6)),
      calls: sum((one) => one.calls),
      failures: sum((one) => one.failures),
      tools: tools.map((tool) =>
        toOwnToolJson(
          tool,
          earnings.find(({ slug }) => slug === tool.slug),
          figures.get(tool.slug),
          failures.filter(({ slug }) => slug === tool.slug),
        ),
      ),
      next_cursor,
      share_percent: 60,
    }
  })
}

const toOwnToolJson = (
  tool: ListedOwnTool,
  earned: BuilderToolEarnings | undefined,
  quality: CommunityToolCallFigures | undefined,
  failures: readonly CommunityToolRefundSample[],
) => ({
  slug: tool.slug,
  name: tool.name,
  status: tool.state,
  price_per_call_usdc: toUsdc(tool.price),
  accepts_promo: tool.acceptsPromo,
  verification: tool.review,
  verification_reason: tool.reviewReason,
  earned_usdc: earned?.earned ?? 0,
  calls: earned?.calls ?? 0,
  failures: earned?.failures ?? 0,
  quality:
    quality === undefined
      ? null
      : {
          calls: quality.calls,
          success_rate: quality.calls === 0 ? null : quality.successes / quality.calls,
          p50_ms: quality.p50Ms,
          p95_ms: quality.p95Ms,
          refunds: quality.refunds,
          payers: quality.payers,
          schema_failures: quality.schemaFailures,
        },
  recent_failures: failures.map(({ callId, code, detail, ms, at }) => ({
    call_id: callId,
    code,
    detail,
    ms,
    at: toIsoTime(at),
  })),
  registered_at: toIsoTime(tool.registeredAt),
})

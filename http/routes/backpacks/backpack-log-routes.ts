import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { LIMITS } from '../../../core/limits.ts'
import { toUsdc } from '../../../core/money.ts'
import type { CallLogEntry } from '../../../persistence/calls/call-log-store.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import { TimeRangeQuery, parseTimeRange } from '../../schemas/time-range.ts'
import {
  errorResponses,
  DateTimeSchema,
  toIsoTime,
  Nullable,
  ResponseUsdcAmountSchema,
} from '../../schemas/shared-schemas.ts'
import {
  backpackRouteConfig,
  requireOwnBackpackOfPath,
  BackpackPathParams,
  backpackRouteTags,
} from './shared-by-backpack-subresource-routes.ts'

/** Routes for the logs of a Backpack. */

const NullableCursor = Nullable(Type.String())

const listNotifications = {
  config: { ...backpackRouteConfig, bound: 'reads' } as const,
  schema: {
    operationId: 'listNotifications',
    summary: 'The pager events of a Backpack, newest first',
    tags: backpackRouteTags,
    params: BackpackPathParams,
    querystring: Type.Object(PaginationQuery),
    response: {
      200: Type.Object({
        notifications: Type.Array(
          Type.Object({
            notification_id: Type.String(),
            id: Type.String(),
            type: Type.String(),
            data: Type.Object({}, { additionalProperties: true }),
            created_at: DateTimeSchema,
          }),
        ),
        count: Type.Integer(),
        next_cursor: NullableCursor,
      }),
      ...errorResponses,
    },
  },
}

const REFUSAL_ROWS_DESCRIPTION = `Refusals with one code of one tool within a minute are one row: how many they were. The latest ${LIMITS.backpackRefusals} rows are kept, for ${LIMITS.refusalDays} days.`

const listSpend = {
  config: { ...backpackRouteConfig, bound: 'reads' } as const,
  schema: {
    operationId: 'listSpend',
    summary: 'The spend ledger of a Backpack, newest first',
    tags: backpackRouteTags,
    params: BackpackPathParams,
    querystring: Type.Object({
      ...PaginationQuery,
      tool: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' })),
      ...TimeRangeQuery,
      success: Type.Optional(Type.Boolean()),
    }),
    response: {
      200: Type.Object({
        backpack_id: Type.String(),
        spent_today_usdc: ResponseUsdcAmountSchema,
        spent_month_usdc: ResponseUsdcAmountSchema,
        spent_total_usdc: ResponseUsdcAmountSchema,
        calls: Type.Array(
          Type.Object({
            call_id: Type.String({ description: 'For a refusal, the id of its row.' }),
            id: Type.String(),
            tool: Nullable(Type.String()),
            rail: Type.String(),
            cost_usdc: ResponseUsdcAmountSchema,
            success: Type.Boolean(),
            error_code: Nullable(Type.String()),
            ms: Type.Integer(),
            task_id: Nullable(Type.String()),
            times: Type.Integer({ description: REFUSAL_ROWS_DESCRIPTION }),
            at: DateTimeSchema,
            created_at: DateTimeSchema,
          }),
        ),
        count: Type.Integer(),
        next_cursor: NullableCursor,
      }),
      ...errorResponses,
    },
  },
}

/** The pager events and the spend log, newest first (decision 39). */
export const backpackLogRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { callLog, events, refusals } = services

  app.get('/api/backpack/:id/notifications', listNotifications, async (request) => {
    const { backpackId } = await requireOwnBackpackOfPath(services, request)
    const { rows, next_cursor } = await paginate(
      request.query,
      CURSOR_PATTERNS.integer,
      (limit, before) => events.notificationsOf(backpackId, limit, before),
      ({ id }) => id,
    )
    const notifications = rows.map(({ id, type, data, at }) => ({
      notification_id: id,
      id,
      type,
      data,
      created_at: toIsoTime(at),
    }))
    return { notifications, count: rows.length, next_cursor }
  })

  app.get('/api/backpack/:id/spend', listSpend, async (request) => {
    const { tool, success } = request.query
    const { from, to } = parseTimeRange(request.query)
    const { backpackId, spentDay, spentMonth, spentTotal } = await requireOwnBackpackOfPath(
      services,
      request,
    )
    // Writes the refusals counted by this node; those of other nodes follow within a second.
    await refusals.flush()
    const { rows, next_cursor } = await paginate(
      request.query,
      CURSOR_PATTERNS.uuid,
      (limit, before) => callLog.spendOf(backpackId, { tool, success, from, to }, limit, before),
      ({ callId }) => callId,
    )
    return {
      backpack_id: backpackId,
      spent_today_usdc: toUsdc(spentDay),
      spent_month_usdc: toUsdc(spentMonth),
      spent_total_usdc: toUsdc(spentTotal),
      calls: rows.map(presentCall),
      count: rows.length,
      next_cursor,
    }
  })
}

const presentCall = (call: CallLogEntry) => ({
  call_id: call.callId,
  id: call.callId,
  tool: call.tool,
  rail: call.rail,
  cost_usdc: toUsdc(call.cost),
  success: call.ok,
  error_code: call.errorCode,
  ms: call.ms,
  task_id: call.taskId,
  times: call.times,
  at: toIsoTime(call.at),
  created_at: toIsoTime(call.at),
})

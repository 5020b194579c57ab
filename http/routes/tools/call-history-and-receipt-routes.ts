import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { ServiceError } from '../../../core/errors.ts'
import { isUuid } from '../../../core/ids-and-api-keys.ts'
import { toUsdc } from '../../../core/money.ts'
import type { CallLogEntry } from '../../../persistence/calls/call-log-store.ts'
import type { ApiKeyRecord } from '../../../persistence/agents/api-key-store.ts'
import { backpackOutsideKeyBindingError } from '../../auth/request-backpack-and-key-binding-check.ts'
import { signCallAttestation } from '../../sign-call-attestation.ts'
import { CallAttestationSchema } from '../../schemas/attestation-schemas.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import {
  errorResponses,
  PathIdSchema,
  DateTimeSchema,
  toIsoTime,
  Nullable,
  ResponseUsdcAmountSchema,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'
import { TimeRangeQuery, parseTimeRange } from '../../schemas/time-range.ts'

/** Routes for the call history of an agent and for receipts. */

const tags = ['tools']
const NullableStringSchema = Nullable(Type.String())
const Status = Type.Enum(['ok', 'failed'])

const CallFields = {
  call_id: UuidSchema,
  id: UuidSchema,
  tool: NullableStringSchema,
  operation: Type.String({
    description: 'The operation of the call; `refuel` covers every route that runs a tool.',
  }),
  status: Status,
  success: Type.Boolean(),
  error_code: NullableStringSchema,
  rail: Type.String(),
  cost_usdc: ResponseUsdcAmountSchema,
  ms: Type.Integer({ description: 'How long the tool ran.' }),
  task_id: NullableStringSchema,
  backpack_id: NullableStringSchema,
  ghost: Type.Boolean({ description: 'Private: excluded from public statistics.' }),
  created_at: DateTimeSchema,
}

const listCalls = {
  config: { auth: 'key', scope: 'read', bound: 'reads', ownerSession: true } as const,
  schema: {
    operationId: 'listCalls',
    summary: 'Your calls, including private ones, newest first',
    description:
      'Every finished call, including failed ones. Inputs and outputs are not stored. A refusal before the call starts is not listed.',
    tags,
    querystring: Type.Object({
      ...PaginationQuery,
      ...TimeRangeQuery,
      tool: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' })),
      status: Type.Optional(Status),
      task_id: Type.Optional(UuidSchema),
      backpack_id: Type.Optional(PathIdSchema),
    }),
    response: {
      200: Type.Object({
        calls: Type.Array(Type.Object(CallFields)),
        count: Type.Integer(),
        next_cursor: NullableStringSchema,
      }),
      ...errorResponses,
    },
  },
}

const getCall = {
  config: { auth: 'key', scope: 'read', bound: 'reads', ownerSession: true } as const,
  schema: {
    operationId: 'getCall',
    summary: 'One of your calls, with its receipt',
    tags,
    params: Type.Object({ id: PathIdSchema }),
    response: {
      200: Type.Object({ ...CallFields, receipt: NullableStringSchema }),
      ...errorResponses,
    },
  },
}

const getReceipt = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'getReceipt',
    summary: 'Verify a receipt, without a key',
    description:
      'Returns the tool, time, price and rail of the call, but neither the caller nor the input, and a signed attestation with the place of its fee in the public ledger of fees. Anything but a valid receipt of this service is 404.',
    tags,
    params: Type.Object({ receipt: Type.String({ maxLength: 256 }) }),
    response: {
      200: Type.Object({
        receipt: Type.String(),
        call_id: UuidSchema,
        tool: NullableStringSchema,
        status: Type.Literal('ok'),
        cost_usdc: ResponseUsdcAmountSchema,
        rail: Type.String(),
        created_at: DateTimeSchema,
        attestation: CallAttestationSchema,
      }),
      ...errorResponses,
    },
  },
}

const getCallReceipt = {
  config: { auth: 'key', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId: 'getCallReceipt',
    summary:
      'The signed receipt of one of your calls, with the place of its fee in the attestations',
    description:
      'Signed when it is asked for, with a key of `/.well-known/did.json`. The hashes of request and answer are those of a call with an Idempotency-Key; a key bound to a Backpack gets no hash of the request. Anyone can check it offline: `gas attest verify`. Failed calls have none.',
    tags,
    params: Type.Object({ id: PathIdSchema }),
    response: { 200: CallAttestationSchema, ...errorResponses },
  },
}

/** The history is for the agent; a receipt is for any holder of its token. */
export const callHistoryAndReceiptRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { attestations, callLog, config, receipts } = app.services

  app.get('/api/calls', listCalls, async ({ agentId, apiKey, query }) => {
    const { tool, status, task_id: taskId, backpack_id: requestedBackpackId } = query
    const backpackId = resolveBackpackFilter(apiKey, requestedBackpackId)
    const success = status === undefined ? undefined : status === 'ok'
    const filter = { ...parseTimeRange(query), tool, success, taskId, backpackId }
    const { rows, next_cursor } = await paginate(
      query,
      CURSOR_PATTERNS.uuid,
      (limit, before) => callLog.callsOf(agentId, filter, limit, before),
      ({ callId }) => callId,
    )
    return { calls: rows.map(presentCall), count: rows.length, next_cursor }
  })

  app.get('/api/calls/:id', getCall, async ({ agentId, apiKey, params }) => {
    const id = params.id.toLowerCase()
    const bound = apiKey?.backpackId ?? null
    const call = isUuid(id) ? await callLog.find(agentId, id, bound) : null
    if (call === null) throw new ServiceError('call_not_found', { call_id: params.id })
    return { ...presentCall(call), receipt: receipts.receiptFor(agentId, call) }
  })

  app.get('/api/calls/:id/receipt', getCallReceipt, async ({ agentId, apiKey, params }, reply) => {
    const id = params.id.toLowerCase()
    const bound = apiKey?.backpackId ?? null
    const call = isUuid(id) ? await callLog.find(agentId, id, bound) : null
    if (call === null || !call.ok) throw new ServiceError('call_not_found', { call_id: params.id })
    reply.header('cache-control', 'private, no-store')
    return signCallAttestation({ attestations, config }, agentId, call, {
      showsRequest: bound === null,
    })
  })

  app.get('/api/receipts/:receipt', getReceipt, async ({ params: { receipt } }, reply) => {
    const call = await receipts.findCall(receipt)
    if (call === null) throw new ServiceError('receipt_not_found')
    // The token in the address is a secret.
    reply.header('cache-control', 'private, no-store')
    return {
      receipt,
      call_id: call.callId,
      tool: call.tool,
      status: 'ok' as const,
      cost_usdc: toUsdc(call.cost),
      rail: call.rail,
      created_at: toIsoTime(call.at),
      attestation: await signCallAttestation({ attestations, config }, call.owner, call, {
        showsRequest: false,
      }),
    }
  })
}

/** Returns the Backpack whose calls are listed: a bound key lists its own only. */
function resolveBackpackFilter(
  key: ApiKeyRecord | null,
  requestedBackpackId: string | undefined,
): string | undefined {
  const bound = key?.backpackId ?? undefined
  if (bound !== undefined && requestedBackpackId !== undefined && requestedBackpackId !== bound)
    throw backpackOutsideKeyBindingError(bound, requestedBackpackId)
  return requestedBackpackId ?? bound
}

const presentCall = (call: CallLogEntry) => ({
  call_id: call.callId,
  id: call.callId,
  tool: call.tool,
  operation: call.operation,
  status: call.ok ? ('ok' as const) : ('failed' as const),
  success: call.ok,
  error_code: call.errorCode,
  rail: call.rail,
  cost_usdc: toUsdc(call.cost),
  ms: call.ms,
  task_id: call.taskId,
  backpack_id: call.backpackId,
  ghost: call.ghost,
  created_at: toIsoTime(call.at),
})

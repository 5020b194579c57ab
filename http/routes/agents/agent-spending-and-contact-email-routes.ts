import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { DAY, utcDay } from '../../../core/clock.ts'
import { ServiceError } from '../../../core/errors.ts'
import { sumMicros, toUsdc } from '../../../core/money.ts'
import { boundBackpackIdOf } from '../../auth/request-backpack-and-key-binding-check.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { WILDCARD_SCOPE, type ApiKeyRecord } from '../../../persistence/agents/api-key-store.ts'
import {
  errorResponses,
  StrictBody,
  ResponseUsdcAmountSchema,
} from '../../schemas/shared-schemas.ts'

/** Routes about an agent for its owner: spending by day and tool, and the address to sign in with. */

const MAX_DAYS = 90
const DEFAULT_DAYS = 30

const getSpending = {
  config: { auth: 'key', scope: 'read', bound: 'reads', ownerSession: true } as const,
  schema: {
    operationId: 'getSpending',
    summary: 'What your calls cost, by UTC day and tool',
    description:
      'The last days with today, of the latest 50,000 calls in them. With a key bound to a Backpack, of its calls.',
    tags: ['funds'],
    querystring: Type.Object({
      days: Type.Optional(
        Type.Integer({ minimum: 1, maximum: MAX_DAYS, description: 'How many; 30 by default.' }),
      ),
    }),
    response: {
      200: Type.Object({
        from: Type.String({ format: 'date', description: 'The first day.' }),
        to: Type.String({ format: 'date', description: 'The last day, today.' }),
        complete: Type.Boolean({ description: 'False where there were more calls than are read.' }),
        spent_usdc: Type.Number({ description: 'The sum of all rows.' }),
        calls: Type.Integer({ description: 'The number of calls in all rows.' }),
        rows: Type.Array(
          Type.Object({
            day: Type.String({ format: 'date', description: 'The UTC day.' }),
            tool: Type.String({ description: 'The tool, or the operation that was charged.' }),
            calls: Type.Integer({ description: 'Its calls on that day.' }),
            spent_usdc: ResponseUsdcAmountSchema,
          }),
        ),
      }),
      ...errorResponses,
    },
  },
}

const setContactEmail = {
  config: {
    auth: 'key',
    scope: 'keys',
    rate: 'manage',
    servesFrozen: true,
    ownerSession: true,
  } as const,
  schema: {
    operationId: 'setContactEmail',
    summary: 'Set the contact address and send it a link that confirms it',
    description:
      'Once it is confirmed, the owner can sign in at /owner with a link to it. Who opens the link manages the agent, so this takes a key with scope `*` and without an expiry.',
    tags: ['agents'],
    body: StrictBody({ contact_email: Type.String({ format: 'email', maxLength: 254 }) }),
    response: {
      200: Type.Object({
        contact_email: Type.String(),
        contact_email_confirmed: Type.Boolean(),
        sent: Type.Boolean({ description: 'Whether a link was sent: not to a confirmed address.' }),
      }),
      ...errorResponses,
    },
  },
}

/** Spending and the contact address. */
export const agentSpendingAndContactEmailRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { ownerAccess, services } = app
  const { clock, once, owners, profiles } = services

  app.get('/api/agent/spending', getSpending, async (request) => {
    const { days = DEFAULT_DAYS } = request.query
    const now = clock.now()
    const from = utcDay(now - (days - 1) * DAY)
    const { rows, complete } = await owners.spending.byDayAndTool(
      request.agentId,
      boundBackpackIdOf(request),
      new Date(from),
    )
    return {
      from,
      to: utcDay(now),
      complete,
      spent_usdc: toUsdc(sumMicros(rows.map(({ cost }) => cost))),
      calls: rows.reduce((sum, { calls }) => sum + calls, 0),
      rows: rows.map(({ day, tool, calls, cost }) => ({
        day,
        tool,
        calls,
        spent_usdc: toUsdc(cost),
      })),
    }
  })

  app.post('/api/agent/contact-email', setContactEmail, async (request, reply) => {
    const wanted = toIdempotentRequest(request)
    const keyId = assertFullKey(request.apiKey)
    return sendIdempotentReply(
      reply,
      once.runThenRecord(wanted, async () => {
        const { agentId } = request
        const { contact_email: email } = request.body
        if (!ownerAccess.canMail) throw new ServiceError('mail_unavailable')
        const change = () => profiles.setContactEmail(agentId, email)
        const member = { agentId, keyId }
        const isConfirmed = await ownerAccess.setAddress(member, request.caller, email, change)
        const body = { contact_email: email, contact_email_confirmed: isConfirmed }
        return { status: 200, body: { ...body, sent: !isConfirmed } }
      }),
    )
  })
}

/** Returns the id of the key; throws for fewer rights than the address gives: a key passes on what it has. */
function assertFullKey(key: ApiKeyRecord | null): string {
  if (key === null) throw new ServiceError('unauthenticated')
  if (key.scopes.includes(WILDCARD_SCOPE) && key.expiresAt === null) return key.id
  const detail =
    'The address signs in with all rights and without an end. Setting it takes a key with scope `*` and without an expiry.'
  throw new ServiceError('insufficient_scope', { detail, scopes: key.scopes })
}

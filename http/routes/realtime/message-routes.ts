import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { ServiceError } from '../../../core/errors.ts'
import { isUuid } from '../../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../../core/limits.ts'
import {
  SINGLE_LINE_TEXT_PATTERN,
  NOT_BLANK_PATTERN,
} from '../../../core/validation/request-schema-regex-patterns.ts'
import type { StoredAgentMessage as Stored } from '../../../persistence/agents/agent-message-store.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import {
  StrictBody,
  errorResponses,
  PathIdSchema,
  DateTimeSchema,
  toIsoTime,
  Nullable,
  schemaRef,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'

/** Routes for messages between agents. */

const tags = ['messages']

/** Fields of a message, over REST and WebSocket. */
export const AgentMessageFieldSchemas = {
  to: Type.String({ format: 'uuid', description: 'The recipient.' }),
  message: Type.String({
    minLength: 1,
    maxLength: LIMITS.messageCharacters,
    pattern: NOT_BLANK_PATTERN,
  }),
  subject: Type.Optional(Type.String({ maxLength: 200, pattern: SINGLE_LINE_TEXT_PATTERN })),
}
const MessageSchema = Type.Object(
  {
    message_id: UuidSchema,
    id: UuidSchema,
    kind: Type.String({ description: '`message`, or `ping` from the tool agent_ping.' }),
    from_agent_id: UuidSchema,
    to_agent_id: UuidSchema,
    subject: Nullable(Type.String()),
    message: Type.String(),
    created_at: DateTimeSchema,
    expires_at: DateTimeSchema,
  },
  { $id: 'Message' },
)
const MessageListResponse = Type.Object({
  messages: Type.Array(schemaRef(MessageSchema)),
  count: Type.Integer(),
  next_cursor: Nullable(Type.String()),
})

const sendMessage = {
  config: { auth: 'key', scope: 'tools', bound: 'acts' } as const,
  schema: {
    operationId: 'sendMessage',
    summary: `Send a message to another agent; stored for ${LIMITS.messageDays} days`,
    tags,
    body: StrictBody(AgentMessageFieldSchemas),
    response: {
      200: Type.Object({
        message_id: UuidSchema,
        to_agent_id: UuidSchema,
        created_at: DateTimeSchema,
        expires_at: DateTimeSchema,
      }),
      ...errorResponses,
    },
  },
}

const messageListRoute = (operationId: string, summary: string) => ({
  config: { auth: 'key', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId,
    summary,
    tags,
    querystring: Type.Object(PaginationQuery),
    response: { 200: MessageListResponse, ...errorResponses },
  },
})

const removeMessage = {
  config: { auth: 'key', scope: 'tools', bound: 'acts' } as const,
  schema: {
    operationId: 'removeMessage',
    summary: 'Remove a message from your inbox or sent list',
    tags,
    params: Type.Object({ id: PathIdSchema }),
    response: {
      200: Type.Object({ message_id: UuidSchema, removed: Type.Boolean() }),
      ...errorResponses,
    },
  },
}

/** Send, list and remove messages. */
export const messageRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { clock, messages, once, send } = app.services
  app.addSchema(MessageSchema)
  const list = async (
    query: { limit?: number; cursor?: string },
    read: (now: Date, limit: number, before: string | null) => Promise<Stored[]>,
  ) => {
    const now = new Date(clock.now())
    const { rows, next_cursor } = await paginate(
      query,
      CURSOR_PATTERNS.uuid,
      (limit, before) => read(now, limit, before),
      ({ id }) => id,
    )
    return { messages: rows.map(presentMessage), count: rows.length, next_cursor }
  }

  app.post('/api/messages', sendMessage, async (request, reply) => {
    const { to, message, subject = null } = request.body
    return sendIdempotentReply(
      reply,
      send(toIdempotentRequest(request), request.agentId, { to, message, subject }),
    )
  })

  app.get(
    '/api/messages',
    messageListRoute('inbox', 'Messages to you, newest first'),
    async (request) => list(request.query, (...at) => messages.inboxOf(request.agentId, ...at)),
  )

  app.get(
    '/api/messages/sent',
    messageListRoute('sentMessages', 'Messages from you, newest first'),
    async (request) => list(request.query, (...at) => messages.sentBy(request.agentId, ...at)),
  )

  app.delete('/api/messages/:id', removeMessage, async (request, reply) => {
    const id = request.params.id.toLowerCase()
    if (!isUuid(id)) throw new ServiceError('message_not_found')
    return sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => {
        const removed = await messages.remove(tx, request.agentId, id, new Date(clock.now()))
        if (!removed) throw new ServiceError('message_not_found')
        return { status: 200, body: { message_id: id, removed } }
      }),
    )
  })
}

const presentMessage = (message: Stored) => ({
  message_id: message.id,
  id: message.id,
  kind: message.kind,
  from_agent_id: message.from,
  to_agent_id: message.to,
  subject: message.subject,
  message: message.body,
  created_at: toIsoTime(message.at),
  expires_at: toIsoTime(message.expiresAt),
})

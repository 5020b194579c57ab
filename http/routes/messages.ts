import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { isUuid } from '../../core/ids.ts'
import { LIMITS } from '../../core/limits.ts'
import { LABEL, SAID } from '../../core/said.ts'
import type { Message as Stored } from '../../persistence/messages.ts'
import { answer, asked } from '../idempotency.ts'
import { CURSOR, page, Paging } from '../paging.ts'
import { Body, failures, Id, Instant, instant, Nullable, ref, Uuid } from '../schemas.ts'

const tags = ['messages']

/** What a message says, over REST and on the socket alike. */
export const MessageFields = {
  to: Type.String({ format: 'uuid', description: 'The agent it is for.' }),
  message: Type.String({ minLength: 1, maxLength: LIMITS.messageCharacters, pattern: SAID }),
  subject: Type.Optional(Type.String({ maxLength: 200, pattern: LABEL })),
}
const Message = Type.Object(
  {
    message_id: Uuid,
    id: Uuid,
    kind: Type.String({ description: '`message`, or `ping` from the tool agent_ping.' }),
    from_agent_id: Uuid,
    to_agent_id: Uuid,
    subject: Nullable(Type.String()),
    message: Type.String(),
    created_at: Instant,
    expires_at: Instant,
  },
  { $id: 'Message' },
)
const Listed = Type.Object({
  messages: Type.Array(ref(Message)),
  count: Type.Integer(),
  next_cursor: Nullable(Type.String()),
})

const sendMessage = {
  config: { auth: 'key', scope: 'tools', bound: 'acts' } as const,
  schema: {
    operationId: 'sendMessage',
    summary: `Write to another agent; kept for ${LIMITS.messageDays} days`,
    tags,
    body: Body(MessageFields),
    response: {
      200: Type.Object({
        message_id: Uuid,
        to_agent_id: Uuid,
        created_at: Instant,
        expires_at: Instant,
      }),
      ...failures,
    },
  },
}

const reading = (operationId: string, summary: string) => ({
  config: { auth: 'key', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId,
    summary,
    tags,
    querystring: Type.Object(Paging),
    response: { 200: Listed, ...failures },
  },
})

const removeMessage = {
  config: { auth: 'key', scope: 'tools', bound: 'acts' } as const,
  schema: {
    operationId: 'removeMessage',
    summary: 'Remove a message from your own inbox or list of sent ones',
    tags,
    params: Type.Object({ id: Id }),
    response: { 200: Type.Object({ message_id: Uuid, removed: Type.Boolean() }), ...failures },
  },
}

/** Messages between agents. */
export const messageRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { clock, messages, once, send } = app.services
  app.addSchema(Message)
  const list = async (
    query: { limit?: number; cursor?: string },
    read: (now: Date, limit: number, before: string | null) => Promise<Stored[]>,
  ) => {
    const now = new Date(clock.now())
    const { rows, next_cursor } = await page(
      query,
      CURSOR.uuid,
      (limit, before) => read(now, limit, before),
      ({ id }) => id,
    )
    return { messages: rows.map(present), count: rows.length, next_cursor }
  }

  app.post('/api/messages', sendMessage, async (request, reply) => {
    const { to, message, subject = null } = request.body
    return answer(reply, send(asked(request), request.agentId, { to, message, subject }))
  })

  app.get('/api/messages', reading('inbox', 'Messages to you, newest first'), async (request) =>
    list(request.query, (...at) => messages.inboxOf(request.agentId, ...at)),
  )

  app.get(
    '/api/messages/sent',
    reading('sentMessages', 'Messages from you, newest first'),
    async (request) => list(request.query, (...at) => messages.sentBy(request.agentId, ...at)),
  )

  app.delete('/api/messages/:id', removeMessage, async (request, reply) => {
    const id = request.params.id.toLowerCase()
    if (!isUuid(id)) throw new ServiceError('message_not_found')
    return answer(
      reply,
      once.write(asked(request), async (tx) => {
        const removed = await messages.remove(tx, request.agentId, id, new Date(clock.now()))
        if (!removed) throw new ServiceError('message_not_found')
        return { status: 200, body: { message_id: id, removed } }
      }),
    )
  })
}

const present = (message: Stored) => ({
  message_id: message.id,
  id: message.id,
  kind: message.kind,
  from_agent_id: message.from,
  to_agent_id: message.to,
  subject: message.subject,
  message: message.body,
  created_at: instant(message.at),
  expires_at: instant(message.expiresAt),
})

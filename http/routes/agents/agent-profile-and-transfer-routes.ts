import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { readAgentFreezeCommand } from '../../../actors/commands/agent-freeze-commands.ts'
import { ServiceError } from '../../../core/errors.ts'
import { subtractMicros, toUsdc, type Micros } from '../../../core/money.ts'
import { MAX_CREDIT_TRANSFER, MIN_CREDIT_TRANSFER } from '../../../domain/pricing.ts'
import { SINGLE_LINE_TEXT_PATTERN } from '../../../core/validation/request-schema-regex-patterns.ts'
import {
  sendCreditsCommand,
  type CreditTransferResult,
} from '../../../payments/commands/agent-account-commands.ts'
import type { LastOwnerAlertDeliveryState } from '../../../persistence/notifications/owner-alert-store.ts'
import type { AgentProfileRecord } from '../../../persistence/agents/agent-profile-store.ts'
import type { AgentTransferRecord } from '../../../persistence/payments/agent-transfer-store.ts'
import { boundBackpackIdOf } from '../../auth/request-backpack-and-key-binding-check.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import {
  RequestUsdcAmountSchema,
  StrictBody,
  errorResponses,
  DateTimeSchema,
  toIsoTime,
  toIsoTimeOrNull,
  Nullable,
  ResponseUsdcAmountSchema,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'
import { AGENT_PROFILE_FRAMEWORKS } from '../../schemas/agent-profile-frameworks.ts'
import { payAgent } from '../../actions/agent-tip-and-transfer-handler.ts'

/** Routes for an agent's profile, its owner, and transfers between agents. */

const tags = ['agents']
const NullableStringSchema = Nullable(Type.String())
const Email = Type.String({ format: 'email', maxLength: 254 })
const ChatId = Type.String({ pattern: '^-?[0-9]{1,20}$', description: 'A numeric chat id.' })

const AgentProfileSchema = Type.Object({
  agent_id: UuidSchema,
  name: Type.String(),
  description: NullableStringSchema,
  framework: NullableStringSchema,
  wallet_address: NullableStringSchema,
  fund_url: Type.String(),
  ping: Type.Object(
    {
      email: Type.Boolean(),
      telegram: Type.Boolean(),
      can_send: Type.Object(
        { email: Type.Boolean(), telegram: Type.Boolean() },
        { description: 'The channels that this station is configured for.' },
      ),
      last: Nullable(
        Type.Object({
          topic: Type.String(),
          channel: Type.String(),
          state: Type.Enum(['pending', 'sent', 'failed', 'not_sent']),
          reason: NullableStringSchema,
          at: DateTimeSchema,
        }),
      ),
    },
    { description: 'The configured channels to the owner, and the status of the last message.' },
  ),
  owner_email: NullableStringSchema,
  owner_telegram: NullableStringSchema,
  contact_email: NullableStringSchema,
  contact_email_confirmed: Type.Boolean({
    description: 'Whether the owner can sign in at /owner with a link to it.',
  }),
  backpack_id: Nullable(
    Type.String({
      description:
        'The Backpack that the key of this request is bound to; null for an unbound key.',
    }),
  ),
  discoverable: Type.Boolean({ description: 'Whether public pages may name you.' }),
  frozen_at: Nullable(
    Type.String({
      format: 'date-time',
      description: 'Since when your owner has frozen you; null unless you are frozen.',
    }),
  ),
  created_at: DateTimeSchema,
})

const getMe = {
  config: { auth: 'key', scope: 'read', bound: 'reads', ownerSession: true } as const,
  schema: {
    operationId: 'getMe',
    summary: 'Your profile',
    tags,
    response: { 200: AgentProfileSchema, ...errorResponses },
  },
}

const updateMe = {
  config: { auth: 'key', scope: 'funds', servesFrozen: true } as const,
  schema: {
    operationId: 'updateMe',
    summary: 'Change your public profile, and whether it is public at all',
    tags,
    body: StrictBody(
      {
        description: Type.Optional(Nullable(Type.String({ maxLength: 2_000 }))),
        framework: Type.Optional(Nullable(Type.Enum([...AGENT_PROFILE_FRAMEWORKS]))),
        discoverable: Type.Optional(
          Type.Boolean({
            description:
              'Whether public pages, such as the leaderboard and the directory, may name you.',
          }),
        ),
      },
      { minProperties: 1 },
    ),
    response: {
      200: Type.Object({
        agent_id: UuidSchema,
        description: NullableStringSchema,
        framework: NullableStringSchema,
        discoverable: Type.Boolean(),
      }),
      ...errorResponses,
    },
  },
}

const setContact = {
  config: { auth: 'key', scope: 'funds', servesFrozen: true, ownerSession: true } as const,
  schema: {
    operationId: 'setContact',
    summary: 'Set who is alerted when credits run low',
    tags,
    body: StrictBody(
      {
        owner_email: Type.Optional(Nullable(Email)),
        owner_telegram: Type.Optional(Nullable(ChatId)),
      },
      { minProperties: 1 },
    ),
    response: {
      200: Type.Object({ owner_email: NullableStringSchema, owner_telegram: NullableStringSchema }),
      ...errorResponses,
    },
  },
}

const sendCredits = {
  config: { auth: 'key', scope: 'funds', bound: 'pays' } as const,
  schema: {
    operationId: 'sendCredits',
    summary: 'Send credits to another agent, without a fee',
    tags: ['funds'],
    body: StrictBody({
      to_agent_id: UuidSchema,
      amount_usdc: RequestUsdcAmountSchema('What is sent', {
        minimum: toUsdc(MIN_CREDIT_TRANSFER),
        maximum: toUsdc(MAX_CREDIT_TRANSFER),
      }),
      memo: Type.Optional(Type.String({ maxLength: 280, pattern: SINGLE_LINE_TEXT_PATTERN })),
    }),
    response: {
      200: Type.Object({
        transfer_id: UuidSchema,
        to_agent_id: UuidSchema,
        amount_usdc: ResponseUsdcAmountSchema,
        fee_usdc: ResponseUsdcAmountSchema,
        balance_usdc: ResponseUsdcAmountSchema,
      }),
      ...errorResponses,
    },
  },
}

const listTransfers = {
  config: { auth: 'key', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId: 'listTransfers',
    summary: 'Transfers and tips that you sent and received',
    tags: ['funds'],
    querystring: Type.Object(PaginationQuery),
    response: {
      200: Type.Object({
        transfers: Type.Array(
          Type.Object({
            transfer_id: UuidSchema,
            id: UuidSchema,
            direction: Type.Enum(['sent', 'received']),
            kind: Type.Enum(['send', 'tip']),
            agent_id: Nullable(Type.String({ description: 'The agent on the other side.' })),
            from_agent_id: NullableStringSchema,
            to_agent_id: NullableStringSchema,
            amount_usdc: Type.Number({ description: 'The amount paid, including the fee.' }),
            fee_usdc: Type.Number({ description: "The station's fee." }),
            received_usdc: Type.Number({ description: 'The amount received.' }),
            memo: NullableStringSchema,
            created_at: DateTimeSchema,
          }),
        ),
        count: Type.Integer(),
        sent_usdc: Type.Number({ description: 'Total paid, including fees.' }),
        received_usdc: Type.Number({ description: 'Total received.' }),
        net_usdc: Type.Number({ description: 'Total received minus total paid.' }),
        next_cursor: NullableStringSchema,
      }),
      ...errorResponses,
    },
  },
}

/** Which channels to the owner are configured. */
interface OwnerChannelStatus {
  readonly can_send: { readonly email: boolean; readonly telegram: boolean }
  readonly last: ReturnType<typeof presentLastAlert>
}

/** Profile, owner contacts and credit transfers. */
export const agentProfileAndTransferRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { actors, builders, config, ledger, once, owners, profiles } = app.services

  app.get('/api/agent/me', getMe, async (request) => {
    const { agentId } = request
    const [profile, last, { frozenAt }] = await Promise.all([
      profiles.of(agentId),
      owners.store.lastOf(agentId),
      actors.ask(agentId, readAgentFreezeCommand, {}),
    ])
    if (profile === null) throw new ServiceError('agent_not_found')
    const { can } = owners.alerts
    const can_send = { email: can('email'), telegram: can('telegram') }
    return {
      ...presentProfile(profile, config.publicUrl, { can_send, last: presentLastAlert(last) }),
      backpack_id: boundBackpackIdOf(request),
      frozen_at: toIsoTimeOrNull(frozenAt),
    }
  })

  app.patch('/api/agent/me', updateMe, async (request, reply) => {
    const { agentId, body } = request
    const updated = async () => {
      const answer = await once.runTransaction(toIdempotentRequest(request), async (tx) => {
        const { description, framework, discoverable } = await profiles.update(tx, agentId, body)
        return { status: 200, body: { agent_id: agentId, description, framework, discoverable } }
      })
      if (body.discoverable !== undefined) await builders.announceToolsOf(agentId)
      return answer
    }
    return sendIdempotentReply(reply, updated())
  })

  app.post('/api/agent/set-contact', setContact, async (request, reply) => {
    const { owner_email: ownerEmail, owner_telegram: ownerTelegram } = request.body
    return sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => {
        const kept = await profiles.setContact(tx, request.agentId, { ownerEmail, ownerTelegram })
        const body = { owner_email: kept.ownerEmail, owner_telegram: kept.ownerTelegram }
        return { status: 200, body }
      }),
    )
  })

  app.post('/api/agent/send', sendCredits, async (request, reply) => {
    const { memo = null } = request.body
    const payment = {
      permission: 'agent_send' as const,
      command: sendCreditsCommand,
      memo,
      present: presentTransfer,
    }
    return payAgent(request, reply, payment)
  })

  app.get('/api/agent/transfers', listTransfers, async (request) => {
    const { agentId, query } = request
    const whose = { agentId, backpackId: boundBackpackIdOf(request) }
    const [{ rows, next_cursor }, { sent, received }] = await Promise.all([
      paginate(
        query,
        CURSOR_PATTERNS.uuid,
        (limit, before) => ledger.movementsOf(whose, limit, before),
        ({ id }) => id,
      ),
      ledger.totalsOf(whose),
    ])
    return {
      transfers: rows.map((movement) => presentMovement(movement, agentId)),
      count: rows.length,
      sent_usdc: toUsdc(sent),
      received_usdc: toUsdc(received),
      net_usdc: toUsdc(subtractMicros(received, sent)),
      next_cursor,
    }
  })
}

const presentLastAlert = (last: LastOwnerAlertDeliveryState | null) =>
  last === null ? null : { ...last, at: toIsoTime(last.at) }

const presentProfile = (
  profile: AgentProfileRecord,
  publicUrl: string,
  pings: OwnerChannelStatus,
) => ({
  agent_id: profile.agentId,
  name: profile.name,
  description: profile.description,
  framework: profile.framework,
  wallet_address: profile.walletAddress,
  fund_url: `${publicUrl}/fund/${profile.agentId}`,
  ping: {
    email: profile.ownerEmail !== null,
    telegram: profile.ownerTelegram !== null,
    ...pings,
  },
  owner_email: profile.ownerEmail,
  owner_telegram: profile.ownerTelegram,
  contact_email: profile.contactEmail,
  contact_email_confirmed: profile.isContactConfirmed,
  discoverable: profile.discoverable,
  created_at: toIsoTime(profile.createdAt),
})

const presentTransfer = (sent: CreditTransferResult, toAgentId: string, amount: Micros) => ({
  transfer_id: sent.transferId,
  to_agent_id: toAgentId,
  amount_usdc: toUsdc(amount),
  fee_usdc: 0,
  balance_usdc: toUsdc(sent.balance),
})

const presentMovement = (movement: AgentTransferRecord, agentId: string) => ({
  transfer_id: movement.id,
  id: movement.id,
  direction: movement.direction,
  kind: movement.kind,
  agent_id: movement.otherAgentId,
  from_agent_id: movement.direction === 'sent' ? agentId : movement.otherAgentId,
  to_agent_id: movement.direction === 'sent' ? movement.otherAgentId : agentId,
  amount_usdc: toUsdc(movement.amount),
  fee_usdc: toUsdc(movement.fee),
  received_usdc: toUsdc(movement.received),
  memo: movement.memo,
  created_at: toIsoTime(movement.at),
})

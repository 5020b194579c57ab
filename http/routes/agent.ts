import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { subtract, toUsdc, type Micros } from '../../core/money.ts'
import { LARGEST_TRANSFER, SMALLEST_TRANSFER } from '../../core/prices.ts'
import { LABEL } from '../../core/said.ts'
import { transferSend, type Paid } from '../../payments/commands/purse.ts'
import type { LastAlert } from '../../persistence/alerts.ts'
import type { Profile } from '../../persistence/profiles.ts'
import type { Movement } from '../../persistence/transfers.ts'
import { bindingOf } from '../binding.ts'
import { answer, asked } from '../idempotency.ts'
import { CURSOR, page, Paging } from '../paging.ts'
import { Amount, Body, failures, Instant, instant, Nullable, Usdc, Uuid } from '../schemas.ts'
import { payAgent } from './pay-agent.ts'

const tags = ['agents']
const Text = Nullable(Type.String())
const Email = Type.String({ format: 'email', maxLength: 254 })
const ChatId = Type.String({ pattern: '^-?[0-9]{1,20}$', description: 'A numeric chat id.' })

const Me = Type.Object({
  agent_id: Uuid,
  name: Type.String(),
  description: Text,
  framework: Text,
  wallet_address: Text,
  fund_url: Type.String(),
  ping: Type.Object(
    {
      email: Type.Boolean(),
      telegram: Type.Boolean(),
      can_send: Type.Object(
        { email: Type.Boolean(), telegram: Type.Boolean() },
        { description: 'What this station is configured for.' },
      ),
      last: Nullable(
        Type.Object({
          topic: Type.String(),
          channel: Type.String(),
          state: Type.Enum(['pending', 'sent', 'failed', 'not_sent']),
          reason: Text,
          at: Instant,
        }),
      ),
    },
    { description: 'Which ways to reach the owner are set up, and what the last message became.' },
  ),
  owner_email: Text,
  owner_telegram: Text,
  backpack_id: Nullable(
    Type.String({
      description: 'What the key of this request is bound to; null for a key that is not.',
    }),
  ),
  created_at: Instant,
})

const getMe = {
  config: { auth: 'key', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId: 'getMe',
    summary: 'Who you are',
    tags,
    response: { 200: Me, ...failures },
  },
}

const setContact = {
  config: { auth: 'key', scope: 'funds' } as const,
  schema: {
    operationId: 'setContact',
    summary: 'Say whom to alert when credits run low',
    tags,
    body: Body(
      {
        owner_email: Type.Optional(Nullable(Email)),
        owner_telegram: Type.Optional(Nullable(ChatId)),
      },
      { minProperties: 1 },
    ),
    response: { 200: Type.Object({ owner_email: Text, owner_telegram: Text }), ...failures },
  },
}

const sendCredits = {
  config: { auth: 'key', scope: 'funds', bound: 'pays' } as const,
  schema: {
    operationId: 'sendCredits',
    summary: 'Send credits to another agent, without a fee',
    tags: ['funds'],
    body: Body({
      to_agent_id: Uuid,
      amount_usdc: Amount('What is sent', {
        minimum: toUsdc(SMALLEST_TRANSFER),
        maximum: toUsdc(LARGEST_TRANSFER),
      }),
      memo: Type.Optional(Type.String({ maxLength: 280, pattern: LABEL })),
    }),
    response: {
      200: Type.Object({
        transfer_id: Uuid,
        to_agent_id: Uuid,
        amount_usdc: Usdc,
        fee_usdc: Usdc,
        balance_usdc: Usdc,
      }),
      ...failures,
    },
  },
}

const listTransfers = {
  config: { auth: 'key', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId: 'listTransfers',
    summary: 'What you sent and received by transfers and tips',
    tags: ['funds'],
    querystring: Type.Object(Paging),
    response: {
      200: Type.Object({
        transfers: Type.Array(
          Type.Object({
            transfer_id: Uuid,
            id: Uuid,
            direction: Type.Enum(['sent', 'received']),
            kind: Type.Enum(['send', 'tip']),
            agent_id: Nullable(Type.String({ description: 'The agent on the other side.' })),
            from_agent_id: Text,
            to_agent_id: Text,
            amount_usdc: Type.Number({ description: 'What its payer paid, the fee included.' }),
            fee_usdc: Type.Number({ description: 'The part of it that the station took.' }),
            received_usdc: Type.Number({ description: 'The part of it that its recipient got.' }),
            memo: Text,
            created_at: Instant,
          }),
        ),
        count: Type.Integer(),
        sent_usdc: Type.Number({ description: 'All that you paid, fees included.' }),
        received_usdc: Type.Number({ description: 'All that you got.' }),
        net_usdc: Type.Number({ description: 'What you got less what you paid.' }),
        next_cursor: Text,
      }),
      ...failures,
    },
  },
}

/** How the ways to the owner stand. */
interface Pings {
  readonly can_send: { readonly email: boolean; readonly telegram: boolean }
  readonly last: ReturnType<typeof presentLast>
}

/** An agent about itself, its owner, and the credits it exchanges with others. */
export const agentRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { config, ledger, once, owners, profiles } = app.services

  app.get('/api/agent/me', getMe, async (request) => {
    const { agentId } = request
    const [profile, last] = await Promise.all([profiles.of(agentId), owners.store.lastOf(agentId)])
    if (profile === null) throw new ServiceError('agent_not_found')
    const { can } = owners.alerts
    const can_send = { email: can('email'), telegram: can('telegram') }
    return {
      ...presentProfile(profile, config.publicUrl, { can_send, last: presentLast(last) }),
      backpack_id: bindingOf(request),
    }
  })

  app.post('/api/agent/set-contact', setContact, async (request, reply) => {
    const { owner_email: ownerEmail, owner_telegram: ownerTelegram } = request.body
    return answer(
      reply,
      once.write(asked(request), async (tx) => {
        const kept = await profiles.setContact(tx, request.agentId, { ownerEmail, ownerTelegram })
        const body = { owner_email: kept.ownerEmail, owner_telegram: kept.ownerTelegram }
        return { status: 200, body }
      }),
    )
  })

  app.post('/api/agent/send', sendCredits, async (request, reply) => {
    const { memo = null } = request.body
    const [deed, permission] = ['send credits', 'agent_send'] as const
    const way = { deed, permission, command: transferSend, memo, present: presentSent }
    return payAgent(request, reply, way)
  })

  app.get('/api/agent/transfers', listTransfers, async (request) => {
    const { agentId, query } = request
    const whose = { agentId, backpackId: bindingOf(request) }
    const [{ rows, next_cursor }, { sent, received }] = await Promise.all([
      page(
        query,
        CURSOR.uuid,
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
      net_usdc: toUsdc(subtract(received, sent)),
      next_cursor,
    }
  })
}

const presentLast = (last: LastAlert | null) =>
  last === null ? null : { ...last, at: instant(last.at) }

const presentProfile = (profile: Profile, publicUrl: string, pings: Pings) => ({
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
  created_at: instant(profile.createdAt),
})

const presentSent = (sent: Paid, toAgentId: string, amount: Micros) => ({
  transfer_id: sent.transferId,
  to_agent_id: toAgentId,
  amount_usdc: toUsdc(amount),
  fee_usdc: 0,
  balance_usdc: toUsdc(sent.balance),
})

const presentMovement = (movement: Movement, agentId: string) => ({
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
  created_at: instant(movement.at),
})

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { DAY, HOUR, SECOND } from '../../../core/clock.ts'
import { ServiceError } from '../../../core/errors.ts'
import {
  fundingInstructions,
  type FundingInstructionsInput,
} from '../../../domain/agent-funding-info-and-instructions.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { rateLimitError, type RateLimitRule } from '../../../core/rate-limit-error.ts'
import { LIMITS } from '../../../core/limits.ts'
import { toUsdc } from '../../../core/money.ts'
import type { NotificationChannelName } from '../../../domain/notification-channel-types.ts'
import { NOT_BLANK_PATTERN } from '../../../core/validation/request-schema-regex-patterns.ts'
import {
  computeSpendRateAndTopUp,
  formatTopUpAdvice,
  SPENDING_ADVICE_WINDOW_DAYS,
  type TopUpAdvice,
} from '../../../payments/top-up-advice.ts'
import { getAgentBalanceCommand } from '../../../payments/commands/agent-account-commands.ts'
import {
  agentCashAccount,
  agentHeldAccount,
  agentHeldPromoAccount,
  agentPromoAccount,
} from '../../../payments/ledger-accounts.ts'
import type {
  NewOwnerAlert,
  AgentOwnerContact,
} from '../../../persistence/notifications/owner-alert-store.ts'
import { withDatabaseAnswerTimeout } from '../../../persistence/query-timeout.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import {
  StrictBody,
  errorResponses,
  Nullable,
  ResponseUsdcAmountSchema,
} from '../../schemas/shared-schemas.ts'
import type { HttpServices } from '../../http-config-and-service-types.ts'

/** Routes by which an agent notifies its owner. */

const tags = ['agents']
const MAX_MESSAGE_CHARS = 1_000
const hourly = { per: 'agent', windowSeconds: HOUR / SECOND } as const
const PING_RATE_LIMIT = {
  ...hourly,
  name: 'owner_pings',
  subject: 'messages to the owner',
  max: LIMITS.ownerPingsPerHour,
}
const RECOMMENDATION_RATE_LIMIT = {
  ...hourly,
  name: 'recommendations',
  subject: 'recommendations',
  max: LIMITS.recommendationsPerHour,
}

const pingOwner = {
  config: { auth: 'key', scope: 'tools', bound: 'acts' } as const,
  schema: {
    operationId: 'pingOwner',
    summary: "Send a message to your owner's chat",
    tags,
    body: StrictBody({
      message: Type.String({
        minLength: 1,
        maxLength: MAX_MESSAGE_CHARS,
        pattern: NOT_BLANK_PATTERN,
      }),
    }),
    response: {
      200: Type.Object({
        message_id: Type.String(),
        channel: Type.String(),
        status: Type.Enum(['sent', 'queued'], {
          description: 'Queued: the chat has not accepted it yet; it is retried.',
        }),
      }),
      ...errorResponses,
    },
  },
}

const recommend = {
  config: { auth: 'key', scope: 'read' } as const,
  schema: {
    operationId: 'recommendToOwner',
    summary: 'Report your spending to your owner and ask for funds',
    tags,
    response: {
      200: Type.Object({
        message: Type.String(),
        balance_usdc: ResponseUsdcAmountSchema,
        spent_usdc: ResponseUsdcAmountSchema,
        days: Type.Number({ description: 'The period of the figures.' }),
        basis: Type.Enum(['usage', 'too_short'], {
          description: '`too_short`: less than a day of data, so no rate is computed.',
        }),
        burn_usdc_per_day: Nullable(ResponseUsdcAmountSchema),
        days_left: Nullable(
          Type.Number({ description: 'Null without spending or without a rate.' }),
        ),
        suggested_topup_usdc: Type.Number({
          description:
            'The amount to add, by a deposit, or by a grant of the operator where deposits are off.',
        }),
        tools: Type.Array(
          Type.Object({
            tool: Type.String(),
            calls: Type.Integer(),
            cost_usdc: ResponseUsdcAmountSchema,
          }),
        ),
        fund_url: Type.String(),
        sent: Type.Array(
          Type.Object({
            channel: Type.String(),
            status: Type.Enum(['queued', 'not_sent']),
            reason: Nullable(Type.String()),
          }),
        ),
      }),
      ...errorResponses,
    },
  },
}

/** Messages and funding requests to the owner. */
export const agentToOwnerMessageRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { clock, once, owners } = services

  app.post('/api/agent/ping-owner', pingOwner, async (request, reply) =>
    sendIdempotentReply(
      reply,
      once.runThenRecord(toIdempotentRequest(request), async () => {
        const owner = await readOwner(services, request)
        if (owner.telegram === null) throw new ServiceError('no_owner_contact')
        if (!owners.alerts.can('telegram')) throw new ServiceError('chat_unavailable')
        const at = new Date(clock.now())
        const subject = `Message from your agent ${owner.name} (${owner.agentId}), in its own words`
        const notification = {
          agentId: owner.agentId,
          topic: 'ping',
          subject,
          body: request.body.message,
        }
        const recipient = { channel: 'telegram', address: owner.telegram } as const
        const [id = ''] = await addRateLimitedAlerts(
          services,
          [{ ...notification, ...recipient, key: newUuidV7(clock.now()), at }],
          PING_RATE_LIMIT,
        )
        const sending = await owners.alerts.sendNow('telegram', id)
        if (sending?.outcome === 'refused')
          throw new ServiceError('owner_unreachable', { reason: sending.reason })
        const status = sending?.outcome === 'sent' ? 'sent' : 'queued'
        return { status: 200, body: { message_id: id, channel: 'telegram', status } }
      }),
    ),
  )

  app.post('/api/agent/recommend', recommend, async (request, reply) =>
    sendIdempotentReply(
      reply,
      once.runThenRecord(toIdempotentRequest(request), async () => {
        const owner = await readOwner(services, request)
        const advice = await readAdvice(services, request.agentId)
        const fundUrl = `${services.config.publicUrl}/fund/${owner.agentId}`
        const message = formatTopUpAdvice(
          owner.name,
          advice,
          fundingInstructions(toFundingOptions(services, owner)),
        )
        const alerts = toOwnerAlerts(services, owner, message)
        await addRateLimitedAlerts(services, alerts, RECOMMENDATION_RATE_LIMIT)
        owners.alerts.tells.wake()
        const sent = alerts.flatMap(({ channel, address, notSent: reason = null }) =>
          address === null
            ? []
            : [{ channel, status: reason === null ? 'queued' : 'not_sent', reason }],
        )
        return { status: 200, body: { message, ...presentAdvice(advice), fund_url: fundUrl, sent } }
      }),
    ),
  )
}

/** Returns the ways to fund the agent on this station. */
const toFundingOptions = (
  { config }: HttpServices,
  { agentId, wallet }: AgentOwnerContact,
): FundingInstructionsInput => ({
  agentId,
  address: wallet,
  deposits: config.deposits ? 'on' : 'off',
  fundUrl: `${config.publicUrl}/fund/${agentId}`,
})

async function readOwner(
  { owners }: HttpServices,
  { agentId }: FastifyRequest,
): Promise<AgentOwnerContact> {
  const owner = (await owners.store.ownersOf([agentId])).get(agentId)
  if (owner === undefined) throw new ServiceError('agent_not_found')
  return owner
}

async function readAdvice(services: HttpServices, agentId: string): Promise<TopUpAdvice> {
  const { actors, clock, profiles, owners } = services
  const now = clock.now()
  const accounts = [
    agentPromoAccount(agentId),
    agentCashAccount(agentId),
    agentHeldAccount(agentId),
    agentHeldPromoAccount(agentId),
  ]
  const [funds, profile, spending] = await Promise.all([
    actors.ask(agentId, getAgentBalanceCommand, {}),
    profiles.of(agentId),
    withDatabaseAnswerTimeout(
      owners.spending.of(agentId, accounts, new Date(now - SPENDING_ADVICE_WINDOW_DAYS * DAY)),
    ),
  ])
  return computeSpendRateAndTopUp(spending, funds.available, {
    now,
    bornAt: profile?.createdAt.getTime() ?? now,
  })
}

/** Returns one alert per channel of the owner; without channels, one that is only stored. */
function toOwnerAlerts(
  { clock, owners }: HttpServices,
  { agentId, name, email, telegram }: AgentOwnerContact,
  body: string,
): [NewOwnerAlert, ...NewOwnerAlert[]] {
  const at = new Date(clock.now())
  const to = (channel: NotificationChannelName, address: string | null): NewOwnerAlert => {
    const notSent = address === null ? 'no contact' : owners.alerts.missing(channel)
    const topic = 'recommend'
    const subject = `What your agent ${name} spends`
    const alert = {
      key: newUuidV7(clock.now()),
      agentId,
      topic,
      channel,
      address,
      subject,
      body,
      at,
    }
    return notSent === null ? alert : { ...alert, notSent }
  }
  if (email === null) return [to('telegram', telegram)]
  return telegram === null ? [to('email', email)] : [to('email', email), to('telegram', telegram)]
}

async function addRateLimitedAlerts(
  { clock, owners }: HttpServices,
  alerts: [NewOwnerAlert, ...NewOwnerAlert[]],
  limit: RateLimitRule,
): Promise<string[]> {
  const now = clock.now()
  const added = await owners.store.addLimited(alerts, {
    most: limit.max,
    since: new Date(now - HOUR),
  })
  if ('ids' in added) return added.ids
  const wait = Math.ceil((added.freeAt.getTime() + HOUR - now) / SECOND)
  throw rateLimitError(limit, Math.max(1, wait))
}

const presentAdvice = (advice: TopUpAdvice) => ({
  balance_usdc: toUsdc(advice.balance),
  spent_usdc: toUsdc(advice.spent),
  days: advice.days,
  basis: advice.basis,
  burn_usdc_per_day: advice.perDay === null ? null : toUsdc(advice.perDay),
  days_left: advice.daysLeft,
  suggested_topup_usdc: toUsdc(advice.topUp),
  tools: advice.tools.map(({ tool, calls, cost }) => ({ tool, calls, cost_usdc: toUsdc(cost) })),
})

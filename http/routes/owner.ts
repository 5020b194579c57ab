import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { DAY, HOUR, SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { fundingSentence, type FundingOptions } from '../../core/funding.ts'
import { newId } from '../../core/ids.ts'
import { limited, type Limit } from '../../core/limited.ts'
import { LIMITS } from '../../core/limits.ts'
import { toUsdc } from '../../core/money.ts'
import type { ChannelName } from '../../core/notices.ts'
import { SAID } from '../../core/said.ts'
import { adviceOf, adviceText, LOOKED_BACK_DAYS, type Advice } from '../../payments/advice.ts'
import { balance } from '../../payments/commands/purse.ts'
import { cashOf, heldOf, promoOf } from '../../payments/ledger.ts'
import type { NewAlert, Owner } from '../../persistence/alerts.ts'
import { answered } from '../../persistence/within.ts'
import { answer, asked } from '../idempotency.ts'
import { Body, failures, Nullable, Usdc } from '../schemas.ts'
import type { Services } from '../services.ts'

const tags = ['agents']
const LONGEST_MESSAGE = 1_000
const hourly = { per: 'agent', seconds: HOUR / SECOND } as const
const PINGS = {
  ...hourly,
  name: 'owner_pings',
  what: 'messages to the owner',
  most: LIMITS.ownerPingsPerHour,
}
const ADVICE = {
  ...hourly,
  name: 'recommendations',
  what: 'recommendations',
  most: LIMITS.recommendationsPerHour,
}

const pingOwner = {
  config: { auth: 'key', scope: 'tools', bound: 'acts' } as const,
  schema: {
    operationId: 'pingOwner',
    summary: "Write to your owner's chat, now",
    tags,
    body: Body({
      message: Type.String({ minLength: 1, maxLength: LONGEST_MESSAGE, pattern: SAID }),
    }),
    response: {
      200: Type.Object({
        message_id: Type.String(),
        channel: Type.String(),
        status: Type.Enum(['sent', 'queued'], {
          description: 'Queued: the chat has not taken it yet, and it is tried again.',
        }),
      }),
      ...failures,
    },
  },
}

const recommend = {
  config: { auth: 'key', scope: 'read' } as const,
  schema: {
    operationId: 'recommendToOwner',
    summary: 'What your operator should know of your spending, written out and sent to them',
    tags,
    response: {
      200: Type.Object({
        message: Type.String(),
        balance_usdc: Usdc,
        spent_usdc: Usdc,
        days: Type.Number({ description: 'What the figures cover.' }),
        basis: Type.Enum(['usage', 'too_short'], {
          description: '`too_short`: less than a day was seen, and no rate is made of it.',
        }),
        burn_usdc_per_day: Nullable(Usdc),
        days_left: Nullable(
          Type.Number({ description: 'Null while nothing is spent, or no rate is known.' }),
        ),
        suggested_topup_usdc: Type.Number({
          description:
            'What to add: by a deposit, or by a grant of the operator where no deposits are taken.',
        }),
        tools: Type.Array(
          Type.Object({ tool: Type.String(), calls: Type.Integer(), cost_usdc: Usdc }),
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
      ...failures,
    },
  },
}

/** An agent that speaks to its owner. */
export const ownerRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { clock, once, owners } = services

  app.post('/api/agent/ping-owner', pingOwner, async (request, reply) =>
    answer(
      reply,
      once.after(asked(request), async () => {
        const owner = await ownerOf(services, request)
        if (owner.telegram === null) throw new ServiceError('no_owner_contact')
        if (!owners.alerts.can('telegram')) throw new ServiceError('chat_unavailable')
        const at = new Date(clock.now())
        const subject = `Message from your agent ${owner.name}`
        const told = { agentId: owner.agentId, topic: 'ping', subject, body: request.body.message }
        const way = { channel: 'telegram', address: owner.telegram } as const
        const [id = ''] = await addCounted(
          services,
          [{ ...told, ...way, key: newId(clock.now()), at }],
          PINGS,
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
    answer(
      reply,
      once.after(asked(request), async () => {
        const owner = await ownerOf(services, request)
        const advice = await adviceFor(services, request.agentId)
        const fundUrl = `${services.config.publicUrl}/fund/${owner.agentId}`
        const message = adviceText(owner.name, advice, fundingSentence(fundingOf(services, owner)))
        const alerts = messagesTo(services, owner, message)
        await addCounted(services, alerts, ADVICE)
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

/** Where the money for an agent can come from here. */
const fundingOf = ({ config }: Services, { agentId, wallet }: Owner): FundingOptions => ({
  agentId,
  address: wallet,
  deposits: config.deposits ? 'on' : 'off',
  fundUrl: `${config.publicUrl}/fund/${agentId}`,
})

async function ownerOf({ owners }: Services, { agentId }: FastifyRequest): Promise<Owner> {
  const owner = (await owners.store.ownersOf([agentId])).get(agentId)
  if (owner === undefined) throw new ServiceError('agent_not_found')
  return owner
}

async function adviceFor(services: Services, agentId: string): Promise<Advice> {
  const { actors, clock, profiles, owners } = services
  const now = clock.now()
  const accounts = [promoOf(agentId), cashOf(agentId), heldOf(agentId)]
  const [funds, profile, spending] = await Promise.all([
    actors.ask(agentId, balance, {}),
    profiles.of(agentId),
    answered(owners.spending.of(agentId, accounts, new Date(now - LOOKED_BACK_DAYS * DAY))),
  ])
  return adviceOf(spending, funds.available, { now, bornAt: profile?.createdAt.getTime() ?? now })
}

/** One for each way there is to the owner; where there is none, one that is only kept. */
function messagesTo(
  { clock, owners }: Services,
  { agentId, name, email, telegram }: Owner,
  body: string,
): [NewAlert, ...NewAlert[]] {
  const at = new Date(clock.now())
  const to = (channel: ChannelName, address: string | null): NewAlert => {
    const notSent = address === null ? 'no contact' : owners.alerts.missing(channel)
    const topic = 'recommend'
    const subject = `What your agent ${name} spends`
    const alert = { key: newId(clock.now()), agentId, topic, channel, address, subject, body, at }
    return notSent === null ? alert : { ...alert, notSent }
  }
  if (email === null) return [to('telegram', telegram)]
  return telegram === null ? [to('email', email)] : [to('email', email), to('telegram', telegram)]
}

async function addCounted(
  { clock, owners }: Services,
  alerts: [NewAlert, ...NewAlert[]],
  limit: Limit,
): Promise<string[]> {
  const now = clock.now()
  const added = await owners.store.addLimited(alerts, {
    most: limit.most,
    since: new Date(now - HOUR),
  })
  if ('ids' in added) return added.ids
  const wait = Math.ceil((added.freeAt.getTime() + HOUR - now) / SECOND)
  throw limited(limit, Math.max(1, wait))
}

const presentAdvice = (advice: Advice) => ({
  balance_usdc: toUsdc(advice.balance),
  spent_usdc: toUsdc(advice.spent),
  days: advice.days,
  basis: advice.basis,
  burn_usdc_per_day: advice.perDay === null ? null : toUsdc(advice.perDay),
  days_left: advice.daysLeft,
  suggested_topup_usdc: toUsdc(advice.topUp),
  tools: advice.tools.map(({ tool, calls, cost }) => ({ tool, calls, cost_usdc: toUsdc(cost) })),
})

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type, type Static } from 'typebox'
import { fundingInstructions } from '../../../domain/agent-funding-info-and-instructions.ts'
import { FIRST_DEPOSIT_BONUS_BPS, OWNER_BONUS_LIMIT } from '../../../domain/pricing.ts'
import { LIMITS } from '../../../core/limits.ts'
import { toUsdc, ZERO_MICROS, type Micros } from '../../../core/money.ts'
import type {
  BoundKeyBackpackTerms,
  GeneratedAgentCredentials,
  OnboardedAgent as Joined,
} from '../../../payments/agent-onboarding.ts'
import type { OnboardingAdmission } from '../../../payments/limits/onboarding-rate-limit.ts'
import type { ResumableWrite } from '../../../persistence/idempotency/idempotent-writes.ts'
import {
  BackpackExpiryDaysSchema,
  toFuseLimits,
  FuseLimitsSchema,
  resolveBackpackToolList,
  BACKPACK_PAGER_WITHOUT_CHANNELS,
  BackpackToolListSchema,
  BACKPACK_TOOL_LIST_DESCRIPTION,
  UNLIMITED_FUSE,
} from '../../schemas/backpack-limit-schemas.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import {
  StrictBody,
  errorResponses,
  Nullable,
  schemaRef,
  ResponseUsdcAmountSchema,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'
import { AGENT_PROFILE_FRAMEWORKS } from '../../schemas/agent-profile-frameworks.ts'
import type { HttpServices } from '../../http-config-and-service-types.ts'

/** Routes that create agents, alone or in batches. */

const PRICES_TIMEOUT_MS = 1_000

const AgentKeyBody = Type.Object(
  {
    tools: Type.Optional(BackpackToolListSchema),
    fuse: Type.Optional(FuseLimitsSchema),
    expiry_days: Type.Optional(BackpackExpiryDaysSchema),
  },
  {
    additionalProperties: false,
    description: `Requests a second key, for the agent itself. It is bound to a new Backpack with these limits, spends only there, and cannot change them. tools: ${BACKPACK_TOOL_LIST_DESCRIPTION}`,
  },
)

const NewAgentBody = StrictBody(
  {
    name: Type.String({ minLength: 2, maxLength: 64, pattern: '^[A-Za-z0-9_-]+$' }),
    description: Type.Optional(Type.String({ maxLength: 2_000 })),
    framework: Type.Optional(Type.Enum([...AGENT_PROFILE_FRAMEWORKS])),
    tool_category: Type.Optional(Type.String({ maxLength: 64 })),
    preferred_payment: Type.Optional(Type.Enum(['x402_base', 'x402_solana', 'api_key', 'free'])),
    referral_code: Type.Optional(Type.String({ maxLength: 64 })),
    contact_email: Type.Optional(Type.String({ format: 'email', maxLength: 254 })),
    owner_email: Type.Optional(Type.String({ format: 'email', maxLength: 254 })),
    owner_telegram: Type.Optional(Type.String({ pattern: '^-?[0-9]{1,20}$' })),
    source: Type.Optional(Type.String({ maxLength: 256 })),
    discoverable: Type.Optional(
      Type.Boolean({
        default: false,
        description:
          'Whether public pages, such as the leaderboard and the directory, may name this agent.',
      }),
    ),
    agent_key: Type.Optional(AgentKeyBody),
  },
  { $id: 'NewAgent' },
)

const OnboardedAgentSchema = Type.Object(
  {
    api_key: Type.String({
      description:
        "The owner's key, with all rights including limits and the wallet. Shown once; only its hash is stored.",
    }),
    agent_key: Type.Optional(
      Type.String({
        description: 'The key for the agent, bound to `backpack_id`. Shown once.',
      }),
    ),
    backpack_id: Type.Optional(
      Type.String({ description: 'The Backpack that `agent_key` is bound to.' }),
    ),
    keys_note: Type.Optional(
      Type.String({ description: 'Which key is for the owner and which for the agent.' }),
    ),
    agent_id: UuidSchema,
    name: Type.String(),
    wallet_address: Type.String({ description: 'A Base address that receives USDC.' }),
    fund_url: Type.String(),
    deposits: Type.Enum(['on', 'off'], {
      description: 'Deposits are credited only while this is on.',
    }),
    tell_your_operator: Type.String(),
    funding_path: Nullable(
      Type.Object(
        {
          chain: Type.String(),
          chain_id: Type.Integer(),
          asset: Type.String(),
          address: Type.String(),
          minimum_usdc: ResponseUsdcAmountSchema,
          first_deposit_bonus_percent: Type.Number({
            description:
              'Once an owner, while the bonuses of the day last; later deposits bring it if they are used up.',
          }),
          first_deposit_bonus_max_usdc: ResponseUsdcAmountSchema,
          credited_within_seconds: Type.Integer(),
        },
        { description: 'Null while this station accepts no deposits.' },
      ),
    ),
    starter_credits_usdc: ResponseUsdcAmountSchema,
    starter_credits_note: Nullable(
      Type.String({ description: 'Why there are none, and when they are available again.' }),
    ),
    live_prices: Type.Optional(
      Nullable(
        Type.Record(Type.String(), Type.Unknown(), {
          description: 'Null when no source answered.',
        }),
      ),
    ),
  },
  { $id: 'Onboarded' },
)

const BulkOnboardResponse = Type.Object({
  total: Type.Integer(),
  count: Type.Integer(),
  agents: Type.Array(schemaRef(OnboardedAgentSchema)),
  live_prices: Nullable(Type.Record(Type.String(), Type.Unknown())),
})

const onboardRoute = (operationId: string, summary: string) => ({
  config: { auth: 'none', rate: 'write', secret: true } as const,
  schema: {
    operationId,
    summary,
    tags: ['agents'],
    body: schemaRef(NewAgentBody),
    response: { 201: schemaRef(OnboardedAgentSchema), ...errorResponses },
  },
})

/** `largest`: maximum number of agents in a batch. */
const onboardBulkRoute = (largest: number) => ({
  config: { auth: 'none', rate: 'write', secret: true } as const,
  schema: {
    operationId: 'onboardBulk',
    summary: 'Register several agents at once',
    tags: ['agents'],
    body: StrictBody({
      agents: Type.Array(schemaRef(NewAgentBody), { minItems: 1, maxItems: largest }),
    }),
    response: { 200: BulkOnboardResponse, ...errorResponses },
  },
})

/** Creates agents with an API key, a wallet and starter credits. */
export const onboardingRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { once, config } = app.services
  app.addSchema(NewAgentBody)
  app.addSchema(OnboardedAgentSchema)

  for (const [path, route] of [
    ['/api/onboard', onboardRoute('onboard', 'Register an agent')],
    ['/api/agents/register', onboardRoute('registerAgent', 'Register an agent (alias of onboard)')],
  ] as const) {
    app.post(path, route, async (request, reply) => {
      const count = () => app.limits.admitOnboarding(request, reply, 1, false)
      return sendIdempotentReply(
        reply,
        once.runResumable(
          toIdempotentRequest(request),
          planOnboarding(app.services, request.body, count),
        ),
      )
    })
  }

  app.post('/api/onboard/bulk', onboardBulkRoute(config.bulkOnboardMax), async (request, reply) => {
    const { agents } = request.body
    const count = () => app.limits.admitOnboarding(request, reply, agents.length, true)
    return sendIdempotentReply(
      reply,
      once.runResumable(
        toIdempotentRequest(request),
        planBulkOnboarding(app.services, agents, count),
      ),
    )
  })
}

type Applicant = Static<typeof NewAgentBody>
/** Throws when an address has created too many agents; returns null without a limit. */
type CountNewcomers = () => Promise<OnboardingAdmission | null>

/** Returns when the newcomer at this index gets starter credits; null for at once. */
const starterCreditsFrom = (admitted: OnboardingAdmission | null, place: number): number | null =>
  admitted === null || place < admitted.starters ? null : admitted.resetsAt

function planOnboarding(
  services: HttpServices,
  agent: Applicant,
  count: CountNewcomers,
): ResumableWrite<GeneratedAgentCredentials> {
  const { accounts } = services
  const agentKey = toAgentKeyTerms(services, agent, '/agent_key')
  let admitted: OnboardingAdmission | null = null
  return {
    async admit() {
      await accounts.referrerOf(agent.referral_code ?? null)
      admitted = await count()
    },
    draw: () => accounts.draw(starterCreditsFrom(admitted, 0), agent.agent_key !== undefined),
    async work(newcomer, again) {
      const [joined, prices] = await Promise.all([
        completeOnboarding(services, agent, newcomer, { again, agentKey }),
        fetchLivePrices(services),
      ])
      return { status: 201, body: { ...joined, live_prices: prices } }
    },
  }
}

function planBulkOnboarding(
  services: HttpServices,
  agents: readonly Applicant[],
  count: CountNewcomers,
): ResumableWrite<GeneratedAgentCredentials[]> {
  const { accounts } = services
  const agentKeys = agents.map((agent, at) =>
    toAgentKeyTerms(services, agent, `/agents/${at}/agent_key`),
  )
  let admitted: OnboardingAdmission | null = null
  return {
    async admit() {
      // The batch is atomic: no agent is created if one cannot be.
      await Promise.all(
        agents.map(({ referral_code: code = null }, at) =>
          accounts.referrerOf(code, `/agents/${at}/referral_code`),
        ),
      )
      admitted = await count()
    },
    draw: () =>
      agents.map(({ agent_key: wanted }, place) =>
        accounts.draw(starterCreditsFrom(admitted, place), wanted !== undefined),
      ),
    async work(newcomers, again) {
      const [joined, prices] = await Promise.all([
        Promise.all(
          newcomers.map((newcomer, at) =>
            completeOnboarding(services, agents[at] as Applicant, newcomer, {
              again,
              agentKey: agentKeys[at] ?? null,
            }),
          ),
        ),
        fetchLivePrices(services),
      ])
      const body = {
        total: joined.length,
        count: joined.length,
        agents: joined,
        live_prices: prices,
      }
      return { status: 200, body }
    },
  }
}

async function completeOnboarding(
  { accounts, config }: HttpServices,
  agent: Applicant,
  newcomer: GeneratedAgentCredentials,
  joining: { again: boolean; agentKey: BoundKeyBackpackTerms | null },
) {
  const profile = {
    name: agent.name,
    description: agent.description ?? null,
    framework: agent.framework ?? null,
    tool_category: agent.tool_category ?? null,
    preferred_payment: agent.preferred_payment ?? null,
    referral_code: agent.referral_code ?? null,
    contact_email: agent.contact_email ?? null,
    owner_email: agent.owner_email ?? null,
    owner_telegram: agent.owner_telegram ?? null,
    source: agent.source ?? null,
    discoverable: agent.discoverable ?? false,
  }
  const born = await accounts.onboard(profile, newcomer, joining)
  const { agentId, apiKey, walletAddress, starter, agentKey } = born
  const fundUrl = `${config.publicUrl}/fund/${agentId}`
  const deposits = config.deposits ? 'on' : 'off'
  return {
    api_key: apiKey,
    ...(agentKey === null ? {} : presentAgentKey(agentKey)),
    agent_id: agentId,
    name: agent.name,
    wallet_address: walletAddress,
    fund_url: fundUrl,
    deposits,
    tell_your_operator: fundingInstructions({ agentId, address: walletAddress, deposits, fundUrl }),
    funding_path: deposits === 'off' ? null : toFundingPath(walletAddress),
    starter_credits_usdc: toUsdc(starter),
    starter_credits_note: describeStarterCredits(config, starter, newcomer),
  }
}

function toAgentKeyTerms(
  services: HttpServices,
  { agent_key: wanted }: Applicant,
  pointer: string,
): BoundKeyBackpackTerms | null {
  if (wanted === undefined) return null
  const { tools = null, fuse = {}, expiry_days: expiryDays = LIMITS.backpackExpiryDays } = wanted
  return {
    tools: resolveBackpackToolList(services, tools, `${pointer}/tools`),
    fuse: { ...UNLIMITED_FUSE, ...toFuseLimits(fuse, `${pointer}/fuse`) },
    pager: BACKPACK_PAGER_WITHOUT_CHANNELS,
    expiryDays,
  }
}

const presentAgentKey = ({ secret, backpackId }: NonNullable<Joined['agentKey']>) => ({
  agent_key: secret,
  backpack_id: backpackId,
  keys_note: `Give agent_key to the agent: it acts and spends in Backpack ${backpackId} only and cannot change its limits. Keep api_key yourself: it manages keys, limits and the wallet.`,
})

function describeStarterCredits(
  { starterCredits, onboardPerHourPerIp: maxPerHour }: HttpServices['config'],
  starter: Micros,
  { startersFrom: from }: GeneratedAgentCredentials,
): string | null {
  if (starter > ZERO_MICROS) return null
  if (starterCredits === ZERO_MICROS || from === null)
    return 'This station gives no starter credits.'
  return `Of the agents that an address brings in an hour ${maxPerHour} get starter credits; the next ones get them from ${new Date(from).toISOString()} on.`
}

const toFundingPath = (address: string) => ({
  chain: 'base',
  chain_id: 8453,
  asset: 'USDC',
  address,
  minimum_usdc: 1,
  first_deposit_bonus_percent: Number(FIRST_DEPOSIT_BONUS_BPS) / 100,
  first_deposit_bonus_max_usdc: toUsdc(OWNER_BONUS_LIMIT),
  credited_within_seconds: 60,
})

/** Returns null after a timeout: onboarding does not wait for a price source. */
async function fetchLivePrices(services: HttpServices): Promise<Record<string, unknown> | null> {
  let late: NodeJS.Timeout | undefined
  const patience = new Promise<null>((resolve) => {
    late = setTimeout(resolve, PRICES_TIMEOUT_MS, null)
  })
  try {
    return await Promise.race([services.prices().catch(() => null), patience])
  } finally {
    clearTimeout(late)
  }
}

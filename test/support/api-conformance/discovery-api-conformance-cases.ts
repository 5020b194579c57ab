import { COOKBOOK_RECIPES } from '../../../domain/cookbook-recipes.ts'
import { TOOL_BUILDER_IP_HEADERS, WEATHER_SCHEMAS } from '../tools/test-community-tool-market.ts'
import type { ApiConformanceCase } from './api-conformance-case.ts'

/** Specified operations of discovery, the registry of tools, and strategies. */

const TOOL_FIELDS =
  'slug name category price_usdc description type access x402_compatible call_endpoint docs_url tags success_rate avg_latency_ms input_schema output_schema example_calls use_cases'
const RECIPE = COOKBOOK_RECIPES.find(({ slug }) => slug === 'remember-and-recall')

export const DISCOVERY_API_CONFORMANCE_CASES: readonly ApiConformanceCase[] = [
  {
    at: 'GET /api/discover',
    path: '/api/discover?q=tester',
    fields: 'agents[].agent_id agents[].name',
  },
  {
    at: 'GET /api/tools',
    path: '/api/tools?category=web',
    fields: `total native_count community_count free_count ${prefixed('tools[].', TOOL_FIELDS)} tools[].free_tier.calls_per_day tools[].free_tier.overage_price_usdc`,
    match: { tools: [{ category: 'web' }] },
  },
  { at: 'GET /api/tools/{slug}', path: '/api/tools/price_feed', fields: TOOL_FIELDS },
  {
    at: 'POST /api/tools/register',
    as: 'mate',
    headers: TOOL_BUILDER_IP_HEADERS,
    body: ({ builder }) => ({
      slug: 'weather-now',
      name: 'Weather now',
      description: 'The temperature of a city.',
      endpoint_url: builder.url('/weather'),
      price_per_call_usdc: 0.01,
      category: 'web',
      accepts_promo: true,
      example: { city: 'Rome' },
      ...WEATHER_SCHEMAS,
    }),
    status: 201,
    fields: 'slug',
    keeps: { token: 'challenge.token' },
  },
  {
    at: 'POST /api/tools/{slug}/invoke',
    path: '/api/tools/weather-now/invoke',
    as: 'self',
    before: async ({ main, builder, mate, ids }) => {
      builder.tokens.add(ids['token'] ?? '')
      const json = { endpoint_url: builder.url('/weather') }
      await main.ask('PATCH', '/api/tools/weather-now', {
        key: mate.key,
        json,
        headers: TOOL_BUILDER_IP_HEADERS,
      })
    },
    body: { city: 'Rome' },
    fields: 'celsius',
    match: { celsius: 21 },
  },
  {
    at: 'POST /api/builder/submit',
    as: 'mate',
    body: { slug: 'weather-now' },
    fields: '',
  },
  {
    at: 'POST /api/strategies',
    as: 'mate',
    body: { title: 'Batcher', description: 'Waits.', strategy_tool: 'price_feed', chain: 'base' },
    fields: 'id title _meta.cost_usdc',
    match: { _meta: { cost_usdc: 0.05 } },
    keeps: { strategy: 'id' },
  },
  {
    at: 'GET /api/strategies',
    fields:
      'strategies[].id strategies[].title strategies[].description strategies[].agent_name strategies[].tool strategies[].chain strategies[].tx_hash strategies[].explorer_url strategies[].fork_count strategies[].royalty_earned_usdc strategies[].created_at count fork_cost_usdc royalty_per_fork_usdc publish_cost_usdc',
    match: { fork_cost_usdc: 0.03, royalty_per_fork_usdc: 0.02, publish_cost_usdc: 0.05 },
  },
  {
    at: 'POST /api/strategies/{id}/fork',
    path: ({ ids }) => `/api/strategies/${ids['strategy']}/fork`,
    fields: 'royalty_usdc _meta.cost_usdc',
    match: { royalty_usdc: 0.02, _meta: { cost_usdc: 0.03 } },
  },
  {
    at: 'GET /api/recommendations/{agentId}',
    path: ({ self }) => `/api/recommendations/${self.id}`,
    fields: 'recommendations[].tool recommendations[].confidence',
  },
  {
    at: 'POST /api/agent/plan',
    body: { task: 'Watch the price of ETH and send me an e-mail when it falls' },
    fields: 'detected_intent steps[].tool estimated_budget_usdc quick_wins onboard_cmd',
  },
  {
    at: 'POST /api/agent/crew',
    body: { icpDescription: 'Small bakeries', offerDescription: 'An oven of half the power' },
    fields: 'type _meta.cost_usdc',
    match: { type: 'cold_email', _meta: { cost_usdc: 0.2 } },
  },
  { at: 'GET /api/agent/crew', fields: 'crews[].type' },
  {
    at: 'POST /api/pill',
    body: { claims: ['The chain id of Base is 8453'], chain: 'base' },
    fields: 'verified confidence hallucination_risk correct_value correction context pill_version',
    match: { verified: true, hallucination_risk: 'none', pill_version: /-hallucination-pills-v1$/ },
  },
  {
    at: 'POST /api/x402/register',
    body: ({ payableUrl }) => ({ name: 'Weather', url: payableUrl, price_usdc: 0.002 }),
    fields: '',
  },
  { at: 'GET /api/x402/apis', fields: 'apis[].name apis[].url apis[].price_usdc' },
  {
    at: 'GET /api/x402/probe',
    path: ({ payableUrl }) => `/api/x402/probe?url=${encodeURIComponent(payableUrl)}`,
    fields: 'supports_x402',
    match: { supports_x402: true },
  },
  { at: 'GET /api/cookbook', fields: 'recipes[].slug' },
  {
    at: 'POST /api/cookbook/{slug}/claim',
    path: '/api/cookbook/remember-and-recall/claim',
    before: ({ post }) => post('/api/pipeline', { calls: RECIPE?.calls }),
    fields: 'recipe number of badge_url',
    match: { number: 1, of: 100 },
  },
  {
    at: 'GET /api/cookbook/{slug}/badge.svg',
    path: '/api/cookbook/remember-and-recall/badge.svg',
    type: 'image/svg+xml',
    fields: '',
    match: /^<svg /,
  },
]

function prefixed(prefix: string, fields: string): string {
  return fields
    .split(' ')
    .map((field) => `${prefix}${field}`)
    .join(' ')
}

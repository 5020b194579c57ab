import type { ApiConformanceCase } from './api-conformance-case.ts'

/** Specified operations of agents, payment and funds. */

const AGENT =
  'api_key agent_id wallet_address fund_url tell_your_operator funding_path live_prices.BTC.usd'
const PAID = { tool: 'hive_trending', limit: 3 }
const FLEET = 'fleet_id name balance_usdc wallet_address'

export const AGENT_AND_FUND_API_CONFORMANCE_CASES: readonly ApiConformanceCase[] = [
  {
    at: 'POST /api/onboard',
    body: {
      name: 'walker_1',
      description: 'An agent.',
      framework: 'langchain',
      tool_category: 'web',
      preferred_payment: 'x402_base',
      contact_email: 'weekly@agents.example',
      owner_email: 'owner@agents.example',
      owner_telegram: '4711',
      source: 'test',
    },
    status: 201,
    fields: AGENT,
    match: { api_key: /^[a-z]+_\w+$/, wallet_address: /^0x[\da-f]{40}$/i, fund_url: /\/fund\// },
  },
  { at: 'POST /api/agents/register', body: { name: 'walker-2' }, status: 201, fields: AGENT },
  {
    at: 'POST /api/onboard/bulk',
    body: {
      agents: Array.from({ length: 20 }, (_, at) => ({ name: `bulk-${at}`, framework: 'crewai' })),
    },
    fields: 'agents[].api_key agents[].agent_id agents[].fund_url',
    match: { agents: { length: 20 } },
  },
  {
    at: 'POST /api/refuel',
    as: 'self',
    body: PAID,
    headers: { 'x-ghost-mode': 'shadow' },
    fields: 'echo_recycled ghost_protocol.active ghost_protocol.mode ghost_protocol.note',
    match: { echo_recycled: false, ghost_protocol: { active: true, mode: 'stealth' } },
  },
  {
    at: 'POST /api/refuel',
    as: 'self',
    body: { tool: 'web_search', query: 'base', params: { max_results: 2 } },
    fields: 'results[].title results[].url results[].snippet results[].source query count',
  },
  {
    at: 'POST /api/refuel',
    as: 'self',
    body: PAID,
    fields: 'echo_recycled ghost_protocol.note',
    match: { echo_recycled: true, ghost_protocol: { active: false } },
  },
  {
    at: 'POST /api/refuel/stream',
    as: 'self',
    body: PAID,
    type: 'text/event-stream',
    fields: '',
    match: /^event: /m,
  },
  {
    at: 'POST /api/t/{slug}',
    path: '/api/t/hive-trending',
    body: { limit: 3 },
    headers: ({ ids }) => ({ 'payment-signature': ids['signature'] ?? '' }),
    before: async ({ ids, pay }) => {
      ids['signature'] = (await pay(5_000n))['payment-signature'] ?? ''
    },
    fields: '_meta.cost_usdc _meta.rail',
    match: { _meta: { cost_usdc: 0.005, rail: 'eip3009' } },
  },
  {
    at: 'POST /api/pipeline',
    as: 'self',
    body: { calls: [PAID, { tool: 'hive_read', query: 'gas' }, { tool: 'agent_ping' }] },
    fields:
      'ok results[].tool results[].ok results[].result results[].cost_usdc results[].ms total_cost_usdc total_ms parallel succeeded failed',
    match: { succeeded: 2, failed: 1, total_cost_usdc: 0.005 },
  },
  {
    at: 'POST /api/pipeline',
    body: { calls: [{ tool: 'hive_read', query: 'gas' }] },
    fields: 'ok results[].result',
    match: { ok: true, total_cost_usdc: 0 },
  },
  { at: 'GET /api/credits/balance', fields: 'balance_usdc usage fund_url' },
  {
    at: 'POST /api/credits/topup',
    body: { amount_usdc: 1 },
    headers: ({ ids }) => ({ 'payment-signature': ids['topUp'] ?? '' }),
    before: async ({ ids, pay }) => {
      ids['topUp'] = (await pay(1_000_000n))['payment-signature'] ?? ''
    },
    fields: 'credited_usdc balance_usdc',
  },
  { at: 'GET /api/wallet', fields: 'wallet_address gas' },
  { at: 'GET /api/wallet/status', fields: 'wallet_address balance_usdc' },
  {
    at: 'POST /api/wallet/export',
    body: { confirm: true },
    fields: 'private_key wallet_address',
    match: { private_key: /^0x[\da-f]{64}$/ },
  },
  {
    at: 'GET /fund/{agent_id}',
    path: ({ self }) => `/fund/${self.id}`,
    headers: { accept: 'text/html' },
    type: 'text/html',
    fields: '',
    match: /<svg[^]*0x[\da-fA-F]{40}|0x[\da-fA-F]{40}[^]*<svg/,
  },
  {
    at: 'POST /api/fleet/create',
    body: { name: 'crew' },
    fields: FLEET,
    keeps: { fleet: 'fleet_id', fleetWallet: 'wallet_address' },
  },
  {
    at: 'POST /api/fleet/add-agent',
    body: ({ ids, mate }) => ({
      ...{ fleet_id: ids['fleet'], agent_id: mate.id },
      agent_key: mate.key,
    }),
    fields: 'fleet_id agent_id',
  },
  {
    at: 'POST /api/fleet/topup',
    before: async ({ ids, deposit }) => {
      ids['fleetDeposit'] = await deposit(ids['fleetWallet'] ?? '', 5_000_000n)
    },
    body: ({ ids }) => ({ fleet_id: ids['fleet'], tx_hash: ids['fleetDeposit'] }),
    fields: 'fleet_id credited_usdc bonus_usdc',
    match: { credited_usdc: 5, bonus_usdc: 0 },
  },
  {
    at: 'GET /api/fleet/balance',
    path: ({ ids }) => `/api/fleet/balance?fleet_id=${ids['fleet']}`,
    fields: FLEET,
    match: { balance_usdc: 5 },
  },
  { at: 'GET /api/fleet/list', fields: 'fleets[].fleet_id fleets[].name' },
  {
    at: 'POST /api/agent/send',
    body: ({ mate }) => ({ to_agent_id: mate.id, amount_usdc: 0.01, memo: 'x' }),
    fields: 'to_agent_id amount_usdc fee_usdc',
    match: { amount_usdc: 0.01, fee_usdc: 0 },
  },
  {
    at: 'POST /api/tip',
    body: ({ mate }) => ({ to_agent_id: mate.id, amount_usdc: 0.1, note: 'x' }),
    fields: 'to_agent_id amount_usdc fee_usdc received_usdc',
    match: { fee_usdc: 0.005, received_usdc: 0.095 },
  },
  { at: 'GET /api/agent/transfers', fields: 'transfers[].amount_usdc transfers[].memo net_usdc' },
  { at: 'GET /api/agent/me', fields: 'agent_id fund_url ping' },
  {
    at: 'POST /api/agent/set-contact',
    body: { owner_email: 'owner@agents.example', owner_telegram: '4711' },
    fields: 'owner_email owner_telegram',
  },
  {
    at: 'POST /api/agent/ping-owner',
    body: { message: 'The report is ready.' },
    fields: '',
  },
  { at: 'POST /api/agent/recommend', fields: 'message' },
  {
    at: 'POST /api/referrals/create',
    status: 201,
    fields: 'referral_code',
    keeps: { referral: 'referral_code' },
  },
  {
    at: 'POST /api/onboard',
    body: ({ ids }) => ({ name: 'referred', referral_code: ids['referral'] }),
    status: 201,
    fields: AGENT,
  },
  { at: 'GET /api/referrals/me', fields: 'referral_code earnings_usdc', match: { referred: 1 } },
  {
    at: 'GET /api/radio-drop/latest',
    fields: 'drop.code drop.slots drop.credits_usdc drop.expires_at',
    match: { drop: { code: /^RADIODROP-/, slots: 10, credits_usdc: 0.1 } },
  },
  {
    at: 'POST /api/radio-drop/redeem',
    body: ({ ids }) => ({ code: ids['drop'] }),
    fields: 'credited_usdc',
    match: { credited_usdc: 0.1 },
  },
]

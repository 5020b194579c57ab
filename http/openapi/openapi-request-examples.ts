import type {
  OpenApiMediaType,
  OpenApiDocument,
  OpenApiOperation,
} from './openapi-document-types.ts'

/** Examples of requests: a body, and the parameters without which the operation has nothing to act on. */

/** The ids in the examples: one of each kind. Tests put those of their own objects in their place. */
export const OPENAPI_EXAMPLE_IDS = {
  agent: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4d',
  strategy: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4f',
  fleet: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c52',
  bounty: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c53',
  memory: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c50',
  listing: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c58',
  keyId: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c54',
  task: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c55',
  schedule: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c56',
  message: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c57',
  call: '01890a5d-ac96-774b-bcce-b302099a8057',
  backpack: 'bp_0Zk3v9WqLr8s2Jd5Tn7XcB',
  webhook: 'wh_4Hc8m1YpQe6u0Rf3Vk9ZaD',
  delivery: 'msg_7Nb2t5KsWj1x8Gh4Pq6LyE',
  settlement: 'stl_5f0c6e0a8a0f4b0e9a530f6a3f0c2b11',
  receipt: 'the-receipt-of-a-reply',
  refusal: 'the-id-in-why_url',
  payableApi: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c58',
  apiKey: 'gas_the-key-of-the-agent-that-joins',
  dropCode: 'RADIODROP_3Mf9w2CzUx7o5Sg8Bt1KvH',
  wallet: '0x7d1afa7b718fb893db30a3abc0cfc608aacfebb0',
  transaction: '0x8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925',
  operatorToken: 'the-token-of-the-operator-of-this-station',
} as const

const { agent, fleet } = OPENAPI_EXAMPLE_IDS

/** By operation id. Operations that call one tool show the first example of that tool. */
const BODIES: Readonly<Record<string, object>> = {
  onboard: {
    name: 'price-scout',
    description: 'Watches prices on Base and warns before they move.',
    framework: 'langchain',
    owner_email: 'owner@agents.example',
    agent_key: { tools: ['price_feed', 'web_search'], fuse: { per_day_usdc: 1 } },
  },
  registerTool: {
    slug: 'weather-now',
    name: 'Weather now',
    description: 'The temperature of a city, measured within the last ten minutes.',
    endpoint_url: 'https://agents.example/weather',
    input_schema: {
      type: 'object',
      properties: { city: { type: 'string', maxLength: 80 } },
      required: ['city'],
      additionalProperties: false,
    },
    output_schema: {
      type: 'object',
      properties: { celsius: { type: 'number' } },
      required: ['celsius'],
    },
    example: { city: 'Rome' },
    price_per_call_usdc: 0.01,
  },
  changeTool: { price_per_call_usdc: 0.005, accepts_promo: true },
  submitTool: { slug: 'weather-now' },
  invokeTool: { query: 'BTC' },
  registerAgent: { name: 'price-scout', framework: 'http', discoverable: true },
  onboardBulk: { agents: [{ name: 'scout-1' }, { name: 'scout-2', framework: 'crewai' }] },
  planTask: { task: 'Watch the price of ETH and send me an e-mail when it falls' },
  topUp: { amount_usdc: 5 },
  exportWallet: { confirm: true },
  receiveWallet: { wallet_address: OPENAPI_EXAMPLE_IDS.wallet },
  updateMe: { description: 'Watches prices on Base.', discoverable: true },
  setContactEmail: { contact_email: 'owner@agents.example' },
  setContact: { owner_email: 'owner@agents.example' },
  sendCredits: { to_agent_id: agent, amount_usdc: 0.05, memo: 'Your share of the bounty' },
  pingOwner: { message: 'The report is ready: ETH fell by 4 % within an hour.' },
  tip: { to_agent_id: agent, amount_usdc: 0.02, note: 'Thank you for the answer' },
  createFleet: { name: 'price-watchers' },
  addAgentToFleet: { fleet_id: fleet, agent_id: agent, agent_key: OPENAPI_EXAMPLE_IDS.apiKey },
  topUpFleet: { fleet_id: fleet, tx_hash: OPENAPI_EXAMPLE_IDS.transaction },
  leaveFleet: { fleet_id: fleet },
  removeAgentFromFleet: { fleet_id: fleet, agent_id: agent },
  redeemDrop: { code: OPENAPI_EXAMPLE_IDS.dropCode },
  postBounty: {
    title: 'Cheapest hour for transfers on Base',
    description: 'Name the hour (UTC) with the lowest median gas price of the last month.',
    domain: 'base',
    required_keywords: ['UTC'],
    min_quality_score: 20,
    reward_usdc: 0.25,
    ttl_hours: 48,
  },
  claimBounty: {
    content:
      'Between 05:00 and 06:00 UTC the median gas price on Base was 0.004 gwei, the lowest of all hours of the last month; weekends were about ten percent cheaper still.',
  },
  listMemories: {
    name: 'Fees on Base by hour',
    description: 'Median gas prices of four weeks, and what they mean for batches.',
    entry_ids: [OPENAPI_EXAMPLE_IDS.memory],
    price_usdc: 0.1,
    accepts_promo: true,
  },
  rateListing: { stars: 5 },
  requestMech: { prompt: 'gas on Base', tool: 'hive_read', nonce: '7f3c' },
  installPack: { slug: 'focus-stack' },
  createKey: {
    name: 'nightly-job',
    scopes: ['tools', 'read'],
    cap_usdc: 5,
    cap_per_day_usdc: 0.5,
    expires_in_seconds: 2_592_000,
  },
  rotateKey: { key_id: OPENAPI_EXAMPLE_IDS.keyId, grace_seconds: 3_600 },
  buyTaskPass: { pass: 'micro' },
  startTask: { name: 'weekly-report', budget_usdc: 0.5 },
  endTask: { task_id: OPENAPI_EXAMPLE_IDS.task },
  cancelTask: { task_id: OPENAPI_EXAMPLE_IDS.task },
  setTaskBudget: { budget_usdc: 1 },
  createSchedule: {
    name: 'btc-every-hour',
    interval: '1h',
    tool: 'price_feed',
    params: { query: 'BTC' },
    budget_usdc: 0.02,
  },
  setSchedule: { enabled: false },
  createBackpack: {
    agent_name: 'scout',
    tools: ['price_feed', 'web_search'],
    expiry_days: 30,
    fuse: { per_call_usdc: 0.05, per_day_usdc: 1, per_month_usdc: 10 },
    pager: { webhook_url: 'https://agents.example/pager' },
  },
  changeBackpack: { fuse: { per_day_usdc: 2 }, pager: { owner_email: 'owner@agents.example' } },
  renewBackpack: { expiry_days: 30 },
  putSecret: { name: 'GITHUB_TOKEN', secret: 'a-token', hosts: ['api.github.com'] },
  putNote: { key: 'last-price', value: { symbol: 'BTC', usd: 97_250.5 }, ttl_seconds: 86_400 },
  registerWebhook: {
    url: 'https://agents.example/webhooks',
    events: ['tool_call', 'low_balance'],
  },
  testWebhooks: { webhook_id: OPENAPI_EXAMPLE_IDS.webhook },
  publishSignal: {
    channel: 'base:gas',
    type: 'price_alert',
    payload: { gwei: 0.004, direction: 'down' },
    ttl_seconds: 3_600,
  },
  sendPulse: { goal_vector: 'Find the cheapest hour on Base', confidence: 0.7, idle_cycles: 0 },
  sendMessage: { to: agent, subject: 'Report', message: 'The report of this week is in the Hive.' },
  importTools: {
    openapi_url: 'https://weather.agents.example/openapi.json',
    price_per_call_usdc: 0.01,
    include: ['getForecast'],
  },
  registerPayableApi: {
    name: 'Weather by the hour',
    url: 'https://weather.agents.example/forecast',
    price_usdc: 0.002,
  },
  sendMcpMessage: {
    ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
    params: { name: 'hive_read', arguments: { query: 'gas on Base' } },
  },
  sendDiscoveryMessage: {
    ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
    params: { name: 'get_latest_gas_station', arguments: {} },
  },
  signInToInspector: { token: OPENAPI_EXAMPLE_IDS.operatorToken },
}

/** Query parameters of operations that need one, by operation id. */
const QUERIES: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  getFleetBalance: { fleet_id: fleet },
  readHive: { query: 'gas on Base' },
  searchPublicHive: { q: 'gas on Base' },
  queryVault: { q: 'limits of the staging API' },
  removeSecret: { name: 'GITHUB_TOKEN' },
  removeNote: { key: 'last-price' },
  streamSignals: { channels: 'base:gas' },
  getLeaderboard: { limit: 25 },
  probeAddress: { url: 'https://weather.agents.example/forecast' },
  getConsistencyProof: { from: 1 },
  getInclusionProof: { index: 0 },
}

/** What the parameter of a path means, by the path up to it. */
const PATH_EXAMPLES: Readonly<Record<string, string>> = {
  '/api/tools/{slug}': 'price_feed',
  '/api/recommendations/{agentId}': agent,
  '/api/calls/{id}': OPENAPI_EXAMPLE_IDS.call,
  '/api/receipts/{receipt}': OPENAPI_EXAMPLE_IDS.receipt,
  '/api/why/{id}': OPENAPI_EXAMPLE_IDS.refusal,
  '/api/x402/settlements/{id}': OPENAPI_EXAMPLE_IDS.settlement,
  '/api/x402/apis/{id}': OPENAPI_EXAMPLE_IDS.payableApi,
  '/fund/{agent_id}': agent,
  '/embed/badge/{agent_id}': agent,
  '/api/fleet/{id}': fleet,
  '/api/bounties/{id}': OPENAPI_EXAMPLE_IDS.bounty,
  '/api/marketplace/{pack_id}': OPENAPI_EXAMPLE_IDS.listing,
  '/api/marketplace/buy/{pack_id}': OPENAPI_EXAMPLE_IDS.listing,
  '/api/marketplace/rate/{pack_id}': OPENAPI_EXAMPLE_IDS.listing,
  '/api/strategies/{id}': OPENAPI_EXAMPLE_IDS.strategy,
  '/api/keys/{id}': OPENAPI_EXAMPLE_IDS.keyId,
  '/api/task/schedule/{id}': OPENAPI_EXAMPLE_IDS.schedule,
  '/api/task/{id}': OPENAPI_EXAMPLE_IDS.task,
  '/api/backpack/{id}': OPENAPI_EXAMPLE_IDS.backpack,
  '/api/webhook/{id}/deliveries/{delivery}': OPENAPI_EXAMPLE_IDS.delivery,
  '/api/webhook/{id}': OPENAPI_EXAMPLE_IDS.webhook,
  '/api/messages/{id}': OPENAPI_EXAMPLE_IDS.message,
  '/api/cookbook/{slug}': 'market-brief',
  '/problems/{code}': 'FUSE_TRIPPED',
  '/inspector/machines/{file}': 'schedule.json',
  '/api/actors/{kind}': 'agent',
  '/api/actors/{kind}/{id}': agent,
}

/** The same for operations whose path means something else. */
const PATH_EXAMPLES_OF: Readonly<Record<string, string>> = {
  changeTool: 'weather-now',
  retireTool: 'weather-now',
}

/** Adds an example to each body and to each required parameter that has none yet. */
export function addOpenApiRequestExamples(document: OpenApiDocument): void {
  for (const [path, item] of Object.entries(document.paths))
    for (const operation of Object.values(item)) {
      const media = operation.requestBody?.content['application/json']
      const body = BODIES[operation.operationId]
      if (media !== undefined && body !== undefined && !hasExample(media)) media.example = body
      addParameterExamples(path, operation)
    }
}

export const hasExample = ({ example, examples }: OpenApiMediaType): boolean =>
  example !== undefined || examples !== undefined

function addParameterExamples(path: string, operation: OpenApiOperation): void {
  for (const parameter of operation.parameters ?? []) {
    if ('$ref' in parameter || parameter.example !== undefined) continue
    const example =
      parameter.in === 'path'
        ? (PATH_EXAMPLES_OF[operation.operationId] ??
          PATH_EXAMPLES[
            path.slice(0, path.indexOf(`{${parameter.name}}`) + parameter.name.length + 2)
          ])
        : QUERIES[operation.operationId]?.[parameter.name]
    if (example !== undefined) parameter.example = example
  }
}

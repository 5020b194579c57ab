import { LIMITS, TOKEN_BUCKET_RATES } from '../../core/limits.ts'
import { toUsdc } from '../../core/money.ts'
import type { CatalogueTotals } from '../../tools/tool-catalogue.ts'
import type { HttpConfig } from '../http-config-and-service-types.ts'

/** The document that tells an agent what the station is and how to begin. */

export type AgentWelcomeDocumentConfig = Pick<
  HttpConfig,
  'publicUrl' | 'version' | 'starterCredits' | 'deposits' | 'onboardPerHourPerIp'
>

/** Describes purpose, onboarding, three first requests, limits and links. */
export function describeAgentWelcome(config: AgentWelcomeDocumentConfig, listing: CatalogueTotals) {
  const { publicUrl, version, starterCredits, deposits } = config
  const at = (path: string) => `${publicUrl}${path}`
  return {
    schema_version: '1.0',
    name: 'Gas Station',
    version,
    purpose:
      'Tools for agents, paid by the call: search, prices, pages, memory, chains, code, models and messages. One endpoint, POST /api/refuel.',
    onboarding: {
      request: {
        method: 'POST',
        url: at('/api/onboard'),
        headers: { 'content-type': 'application/json' },
        body: { name: 'my-agent' },
      },
      answer:
        'api_key (shown once), agent_id, wallet_address, fund_url, starter_credits_usdc. Send the key as X-API-Key.',
      starter_credits_usdc: toUsdc(starterCredits),
      per_hour_per_address: config.onboardPerHourPerIp,
    },
    first_requests: [
      {
        about: 'A free tool, without a key.',
        method: 'POST',
        url: at('/api/refuel'),
        headers: { 'content-type': 'application/json' },
        body: { tool: 'hive_read', query: 'base' },
      },
      {
        about: 'A paid tool: starter credits pay it.',
        method: 'POST',
        url: at('/api/refuel'),
        headers: { 'content-type': 'application/json', 'x-api-key': '<api_key>' },
        body: { tool: 'hive_trending' },
      },
      {
        about: 'What is left.',
        method: 'GET',
        url: at('/api/credits/balance'),
        headers: { 'x-api-key': '<api_key>' },
      },
    ],
    payment: {
      rails: ['free tier', 'credits', 'x402', 'EIP-3009 (Payment-Signature)', 'MPP (chain 4217)'],
      deposits: deposits ? 'on' : 'off',
      unpaid:
        'A paid tool without credits answers 402 with an offer for every rail; a client of x402 or MPP pays by itself.',
    },
    tools: { total: listing.total, free: listing.free_count, url: at('/api/tools') },
    limits: {
      calls_per_second: TOKEN_BUCKET_RATES.refuel.perSecond,
      calls_burst: TOKEN_BUCKET_RATES.refuel.burst,
      body_bytes: LIMITS.bodyBytes,
      tool_output_bytes: LIMITS.toolOutputBytes,
      pipeline_calls: LIMITS.pipelineCalls,
      more: at('/api/standard'),
    },
    links: {
      tools: at('/api/tools'),
      prices: at('/api/pricing.json'),
      standard: at('/api/standard'),
      openapi: at('/api/openapi.json'),
      errors: at('/problems'),
      plan: at('/api/agent/plan'),
      whats_new: at('/api/whats-new'),
      docs: at('/docs'),
    },
  }
}

import { eventually } from '../mail/test-mail-and-telegram-servers.ts'
import type { ApiConformanceCase } from './api-conformance-case.ts'

/** Specified operations of public figures and documents. */

const rpc = (name: string, input: object) => ({
  ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
  params: { name, arguments: input },
})
const RSS = { type: 'application/rss+xml', fields: '', match: /<rss version="2\.0"/ }
const SVG = { type: 'image/svg+xml', fields: '', match: /^<svg / }

export const PUBLIC_API_CONFORMANCE_CASES: readonly ApiConformanceCase[] = [
  { at: 'GET /api/intelligence/market', fields: 'prices[].symbol prices[].usd' },
  { at: 'POST /api/manifesto/sign', as: 'self', status: 201, fields: '' },
  { at: 'GET /api/manifesto', fields: 'promises signers', match: { signatures: 1 } },
  {
    at: 'GET /api/attestations',
    before: ({ main }) =>
      eventually(async () => {
        const { body } = await main.ask('GET', '/api/attestations/head')
        return Number(body['tree_size']) > 0
      }, 'the first head of the tree of fees'),
    fields: 'attestations[].index attestations[].amount_usdc',
  },
  { at: 'GET /api/attestations/summary', fields: 'treasury_usdc' },
  { at: 'GET /api/stats', fields: 'usdc_volume_24h' },
  { at: 'GET /api/stats/live', endless: true, fields: '' },
  {
    at: 'GET /api/leaderboard',
    path: '/api/leaderboard?limit=100',
    fields: 'agents[].rank agents[].agent_id agents[].tier',
    match: ({ payer }) => ({ agents: [{ rank: 1, agent_id: payer.id }] }),
  },
  { at: 'GET /api/trending', fields: 'tools[].slug domains[].domain', match: { window_hours: 24 } },
  { at: 'GET /api/network/health', fields: 'degraded_dependencies', match: { status: 'ok' } },
  { at: 'GET /hall-of-agents', fields: 'agents' },
  {
    at: 'POST /mcp',
    body: rpc('hive_read', { query: 'gas' }),
    fields: 'jsonrpc id result.content',
    match: { result: { isError: undefined } },
  },
  { at: 'GET /mcp', fields: 'name version' },
  {
    at: 'POST /hivecast/mcp',
    body: rpc('get_latest_gas_station', {}),
    fields: 'jsonrpc id result.content',
    match: { result: { isError: undefined } },
  },
  { at: 'GET /bounties.rss', ...RSS },
  { at: 'GET /hive.rss', ...RSS },
  {
    at: 'GET /embed/badge/{agentId}.svg',
    path: ({ payer }) => `/embed/badge/${payer.id}.svg`,
    ...SVG,
  },
  { at: 'GET /embed/stats.svg', ...SVG },
  { at: 'GET /api/pricing.json', fields: 'tools[].slug tools[].price_usdc' },
  {
    at: 'GET /api/whats-new',
    fields: 'releases catalogue[].at',
    match: { schema: /\/whats-new\/v1$/ },
  },
  { at: 'GET /api/agent-welcome', fields: 'name', match: { schema_version: '1.0' } },
  { at: 'GET /api/standard', fields: 'auth', match: { schema_version: '1.0' } },
  {
    at: 'GET /api/openapi.json',
    fields: 'paths',
    match: { openapi: '3.1.0', info: { version: '1.0.0' } },
  },
  {
    at: 'POST /mech/request',
    body: { prompt: 'gas on Base', tool: 'hive_read', nonce: 'x' },
    fields: 'requestId result',
  },
  { at: 'GET /mech/metadata', fields: 'name tools' },
]

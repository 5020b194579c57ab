import { PAID_CALL_BODY } from '../agents/write-route-fixtures.ts'
import type { WriteRouteCase } from './write-route-case-shape.ts'

/** Tool calls on every transport. */
export const toolCallWriteRouteCases = (): Record<string, WriteRouteCase> => ({
  'POST /api/pill': {
    path: '/api/pill',
    body: { claim: '2 + 2 = 4' },
    texts: ['claim'],
    anonymousAllowed: true,
    notRepeatable: true,
  },
  'POST /api/agent/plan': {
    path: '/api/agent/plan',
    body: { task: 'Read the price of BTC every day' },
    texts: ['task'],
    anonymousAllowed: true,
    notRepeatable: true,
  },
  'POST /api/agent/crew': {
    path: '/api/agent/crew',
    body: {
      type: 'cold_email',
      icpDescription: 'Owners of small bakeries',
      offerDescription: 'An oven that needs half the power',
    },
    texts: ['type', 'icpDescription', 'offerDescription'],
  },
  'POST /mech/request': {
    path: '/mech/request',
    body: { prompt: '{"limit":3}', tool: PAID_CALL_BODY.tool, nonce: 'x' },
    texts: ['prompt', 'tool', 'nonce'],
    anonymousAllowed: true,
  },
  'POST /api/refuel': {
    path: '/api/refuel',
    body: PAID_CALL_BODY,
    texts: ['tool'],
    wholes: ['limit'],
    anonymousAllowed: true,
  },
  'POST /api/refuel/stream': {
    path: '/api/refuel/stream',
    body: PAID_CALL_BODY,
    texts: ['tool'],
    wholes: ['limit'],
    anonymousAllowed: true,
  },
  'POST /api/quote': {
    path: '/api/quote',
    body: PAID_CALL_BODY,
    texts: ['tool'],
    wholes: ['limit'],
    anonymousAllowed: true,
  },
  'POST /api/pipeline': {
    path: '/api/pipeline',
    body: { calls: [PAID_CALL_BODY] },
    lists: ['calls'],
    anonymousAllowed: true,
  },
  'POST /api/tools/import': {
    path: '/api/tools/import',
    body: { openapi_url: 'http://apis.invalid/openapi.json', price_per_call_usdc: 0.01 },
    amounts: ['price_per_call_usdc'],
    texts: ['openapi_url', 'mcp_url', 'base_url', 'prefix', 'upstream_header', 'upstream_value'],
    lists: ['include'],
    status: 422,
  },
  'POST /api/tools/register': {
    path: '/api/tools/register',
    body: {
      slug: 'weather-now',
      name: 'Weather now',
      description: 'The temperature of a city.',
      endpoint_url: 'https://builder.invalid/weather',
      price_per_call_usdc: 0.01,
    },
    amounts: ['price_per_call_usdc'],
    texts: ['slug', 'name', 'description', 'endpoint_url'],
    status: 201,
  },
  // The tool is not there.
  'PATCH /api/tools/{slug}': {
    path: '/api/tools/weather-later',
    method: 'PATCH',
    body: { description: 'x', price_per_call_usdc: 0.01 },
    texts: [],
    status: 404,
  },
  'DELETE /api/tools/{slug}': {
    path: '/api/tools/weather-later',
    method: 'DELETE',
    status: 404,
  },
  'POST /api/builder/submit': {
    path: '/api/builder/submit',
    body: { slug: 'weather-later' },
    texts: ['slug'],
    status: 404,
  },
  'POST /api/tools/{slug}/invoke': {
    path: '/api/tools/hive-trending/invoke',
    body: { limit: 3 },
    wholes: ['limit'],
    anonymousAllowed: true,
  },
  'POST /api/t/{slug}': {
    path: '/api/t/hive-trending',
    body: { limit: 3 },
    wholes: ['limit'],
    anonymousAllowed: true,
  },
})

import type { ApiConformanceCase } from './api-conformance-case.ts'
import type { ApiConformanceStation } from './start-api-conformance-station.ts'

/** Specified operations of signals, pulses, messages, webhooks and Backpacks. */

const PULSE = 'goal_vector confidence idle_cycles'
const inBackpack =
  (path: string) =>
  ({ ids }: ApiConformanceStation): string =>
    `/api/backpack/${ids['backpack']}/${path}`

export const REALTIME_API_CONFORMANCE_CASES: readonly ApiConformanceCase[] = [
  {
    at: 'POST /api/signal/publish',
    body: { channel: 'base:gas', type: 'price_alert', payload: { gwei: 1 }, ttl_seconds: 60 },
    fields: 'channel type expires_at',
    match: { cost_usdc: 0.001 },
  },
  {
    at: 'GET /api/signal/stream',
    path: '/api/signal/stream?channels=base:gas,swarm:any',
    endless: true,
    fields: '',
  },
  {
    at: 'GET /api/signal/recent',
    path: '/api/signal/recent?channel=base:gas&limit=50',
    fields: 'signals[].channel signals[].type signals[].payload',
  },
  { at: 'GET /api/signal/channels', fields: 'channels[].channel' },
  {
    at: 'POST /api/pulse',
    body: { goal_vector: 'Find the cheapest hour', confidence: 0.7, idle_cycles: 0 },
    fields: PULSE,
    match: { ttl_seconds: 300 },
  },
  { at: 'GET /api/pulse/live', fields: 'pulses[].goal_vector pulses[].confidence' },
  { at: 'GET /api/pulse/mine', fields: 'pulse.goal_vector pulse.ttl_seconds' },
  {
    at: 'POST /api/messages',
    body: ({ mate }) => ({ to: mate.id, subject: 'Report', message: 'x'.repeat(2_000) }),
    fields: 'message_id',
    keeps: { message: 'message_id' },
  },
  { at: 'GET /api/messages', as: 'mate', fields: 'messages[].message messages[].subject' },
  { at: 'GET /api/messages/sent', fields: 'messages[].message messages[].to_agent_id' },
  {
    at: 'DELETE /api/messages/{id}',
    path: ({ ids }) => `/api/messages/${ids['message']}`,
    fields: '',
  },
  {
    at: 'POST /api/webhook/register',
    body: { url: 'https://hooks.invalid/', events: ['tool_call', 'low_balance'] },
    fields: 'url events',
    keeps: { webhook: 'webhook_id' },
  },
  { at: 'GET /api/webhook', fields: 'webhooks[].url webhooks[].events' },
  { at: 'POST /api/webhook/test', fields: '' },
  {
    at: 'DELETE /api/webhook/{id}',
    path: ({ ids }) => `/api/webhook/${ids['webhook']}`,
    fields: '',
  },
  { at: 'GET /api/backpack', fields: 'description' },
  {
    at: 'POST /api/backpack/create',
    body: { agent_name: 'scout', tools: ['hive_trending'], expiry_days: 90 },
    fields: 'backpack_id agent_name tools',
    match: { backpack_id: /^bp_/ },
    keeps: { backpack: 'backpack_id' },
  },
  {
    at: 'GET /api/backpack/{id}/notifications',
    path: inBackpack('notifications'),
    fields: 'notifications[].type',
    match: { notifications: [{ type: 'backpack.created' }] },
  },
  {
    at: 'GET /api/backpack/{id}/spend',
    before: ({ main, self, ids }) =>
      main.call(self, 'hive_trending', {}, { 'x-backpack-id': ids['backpack'] ?? '' }),
    path: inBackpack('spend?tool=hive_trending&success=true&from=2026-01-01T00:00:00Z'),
    fields: 'calls[].tool calls[].cost_usdc',
  },
  {
    at: 'POST /api/backpack/{id}/keyring',
    path: inBackpack('keyring'),
    body: { name: 'TOKEN', secret: 'a-token', hosts: ['api.github.com'] },
    fields: 'name',
  },
  {
    at: 'POST /api/backpack/{id}/clipboard',
    path: inBackpack('clipboard'),
    body: { key: 'last', value: { usd: 1 }, ttl_seconds: 60 },
    fields: 'key value expires_at',
  },
  {
    at: 'GET /api/backpack/{id}/clipboard',
    path: inBackpack('clipboard'),
    fields: 'entries[].key entries[].value entries[].expires_at',
  },
  {
    at: 'DELETE /api/backpack/{id}/clipboard',
    path: inBackpack('clipboard?key=last'),
    fields: 'removed',
  },
  { at: 'GET /api/store', fields: 'items[].name items[].price_usdc' },
]

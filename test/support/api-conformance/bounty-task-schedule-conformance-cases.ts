import type { ApiConformanceCase } from './api-conformance-case.ts'

/** Specified operations of bounties, tasks and schedules. */

const BOUNTY = 'title description domain required_keywords min_quality_score reward_usdc ttl_hours'
const ACTIVE = 'task_id name budget_usdc spent_usdc remaining pct_used'
const SCHEDULE =
  'schedule_id name interval tool params budget_usdc write_to_hive enabled last_result'

export const WORK_API_CONFORMANCE_CASES: readonly ApiConformanceCase[] = [
  {
    at: 'POST /api/bounties',
    body: {
      title: 'Cheapest hour',
      description: 'Name the hour with the lowest gas price.',
      domain: 'base',
      required_keywords: ['UTC'],
      min_quality_score: 1,
      reward_usdc: 0.05,
    },
    status: 201,
    fields: `bounty_id status ${BOUNTY}`,
    match: { status: 'open', ttl_hours: 168 },
    keeps: { bounty: 'bounty_id' },
  },
  {
    at: 'GET /api/bounties',
    path: '/api/bounties?status=open',
    fields: `bounties[].status bounties[].title bounties[].reward_usdc`,
    match: { bounties: [{ status: 'open' }] },
  },
  {
    at: 'POST /api/bounties/{id}/claim',
    path: ({ ids }) => `/api/bounties/${ids['bounty']}/claim`,
    as: 'mate',
    body: { content: 'Five to six in the morning UTC is the hour with the lowest gas price.' },
    fields: 'status paid_usdc',
    match: { status: 'claimed', paid_usdc: 0.05 },
  },
  {
    at: 'POST /api/task/start',
    body: { name: 'report', budget_usdc: 0.5 },
    fields: ACTIVE,
    keeps: { task: 'task_id' },
  },
  {
    at: 'PATCH /api/task/{id}/budget',
    path: ({ ids }) => `/api/task/${ids['task']}/budget`,
    body: { budget_usdc: 1 },
    fields: ACTIVE,
    match: { budget_usdc: 1 },
  },
  {
    at: 'POST /api/refuel',
    as: 'self',
    body: { tool: 'hive_trending', limit: 3 },
    headers: ({ ids }) => ({ 'x-task-id': ids['task'] ?? '' }),
    fields: '_meta.cost_usdc',
  },
  {
    at: 'GET /api/task/active',
    fields: ACTIVE,
    match: { spent_usdc: 0.005, remaining: 0.995, pct_used: 0.5 },
  },
  { at: 'GET /api/task/{id}', path: ({ ids }) => `/api/task/${ids['task']}`, fields: ACTIVE },
  {
    at: 'POST /api/task/end',
    body: ({ ids }) => ({ task_id: ids['task'] }),
    fields: 'spent_usdc calls',
    match: { spent_usdc: 0.005, calls: 1 },
  },
  {
    at: 'POST /api/task/cancel',
    before: async ({ post, ids }) => {
      const { task_id: id } = await post('/api/task/start', { name: 'x', budget_usdc: 0.1 })
      ids['cancelled'] = String(id)
    },
    body: ({ ids }) => ({ task_id: ids['cancelled'] }),
    fields: 'task_id',
  },
  {
    at: 'GET /api/task/passes/catalog',
    fields: 'passes[].name passes[].price_usdc passes[].calls',
    match: {
      passes: [
        { name: 'Micro', price_usdc: 1.5, calls: 50 },
        { name: 'Hour', price_usdc: 2.5, calls: 100 },
        { name: 'Day', price_usdc: 8, calls: 500 },
      ],
    },
  },
  { at: 'POST /api/task/passes/buy', body: { pass: 'micro' }, status: 201, fields: 'calls_left' },
  {
    at: 'POST /api/task/schedule',
    body: {
      ...{ name: 'hourly', interval: '1h', tool: 'price_feed', params: { query: 'BTC' } },
      ...{ budget_usdc: 0.02, write_to_hive: true },
    },
    fields: SCHEDULE,
    match: { enabled: true, write_to_hive: true },
    keeps: { schedule: 'schedule_id' },
  },
  { at: 'GET /api/task/schedules', fields: 'schedules[].schedule_id schedules[].name' },
  {
    at: 'GET /api/task/schedule/{id}',
    path: ({ ids }) => `/api/task/schedule/${ids['schedule']}`,
    fields: SCHEDULE,
  },
  {
    at: 'PATCH /api/task/schedule/{id}',
    path: ({ ids }) => `/api/task/schedule/${ids['schedule']}`,
    body: { enabled: false, budget_usdc: 0.01, write_to_hive: false, name: 'paused' },
    fields: SCHEDULE,
    match: { enabled: false, budget_usdc: 0.01, write_to_hive: false, name: 'paused' },
  },
  {
    at: 'DELETE /api/task/schedule/{id}',
    path: ({ ids }) => `/api/task/schedule/${ids['schedule']}`,
    fields: 'schedule_id',
    match: { enabled: false },
  },
]

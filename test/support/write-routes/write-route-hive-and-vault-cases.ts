import type { WriteRouteFixtures } from '../agents/write-route-fixtures.ts'
import type { WriteRouteCase } from './write-route-case-shape.ts'

/** Shared, private and sold memories, and publications. */
export const memoryWriteCases = (her: WriteRouteFixtures): Record<string, WriteRouteCase> => ({
  'POST /api/hive/write': {
    path: '/api/hive/write',
    body: { content: 'Gas on Base is cheapest on weekend mornings, so batch what can wait.' },
    texts: ['content', 'namespace'],
    status: 201,
    freeOfCharge: true,
  },
  'POST /api/vault/write': {
    path: '/api/vault/write',
    body: { content: 'The gateway is deployed on Tuesdays.', type: 'fact', tags: ['x'] },
    texts: ['content', 'type'],
    lists: ['tags'],
    freeOfCharge: true,
  },
  // the agent has too few memories
  'POST /api/vault/compress': { path: '/api/vault/compress', status: 422 },
  'POST /api/vault/dream': { path: '/api/vault/dream', status: 422 },
  'POST /api/vault/share': {
    path: '/api/vault/share',
    body: { entry_id: her.memory, to_agent_id: her.friend.id, memo: 'x' },
    texts: ['entry_id', 'to_agent_id', 'memo'],
  },
  // more than its balance
  'POST /api/packs/install': {
    path: '/api/packs/install',
    body: { slug: 'focus-stack' },
    texts: ['slug'],
    status: 402,
  },
  'POST /api/marketplace/list': {
    path: '/api/marketplace/list',
    body: {
      name: 'x',
      description: 'x',
      entry_ids: [her.memory],
      price_usdc: 0.1,
      accepts_promo: true,
    },
    amounts: ['price_usdc'],
    texts: ['name', 'description'],
    lists: ['entry_ids'],
  },
  // more than its balance, so it has not bought it
  'POST /api/marketplace/buy/{pack_id}': {
    path: `/api/marketplace/buy/${her.foreignListing}`,
    status: 402,
  },
  'POST /api/marketplace/rate/{pack_id}': {
    path: `/api/marketplace/rate/${her.foreignListing}`,
    body: { stars: 4 },
    wholes: ['stars'],
    status: 403,
  },
  'DELETE /api/marketplace/{pack_id}': {
    path: `/api/marketplace/${her.listingToWithdraw}`,
    method: 'DELETE',
  },
  'POST /api/strategies': {
    path: '/api/strategies',
    body: { title: 'x', description: 'x' },
    texts: ['title', 'description'],
  },
  'POST /api/strategies/{id}/fork': {
    path: `/api/strategies/${her.foreignStrategy}/fork`,
  },
})

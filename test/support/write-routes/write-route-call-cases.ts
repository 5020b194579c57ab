import { PAID_CALL_BODY } from '../agents/write-route-agent-objects.ts'
import type { WriteRouteCase } from './write-route-case-shape.ts'

/** Tool calls on every transport. */
export const callWriteCases = (): Record<string, WriteRouteCase> => ({
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
  'POST /api/t/{slug}': {
    path: '/api/t/hive-trending',
    body: { limit: 3 },
    wholes: ['limit'],
    anonymousAllowed: true,
  },
})

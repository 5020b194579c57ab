import { call } from './belongings.ts'
import type { Case } from './write-case.ts'

/** Calls of tools, by whichever door. */
export const callCases = (): Record<string, Case> => ({
  'POST /api/pill': {
    path: '/api/pill',
    body: { claim: '2 + 2 = 4' },
    texts: ['claim'],
    open: true,
    aloof: true,
  },
  'POST /api/agent/plan': {
    path: '/api/agent/plan',
    body: { task: 'Read the price of BTC every day' },
    texts: ['task'],
    open: true,
    aloof: true,
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
    body: call,
    texts: ['tool'],
    wholes: ['limit'],
    open: true,
  },
  'POST /api/refuel/stream': {
    path: '/api/refuel/stream',
    body: call,
    texts: ['tool'],
    wholes: ['limit'],
    open: true,
  },
  'POST /api/quote': {
    path: '/api/quote',
    body: call,
    texts: ['tool'],
    wholes: ['limit'],
    open: true,
  },
  'POST /api/pipeline': {
    path: '/api/pipeline',
    body: { calls: [call] },
    lists: ['calls'],
    open: true,
  },
  'POST /api/t/{slug}': {
    path: '/api/t/hive-trending',
    body: { limit: 3 },
    wholes: ['limit'],
    open: true,
  },
})

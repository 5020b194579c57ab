import type { TestReply } from '../http/test-http-client.ts'
import type { ApiConformanceStation } from './start-api-conformance-station.ts'

/** The refusals that the specification lists with their status. */

interface SpecifiedRefusal {
  readonly what: string
  readonly send: (station: ApiConformanceStation) => Promise<TestReply>
  readonly status: number
  /** Further fields of the answer. */
  readonly body?: object
}

const PAID = { tool: 'hive_trending', limit: 3 }
const FUNDABLE = { fund_url: /\/fund\// }

export const API_CONFORMANCE_REFUSALS: readonly SpecifiedRefusal[] = [
  {
    what: 'onboarding with an invalid name',
    send: ({ main }) => main.ask('POST', '/api/onboard', { json: { name: 'x' } }),
    status: 400,
  },
  {
    what: 'a paid tool without a payment',
    send: ({ main }) => main.ask('POST', '/api/refuel', { json: PAID }),
    status: 402,
  },
  {
    what: 'a paid tool without enough credits',
    send: async ({ main }) => main.call(await main.onboard(0), 'hive_trending'),
    status: 402,
    body: FUNDABLE,
  },
  {
    what: 'a top-up without a payment',
    send: ({ main, self }) =>
      main.ask('POST', '/api/credits/topup', { key: self.key, json: { amount_usdc: 1 } }),
    status: 402,
  },
  {
    what: 'a tool of another agent without enough credits',
    async send({ main }) {
      const { key } = await main.onboard(0)
      return main.ask('POST', '/api/tools/weather-now/invoke', { key, json: { city: 'Rome' } })
    },
    status: 402,
    body: FUNDABLE,
  },
  {
    what: 'a bounty without enough credits for the escrow',
    async send({ main }) {
      const { key } = await main.onboard(0)
      const json = { title: 'x', description: 'x', domain: 'x', reward_usdc: 0.05 }
      return main.ask('POST', '/api/bounties', { key, json })
    },
    status: 402,
    body: FUNDABLE,
  },
  {
    what: 'the second claim of a bounty',
    send: ({ main, mate, ids }) =>
      main.ask('POST', `/api/bounties/${ids['bounty']}/claim`, {
        key: mate.key,
        json: { content: 'Five to six in the morning UTC.' },
      }),
    status: 409,
  },
  {
    what: 'a call beyond the budget of its task',
    async send({ main, self, post }) {
      const { task_id: id } = await post('/api/task/start', { name: 'x', budget_usdc: 0.001 })
      return main.call(self, 'hive_trending', {}, { 'x-task-id': String(id) })
    },
    status: 402,
    body: { code: 'task_budget_exceeded' },
  },
]

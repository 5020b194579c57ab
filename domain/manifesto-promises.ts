/** The three promises of the station and where anybody can check them. */
export const STATION_PROMISES = [
  {
    name: 'Exact',
    promise:
      'A balance, a budget, a fuse or a schedule budget is never overspent and never wrongly refuses, at any concurrency and on any number of nodes.',
    proof: {
      about: 'Your own statement: every movement with its cause and the balances after it.',
      path: '/api/agent/statement',
    },
  },
  {
    name: 'Durable',
    promise:
      'What was answered is in the ledger, once. A crash at any instant loses nothing acknowledged and charges nothing twice.',
    proof: {
      about: 'The receipt of each call, signed by the station.',
      path: '/api/calls',
    },
  },
  {
    name: 'Checkable',
    promise:
      'Every balance can be computed again from the ledger, and every figure in public is a sum of it.',
    proof: {
      about: 'The figures of the station; its operator checks all rules with `gas verify`.',
      path: '/api/stats',
    },
  },
] as const

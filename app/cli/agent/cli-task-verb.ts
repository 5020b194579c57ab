import {
  createVerbWithSubcommands,
  CLI_LIMIT_OPTION,
  fetchStationListPages,
  parseAmountOption,
  readRequiredOption,
} from './cli-verb-with-subcommands.ts'

/** `gas task`. */
export const taskCliVerb = createVerbWithSubcommands({
  about:
    'A task limits one piece of work: calls with gas call --task ID fail rather than exceed its budget. A pass (passes, buy) is a number of calls bought in advance for all tasks. end and cancel without an id take the newest active task.',
  options: {
    budget: { value: 'USDC', description: 'what the task may spend' },
    ...CLI_LIMIT_OPTION,
  },
  examples: [
    'gas task start "look around" --budget 0.05',
    'gas call hive_trending --task ID',
    'gas task buy micro',
  ],
  actions: {
    start: {
      form: '<name> --budget USDC',
      run: (client, given) =>
        client.write('POST', '/api/task/start', {
          body: {
            name: given.words[0],
            budget_usdc: parseAmountOption(readRequiredOption(given, 'budget'), '--budget'),
          },
        }),
    },
    end: {
      form: '[<id>]',
      run: (client, { words }) =>
        client.write('POST', '/api/task/end', { body: selectionOf(words[0]) }),
    },
    cancel: {
      form: '[<id>]',
      run: (client, { words }) =>
        client.write('POST', '/api/task/cancel', { body: selectionOf(words[0]) }),
    },
    budget: {
      form: '<id> <usdc>',
      run: (client, { words: [id = '', usdc = ''] }) =>
        client.write('PATCH', `/api/task/${encodeURIComponent(id)}/budget`, {
          body: { budget_usdc: parseAmountOption(usdc, 'the budget') },
        }),
    },
    show: {
      form: '[<id>]',
      run: (client, { words: [id] }) =>
        client.request('GET', `/api/task/${id === undefined ? 'active' : encodeURIComponent(id)}`),
    },
    passes: {
      form: '',
      run: async (client) => {
        const { passes } = (await client.request('GET', '/api/task/passes/catalog')) as {
          passes: Record<string, unknown>[]
        }
        const columns = [
          'pass',
          'price_usdc',
          'calls',
          'price_per_call_usdc',
          'expires_after_seconds',
        ]
        return { rows: passes, columns }
      },
    },
    buy: {
      form: '<micro|hour|day>',
      run: (client, { words: [pass = ''] }) =>
        client.write('POST', '/api/task/passes/buy', { body: { pass } }),
    },
    ls: {
      form: '[--limit N]',
      run: async (client, given) => ({
        rows: await fetchStationListPages(client, '/api/tasks', 'tasks', given),
        columns: ['task_id', 'name', 'state', 'budget_usdc', 'spent_usdc', 'remaining_usdc'],
      }),
    },
  },
})

const selectionOf = (id: string | undefined) => (id === undefined ? {} : { task_id: id })

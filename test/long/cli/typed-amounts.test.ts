import t from 'tap'
import { runCli, type CliRun } from '../../support/station/run-cli.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/** Amounts on the command line. */

const main = await startInProcessTestStation(t)
const home = t.testdir()
const parsed = ({ stdout }: CliRun) => JSON.parse(stdout) as Record<string, unknown>

t.test('amounts are typed with a point or a comma, and nothing else is one', async (t) => {
  const her = await main.onboard()
  const gas = (args: readonly string[]) =>
    runCli(args, { GAS_URL: main.url, GAS_API_KEY: her.key, HOME: home })
  const started = await gas(['task', 'start', 'comma', '--budget', '0,02'])
  t.match(parsed(started), { budget_usdc: 0.02 })
  const id = String(parsed(started)['task_id'])
  for (const [args, words] of [
    [['task', 'start', 'x', '--budget', '1,000'], /--budget: 1,000 can mean 1 or 1000: type/],
    [['task', 'budget', id, '0x10'], /the budget: 0x10 is no amount/],
    [['task', 'budget', id, '1e-1'], /the budget: 1e-1 is no amount/],
    [['keys', 'create', '--cap', '1 000'], /--cap: 1 000 has a space/],
    [['keys', 'create', '--cap-per-day', '€1'], /--cap-per-day: €1 has a currency sign/],
    [['keys', 'create', '--cap-per-month', ''], /--cap-per-month: it is empty/],
    [['keys', 'create', '--expires', '1e3'], /--expires must be a whole number/],
    [['tools', 'import', '--openapi', 'http://x.example', '--price', '.5'], /--price: .5 is no/],
    [['mcp', 'install', 'cursor', '--per-day', 'Infinity'], /--per-day: Infinity is no amount/],
    [
      ['bounty', 'post', 'x', '--domain', 'd', '--description', 'd', '--reward', '1.000'],
      /1.000 can/,
    ],
    [['call', 'hive_trending', 'max_usdc=1.000'], /max_usdc: 1.000 can mean 1 or 1000/],
    [['call', 'hive_trending', 'limit=1e400'], /limit is no number that JSON can hold/],
    [['call', 'hive_trending', '--json', '{"limit":1e400}'], /limit is no number that JSON can/],
  ] as const) {
    const ran = await gas(args)
    t.match(ran, { code: 2, stderr: words }, args.join(' '))
  }
  t.match(parsed(await gas(['task', 'show', id])), { budget_usdc: 0.02 })
  t.match((await main.ask('GET', '/api/keys', { key: her.key })).body, { count: 1 })
})

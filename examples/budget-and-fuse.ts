import { BudgetExceeded, FuseTripped, GasStation } from '@gas-station/sdk'

/** Bounds what a program may spend, by a task and by a Backpack: the station refuses the rest. */

const url = process.env['GAS_URL'] ?? 'http://127.0.0.1:8402'
const { gas, agent } = await GasStation.onboard(
  { url },
  {
    name: 'bounded',
    // A key for the program alone: the owner keeps api_key, which can change the limits.
    agent_key: { tools: ['hive_trending', 'hive_read'], fuse: { per_day_usdc: 0.012 } },
  },
)

// A budget for one piece of work.
const { spent } = await gas.task('research', 0.01, async (task) => {
  for (let call = 1; ; call += 1)
    try {
      await task.call('hive_trending', {})
      console.log(`call ${call} was within the budget`)
    } catch (error) {
      if (!(error instanceof BudgetExceeded)) throw error
      console.log(`call ${call} was refused: ${error.code}`)
      return
    }
})
console.log(
  `the task spent ${spent.spent_usdc} of ${spent.budget_usdc} USDC in ${spent.calls} calls`,
)

// A key that cannot spend more than its Backpack allows, whatever its program does.
const program = new GasStation({ url, apiKey: agent.agent_key })
for (let call = 1; call <= 3; call += 1)
  try {
    await program.tools.hive_trending({})
    console.log(`the program made call ${call}`)
  } catch (error) {
    if (!(error instanceof FuseTripped)) throw error
    console.log(`its fuse tripped at call ${call}: ${error.problem['limit_source'] as string}`)
  }

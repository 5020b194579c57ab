import { GasStation, GasStationError } from '@gas-station/sdk'

/** Registers an agent and makes its first paid call: `node --import tsx examples/first-call.ts`. */

const url = process.env['GAS_URL'] ?? 'http://127.0.0.1:8402'

const { gas, agent } = await GasStation.onboard({ url }, { name: 'first-call' })
console.log(`agent ${agent.agent_id} with ${agent.starter_credits_usdc} USDC to begin with`)

// What a call costs is known before it is made.
const quote = await gas.quote('hive_trending', { limit: 3 })
console.log(`hive_trending costs ${quote.price_usdc} USDC, by ${quote.rail}`)

try {
  const trending = await gas.tools.hive_trending({ limit: 3 })
  const { cost_usdc: cost, balance_usdc: left, receipt } = trending._meta
  console.log(`paid ${cost} USDC, ${left} left, receipt ${receipt.slice(0, 12)}…`)
} catch (error) {
  // Every refusal has a code to act on.
  if (!(error instanceof GasStationError)) throw error
  console.error(`${error.code}: ${error.message}`)
  process.exitCode = 1
}

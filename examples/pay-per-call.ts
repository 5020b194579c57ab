import { GasStation, PaymentNotMade } from '@gas-station/sdk'
import { privateKeyToAccount } from 'viem/accounts'

/** Pays for each call in USDC on Base, without an account: PRIVATE_KEY holds the wallet. */

const url = process.env['GAS_URL'] ?? 'http://127.0.0.1:8402'
const privateKey = process.env['PRIVATE_KEY']
if (privateKey === undefined) throw new Error('PRIVATE_KEY is the key of a wallet with some USDC')

const gas = new GasStation({
  url,
  payment: {
    x402: privateKeyToAccount(privateKey as `0x${string}`),
    // Both caps are required: the hook signs nothing beyond them.
    maxPerCallUsdc: 0.01,
    maxPerDayUsdc: 0.1,
  },
})

const trending = await gas.tools.hive_trending({ limit: 3 })
console.log(`paid ${trending._meta.cost_usdc} USDC by ${trending._meta.rail}`)

try {
  await gas.tools.agent_see({ url: 'https://example.com' })
} catch (error) {
  if (!(error instanceof PaymentNotMade)) throw error
  console.log(`not paid: ${error.message}`)
}

import Type from 'typebox'
import { invalid } from '../core/errors.ts'
import { fromUsdc, ZERO } from '../core/money.ts'
import type { ChainView, Hex, Simulation } from './chain/port.ts'
import {
  Address,
  ChainField,
  modeOf,
  Network,
  NullableNumber,
  NullableText,
  spelled,
  whole,
} from './chain/shapes.ts'
import { onChains } from './availability.ts'
import { defineTool } from './define.ts'
import { usdOf } from './prices/usd.ts'

const NOBODY: Hex = '0x0000000000000000000000000000000000000000'
const MOST_CALLDATA = 131_072
const LARGEST_VALUE = 2n ** 256n
const ETHER = 18

/** What it would cost in dollars; null without a price, or where a part of the fee is not known. */
function costOf({ gas, gasPrice, l1Fee }: Simulation, usd: number | null): number | null {
  if (gas === null || l1Fee === null || usd === null) return null
  const cost = whole(gas * gasPrice + l1Fee, ETHER) * usd
  return Math.round(cost * 1e6) / 1e6
}

const present = (chain: string, about: ChainView, ran: Simulation, usd: number | null) => ({
  success: ran.success,
  gas_estimate: ran.gas === null ? null : Number(ran.gas),
  gas_cost_usdc: costOf(ran, usd),
  revert_reason: ran.revertReason,
  simulation_result: {
    method: ran.method,
    return_data: ran.returnData,
    logs:
      ran.logs?.map(({ address, topics, data }) => ({ address, topics: [...topics], data })) ??
      null,
    block_number: Number(ran.block),
    gas_price_wei: String(ran.gasPrice),
    l1_fee_wei: ran.l1Fee === null ? null : String(ran.l1Fee),
    [about.native === 'ETH' ? 'eth_usd' : 'pol_usd']: usd,
  },
  chain,
  chain_id: about.chainId,
  network: about.network,
})

export default defineTool({
  slug: 'tx_simulate',
  name: 'Transaction Simulator',
  category: 'onchain',
  description:
    'Runs a transaction on the latest block without sending it: whether it succeeds, its gas, what that costs and why it reverts.',
  tags: ['evm', 'simulation', 'gas', 'base', 'ethereum'],
  useCases: [
    'Test a swap before signing it',
    'Find out why a call reverts',
    'Estimate gas in USDC',
  ],
  examples: [
    { chain: 'base', to: '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913', calldata: '0x313ce567' },
  ],
  access: 'free',
  price: ZERO,
  free: { perDay: 10, overage: fromUsdc(0.005) },
  effect: 'none',
  timeoutMs: 12_000,
  input: Type.Object(
    {
      chain: ChainField,
      to: Address,
      calldata: Type.Optional(
        Type.String({ pattern: '^0x([0-9a-fA-F]{2})*$', maxLength: MOST_CALLDATA, default: '0x' }),
      ),
      value_wei: Type.Optional(
        Type.String({ pattern: '^[0-9]{1,78}$', default: '0', description: 'Decimal digits.' }),
      ),
      from: Type.Optional(Address),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    success: Type.Boolean(),
    gas_estimate: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]),
    gas_cost_usdc: NullableNumber,
    revert_reason: NullableText,
    simulation_result: Type.Object({}, { additionalProperties: true }),
    chain: Type.String(),
    chain_id: Type.Integer(),
    network: Network,
  }),
  availability: onChains,
  preflight({ value_wei = '0', to, from = NOBODY }, { chain }) {
    spelled(chain, to, '/to')
    spelled(chain, from, '/from')
    if (BigInt(value_wei) >= LARGEST_VALUE) throw invalid('/value_wei', 'must be below 2^256')
  },
  async run(input, { chain, prices, signal, meter }) {
    const { chain: name, to, calldata = '0x', value_wei = '0', from = NOBODY } = input
    const about = chain.about(name)
    const call = {
      to: spelled(chain, to, '/to'),
      data: calldata as Hex,
      value: BigInt(value_wei),
      from: spelled(chain, from, '/from'),
    }
    const [ran, usd] = await Promise.all([
      chain.simulate(name, call),
      usdOf(prices, [about.native], signal),
    ])
    meter.served(`rpc:${name}`, modeOf(chain, name))
    return present(name, about, ran, usd(about.native))
  },
})

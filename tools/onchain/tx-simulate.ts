import Type from 'typebox'
import { invalidInputError } from '../../core/errors.ts'
import { fromUsdc, ZERO_MICROS } from '../../core/money.ts'
import type {
  ReadableChainInfo,
  EvmHex,
  EvmCallSimulationResult,
} from '../../providers/chain-data/chain-data-port.ts'
import {
  EvmAddressField,
  ChainNameField,
  liveOrFixtureModeOfChain,
  NetworkKindField,
  NullableNumber,
  NullableText,
  toValidChecksumAddress,
  atomicUnitsToNumber,
} from '../../providers/chain-data/chain-tool-schemas.ts'
import { chainReadToolAvailability } from '../tool-availability.ts'
import { defineTool } from '../define-tool.ts'
import { fetchCoinUsdPrices } from '../../providers/prices/usd-prices.ts'

/** The tool `tx-simulate`: simulates a transaction and estimates its gas. */

const DEFAULT_SENDER: EvmHex = '0x0000000000000000000000000000000000000000'
const MAX_CALLDATA_CHARS = 131_072
const VALUE_WEI_LIMIT = 2n ** 256n
const ETHER_DECIMALS = 18

/** Returns the cost in USD; null without a price, or where part of the fee is unknown. */
function gasCostUsd(
  { gas, gasPrice, l1Fee }: EvmCallSimulationResult,
  usd: number | null,
): number | null {
  if (gas === null || l1Fee === null || usd === null) return null
  const cost = atomicUnitsToNumber(gas * gasPrice + l1Fee, ETHER_DECIMALS) * usd
  return Math.round(cost * 1e6) / 1e6
}

const toOutput = (
  chain: string,
  about: ReadableChainInfo,
  ran: EvmCallSimulationResult,
  usd: number | null,
) => ({
  success: ran.success,
  gas_estimate: ran.gas === null ? null : Number(ran.gas),
  gas_cost_usdc: gasCostUsd(ran, usd),
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
    'Runs a transaction on the latest block without sending it: whether it succeeds, its gas, the cost of the gas and the reason of a revert.',
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
  price: ZERO_MICROS,
  free: { perDay: 10, overage: fromUsdc(0.005) },
  effect: 'none',
  timeoutMs: 12_000,
  input: Type.Object(
    {
      chain: ChainNameField,
      to: EvmAddressField,
      calldata: Type.Optional(
        Type.String({
          pattern: '^0x([0-9a-fA-F]{2})*$',
          maxLength: MAX_CALLDATA_CHARS,
          default: '0x',
        }),
      ),
      value_wei: Type.Optional(
        Type.String({ pattern: '^[0-9]{1,78}$', default: '0', description: 'Decimal digits.' }),
      ),
      from: Type.Optional(EvmAddressField),
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
    network: NetworkKindField,
  }),
  availability: chainReadToolAvailability,
  preflight({ value_wei = '0', to, from = DEFAULT_SENDER }, { chain }) {
    toValidChecksumAddress(chain, to, '/to')
    toValidChecksumAddress(chain, from, '/from')
    if (BigInt(value_wei) >= VALUE_WEI_LIMIT)
      throw invalidInputError('/value_wei', 'must be below 2^256')
  },
  async run(input, { chain, prices, signal, meter }) {
    const { chain: name, to, calldata = '0x', value_wei = '0', from = DEFAULT_SENDER } = input
    const about = chain.about(name)
    const call = {
      to: toValidChecksumAddress(chain, to, '/to'),
      data: calldata as EvmHex,
      value: BigInt(value_wei),
      from: toValidChecksumAddress(chain, from, '/from'),
    }
    const [ran, usd] = await Promise.all([
      chain.simulate(name, call),
      fetchCoinUsdPrices(prices, [about.native], signal),
    ])
    meter.served(`rpc:${name}`, liveOrFixtureModeOfChain(chain, name))
    return toOutput(name, about, ran, usd(about.native))
  },
})

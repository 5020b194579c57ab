import { decodeFunctionResult, encodeFunctionData, parseAbi } from 'viem'
import { type Call, ethCall, type EvmClient } from './evm.ts'
import type { Hex } from './payment.ts'

/** Multicall3, at one address on every chain. */
export const MULTICALL3 = '0xca11bde05977b3631167028862be2a173976ca11'

const abi = parseAbi([
  'function aggregate3((address target, bool allowFailure, bytes callData)[] calls) returns ((bool success, bytes returnData)[])',
  'function getBlockNumber() view returns (uint256)',
])

/**
 * Reads at one block, whose number comes with the results: separate requests may be answered by
 * nodes, or at moments, of different blocks. Throws when a read reverts.
 */
export async function readAtOnce(
  client: EvmClient,
  reads: readonly Call[],
  block: bigint | 'latest' = 'latest',
): Promise<{ block: bigint; results: Hex[] }> {
  const number: Call = {
    to: MULTICALL3,
    data: encodeFunctionData({ abi, functionName: 'getBlockNumber' }),
  }
  const calls = [number, ...reads].map(({ to, data }) => ({
    target: to as Hex,
    allowFailure: false,
    callData: data,
  }))
  const data = encodeFunctionData({ abi, functionName: 'aggregate3', args: [calls] })
  const answer = await ethCall(client, { to: MULTICALL3, data }, block)
  const [first, ...rest] = decodeFunctionResult({ abi, functionName: 'aggregate3', data: answer })
  return { block: BigInt(first?.returnData ?? 0), results: rest.map((one) => one.returnData) }
}

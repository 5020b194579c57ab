import { hexToBigInt, numberToHex, parseAbi, serializeTransaction, type Hex } from 'viem'
import { findRpcError } from './evm-client.ts'
import type { EvmReadChain, EvmReadClient } from './evm-read-client.ts'
import { decodeRevertReason, fundsRejectionReason, evmCallHaltReason } from './revert-reasons.ts'

/** Simulates calls and estimates their cost. */

export interface EvmSimulationCall {
  readonly to: Hex
  readonly data: Hex
  readonly value: bigint
  readonly from: Hex
}

interface SimulationResult {
  readonly success: boolean
  readonly method: 'eth_simulateV1' | 'eth_call'
  readonly revertReason: string | null
  readonly returnData: Hex | null
  readonly logs: readonly { address: Hex; topics: readonly Hex[]; data: Hex }[] | null
  readonly gasUsed: bigint | null
}

/** Runs a call on the latest block without sending it, and estimates its cost. */
export async function simulateEvmCall(
  client: EvmReadClient,
  chain: EvmReadChain,
  call: EvmSimulationCall,
) {
  const [ran, estimate, block, tip, l1Fee] = await Promise.all([
    run(client, call),
    estimateGasOrNull(client, call),
    client.getBlock({ blockTag: 'latest', includeTransactions: false }),
    tipOf(client),
    chain.opStack ? l1FeeOf(client, chain, call) : 0n,
  ])
  const { gasUsed, ...rest } = ran
  return {
    ...rest,
    gas: estimate ?? gasUsed,
    block: block.number,
    gasPrice: (block.baseFeePerGas ?? 0n) + tip,
    l1Fee,
  }
}

/** By `eth_simulateV1` if the node supports it, else by `eth_call`. */
async function run(client: EvmReadClient, call: EvmSimulationCall): Promise<SimulationResult> {
  try {
    return await runSimulateV1(client, call)
  } catch (error) {
    const refused = fundsRejectionReason(error) ?? evmCallHaltReason(error)
    if (refused !== null) return failedRun('eth_simulateV1', refused, null)
    if (findRpcError(error) === null) throw error
    return runEthCall(client, call)
  }
}

interface SimulatedBlock {
  readonly calls: readonly {
    readonly status: Hex
    readonly gasUsed: Hex
    readonly returnData: Hex
    readonly logs?: readonly { address: Hex; topics: readonly Hex[]; data: Hex }[]
    readonly error?: { readonly message?: string; readonly data?: string }
  }[]
}

async function runSimulateV1(
  client: EvmReadClient,
  call: EvmSimulationCall,
): Promise<SimulationResult> {
  const given = { blockStateCalls: [{ calls: [toRpcCall(call)] }], validation: false }
  const blocks = (await client.request({
    method: 'eth_simulateV1',
    params: [given, 'latest'],
  } as never)) as readonly SimulatedBlock[]
  const [done] = blocks[0]?.calls ?? []
  if (done === undefined) return runEthCall(client, call)
  const gasUsed = hexToBigInt(done.gasUsed)
  if (hexToBigInt(done.status) === 0n) {
    const reason = decodeRevertReason(done.error?.data ?? done.returnData) ?? done.error?.message
    return failedRun('eth_simulateV1', reason ?? 'execution reverted', gasUsed)
  }
  const logs = (done.logs ?? []).map(({ address, topics, data }) => ({ address, topics, data }))
  const { returnData } = done
  return {
    success: true,
    method: 'eth_simulateV1',
    revertReason: null,
    returnData,
    logs,
    gasUsed,
  }
}

async function runEthCall(
  client: EvmReadClient,
  call: EvmSimulationCall,
): Promise<SimulationResult> {
  try {
    const params = [toRpcCall(call), 'latest']
    const returnData = (await client.request({ method: 'eth_call', params } as never)) as Hex
    const none = { revertReason: null, logs: null, gasUsed: null }
    return { success: true, method: 'eth_call', returnData, ...none }
  } catch (error) {
    const reason = evmCallHaltReason(error) ?? fundsRejectionReason(error)
    if (reason === null) throw error
    return failedRun('eth_call', reason, null)
  }
}

const failedRun = (
  method: SimulationResult['method'],
  reason: string,
  gasUsed: bigint | null,
): SimulationResult => ({
  success: false,
  method,
  revertReason: reason,
  returnData: null,
  logs: null,
  gasUsed,
})

/** Null for a call that fails. */
async function estimateGasOrNull(
  client: EvmReadClient,
  call: EvmSimulationCall,
): Promise<bigint | null> {
  try {
    const params = [toRpcCall(call)]
    return hexToBigInt(
      (await client.request({ method: 'eth_estimateGas', params } as never)) as Hex,
    )
  } catch (error) {
    if (findRpcError(error) === null) throw error
    return null
  }
}

async function tipOf(client: EvmReadClient): Promise<bigint> {
  try {
    return hexToBigInt(await client.request({ method: 'eth_maxPriorityFeePerGas' }))
  } catch (error) {
    if (findRpcError(error) === null) throw error
    return 0n
  }
}

const ORACLE = '0x420000000000000000000000000000000000000F'
const ORACLE_ABI = parseAbi(['function getL1Fee(bytes data) view returns (uint256)'])
/** The oracle takes an unsigned transaction and adds the signature's cost itself. */
const FEES = { maxFeePerGas: 1_000_000_000n, maxPriorityFeePerGas: 1_000_000n, gas: 100_000n }

/** Zero without a deployed oracle (a local chain), null if it does not answer. */
async function l1FeeOf(
  client: EvmReadClient,
  { chainId }: EvmReadChain,
  { to, data, value }: EvmSimulationCall,
): Promise<bigint | null> {
  const raw = serializeTransaction({ type: 'eip1559', chainId, to, data, value, nonce: 1, ...FEES })
  try {
    return await client.readContract({
      address: ORACLE,
      abi: ORACLE_ABI,
      functionName: 'getL1Fee',
      args: [raw],
    })
  } catch {
    const code = await client.getCode({ address: ORACLE }).catch(() => '0x01')
    return code === undefined ? 0n : null
  }
}

const toRpcCall = ({ from, to, data, value }: EvmSimulationCall) => ({
  from,
  to,
  data,
  value: numberToHex(value),
})

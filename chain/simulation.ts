import { hexToBigInt, numberToHex, parseAbi, serializeTransaction, type Hex } from 'viem'
import { answerOf } from './evm.ts'
import type { ReadChain, ReadClient } from './read-client.ts'
import { reasonIn, whyRefused, whyStopped } from './reasons.ts'

export interface SimulationCall {
  readonly to: Hex
  readonly data: Hex
  readonly value: bigint
  readonly from: Hex
}

interface Ran {
  readonly success: boolean
  readonly method: 'eth_simulateV1' | 'eth_call'
  readonly revertReason: string | null
  readonly returnData: Hex | null
  readonly logs: readonly { address: Hex; topics: readonly Hex[]; data: Hex }[] | null
  readonly gasUsed: bigint | null
}

/** Runs a call on the latest block without sending it, and reads what it would cost there. */
export async function simulate(client: ReadClient, chain: ReadChain, call: SimulationCall) {
  const [ran, estimate, block, tip, l1Fee] = await Promise.all([
    run(client, call),
    estimated(client, call),
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

/** By `eth_simulateV1` where the node has it, else by `eth_call`. */
async function run(client: ReadClient, call: SimulationCall): Promise<Ran> {
  try {
    return await simulated(client, call)
  } catch (error) {
    const refused = whyRefused(error) ?? whyStopped(error)
    if (refused !== null) return failedRun('eth_simulateV1', refused, null)
    if (answerOf(error) === null) throw error
    return called(client, call)
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

async function simulated(client: ReadClient, call: SimulationCall): Promise<Ran> {
  const given = { blockStateCalls: [{ calls: [wire(call)] }], validation: false }
  const blocks = (await client.request({
    method: 'eth_simulateV1',
    params: [given, 'latest'],
  } as never)) as readonly SimulatedBlock[]
  const [done] = blocks[0]?.calls ?? []
  if (done === undefined) return called(client, call)
  const gasUsed = hexToBigInt(done.gasUsed)
  if (hexToBigInt(done.status) === 0n) {
    const reason = reasonIn(done.error?.data ?? done.returnData) ?? done.error?.message
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

async function called(client: ReadClient, call: SimulationCall): Promise<Ran> {
  try {
    const params = [wire(call), 'latest']
    const returnData = (await client.request({ method: 'eth_call', params } as never)) as Hex
    const none = { revertReason: null, logs: null, gasUsed: null }
    return { success: true, method: 'eth_call', returnData, ...none }
  } catch (error) {
    const reason = whyStopped(error) ?? whyRefused(error)
    if (reason === null) throw error
    return failedRun('eth_call', reason, null)
  }
}

const failedRun = (method: Ran['method'], reason: string, gasUsed: bigint | null): Ran => ({
  success: false,
  method,
  revertReason: reason,
  returnData: null,
  logs: null,
  gasUsed,
})

/** Null for a call that does not run to its end. */
async function estimated(client: ReadClient, call: SimulationCall): Promise<bigint | null> {
  try {
    const params = [wire(call)]
    return hexToBigInt(
      (await client.request({ method: 'eth_estimateGas', params } as never)) as Hex,
    )
  } catch (error) {
    if (answerOf(error) === null) throw error
    return null
  }
}

async function tipOf(client: ReadClient): Promise<bigint> {
  try {
    return hexToBigInt(await client.request({ method: 'eth_maxPriorityFeePerGas' }))
  } catch (error) {
    if (answerOf(error) === null) throw error
    return 0n
  }
}

const ORACLE = '0x420000000000000000000000000000000000000F'
const ORACLE_ABI = parseAbi(['function getL1Fee(bytes data) view returns (uint256)'])
/** The oracle counts a signature in by itself; what it is given is the unsigned transaction. */
const FEES = { maxFeePerGas: 1_000_000_000n, maxPriorityFeePerGas: 1_000_000n, gas: 100_000n }

/** Zero where the oracle is not deployed (a local chain), null when it does not say. */
async function l1FeeOf(
  client: ReadClient,
  { chainId }: ReadChain,
  { to, data, value }: SimulationCall,
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

const wire = ({ from, to, data, value }: SimulationCall) => ({
  from,
  to,
  data,
  value: numberToHex(value),
})

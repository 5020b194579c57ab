import { decodeFunctionData, parseAbi } from 'viem'
import { ethCall, ethCallWithFees, revertReasonFromError } from './evm-client.ts'
import type { EvmCall, EvmClient, Eip1559Fees } from './evm-client.ts'
import type { HexString } from '../onchain-payment-types.ts'
import {
  encodeCallData,
  encodeUintWord,
  encodeHexStringAsAbiWord,
  encodeBytesWords,
} from './abi-words.ts'

/** Multicall3, at one address on nearly every chain, with viem's definitions. */
export const MULTICALL3_ADDRESS = '0xca11bde05977b3631167028862be2a173976ca11'

const abi = parseAbi([
  'function aggregate3((address target, bool allowFailure, bytes callData)[] calls) returns ((bool success, bytes returnData)[])',
])
const AGGREGATE3 = '0x82ad56cb'
const GET_BLOCK_NUMBER = '0x42cbb15c'
const WORD_BYTES = 32

/** One call of a batch; with `may` it may fail alone. */
export interface MulticallEntry extends Pick<EvmCall, 'to' | 'data'> {
  readonly fails: 'may' | 'never'
}

export interface MulticallResult {
  readonly success: boolean
  readonly data: HexString
}

/** Encodes several calls as one, in order; contracts see Multicall3 as the sender. */
export function encodeMulticall(
  members: readonly MulticallEntry[],
): EvmCall & { readonly data: HexString } {
  const parts = members.map(
    ({ to, data, fails }) =>
      encodeHexStringAsAbiWord(to) +
      encodeUintWord(fails === 'may' ? 1 : 0) +
      encodeUintWord(3 * WORD_BYTES) +
      encodeBytesWords(data),
  )
  let at = members.length * WORD_BYTES
  const offsets = parts.map((part) => {
    const offset = encodeUintWord(at)
    at += part.length / 2
    return offset
  })
  const head = [encodeUintWord(WORD_BYTES), encodeUintWord(members.length)]
  return { to: MULTICALL3_ADDRESS, data: encodeCallData(AGGREGATE3, ...head, ...offsets, ...parts) }
}

/** The result of each call; null if the reply is not Multicall3's. */
export function decodeMulticallResults(answer: HexString, count: number): MulticallResult[] | null {
  const digits = answer.slice(2)
  const number = (byte: number) => Number(`0x${digits.slice(2 * byte, 2 * (byte + WORD_BYTES))}`)
  if (number(0) !== WORD_BYTES || number(WORD_BYTES) !== count) return null
  const list = 2 * WORD_BYTES
  return Array.from({ length: count }, (_, at) => {
    const member = list + number(list + at * WORD_BYTES)
    const bytes = member + number(member + WORD_BYTES)
    const data = 2 * (bytes + WORD_BYTES)
    return {
      success: number(member) === 1,
      data: `0x${digits.slice(data, data + 2 * number(bytes))}`,
    }
  })
}

/** The calls of a batch transaction; null for any other transaction. */
export function decodeMulticallCalls({ to, data }: EvmCall): EvmCall[] | null {
  if (to.toLowerCase() !== MULTICALL3_ADDRESS || !data.startsWith(AGGREGATE3)) return null
  const [members] = decodeFunctionData({ abi, data }).args
  return members.map((one) => ({ to: one.target.toLowerCase(), data: one.callData }))
}

/** Reads the number of the block that a batch runs on. */
export const MULTICALL_BLOCK_NUMBER_ENTRY: MulticallEntry = {
  to: MULTICALL3_ADDRESS,
  data: GET_BLOCK_NUMBER,
  fails: 'never',
}

/**
 * Reads at one block, whose number is part of the result: separate requests may be answered by
 * different nodes or at different blocks. Throws if a read reverts.
 */
export async function readMulticallAtBlock(
  client: EvmClient,
  reads: readonly EvmCall[],
  block: bigint | 'latest' = 'latest',
): Promise<{ block: bigint; results: HexString[] }> {
  const members = [
    MULTICALL_BLOCK_NUMBER_ENTRY,
    ...reads.map((read) => ({ ...read, fails: 'never' as const })),
  ]
  const answer = await ethCall(client, encodeMulticall(members), block)
  const [number, ...rest] = decodeMulticallResults(answer, members.length) ?? []
  if (number === undefined) throw new Error(`there is no Multicall3 on ${client.chain.name}`)
  return { block: BigInt(number.data), results: rest.map(({ data }) => data) }
}

/**
 * Simulates calls in one transaction with a gas limit and fees; returns which of them succeed. Null
 * if they cannot run this way at all; throws if the node did not run them.
 */
export async function simulateMulticallBatch(
  client: EvmClient,
  calls: readonly EvmCall[],
  bounds: { readonly from: string; readonly gas: bigint; readonly fees: Eip1559Fees },
): Promise<boolean[] | null> {
  const call = encodeMulticall(calls.map(({ to, data }) => ({ to, data, fails: 'may' })))
  try {
    const answer = await ethCallWithFees(client, { ...call, ...bounds })
    return decodeMulticallResults(answer, calls.length)?.map(({ success }) => success) ?? null
  } catch (error) {
    if (revertReasonFromError(error) === null) throw error
    return null
  }
}

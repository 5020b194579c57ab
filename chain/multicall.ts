import { decodeFunctionData, parseAbi } from 'viem'
import { ethCall, ethCallPriced, revertReason } from './evm.ts'
import type { Call, EvmClient, Fees } from './evm.ts'
import type { Hex } from './payment.ts'
import { callData, wordOf, wordOfHex, wordsOfBytes } from './words.ts'

/** Multicall3, at one address on nearly every chain, by viem's definitions of them. */
export const MULTICALL3 = '0xca11bde05977b3631167028862be2a173976ca11'

const abi = parseAbi([
  'function aggregate3((address target, bool allowFailure, bytes callData)[] calls) returns ((bool success, bytes returnData)[])',
])
const AGGREGATE3 = '0x82ad56cb'
const GET_BLOCK_NUMBER = '0x42cbb15c'
const WORD_BYTES = 32

/** One call among several; `may` fail, or fails all of them. */
export interface Member extends Pick<Call, 'to' | 'data'> {
  readonly fails: 'may' | 'never'
}

export interface Outcome {
  readonly success: boolean
  readonly data: Hex
}

/** Several calls in one, in their order; a contract sees Multicall3 as their sender. */
export function together(members: readonly Member[]): Call & { readonly data: Hex } {
  const parts = members.map(
    ({ to, data, fails }) =>
      wordOfHex(to) + wordOf(fails === 'may' ? 1 : 0) + wordOf(3 * WORD_BYTES) + wordsOfBytes(data),
  )
  let at = members.length * WORD_BYTES
  const offsets = parts.map((part) => {
    const offset = wordOf(at)
    at += part.length / 2
    return offset
  })
  const head = [wordOf(WORD_BYTES), wordOf(members.length)]
  return { to: MULTICALL3, data: callData(AGGREGATE3, ...head, ...offsets, ...parts) }
}

/** What became of each call; null when the answer is none of Multicall3. */
export function outcomesOf(answer: Hex, count: number): Outcome[] | null {
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

/** The calls of a transaction that carries several; null for any other one. */
export function membersOf({ to, data }: Call): Call[] | null {
  if (to.toLowerCase() !== MULTICALL3 || !data.startsWith(AGGREGATE3)) return null
  const [members] = decodeFunctionData({ abi, data }).args
  return members.map((one) => ({ to: one.target.toLowerCase(), data: one.callData }))
}

/** The number of the block that calls beside it are run on. */
export const BLOCK_NUMBER: Member = { to: MULTICALL3, data: GET_BLOCK_NUMBER, fails: 'never' }

/**
 * Reads at one block, whose number comes with the results: separate requests may be answered by
 * nodes, or at moments, of different blocks. Throws when a read reverts.
 */
export async function readAtOnce(
  client: EvmClient,
  reads: readonly Call[],
  block: bigint | 'latest' = 'latest',
): Promise<{ block: bigint; results: Hex[] }> {
  const members = [BLOCK_NUMBER, ...reads.map((read) => ({ ...read, fails: 'never' as const }))]
  const answer = await ethCall(client, together(members), block)
  const [number, ...rest] = outcomesOf(answer, members.length) ?? []
  if (number === undefined) throw new Error(`there is no Multicall3 on ${client.chain.name}`)
  return { block: BigInt(number.data), results: rest.map(({ data }) => data) }
}

/**
 * Runs calls one after the other within so much gas, and at such fees, as one transaction would: which
 * of them would succeed. Null when they cannot be run so at all; throws when the node did not run them.
 */
export async function triedTogether(
  client: EvmClient,
  calls: readonly Call[],
  bounds: { readonly from: string; readonly gas: bigint; readonly fees: Fees },
): Promise<boolean[] | null> {
  const call = together(calls.map(({ to, data }) => ({ to, data, fails: 'may' })))
  try {
    const answer = await ethCallPriced(client, { ...call, ...bounds })
    return outcomesOf(answer, calls.length)?.map(({ success }) => success) ?? null
  } catch (error) {
    if (revertReason(error) === null) throw error
    return null
  }
}

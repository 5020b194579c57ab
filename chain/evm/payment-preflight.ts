import { createBatchLoader } from '../../core/concurrency/batch-loader.ts'
import {
  type EvmCall,
  hasContractCode,
  ethCall,
  type EvmClient,
  simulateCallForRevertReason,
  revertReasonFromError,
} from './evm-client.ts'
import {
  MULTICALL_BLOCK_NUMBER_ENTRY,
  decodeMulticallResults,
  readMulticallAtBlock,
  encodeMulticall,
  type MulticallEntry,
} from './multicall.ts'
import type { HexString } from '../onchain-payment-types.ts'
import { readCurrentEip1559Fees, MAX_TRANSACTION_GAS } from './settler-evm-transactions.ts'

/** The chain checks before a payment is accepted. */
export interface PaymentPreflightQuery {
  /** The payer. */
  readonly from: string
  /** None of them may revert. */
  readonly reads: readonly EvmCall[]
  /** The settlement itself, which is simulated. */
  readonly settlement: EvmCall
}

export interface PaymentPreflightResult {
  /** The block of the reads. */
  readonly block: bigint
  /** The payer is a contract, or delegates to one (EIP-7702). */
  readonly hasCode: boolean
  readonly results: readonly HexString[]
  /** Null if the settlement would succeed now, else why it reverts. */
  readonly simulation: string | null
}

export type PaymentPreflight = (question: PaymentPreflightQuery) => Promise<PaymentPreflightResult>

/**
 * Payments per request, and concurrent requests. Both are small: all payments of a request continue
 * in the same turn, and other calls wait for it.
 */
const BATCH_OPTIONS = { most: 8, atOnce: 4 }

/**
 * Checks concurrent payments by one Multicall3 request. Each result is as for the payment alone:
 * reads come first, and a settlement that fails in the batch, perhaps because of another one of its
 * payer, is simulated again alone. A payer with code is always simulated alone, with its sender,
 * gas and fees, which code could use to detect a simulation. Throws if the node is down.
 */
export function createPaymentPreflight(client: EvmClient, settler: string): PaymentPreflight {
  async function answer(
    questions: readonly PaymentPreflightQuery[],
  ): Promise<Promise<PaymentPreflightResult>[]> {
    const codes = Promise.all(questions.map(({ from }) => hasContractCode(client, from)))
    const [hasCode, seen] = await Promise.all([codes, run(questions)])
    return questions.map(async (question, at) => {
      const one = seen?.[at] ?? (await alone(question))
      const coded = hasCode[at] === true
      const simulation = one.succeeds && !coded ? null : await reasonOf(question, coded)
      return { block: one.block, results: one.results, hasCode: coded, simulation }
    })
  }

  /** Null if they cannot run together: a settlement may use up the gas of those after it. */
  async function run(questions: readonly PaymentPreflightQuery[]): Promise<PreflightRun[] | null> {
    const members = [
      MULTICALL_BLOCK_NUMBER_ENTRY,
      ...questions.flatMap(readsOf),
      ...questions.map(settlementOf),
    ]
    const from = settler
    const data = await ethCall(client, { ...encodeMulticall(members), from }).catch(nullIfReverted)
    const outcomes = data === null ? null : decodeMulticallResults(data, members.length)
    if (outcomes === null) return null
    const [number, ...rest] = outcomes
    const settled = rest.splice(rest.length - questions.length)
    return questions.map(({ reads }, at) => ({
      block: BigInt(number?.data ?? 0),
      results: rest.splice(0, reads.length).map((one) => one.data),
      succeeds: settled[at]?.success === true,
    }))
  }

  async function alone({ reads }: PaymentPreflightQuery): Promise<PreflightRun> {
    return { ...(await readMulticallAtBlock(client, reads)), succeeds: false }
  }

  async function reasonOf(
    { settlement }: PaymentPreflightQuery,
    coded: boolean,
  ): Promise<string | null> {
    const price = coded
      ? { gas: MAX_TRANSACTION_GAS, fees: await readCurrentEip1559Fees(client) }
      : {}
    return simulateCallForRevertReason(client, { ...settlement, from: settler, ...price })
  }

  return createBatchLoader(answer, BATCH_OPTIONS)
}

interface PreflightRun {
  readonly block: bigint
  readonly results: readonly HexString[]
  readonly succeeds: boolean
}

const readsOf = ({ reads }: PaymentPreflightQuery): MulticallEntry[] =>
  reads.map((read) => ({ ...read, fails: 'never' }))
const settlementOf = ({ settlement }: PaymentPreflightQuery): MulticallEntry => ({
  ...settlement,
  fails: 'may',
})

function nullIfReverted(error: unknown): null {
  if (revertReasonFromError(error) === null) throw error
  return null
}

import { gather } from '../core/gather.ts'
import { type Call, codeOn, ethCall, type EvmClient, revertOf, revertReason } from './evm.ts'
import { BLOCK_NUMBER, outcomesOf, readAtOnce, together, type Member } from './multicall.ts'
import type { Hex } from './payment.ts'
import { feesNow, MOST_GAS } from './transactions.ts'

/** What is asked of the chain before a payment is taken. */
export interface Question {
  /** Who pays. */
  readonly from: string
  /** None of them may revert. */
  readonly reads: readonly Call[]
  /** The settlement itself, which is run and not sent. */
  readonly settlement: Call
}

export interface Seen {
  /** The block the reads are of. */
  readonly block: bigint
  /** The payer is a contract, or delegates to one (EIP-7702). */
  readonly hasCode: boolean
  readonly results: readonly Hex[]
  /** Null when the settlement would succeed now, else why it reverts. */
  readonly simulation: string | null
}

export type Inspector = (question: Question) => Promise<Seen>

/**
 * So many payments share a request, and so many requests are under way: the others wait. They are
 * few, since all that share one go on in the same turn, and calls that are paid otherwise wait for it.
 */
const TOGETHER = { most: 8, atOnce: 4 }

/**
 * Looks at payments that come at the same time by one call of Multicall3 for all of them. Each
 * answer is what it would be alone: reads come first, and a settlement that fails among others, whose
 * payer may be the same, is run once more by itself. That of a payer with code always is: as it will
 * be signed, with its sender, gas and fees, by which code could tell that it is only being asked.
 * Throws when the chain is down.
 */
export function inspector(client: EvmClient, settler: string): Inspector {
  async function answer(questions: readonly Question[]): Promise<Promise<Seen>[]> {
    const codes = Promise.all(questions.map(({ from }) => codeOn(client, from)))
    const [hasCode, seen] = await Promise.all([codes, run(questions)])
    return questions.map(async (question, at) => {
      const one = seen?.[at] ?? (await alone(question))
      const coded = hasCode[at] === true
      const simulation = one.succeeds && !coded ? null : await reasonOf(question, coded)
      return { block: one.block, results: one.results, hasCode: coded, simulation }
    })
  }

  /** Null when they cannot be run together: a settlement may use up the gas of all behind it. */
  async function run(questions: readonly Question[]): Promise<Run[] | null> {
    const members = [BLOCK_NUMBER, ...questions.flatMap(readsOf), ...questions.map(settlementOf)]
    const from = settler
    const data = await ethCall(client, { ...together(members), from }).catch(nullIfReverted)
    const outcomes = data === null ? null : outcomesOf(data, members.length)
    if (outcomes === null) return null
    const [number, ...rest] = outcomes
    const settled = rest.splice(rest.length - questions.length)
    return questions.map(({ reads }, at) => ({
      block: BigInt(number?.data ?? 0),
      results: rest.splice(0, reads.length).map((one) => one.data),
      succeeds: settled[at]?.success === true,
    }))
  }

  async function alone({ reads }: Question): Promise<Run> {
    return { ...(await readAtOnce(client, reads)), succeeds: false }
  }

  async function reasonOf({ settlement }: Question, coded: boolean): Promise<string | null> {
    const price = coded ? { gas: MOST_GAS, fees: await feesNow(client) } : {}
    return revertOf(client, { ...settlement, from: settler, ...price })
  }

  return gather(answer, TOGETHER)
}

interface Run {
  readonly block: bigint
  readonly results: readonly Hex[]
  readonly succeeds: boolean
}

const readsOf = ({ reads }: Question): Member[] =>
  reads.map((read) => ({ ...read, fails: 'never' }))
const settlementOf = ({ settlement }: Question): Member => ({ ...settlement, fails: 'may' })

function nullIfReverted(error: unknown): null {
  if (revertReason(error) === null) throw error
  return null
}

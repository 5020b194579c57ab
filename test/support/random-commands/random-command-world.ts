import type { SeededRandom } from '../../../chaos/seeded-random.ts'
import type {
  AggregateCommand,
  AggregateCommandOptions,
} from '../../../actors/aggregate-command-types.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { asMicros, fromUsdc, type Micros } from '../../../core/money.ts'
import type { CallAdmissionRequest } from '../../../payments/agent-call-admission-request-types.ts'
import { createFleetCommand, topUpFleetCommand } from '../../../payments/commands/fleet-commands.ts'
import type { PaymentClaimInput } from '../../../payments/commands/payment-claim-commands.ts'
import type { TestActorNode } from '../actors/test-actor-node.ts'
import { creditTestCash } from '../ledger-model/ledger-model-test-commands.ts'

/** What random commands are drawn from: agents, and what earlier commands have left. */

/** A command for one aggregate. */
export interface RandomCommand {
  readonly to: string
  /** The only node that can run it; null for either. */
  readonly node: number | null
  readonly command: AggregateCommand<unknown, unknown>
  readonly input: unknown
  readonly options: AggregateCommandOptions
  readonly done: (result: unknown, node: number) => void
  /** Sent to both nodes at once, under one Idempotency-Key. */
  readonly isTwin: boolean
}

interface RandomCommandOptions<R> {
  readonly node?: number | null
  readonly options?: AggregateCommandOptions
  readonly done?: (result: R, node: number) => void
  readonly isTwin?: boolean
}

export const toRandomCommand = <I, R>(
  to: string,
  command: AggregateCommand<I, R>,
  input: I,
  { node = null, options = {}, done = () => {}, isTwin = false }: RandomCommandOptions<R> = {},
): RandomCommand => ({
  ...{ to, node, input, options, isTwin },
  command: command as unknown as AggregateCommand<unknown, unknown>,
  done: done as RandomCommand['done'],
})

/** A call that was admitted. A hold in memory is known to its node only. */
interface AdmittedRandomCall {
  readonly admission: CallAdmissionRequest
  readonly node: number | null
}

export interface RandomAgent {
  readonly id: string
  readonly keyId: string
  readonly fleetId: string
  /** `unknown` while a change is under way, and after one without an answer. */
  membership: 'outside' | 'member' | 'unknown'
  readonly backpacks: string[]
  readonly tasks: string[]
  readonly schedules: string[]
  readonly calls: AdmittedRandomCall[]
  /** Calls whose credits its fleet has lent, not admitted yet. */
  readonly loans: CallAdmissionRequest[]
}

export interface RandomCommandWorld {
  readonly chance: SeededRandom
  readonly now: () => number
  readonly agents: readonly RandomAgent[]
  readonly bounties: { readonly id: string; readonly posterId: string }[]
  readonly drops: string[]
  readonly freeCalls: { readonly visitor: string; readonly callId: string; readonly node: number }[]
  readonly payments: { readonly claimed: PaymentClaimInput; steps: number }[]
}

/** Draws a command, or null where nothing fits. */
export type DrawRandomCommand = (
  world: RandomCommandWorld,
  agent: RandomAgent,
  other: RandomAgent,
) => RandomCommand | null

const FLEET_SIZE = 6

/** Creates agents with credits, and a fleet for every six of them, which they may join. */
export async function createRandomCommandWorld(
  node: TestActorNode,
  parts: Pick<RandomCommandWorld, 'chance' | 'now'>,
  agentCount: number,
): Promise<RandomCommandWorld> {
  const { now } = parts
  const fleets = await Promise.all(
    Array.from({ length: Math.ceil(agentCount / FLEET_SIZE) }, async (_, at) => {
      const fleetId = newUuidV7(now())
      await node.ask(fleetId, createFleetCommand, { ownerId: fleetId, rows: [] }, { fresh: true })
      const transfers = [{ logIndex: 0, amount: fromUsdc(5) }]
      await node.ask(fleetId, topUpFleetCommand, {
        tx: `fleet ${at}`,
        transfers,
        bonusLeft: fromUsdc(1),
      })
      return fleetId
    }),
  )
  const agents = await Promise.all(
    Array.from({ length: agentCount }, async (_, at): Promise<RandomAgent> => {
      const id = await node.born(2)
      await node.ask(id, creditTestCash, fromUsdc(2))
      return {
        ...{ id, keyId: newUuidV7(now()), fleetId: fleets[Math.floor(at / FLEET_SIZE)] as string },
        ...{ membership: 'outside', backpacks: [], tasks: [], schedules: [], calls: [], loans: [] },
      }
    }),
  )
  return { ...parts, agents, bounties: [], drops: [], freeCalls: [], payments: [] }
}

export const randomAmount = ({ chance }: RandomCommandWorld): Micros =>
  asMicros(BigInt(chance.integer(1, 40)) * 1_000n)

/** One of the last eight, so that earlier ones rest. */
export const pickRandomFromLastEight = <T>(
  { chance }: RandomCommandWorld,
  from: readonly T[],
): T | null => (from.length === 0 ? null : chance.pick(from.slice(-8)))

/** The same one, or null in two of three cases. */
export const pickRecentOrMostlyNull = <T>(
  world: RandomCommandWorld,
  from: readonly T[],
): T | null => (world.chance.integer(0, 2) === 0 ? pickRandomFromLastEight(world, from) : null)

/** Takes one out of a list; undefined for an empty one. */
export const takeRandom = <T>({ chance }: RandomCommandWorld, from: T[]): T | undefined =>
  from.splice(chance.integer(0, Math.max(0, from.length - 1)), 1)[0]

import { IdempotencyKeyAnsweredElsewhereError } from '../../../actors/aggregate-command-types.ts'
import { ServiceError } from '../../../core/errors.ts'
import {
  loseConnectionBeforeCommit,
  loseReplyAfterCommit,
  type TestActorNode,
} from '../actors/test-actor-node.ts'
import { traceCommand, type ActorAfterCommand } from './trace-command-in-journal.ts'
import { RANDOM_AGENT_COMMANDS } from './random-agent-commands.ts'
import type { RandomAgent, RandomCommand, RandomCommandWorld } from './random-command-world.ts'
import { RANDOM_COMMANDS_OF_OTHER_AGGREGATES } from './random-commands-of-other-aggregates.ts'

/** Sends random commands to two nodes at once, loses replies, and fires timers between them. */

interface SendRandomCommandsOptions {
  readonly count: number
  /** How many commands, evenly drawn, keep the states that they left. */
  readonly samples: number
  /** Called before each command. */
  readonly passTime: () => void
}

export interface SentRandomCommands {
  /** By the number of the command. */
  readonly seen: ReadonlyMap<number, readonly ActorAfterCommand[]>
  /** Answers by the name of the command, and its result or error code. */
  readonly answers: ReadonlyMap<string, number>
  /** Commands that ran again: a conflict, an eviction or a lost reply. */
  readonly repeated: number
  readonly lostReplies: number
  /** Errors that no command may answer. */
  readonly errors: readonly string[]
}

const SIDE_BY_SIDE = 24
/** Agents that receive commands at the same time; the window moves over all of them. */
const WINDOW = 8
const COMMANDS_PER_FAULT = 150
const COMMANDS_PER_SWEEP = 200

const DRAWS = [...RANDOM_AGENT_COMMANDS, ...RANDOM_COMMANDS_OF_OTHER_AGGREGATES].flatMap(
  ([draw, weight]) => Array.from({ length: weight }, () => draw),
)

/** The commands come from the seed; how both nodes interleave them does not. */
export async function sendRandomCommands(
  nodes: readonly [TestActorNode, TestActorNode],
  world: RandomCommandWorld,
  { count, samples, passTime }: SendRandomCommandsOptions,
): Promise<SentRandomCommands> {
  const { chance, agents } = world
  const seen = new Map<number, readonly ActorAfterCommand[]>()
  const answers = new Map<string, number>()
  const errors: string[] = []
  let [sent, repeated, lostReplies] = [0, 0, 0]

  const tally = (name: string, answer: string) => {
    const key = `${name} ${answer}`
    answers.set(key, (answers.get(key) ?? 0) + 1)
  }
  const nodeOf = (at: number) => nodes[at] as TestActorNode

  function draw(): RandomCommand {
    const first = Math.floor((sent / count) * Math.max(0, agents.length - WINDOW))
    const any = () => agents[first + chance.integer(0, WINDOW - 1)] as RandomAgent
    for (;;) {
      const command = chance.pick(DRAWS)(world, any(), any())
      if (command !== null) return command
    }
  }

  async function send(wanted: RandomCommand, at: number, number: number): Promise<void> {
    const { to, command, input, options, done } = wanted
    let runs = 0
    const isSampled = chance.integer(1, count) <= samples
    const observed = traceCommand(command, number, isSampled, () => (runs += 1))
    try {
      const answer = await nodeOf(at).ask(to, observed, input, options)
      if (answer.seen !== null) seen.set(number, answer.seen)
      done(answer.result, at)
      tally(command.name, 'ok')
    } catch (error) {
      if (error instanceof ServiceError) tally(command.name, error.code)
      else if (error instanceof IdempotencyKeyAnsweredElsewhereError)
        tally(command.name, 'replayed')
      else errors.push(`${command.name}: ${String(error)}`)
    }
    if (runs > 1) repeated += 1
  }

  async function worker(): Promise<void> {
    while (sent < count) {
      passTime()
      const wanted = draw()
      const at = wanted.node ?? chance.integer(0, 1)
      const number = (sent += 1)
      if (number % COMMANDS_PER_FAULT === 0) {
        const isReply = chance.integer(0, 1) === 0
        if (isReply) lostReplies += 1
        nodeOf(at).faults.push(isReply ? loseReplyAfterCommit : loseConnectionBeforeCommit)
      }
      if (number % COMMANDS_PER_SWEEP === 0) void nodeOf(at).alarms.sweep()
      const both = wanted.isTwin && sent < count ? [at, 1 - at] : [at]
      await Promise.all(
        both.map((node, twin) => send(wanted, node, twin === 0 ? number : (sent += 1))),
      )
    }
  }

  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, worker))
  for (const node of nodes) await node.alarms.sweep()
  return { seen, answers, repeated, lostReplies, errors }
}

import { createAbsorbInboxCommand } from '../../../actors/absorb-aggregate-inbox-command.ts'
import { toCallPriceMovements } from '../../../domain/call-price-ledger-movements.ts'
import { applyAggregateInboxMessage } from '../../../payments/aggregate-inbox-message-handler.ts'
import {
  actorKey,
  createInMemoryHoldBook,
  createInMemoryHoldChanges,
  type LoadedAggregateActors,
} from '../../../actors/loaded-aggregate-state.ts'
import type {
  AggregateCommandOptions,
  AggregateCommand,
} from '../../../actors/aggregate-command-types.ts'
import {
  createBackpackCommand,
  revokeBackpackCommand,
  updateBackpackCommand,
} from '../../../actors/commands/backpacks-commands.ts'
import {
  cancelTaskCommand,
  endTaskAggregateCommand,
  setTaskBudgetCommand,
  startTaskCommand,
} from '../../../actors/commands/task-session-actor-commands.ts'
import {
  hasNoEffects,
  createCommandContext,
  CommandRejectedError,
} from '../../../actors/command-context.ts'
import { DAY } from '../../../core/clock.ts'
import { ServiceError } from '../../../core/errors.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { UNLIMITED_API_KEY_SPENDING } from '../../../domain/api-key-spending-limits.ts'
import { asMicros, ZERO_MICROS } from '../../../core/money.ts'
import type { CallAdmissionRequest } from '../../../payments/agent-call-admission-request-types.ts'
import {
  admitCallCommand,
  failCallCommand,
  releaseCallHoldCommand,
  settleCallCommand,
  expireCallHoldCommand,
  type CommittedCallInfo,
} from '../../../payments/commands/call-commands.ts'
import {
  createAgentCommand,
  getAgentBalanceCommand,
  tipAgentCommand,
  sendCreditsCommand,
} from '../../../payments/commands/agent-account-commands.ts'
import {
  callRowOfAdmission,
  sampleCallAdmissionRequest,
  failCallInputOfAdmission,
  settleCallInputOfAdmission,
  touchedAggregatesOfAdmission,
  type TestActorNode,
} from '../actors/test-actor-node.ts'
import {
  activateTestAgentByReversedDeposit,
  buyLedgerModelTaskPass,
  creditTestCash,
} from './ledger-model-test-commands.ts'
import type { LedgerModelOperation } from './ledger-model-operations.ts'
import { LEDGER_MODEL_KEY_CAP_MICROS, LEDGER_MODEL_REFERRER } from './reference-ledger.ts'

/** Runs model operations on the real state machines in memory, and on two nodes over a database. */

const KEY = {
  ...UNLIMITED_API_KEY_SPENDING,
  id: newUuidV7(Date.now()),
  cap: asMicros(LEDGER_MODEL_KEY_CAP_MICROS),
}

interface CommandRequest {
  readonly command: AggregateCommand<never, unknown>
  readonly input: unknown
  readonly options: AggregateCommandOptions
  readonly done?: (result: never) => void
}
const toCommandRequest = <I, R>(
  command: AggregateCommand<I, R>,
  input: I,
  options: AggregateCommandOptions = {},
  done?: (result: R) => void,
): CommandRequest => ({
  command: command as AggregateCommand<never, unknown>,
  input,
  options,
  ...(done === undefined ? {} : { done: done as (result: never) => void }),
})

const absorbing = createAbsorbInboxCommand(applyAggregateInboxMessage)

export interface LedgerModelFuse {
  readonly perCall: bigint | null
  readonly perDay: bigint | null
}
const LIMIT_NAMES_IN_REQUESTS = { perCall: 'per_call_usdc', perDay: 'per_day_usdc' } as const
const limit = (amount: bigint | null) => (amount === null ? null : asMicros(amount))

/** Maps the numbers of a sequence to ids, and operations to commands. */
export class LedgerModelCommandBuilder {
  readonly agents: string[]
  readonly packs: string[] = []
  readonly tasks: { id: string; agent: number }[] = []
  readonly calls = new Map<number, CallAdmissionRequest>()

  constructor(count: number) {
    this.agents = Array.from({ length: count + 1 }, () => newUuidV7(Date.now()))
  }

  createAgent(agent: number, starter: bigint): CommandRequest {
    const referrer =
      agent === LEDGER_MODEL_REFERRER ? null : (this.agents[LEDGER_MODEL_REFERRER] as string)
    const agentId = this.agents[agent] as string
    const birth = { agentId, starter: asMicros(starter), referrer, rows: [] }
    return toCommandRequest(createAgentCommand, birth, { fresh: true })
  }
  createBackpack(agent: number, { perCall, perDay }: LedgerModelFuse): CommandRequest {
    const fuse = { perCall: limit(perCall), perDay: limit(perDay), perMonth: null }
    const pager = { webhookUrl: null, ownerEmail: null, ownerTelegram: null }
    const input = { agentName: 'x', tools: null, fuse, pager, expiresAt: Date.now() + 400 * DAY }
    return toCommandRequest(
      createBackpackCommand,
      input,
      {},
      ({ backpackId }) => void (this.packs[agent] = backpackId),
    )
  }

  /** The command of an operation for this agent. */
  commandFor(op: LedgerModelOperation, agent: number, id: number): CommandRequest {
    const agentId = this.agents[agent] as string
    const backpackId = this.packs[agent] as string
    const pack = { touch: [{ kind: 'backpack' as const, id: backpackId }] }
    switch (op.type) {
      case 'admit': {
        const task = op.task === null ? undefined : this.tasks[op.task]
        const one = sampleCallAdmissionRequest(0, {
          amount: asMicros(op.amount),
          key: op.key ? KEY : null,
          taskId: task?.agent === agent ? task.id : null,
          backpackId: op.pack ? backpackId : null,
          expiresAt: op.durable ? Date.now() + DAY : null,
          passable: op.passable,
        })
        return toCommandRequest(
          admitCallCommand,
          one,
          touchedAggregatesOfAdmission(one),
          () => void this.calls.set(id, one),
        )
      }
      case 'settle': {
        const one = this.call(op.call)
        const cost = asMicros((one.amount * op.part) / 4n)
        const to = this.agents[1 - agent] as string
        // Passes pay no calls with shares.
        const quarters = one.passable === true ? 0n : op.share
        const share = { to, amount: asMicros((cost * quarters) / 4n), withoutFee: !op.withFee }
        const shares = share.amount === ZERO_MICROS ? [] : [share]
        const row = ({ at, pass = null }: CommittedCallInfo) =>
          callRowOfAdmission(one, agentId, { cost, at, rail: pass === null ? 'credits' : 'pass' })
        const sharing = { shares, promoTransferable: op.promoToo, row }
        return toCommandRequest(
          settleCallCommand,
          settleCallInputOfAdmission(one, agentId, cost, sharing),
          touchedAggregatesOfAdmission(one),
        )
      }
      case 'fail':
        return toCommandRequest(
          failCallCommand,
          failCallInputOfAdmission(this.call(op.call), agentId),
          touchedAggregatesOfAdmission(this.call(op.call)),
        )
      case 'expire':
      case 'forget': {
        const one = this.call(op.call)
        const command = op.type === 'expire' ? expireCallHoldCommand : releaseCallHoldCommand
        return toCommandRequest(command, { callId: one.callId }, touchedAggregatesOfAdmission(one))
      }
      case 'send':
      case 'tip': {
        const toAgentId = this.agents[1 - agent] as string
        const { amount, promoToo } = op
        const payment = {
          toAgentId,
          amount: asMicros(amount),
          memo: null,
          promoTransferable: promoToo,
          spender: { key: null, backpackId: null, taskId: null },
        }
        return toCommandRequest(op.type === 'send' ? sendCreditsCommand : tipAgentCommand, payment)
      }
      case 'deposit':
        return toCommandRequest(creditTestCash, op.amount)
      case 'activate':
        return toCommandRequest(activateTestAgentByReversedDeposit, {})
      case 'buyPass':
        return toCommandRequest(buyLedgerModelTaskPass, {})
      case 'look':
        return toCommandRequest(getAgentBalanceCommand, {})
      case 'start':
        return toCommandRequest(
          startTaskCommand,
          { name: 'x', budget: asMicros(op.amount) },
          {},
          ({ taskId }) => {
            this.tasks.push({ id: taskId, agent })
          },
        )
      case 'budget': {
        const taskId = this.task(op.task)
        return toCommandRequest(
          setTaskBudgetCommand,
          { taskId, budget: asMicros(op.amount) },
          touchTask(taskId),
        )
      }
      case 'end': {
        const taskId = this.task(op.task)
        return toCommandRequest(
          op.cancel ? cancelTaskCommand : endTaskAggregateCommand,
          { taskId },
          touchTask(taskId),
        )
      }
      case 'fuse': {
        const fuse = { perCall: limit(op.perCall), perDay: limit(op.perDay), perMonth: null }
        const remove = op.named
          .filter((name) => op[name] === null)
          .map((name) => LIMIT_NAMES_IN_REQUESTS[name])
        return toCommandRequest(updateBackpackCommand, { backpackId, fuse, remove }, pack)
      }
      case 'revoke':
        return toCommandRequest(revokeBackpackCommand, { backpackId }, pack)
    }
  }

  /** Held in memory only. */
  readonly isInMemoryHold = (call: number): boolean => this.call(call).expiresAt === null
  private call(at: number): CallAdmissionRequest {
    return this.calls.get(at) as CallAdmissionRequest
  }
  private task(at: number): string {
    return this.tasks[at]?.id as string
  }
}
const touchTask = (id: string) => touchedAggregatesOfAdmission({ taskId: id, backpackId: null })

/** The real commands and machines over states in memory: two nodes that always agree. */
export class LedgerModelInMemoryRunner {
  readonly ids: LedgerModelCommandBuilder
  readonly ledger = new Map<string, bigint>()
  readonly states: LoadedAggregateActors[]
  readonly held: [
    ReturnType<typeof createInMemoryHoldBook>,
    ReturnType<typeof createInMemoryHoldBook>,
  ][]
  private readonly inboxes: { id: string; event: unknown }[][]

  constructor(starters: readonly bigint[], fuse: LedgerModelFuse) {
    this.ids = new LedgerModelCommandBuilder(starters.length)
    this.states = this.ids.agents.map(() => ({ version: 0, actors: new Map() }))
    this.held = this.ids.agents.map(() => [createInMemoryHoldBook(), createInMemoryHoldBook()])
    this.inboxes = this.ids.agents.map(() => [])
    ;[...starters, 0n].forEach((starter, agent) => {
      this.ask(agent, 0, this.ids.createAgent(agent, starter))
      this.ask(agent, 0, this.ids.createBackpack(agent, fuse))
    })
  }

  apply(op: LedgerModelOperation, agent: number, id: number): string {
    const { node } = op
    if (op.type === 'admit' && !op.durable) this.absorb(agent)
    if (op.type === 'forget' && this.ids.isInMemoryHold(op.call)) {
      const soft = createInMemoryHoldChanges(this.held[agent]?.[node] as never)
      soft.remove(this.ids.calls.get(op.call)?.callId ?? '')
      soft.apply()
      return 'ok'
    }
    return this.ask(agent, node, this.ids.commandFor(op, agent, id))
  }

  private ask(agent: number, node: number, wanted: CommandRequest, again = false): string {
    const state = this.states[agent] as LoadedAggregateActors
    const soft = createInMemoryHoldChanges(this.held[agent]?.[node] as never)
    const owner = this.ids.agents[agent] as string
    const turn = createCommandContext(owner, state, soft, Date.now())
    try {
      const result = wanted.command.apply(turn, wanted.input as never)
      if (hasNoEffects(turn.effects) && !soft.changed && !again && this.absorb(agent))
        return this.ask(agent, node, wanted, true)
      soft.apply()
      this.keep(owner, state, turn.effects)
      wanted.done?.(result as never)
      return 'ok'
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      if (error instanceof CommandRejectedError && error.emittedEffects !== null)
        this.keep(owner, state, error.emittedEffects)
      else if (!again && this.absorb(agent)) return this.ask(agent, node, wanted, true)
      return error.code
    }
  }

  private keep(
    owner: string,
    state: LoadedAggregateActors,
    effects: ReturnType<typeof createCommandContext>['effects'],
  ): void {
    state.version += 1
    for (const [key, entry] of effects.dirty) state.actors.set(key, entry)
    const prices = effects.prices.flatMap((price) => toCallPriceMovements(owner, price))
    for (const { debit, credit, amount } of [...effects.transfers, ...prices]) {
      if (amount <= ZERO_MICROS || debit === credit) throw new Error('an impossible transfer')
      this.ledger.set(debit, (this.ledger.get(debit) ?? 0n) - amount)
      this.ledger.set(credit, (this.ledger.get(credit) ?? 0n) + amount)
    }
    for (const { receiver, id, event } of effects.inbox)
      this.inboxes[this.ids.agents.indexOf(receiver)]?.push({ id, event })
  }

  private absorb(agent: number): boolean {
    const messages = this.inboxes[agent]?.splice(0) ?? []
    if (messages.length > 0) this.ask(agent, 0, toCommandRequest(absorbing, messages), true)
    return messages.length > 0
  }

  context(agent: number, kind: 'agent' | 'backpack' | 'taskSession' | 'taskPasses', id: string) {
    return this.states[agent]?.actors.get(actorKey(kind, id))?.snapshot
  }
}

/** The same operations on two nodes over one database. */
export class LedgerModelDatabaseRunner {
  readonly ids: LedgerModelCommandBuilder
  readonly nodes: readonly [TestActorNode, TestActorNode]

  private constructor(nodes: readonly [TestActorNode, TestActorNode], count: number) {
    this.nodes = nodes
    this.ids = new LedgerModelCommandBuilder(count)
  }

  static async open(
    nodes: readonly [TestActorNode, TestActorNode],
    starters: readonly bigint[],
    fuse: LedgerModelFuse,
  ): Promise<LedgerModelDatabaseRunner> {
    const world = new LedgerModelDatabaseRunner(nodes, starters.length)
    for (const [agent, starter] of [...starters, 0n].entries()) {
      await world.ask(agent, 0, world.ids.createAgent(agent, starter))
      await world.ask(agent, 0, world.ids.createBackpack(agent, fuse))
    }
    return world
  }

  async apply(op: LedgerModelOperation, agent: number, id: number): Promise<string> {
    const node = this.nodes[op.node] as TestActorNode
    const agentId = this.ids.agents[agent] as string
    // A hold in memory depends on the state its node has loaded, so the node loads the agent first.
    if (op.type === 'admit' && !op.durable) await node.ask(agentId, getAgentBalanceCommand, {})
    if (op.type === 'forget' && this.ids.isInMemoryHold(op.call)) {
      node.releaseHold(agentId, this.ids.calls.get(op.call)?.callId ?? '')
      return 'ok'
    }
    return this.ask(agent, op.node, this.ids.commandFor(op, agent, id))
  }

  private async ask(
    agent: number,
    at: number,
    { command, input, options, done }: CommandRequest,
  ): Promise<string> {
    const node = this.nodes[at] as TestActorNode
    try {
      const result = await node.ask(
        this.ids.agents[agent] as string,
        command,
        input as never,
        options,
      )
      done?.(result as never)
      return 'ok'
    } catch (error) {
      if (error instanceof ServiceError) return error.code
      throw error
    }
  }
}

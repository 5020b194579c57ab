import { absorbInbox } from '../../actors/inbox.ts'
import { absorb } from '../../payments/absorb.ts'
import { actorKey, noHolds, softChanges, type Aggregate } from '../../actors/aggregate.ts'
import type { AskOptions, Command } from '../../actors/command.ts'
import { backpackCreate, backpackRevoke, backpackSet } from '../../actors/commands/backpacks.ts'
import { taskCancel, taskEnd, taskSetBudget, taskStart } from '../../actors/commands/tasks.ts'
import { isEmpty, openTurn, Refusal } from '../../actors/turn.ts'
import { DAY } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { newId } from '../../core/ids.ts'
import { UNLIMITED_KEY } from '../../core/key-terms.ts'
import { micros, ZERO } from '../../core/money.ts'
import { SMALLEST_DEPOSIT } from '../../core/prices.ts'
import type { Admission } from '../../payments/admission.ts'
import {
  callAdmit,
  callFail,
  callForget,
  callSettle,
  holdExpire,
} from '../../payments/commands/call.ts'
import { agentCreate, balance, tip, transferSend } from '../../payments/commands/purse.ts'
import { absorbDeposit, absorbUndo } from '../../payments/commands/deposit.ts'
import { cashOf, pendingOf, worldOf } from '../../payments/ledger.ts'
import { admission, failure, settlement, touch, type Node } from '../support/runtime.ts'
import type { Op } from './operations.ts'
import { KEY_CAP, MENTOR } from './reference.ts'

const KEY = { ...UNLIMITED_KEY, id: newId(Date.now()), cap: micros(KEY_CAP) }

/** Credits that cash comes from in tests; its own command, since a deposit is not of this world yet. */
const deposit: Command<bigint, void> = {
  name: 'test.deposit',
  kind: 'agent',
  apply(turn, amount) {
    const cash = micros(amount)
    turn.step('agent', turn.aggregateId, { type: 'CREDIT', promo: ZERO, cash })
    const pending = pendingOf(turn.aggregateId)
    turn.transfer({ debit: 'world:test', credit: pending, amount: cash, kind: 'deposit' })
    const credit = cashOf(turn.aggregateId)
    turn.transfer({ debit: pending, credit, amount: cash, kind: 'topup' })
  },
}

/** A first deposit that its chain undoes at once: no money stays, and the agent has been activated. */
const activate: Command<object, void> = {
  name: 'test.activate',
  kind: 'agent',
  apply(turn) {
    const [id, amount, chain] = [turn.id(), SMALLEST_DEPOSIT, 'base'] as const
    const pending = pendingOf(turn.aggregateId)
    turn.transfer({ debit: worldOf(chain), credit: pending, amount, kind: 'deposit' })
    const where = { id, chain, tx: null, source: 'deposit' } as const
    absorbDeposit(turn, { type: 'DEPOSIT', pending: amount, ...where })
    absorbUndo(turn, { type: 'UNDO_DEPOSIT', amount, ...where })
  },
}

interface Asked {
  readonly command: Command<never, unknown>
  readonly input: unknown
  readonly options: AskOptions
  readonly done?: (result: never) => void
}
const asked = <I, R>(
  command: Command<I, R>,
  input: I,
  options: AskOptions = {},
  done?: (result: R) => void,
): Asked => ({
  command: command as Command<never, unknown>,
  input,
  options,
  ...(done === undefined ? {} : { done: done as (result: never) => void }),
})

const absorbing = absorbInbox(absorb)

export interface Fuses {
  readonly perCall: bigint | null
  readonly perDay: bigint | null
}
const limit = (amount: bigint | null) => (amount === null ? null : micros(amount))

/** What the numbers of a sequence stand for in the real service, and which command an operation is. */
export class Names {
  readonly agents: string[]
  readonly packs: string[] = []
  readonly tasks: { id: string; agent: number }[] = []
  readonly calls = new Map<number, Admission>()

  constructor(count: number) {
    this.agents = Array.from({ length: count + 1 }, () => newId(Date.now()))
  }

  birth(agent: number, starter: bigint): Asked {
    const referrer = agent === MENTOR ? null : (this.agents[MENTOR] as string)
    const agentId = this.agents[agent] as string
    const birth = { agentId, starter: micros(starter), referrer, rows: [] }
    return asked(agentCreate, birth, { fresh: true })
  }
  pack(agent: number, { perCall, perDay }: Fuses): Asked {
    const fuse = { perCall: limit(perCall), perDay: limit(perDay), perMonth: null }
    const pager = { webhookUrl: null, ownerEmail: null, ownerTelegram: null }
    const input = { agentName: 'x', tools: null, fuse, pager, expiresAt: Date.now() + 400 * DAY }
    return asked(
      backpackCreate,
      input,
      {},
      ({ backpackId }) => void (this.packs[agent] = backpackId),
    )
  }

  /** The command of an operation of this agent. */
  of(op: Op, agent: number, id: number): Asked {
    const agentId = this.agents[agent] as string
    const backpackId = this.packs[agent] as string
    const pack = { touch: [{ kind: 'backpack' as const, id: backpackId }] }
    switch (op.type) {
      case 'admit': {
        const task = op.task === null ? undefined : this.tasks[op.task]
        const one = admission(0, {
          amount: micros(op.amount),
          key: op.key ? KEY : null,
          taskId: task?.agent === agent ? task.id : null,
          backpackId: op.pack ? backpackId : null,
          expiresAt: op.durable ? Date.now() + DAY : null,
        })
        return asked(callAdmit, one, touch(one), () => void this.calls.set(id, one))
      }
      case 'settle': {
        const one = this.call(op.call)
        const cost = micros((one.amount * op.part) / 4n)
        const to = this.agents[1 - agent] as string
        const share = { to, amount: micros((cost * op.share) / 4n), withoutFee: !op.withFee }
        const shares = share.amount === ZERO ? [] : [share]
        const sharing = { shares, promoTransferable: op.promoToo }
        return asked(callSettle, settlement(one, agentId, cost, sharing), touch(one))
      }
      case 'fail':
        return asked(callFail, failure(this.call(op.call), agentId), touch(this.call(op.call)))
      case 'expire':
      case 'forget': {
        const one = this.call(op.call)
        const command = op.type === 'expire' ? holdExpire : callForget
        return asked(command, { callId: one.callId }, touch(one))
      }
      case 'send':
      case 'tip': {
        const toAgentId = this.agents[1 - agent] as string
        const { amount, promoToo } = op
        const payment = {
          toAgentId,
          amount: micros(amount),
          memo: null,
          promoTransferable: promoToo,
          spender: { key: null, backpackId: null },
        }
        return asked(op.type === 'send' ? transferSend : tip, payment)
      }
      case 'deposit':
        return asked(deposit, op.amount)
      case 'activate':
        return asked(activate, {})
      case 'look':
        return asked(balance, {})
      case 'start':
        return asked(taskStart, { name: 'x', budget: micros(op.amount) }, {}, ({ taskId }) => {
          this.tasks.push({ id: taskId, agent })
        })
      case 'budget': {
        const taskId = this.task(op.task)
        return asked(taskSetBudget, { taskId, budget: micros(op.amount) }, touchTask(taskId))
      }
      case 'end': {
        const taskId = this.task(op.task)
        return asked(op.cancel ? taskCancel : taskEnd, { taskId }, touchTask(taskId))
      }
      case 'fuse': {
        const fuse = { perCall: limit(op.perCall), perDay: limit(op.perDay), perMonth: null }
        return asked(backpackSet, { backpackId, fuse }, pack)
      }
      case 'revoke':
        return asked(backpackRevoke, { backpackId }, pack)
    }
  }

  /** Ends in memory only. */
  readonly isSoft = (call: number): boolean => this.call(call).expiresAt === null
  private call(at: number): Admission {
    return this.calls.get(at) as Admission
  }
  private task(at: number): string {
    return this.tasks[at]?.id as string
  }
}
const touchTask = (id: string) => touch({ taskId: id, backpackId: null })

/** The real handlers and charts over states in memory: two nodes that always agree. */
export class PureWorld {
  readonly names: Names
  readonly ledger = new Map<string, bigint>()
  readonly states: Aggregate[]
  readonly held: [ReturnType<typeof noHolds>, ReturnType<typeof noHolds>][]
  private readonly inboxes: { id: string; event: unknown }[][]

  constructor(starters: readonly bigint[], fuse: Fuses) {
    this.names = new Names(starters.length)
    this.states = this.names.agents.map(() => ({ version: 0, actors: new Map() }))
    this.held = this.names.agents.map(() => [noHolds(), noHolds()])
    this.inboxes = this.names.agents.map(() => [])
    ;[...starters, 0n].forEach((starter, agent) => {
      this.ask(agent, 0, this.names.birth(agent, starter))
      this.ask(agent, 0, this.names.pack(agent, fuse))
    })
  }

  do(op: Op, agent: number, id: number): string {
    const { node } = op
    if (op.type === 'admit' && !op.durable) this.absorb(agent)
    if (op.type === 'forget' && this.names.isSoft(op.call)) {
      const soft = softChanges(this.held[agent]?.[node] as never)
      soft.drop(this.names.calls.get(op.call)?.callId ?? '')
      soft.apply()
      return 'ok'
    }
    return this.ask(agent, node, this.names.of(op, agent, id))
  }

  private ask(agent: number, node: number, wanted: Asked, again = false): string {
    const state = this.states[agent] as Aggregate
    const soft = softChanges(this.held[agent]?.[node] as never)
    const turn = openTurn(this.names.agents[agent] as string, state, soft, Date.now())
    try {
      const result = wanted.command.apply(turn, wanted.input as never)
      if (isEmpty(turn.effects) && !soft.changed && !again && this.absorb(agent))
        return this.ask(agent, node, wanted, true)
      soft.apply()
      this.keep(state, turn.effects)
      wanted.done?.(result as never)
      return 'ok'
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      if (error instanceof Refusal && error.facts !== null) this.keep(state, error.facts)
      else if (!again && this.absorb(agent)) return this.ask(agent, node, wanted, true)
      return error.code
    }
  }

  private keep(state: Aggregate, effects: ReturnType<typeof openTurn>['effects']): void {
    state.version += 1
    for (const [key, entry] of effects.dirty) state.actors.set(key, entry)
    for (const { debit, credit, amount } of effects.transfers) {
      if (amount <= ZERO || debit === credit) throw new Error('an impossible transfer')
      this.ledger.set(debit, (this.ledger.get(debit) ?? 0n) - amount)
      this.ledger.set(credit, (this.ledger.get(credit) ?? 0n) + amount)
    }
    for (const { receiver, id, event } of effects.inbox)
      this.inboxes[this.names.agents.indexOf(receiver)]?.push({ id, event })
  }

  private absorb(agent: number): boolean {
    const messages = this.inboxes[agent]?.splice(0) ?? []
    if (messages.length > 0) this.ask(agent, 0, asked(absorbing, messages), true)
    return messages.length > 0
  }

  context(agent: number, kind: 'agent' | 'backpack' | 'taskSession', id: string) {
    return this.states[agent]?.actors.get(actorKey(kind, id))?.snapshot
  }
}

/** The same operations asked of two nodes over one database. */
export class RealWorld {
  readonly names: Names
  readonly nodes: readonly [Node, Node]

  private constructor(nodes: readonly [Node, Node], count: number) {
    this.nodes = nodes
    this.names = new Names(count)
  }

  static async open(
    nodes: readonly [Node, Node],
    starters: readonly bigint[],
    fuse: Fuses,
  ): Promise<RealWorld> {
    const world = new RealWorld(nodes, starters.length)
    for (const [agent, starter] of [...starters, 0n].entries()) {
      await world.ask(agent, 0, world.names.birth(agent, starter))
      await world.ask(agent, 0, world.names.pack(agent, fuse))
    }
    return world
  }

  async do(op: Op, agent: number, id: number): Promise<string> {
    const node = this.nodes[op.node] as Node
    const agentId = this.names.agents[agent] as string
    // A call let in by memory alone stands on what its node knows: here it knows everything.
    if (op.type === 'admit' && !op.durable) await node.ask(agentId, balance, {})
    if (op.type === 'forget' && this.names.isSoft(op.call)) {
      node.letGo(agentId, this.names.calls.get(op.call)?.callId ?? '')
      return 'ok'
    }
    return this.ask(agent, op.node, this.names.of(op, agent, id))
  }

  private async ask(
    agent: number,
    at: number,
    { command, input, options, done }: Asked,
  ): Promise<string> {
    const node = this.nodes[at] as Node
    try {
      const result = await node.ask(
        this.names.agents[agent] as string,
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

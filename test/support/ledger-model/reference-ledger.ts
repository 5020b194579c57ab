import type { LedgerModelOperation, LedgerModelSettleOperation } from './ledger-model-operations.ts'
import {
  changeReferenceFuse,
  LedgerModelRejection,
  type LedgerModelAgent,
  type LedgerModelBackpack,
  type LedgerModelCall,
  type LedgerModelPurse,
  type LedgerModelTask,
} from './ledger-model-state.ts'
import {
  buyReferenceTaskPass,
  divideReferencePrice,
  endHeldReferenceTaskPassSlot,
  findTaskPassOfReferenceCall,
  findUsableReferenceTaskPass,
  moveReferenceTaskPassSlots,
  smallerAmount,
  takeFromReferencePurse,
  takeReferenceTaskPassSlot,
} from './reference-ledger-prices-and-passes.ts'

/** A simple model of the ledger that the real one is compared with. Amounts are bigints. */

export const LEDGER_MODEL_KEY_CAP_MICROS = 300n

/** The referrer of the other two agents; it performs no operations. */
export const LEDGER_MODEL_REFERRER = 2
const REFERRAL_REWARD_MICROS = 210_000n

const sum = (all: bigint[]) => all.reduce((total, one) => total + one, 0n)

export class ReferenceLedger {
  readonly agents: LedgerModelAgent[]
  readonly tasks: LedgerModelTask[] = []
  readonly calls = new Map<number, LedgerModelCall>()
  platform = 0n
  treasury = 0n
  /** Rewards not yet paid to the referrer. */
  readonly referral: LedgerModelPurse = { promo: 0n, cash: 0n }
  /** Granted credits minus returned ones. */
  granted = 0n

  constructor(
    starters: readonly bigint[],
    fuse: { perCall: bigint | null; perDay: bigint | null },
  ) {
    this.granted = sum([...starters])
    this.agents = [...starters, 0n].map((promo) => ({
      promo,
      cash: 0n,
      keySpent: 0n,
      openPass: null,
      inbox: [],
      activated: false,
      pack: { ...fuse, spent: 0n, held: 0n, revoked: false, persistedRejections: new Set() },
    }))
  }

  /** Returns `ok` or the error code of the rejection. */
  apply(op: LedgerModelOperation, id: number): string {
    const of = this.agentOf(op)
    if (of === null) return 'skipped'
    // Operations without a commit absorb the inbox first.
    const idle =
      op.type === 'forget'
        ? this.durables.has(op.call) && !this.calls.has(op.call)
        : op.type === 'revoke' && this.agents[op.agent]?.pack.revoked === true
    if (op.type === 'look' || (op.type === 'admit' && !op.durable) || idle) this.absorb(of)
    try {
      try {
        this.once(op, id)
      } catch (error) {
        if (!(error instanceof LedgerModelRejection) || error.isPersisted) throw error
        this.absorb(of)
        this.once(op, id)
      }
      return 'ok'
    } catch (error) {
      if (error instanceof LedgerModelRejection) return error.code
      throw error
    }
  }

  held(agent: number): bigint {
    return this.heldOf(agent, 'promo') + this.heldOf(agent, 'cash')
  }
  heldOf(agent: number, part: keyof LedgerModelPurse): bigint {
    return sum(this.durable(agent).map(({ taken }) => taken?.[part] ?? 0n))
  }
  inMemoryHolds(agent: number, node: number): LedgerModelCall[] {
    return [...this.calls.values()].filter(
      (call) => call.agent === agent && call.node === node && call.taken === null,
    )
  }
  /** What calls hold of the balance in the memory of a node. */
  reserved(agent: number, node: number): bigint {
    const soft = this.inMemoryHolds(agent, node).filter((call) => call.passNumber === null)
    return sum(soft.map((call) => call.amount))
  }

  private buyPass(agent: number, node: number): void {
    this.passes += 1
    const own = this.agents[agent] as LedgerModelAgent
    buyReferenceTaskPass(own, this.passes, this.reserved(agent, node))
  }
  private passes = 0

  private durable(agent: number): LedgerModelCall[] {
    return [...this.calls.values()].filter((call) => call.agent === agent && call.taken !== null)
  }

  agentOf(op: LedgerModelOperation): number | null {
    if ('agent' in op) return op.agent
    if ('task' in op) return this.tasks[op.task]?.agent ?? null
    return this.owner.get(op.call) ?? null
  }
  /** The operation with existing calls and tasks: numbers count from the newest and wrap around. */
  resolveOperation(op: LedgerModelOperation): LedgerModelOperation {
    const known = [...this.owner.keys()].toReversed()
    if ('call' in op) return { ...op, call: known[op.call % Math.max(1, known.length)] ?? -1 }
    if (!('task' in op) || op.task === null || this.tasks.length === 0) return op
    return { ...op, task: op.task % this.tasks.length }
  }
  private readonly owner = new Map<number, number>()
  private readonly durables = new Set<number>()

  private absorb(agent: number): void {
    const own = this.agents[agent] as LedgerModelAgent
    for (const { promo, cash } of own.inbox.splice(0)) {
      own.promo += promo
      own.cash += cash
    }
  }

  private once(op: LedgerModelOperation, id: number): void {
    switch (op.type) {
      case 'admit':
        return this.admit(op, id)
      case 'settle':
        return this.settle(op)
      case 'fail':
        return this.release(op.node, op.call, true)
      case 'expire':
      case 'forget':
        return this.release(op.node, op.call, false, op.type === 'forget')
      case 'send':
      case 'tip':
        return this.pay(op)
      case 'deposit':
        ;(this.agents[op.agent] as LedgerModelAgent).cash += op.amount
        return
      case 'activate': {
        const own = this.agents[op.agent] as LedgerModelAgent
        if (!own.activated) this.reward()
        own.activated = true
        return
      }
      case 'look':
        return
      case 'buyPass':
        return this.buyPass(op.agent, op.node)
      case 'start':
        this.tasks.push({
          agent: op.agent,
          budget: op.amount,
          spent: 0n,
          held: 0n,
          state: 'active',
        })
        return
      case 'budget':
        return this.budget(op.node, op.task, op.amount)
      case 'end': {
        const task = this.tasks[op.task] as LedgerModelTask
        if (task.state !== 'active') throw new LedgerModelRejection('task_not_active')
        task.state = op.cancel ? 'abandoned' : 'completed'
        return
      }
      case 'fuse': {
        const { pack } = this.agents[op.agent] as LedgerModelAgent
        return changeReferenceFuse(pack, op)
      }
      case 'revoke': {
        const { pack } = this.agents[op.agent] as LedgerModelAgent
        pack.revoked = true
      }
    }
  }

  private trip(
    pack: LedgerModelBackpack,
    limit: 'perCall' | 'perDay',
    gone: bigint,
    amount: bigint,
  ): void {
    const max = pack[limit]
    if (max === null || amount === 0n || gone + amount <= max) return
    const first = !pack.persistedRejections.has(limit)
    pack.persistedRejections.add(limit)
    throw new LedgerModelRejection('FUSE_TRIPPED', first)
  }

  private admit(op: LedgerModelOperation & { type: 'admit' }, id: number): void {
    const { agent, node, amount, key, task: taskAt, durable, passable } = op
    const own = this.agents[agent] as LedgerModelAgent
    const soft = this.inMemoryHolds(agent, node)
    const reserved = (match: (call: LedgerModelCall) => boolean) =>
      sum(soft.filter(match).map((call) => call.amount))
    const task = taskAt === null ? null : (this.tasks[taskAt] as LedgerModelTask | undefined)
    const known = task !== null && task !== undefined && task.agent === agent ? task : null
    const open = passable
      ? findUsableReferenceTaskPass(own, this.inMemoryHolds(agent, node), amount)
      : null
    if (op.pack) {
      if (own.pack.revoked) throw new LedgerModelRejection('REVOKED')
      this.trip(own.pack, 'perCall', 0n, amount)
      const gone = own.pack.spent + own.pack.held + reserved((call) => call.pack)
      this.trip(own.pack, 'perDay', gone, amount)
    }
    if (known !== null) {
      if (known.state !== 'active') throw new LedgerModelRejection('task_not_active')
      const gone = known.spent + known.held + reserved((call) => call.task === taskAt)
      if (amount > 0n && gone + amount > known.budget)
        throw new LedgerModelRejection('task_budget_exceeded')
    }
    if (amount > 0n && key) {
      const held = this.durable(agent).filter((call) => call.key)
      const gone =
        own.keySpent + sum(held.map((call) => call.amount)) + reserved((call) => call.key)
      if (gone + amount > LEDGER_MODEL_KEY_CAP_MICROS)
        throw new LedgerModelRejection('key_cap_exceeded')
    }
    const free = own.promo + own.cash - this.reserved(agent, node)
    if (amount > 0n && open === null && free < amount)
      throw new LedgerModelRejection('payment_required')
    let taken: LedgerModelPurse | null = null
    if (durable) {
      taken = open === null ? takeFromReferencePurse(own, amount) : { promo: 0n, cash: 0n }
      if (open !== null) moveReferenceTaskPassSlots(open, -1, 1)
      own.promo -= taken.promo
      own.cash -= taken.cash
      if (op.pack) own.pack.held += amount
      if (known !== null) known.held += amount
    }
    const call = {
      agent,
      node,
      amount,
      key,
      task: known === null ? null : taskAt,
      pack: op.pack,
      taken,
      passable,
      passNumber: open?.number ?? null,
    }
    this.calls.set(id, call)
    this.owner.set(id, agent)
    if (durable) this.durables.add(id)
  }

  private open(node: number, id: number): LedgerModelCall | undefined {
    const call = this.calls.get(id)
    return call !== undefined && call.taken === null && call.node !== node ? undefined : call
  }

  private reward(): void {
    this.granted += REFERRAL_REWARD_MICROS
    this.agents[LEDGER_MODEL_REFERRER]?.inbox.push({ promo: REFERRAL_REWARD_MICROS, cash: 0n })
  }

  private settle(op: LedgerModelSettleOperation): void {
    const { node, call: id, part } = op
    const call = this.open(node, id)
    if (call === undefined) throw new LedgerModelRejection('call_settled')
    const cost = (call.amount * part) / 4n
    const own = this.agents[call.agent] as LedgerModelAgent
    const task = call.task === null ? null : (this.tasks[call.task] as LedgerModelTask)
    let used: LedgerModelPurse
    if (call.taken === null) used = this.charge(call, own, task, cost)
    else {
      if (call.pack) {
        own.pack.held -= call.amount
        own.pack.spent += cost
      }
      if (task !== null) {
        task.held -= call.amount
        task.spent += cost
      }
      used = takeFromReferencePurse(call.taken, cost)
      if (call.passNumber !== null) used = endHeldReferenceTaskPassSlot(own, cost)
      else {
        own.promo += call.taken.promo - used.promo
        own.cash += call.taken.cash - used.cash
      }
      if (call.key) own.keySpent += cost
    }
    this.calls.delete(id)
    divideReferencePrice(
      this,
      call.agent,
      used.promo + used.cash,
      used,
      call.passable ? { ...op, share: 0n } : op,
    )
  }

  private charge(
    call: LedgerModelCall,
    own: LedgerModelAgent,
    task: LedgerModelTask | null,
    cost: bigint,
  ): LedgerModelPurse {
    if (call.pack) {
      if (own.pack.revoked) throw new LedgerModelRejection('REVOKED')
      this.trip(own.pack, 'perCall', 0n, cost)
      this.trip(own.pack, 'perDay', own.pack.spent + own.pack.held, cost)
    }
    if (task !== null && cost > 0n && task.spent + task.held + cost > task.budget)
      throw new LedgerModelRejection('task_budget_exceeded')
    if (cost > 0n && call.key) {
      const held = this.durable(call.agent).filter((one) => one.key)
      const gone = own.keySpent + sum(held.map((one) => one.amount))
      if (gone + cost > LEDGER_MODEL_KEY_CAP_MICROS)
        throw new LedgerModelRejection('key_cap_exceeded')
    }
    const open =
      cost > 0n
        ? findTaskPassOfReferenceCall(own, call, this.inMemoryHolds(call.agent, call.node))
        : null
    if (open === null && cost > own.promo + own.cash)
      throw new LedgerModelRejection('payment_required')
    if (call.pack) own.pack.spent += cost
    if (task !== null) task.spent += cost
    if (call.key) own.keySpent += cost
    if (open !== null) return takeReferenceTaskPassSlot(own, open, 'left')
    const { promo, cash } = takeFromReferencePurse(own, cost)
    own.promo -= promo
    own.cash -= cash
    return { promo, cash }
  }

  private release(node: number, id: number, must: boolean, softToo = must): void {
    const call = this.open(node, id)
    if (call === undefined || (call.taken === null && !softToo)) {
      if (must) throw new LedgerModelRejection('call_settled')
      return
    }
    this.calls.delete(id)
    if (call.taken === null) return
    const own = this.agents[call.agent] as LedgerModelAgent
    own.promo += call.taken.promo
    own.cash += call.taken.cash
    if (call.passNumber !== null && own.openPass !== null)
      moveReferenceTaskPassSlots(own.openPass, 1, -1)
    if (call.pack) own.pack.held -= call.amount
    if (call.task !== null) (this.tasks[call.task] as LedgerModelTask).held -= call.amount
  }

  private pay({
    type,
    agent,
    node,
    amount,
    promoToo,
  }: LedgerModelOperation & { type: 'send' | 'tip' }): void {
    const own = this.agents[agent] as LedgerModelAgent
    const other = this.agents[1 - agent] as LedgerModelAgent
    const reserved = this.reserved(agent, node)
    const covered = own.promo + own.cash - reserved >= amount
    let parts = takeFromReferencePurse(own, amount)
    if (!promoToo) {
      const freeCash = reserved > own.promo ? own.cash - (reserved - own.promo) : own.cash
      if (freeCash < amount)
        throw new LedgerModelRejection(covered ? 'promo_not_transferable' : 'payment_required')
      parts = { promo: 0n, cash: amount }
    } else if (!covered) throw new LedgerModelRejection('payment_required')
    own.promo -= parts.promo
    own.cash -= parts.cash
    const fee = type === 'tip' ? amount - (amount * 95n) / 100n : 0n
    const fromCash = smallerAmount(fee, parts.cash)
    this.treasury += fee
    other.inbox.push({ promo: parts.promo - (fee - fromCash), cash: parts.cash - fromCash })
  }

  private budget(node: number, at: number, amount: bigint): void {
    const task = this.tasks[at] as LedgerModelTask
    if (task.state !== 'active') throw new LedgerModelRejection('task_not_active')
    const reserved = sum(
      this.inMemoryHolds(task.agent, node)
        .filter((call) => call.task === at)
        .map((call) => call.amount),
    )
    if (amount < task.spent + task.held + reserved)
      throw new LedgerModelRejection('budget_below_spent')
    task.budget = amount
  }
}

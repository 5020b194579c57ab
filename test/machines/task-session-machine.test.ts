import fc from 'fast-check'
import t from 'tap'
import type { SnapshotFrom } from 'xstate'
import { ZERO_MICROS } from '../../core/money.ts'
import {
  taskSessionMachine,
  type TaskSessionMachineEvent,
} from '../../machines/task-session-machine.ts'
import {
  stepMachineToInitialState,
  readGoldenSnapshots,
  shortestEventPaths,
  stepMachineThroughEvents,
  restoreSnapshot,
  stepStateMachine,
  microUsd,
} from '../support/machines/state-machine-stepper.ts'

type Snapshot = SnapshotFrom<typeof taskSessionMachine>
const NOON = Date.UTC(2026, 10, 21, 12)

const start = (budget: number): Snapshot =>
  stepMachineToInitialState(taskSessionMachine, {
    taskId: 'task-1',
    name: 'demo',
    budget: microUsd(budget),
    at: NOON,
  }).snapshot
const ask = (amount: number, reserved = 0) =>
  ({ type: 'ASK', amount: microUsd(amount), reserved: microUsd(reserved) }) as const
const hold = (amount: number, reserved = 0) =>
  ({ type: 'HOLD', amount: microUsd(amount), reserved: microUsd(reserved) }) as const
const charge = (amount: number) => ({ type: 'CHARGE', amount: microUsd(amount) }) as const
const capture = (held: number, amount: number) =>
  ({ type: 'CAPTURE', held: microUsd(held), amount: microUsd(amount) }) as const
const release = (held: number) => ({ type: 'RELEASE', held: microUsd(held) }) as const
const setBudget = (budget: number, reserved = 0) =>
  ({ type: 'SET_BUDGET', budget: microUsd(budget), reserved: microUsd(reserved) }) as const
const end = { type: 'END', at: NOON + 1 } as const
const cancel = { type: 'CANCEL', at: NOON + 2 } as const
const refusal = (snapshot: Snapshot, event: TaskSessionMachineEvent) =>
  stepStateMachine(taskSessionMachine, snapshot, event).refused

t.test('a task starts active with nothing spent', async (t) => {
  t.match(start(100), {
    value: 'active',
    context: { budget: 100n, spent: 0n, held: 0n, calls: 0, startedAt: NOON, endedAt: null },
  })
})

t.test('spent, held, reserved and the new amount fit the budget to the micro', async (t) => {
  const { snapshot } = stepMachineThroughEvents(taskSessionMachine, start(100), [
    charge(20),
    hold(30),
  ])
  t.match(snapshot.context, { spent: 20n, held: 30n, calls: 1 })
  const asked = stepStateMachine(taskSessionMachine, snapshot, ask(40, 10))
  t.equal(asked.refused, null)
  t.strictSame(asked.snapshot.context, snapshot.context, 'asking changes nothing')
  t.equal(refusal(snapshot, ask(41, 10)), 'task_budget_exceeded')
  t.equal(refusal(snapshot, hold(40, 10)), null)
  t.equal(refusal(snapshot, hold(40, 11)), 'task_budget_exceeded')
  t.equal(refusal(snapshot, charge(50)), null, 'a charge counts no memory')
  t.equal(refusal(snapshot, charge(51)), 'task_budget_exceeded')
})

t.test('a free call fits a task without budget', async (t) => {
  t.equal(refusal(start(0), ask(0)), null)
  t.equal(refusal(start(0), ask(0, 5)), null)
  t.equal(refusal(start(0), ask(1)), 'task_budget_exceeded')
  t.equal(stepStateMachine(taskSessionMachine, start(0), charge(0)).snapshot.context.calls, 1)
})

t.test('a capture spends the price of the call, a release nothing', async (t) => {
  const held = stepStateMachine(taskSessionMachine, start(100), hold(60)).snapshot
  t.match(stepStateMachine(taskSessionMachine, held, capture(60, 25)).snapshot.context, {
    held: 0n,
    spent: 25n,
    calls: 1,
  })
  t.match(stepStateMachine(taskSessionMachine, held, release(60)).snapshot.context, {
    held: 0n,
    spent: 0n,
    calls: 0,
  })
})

t.test('no settlement exceeds its hold', async (t) => {
  const held = stepStateMachine(taskSessionMachine, start(100), hold(60)).snapshot
  t.equal(refusal(held, capture(61, 10)), 'call_settled')
  t.equal(refusal(held, capture(60, 61)), 'call_settled')
  t.equal(refusal(held, release(61)), 'call_settled')
})

t.test('a budget may be lowered to the spent, held and reserved amounts, not below', async (t) => {
  const { snapshot } = stepMachineThroughEvents(taskSessionMachine, start(100), [
    charge(20),
    hold(30),
  ])
  t.equal(
    stepStateMachine(taskSessionMachine, snapshot, setBudget(60, 10)).snapshot.context.budget,
    60n,
  )
  t.equal(refusal(snapshot, setBudget(59, 10)), 'budget_below_spent')
  t.equal(
    stepStateMachine(taskSessionMachine, snapshot, setBudget(500)).snapshot.context.budget,
    500n,
  )
})

t.test('end completes and cancel abandons', async (t) => {
  t.match(stepStateMachine(taskSessionMachine, start(1), end).snapshot, {
    value: 'completed',
    context: { endedAt: NOON + 1 },
  })
  t.match(stepStateMachine(taskSessionMachine, start(1), cancel).snapshot, {
    value: 'abandoned',
    context: { endedAt: NOON + 2 },
  })
})

for (const close of [end, cancel]) {
  t.test(`after ${close.type} a task rejects new calls and settles admitted ones`, async (t) => {
    const { snapshot } = stepMachineThroughEvents(taskSessionMachine, start(100), [hold(60), close])
    for (const event of [ask(0), hold(1), setBudget(500), end, cancel]) {
      const outcome = stepStateMachine(taskSessionMachine, snapshot, event)
      t.equal(outcome.refused, 'task_not_active', event.type)
      t.strictSame(outcome.snapshot.context, snapshot.context)
    }
    t.match(stepStateMachine(taskSessionMachine, snapshot, capture(60, 60)).snapshot, {
      value: snapshot.value,
      context: { held: 0n, spent: 60n },
    })
    t.equal(refusal(snapshot, release(60)), null)
    t.equal(refusal(snapshot, charge(40)), null, 'a call that was held in memory')
    t.equal(refusal(snapshot, charge(41)), 'task_budget_exceeded')
  })
}

t.test('an unknown event is rejected', async (t) => {
  t.equal(refusal(start(1), { type: 'NO_SUCH_EVENT' } as never), 'task_not_active')
})

const withinBudget = ({ context: { spent, held, budget } }: Snapshot) =>
  spent >= 0n && held >= 0n && spent + held <= budget

t.test('on all paths spent and held stay within the budget', async (t) => {
  const events = [
    ask(30, 20),
    hold(30),
    hold(40, 20),
    charge(30),
    capture(30, 20),
    capture(40, 40),
    release(30),
    release(40),
    setBudget(60),
    setBudget(120, 10),
    end,
    cancel,
  ]
  const bucket = ({ value, context: { spent, held, budget } }: Snapshot) =>
    `${String(value)} ${spent} ${held} ${budget}`
  const walks = shortestEventPaths(taskSessionMachine, start(100), events, bucket, 60_000)
  t.ok(walks.length > 100, `${walks.length} paths`)
  for (const walk of walks) {
    const { snapshot } = stepMachineThroughEvents(taskSessionMachine, start(100), walk)
    if (!withinBudget(snapshot)) t.fail('beyond the budget', { walk })
    const ended = snapshot.value !== 'active'
    if (ended !== (snapshot.context.endedAt !== null)) t.fail('the end is not noted', { walk })
  }
})

t.test('no sequence of events exceeds the budget', async (t) => {
  const amount = fc.nat(120)
  const anyEvent: fc.Arbitrary<TaskSessionMachineEvent> = fc.oneof(
    fc.tuple(amount, amount).map(([wanted, reserved]) => hold(wanted, reserved)),
    amount.map(charge),
    fc.tuple(amount, amount).map(([held, cost]) => capture(held, cost)),
    amount.map(release),
    fc.tuple(amount, amount).map(([budget, reserved]) => setBudget(budget, reserved)),
    fc.constantFrom<TaskSessionMachineEvent>(end, cancel),
  )
  const property = fc.property(fc.array(anyEvent, { maxLength: 30 }), (events) => {
    let snapshot = start(100)
    for (const event of events) {
      snapshot = stepStateMachine(taskSessionMachine, snapshot, event).snapshot
      if (!withinBudget(snapshot)) return false
    }
    return true
  })
  fc.assert(property, { numRuns: 300, verbose: 1 })
  t.pass('within the budget')
})

t.test('snapshots of version 1 still resolve and accept events', async (t) => {
  for (const stored of readGoldenSnapshots('task-session-v1.json')) {
    const snapshot = restoreSnapshot(taskSessionMachine, stored)
    t.equal(snapshot.value, stored.value, stored.name)
    t.strictSame(snapshot.context, stored.context)
    t.equal(refusal(snapshot, ask(0)), snapshot.value === 'active' ? null : 'task_not_active')
    const settled = stepStateMachine(taskSessionMachine, snapshot, {
      type: 'CAPTURE',
      held: snapshot.context.held,
      amount: snapshot.context.held,
    })
    t.equal(settled.refused, null)
    t.equal(settled.snapshot.context.held, ZERO_MICROS)
  }
})

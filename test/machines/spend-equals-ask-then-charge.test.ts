import fc from 'fast-check'
import t from 'tap'
import type { AnyStateMachine } from 'xstate'
import type { MachineOrReducerSnapshot } from '../../actors/pure-machine-transition.ts'
import { stringifyWithBigints } from '../../core/json/bigint.ts'
import { ZERO_MICROS } from '../../core/money.ts'
import { agentMachine } from '../../machines/agent-machine.ts'
import { backpackMachine } from '../../machines/backpack-machine.ts'
import { taskSessionMachine } from '../../machines/task-session-machine.ts'
import {
  AGENT_TEST_NOON_MS,
  sampleAgentSnapshot,
} from '../support/machines/agent-machine-sample-events.ts'
import {
  BACKPACK_TEST_NOON_MS,
  sampleBackpackSnapshot,
} from '../support/machines/backpack-machine-sample-events.ts'
import {
  microUsd,
  stepMachineToInitialState,
  stepStateMachine,
  type SteppedEvent,
  type SteppedSnapshot,
} from '../support/machines/state-machine-stepper.ts'

/** `SPEND` admits and charges in one step: it has to be what `ASK` and then `CHARGE` are. */
function assertSpendIsAskThenCharge<M extends AnyStateMachine>(
  machine: M,
  before: SteppedSnapshot<M>,
  fields: { readonly at: number },
): boolean {
  const event = (type: string) => ({ ...fields, type, heldAt: fields.at }) as SteppedEvent<M>
  const spent = stepStateMachine(machine, before, event('SPEND'))
  const asked = stepStateMachine(machine, before, event('ASK'))
  if (spent.refused !== asked.refused) return false
  const told = (step: { readonly emitted: unknown }) => stringifyWithBigints(step.emitted)
  if (asked.refused !== null) return told(spent) === told(asked)
  const charged = stepStateMachine(machine, asked.snapshot, event('CHARGE'))
  const stored = (step: { readonly snapshot: SteppedSnapshot<M> }) => {
    const { value, context } = step.snapshot as MachineOrReducerSnapshot
    return stringifyWithBigints({ value, context })
  }
  return charged.refused === null && stored(spent) === stored(charged)
}

const amount = (most: number) => fc.nat(most).map(microUsd)

t.test('the agent: balance, promotional credits first, and the caps of a key', async () => {
  const property = fc.property(
    fc.record({
      amount: amount(120_000),
      reserved: amount(60_000),
      keyId: fc.constantFrom(null, 'key-1'),
      keyCap: fc.option(amount(90_000)),
      keyCapPerDay: fc.option(amount(90_000)),
      keyReserved: amount(20_000),
    }),
    (fields) =>
      assertSpendIsAskThenCharge(agentMachine, sampleAgentSnapshot(30_000, 70_000), {
        ...fields,
        callId: 'call-1',
        at: AGENT_TEST_NOON_MS,
      } as never),
  )
  fc.assert(property)
})

t.test('the Backpack: tools, expiry and fuses, with what other calls hold', async () => {
  const property = fc.property(
    fc.record({
      amount: amount(120),
      reservedDay: amount(60),
      reservedMonth: amount(60),
      tool: fc.constantFrom('listed', 'other'),
      at: fc.constantFrom(BACKPACK_TEST_NOON_MS, BACKPACK_TEST_NOON_MS + 400 * 86_400_000),
    }),
    (fields) =>
      assertSpendIsAskThenCharge(
        backpackMachine,
        sampleBackpackSnapshot({ tools: ['listed'] }),
        fields,
      ),
  )
  fc.assert(property)
})

t.test('the task: its budget, and whether it is active', async (t) => {
  const task = stepMachineToInitialState(taskSessionMachine, {
    taskId: 't',
    name: 'demo',
    budget: microUsd(100),
    at: AGENT_TEST_NOON_MS,
  }).snapshot
  const at = AGENT_TEST_NOON_MS
  const property = fc.property(fc.record({ amount: amount(120), reserved: amount(60) }), (fields) =>
    assertSpendIsAskThenCharge(taskSessionMachine, task, { ...fields, at } as never),
  )
  fc.assert(property)
  const ended = stepStateMachine(taskSessionMachine, task, { type: 'END', at }).snapshot
  const spend = { type: 'SPEND', amount: ZERO_MICROS, reserved: ZERO_MICROS } as const
  t.equal(stepStateMachine(taskSessionMachine, ended, spend).refused, 'task_not_active')
})

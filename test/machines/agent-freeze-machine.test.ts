import t from 'tap'
import { agentMachine } from '../../machines/agent-machine.ts'
import type { AgentMachineEvent } from '../../machines/agent/agent-machine-events.ts'
import {
  AGENT_TEST_NOON_MS,
  sampleAgentSpendCheckEvent,
  sampleAgentChargeEvent,
  sampleAgentHoldReleaseEvent,
  sampleAgentSnapshot,
  sampleAgentCreditEvent,
  sampleAgentDebitEvent,
  sampleAgentHoldCaptureEvent,
  sampleAgentHoldEvent,
  type AgentMachineSnapshot,
} from '../support/machines/agent-machine-sample-events.ts'
import { microUsd, stepStateMachine } from '../support/machines/state-machine-stepper.ts'

const step = (snapshot: AgentMachineSnapshot, event: AgentMachineEvent) =>
  stepStateMachine(agentMachine, snapshot, event)
const freezeAt = (at: number): AgentMachineEvent => ({ type: 'FREEZE', at })
const UNFREEZE: AgentMachineEvent = { type: 'UNFREEZE' }

t.test('a frozen agent spends nothing, and credits still arrive', async (t) => {
  const rich = sampleAgentSnapshot(100, 300_000)
  const { snapshot: frozen } = step(rich, freezeAt(AGENT_TEST_NOON_MS - 1))
  t.equal(frozen.value, 'frozen')
  t.strictSame(frozen.context.frozen, { at: AGENT_TEST_NOON_MS - 1, tier: 'healthy' })
  const spends = [
    sampleAgentSpendCheckEvent(0),
    sampleAgentSpendCheckEvent(40),
    sampleAgentHoldEvent('call-1', 40),
    { ...sampleAgentHoldEvent('call-2', 40), type: 'SPEND', callId: 'call-2' } as AgentMachineEvent,
    sampleAgentDebitEvent(10, 'any'),
    // Admitted by a node that did not know of the freeze.
    sampleAgentChargeEvent(40),
    sampleAgentChargeEvent(0),
  ]
  for (const event of spends) {
    const { refused, snapshot, emitted } = step(frozen, event)
    t.equal(refused, 'agent_frozen', event.type)
    t.strictSame([snapshot.value, snapshot.context, emitted], ['frozen', frozen.context, []])
  }
  const credited = step(frozen, sampleAgentCreditEvent(5, 7)).snapshot
  t.match(credited, { value: 'frozen', context: { promo: 105n, cash: 300_007n } })
  const deposit = { type: 'DEPOSIT', id: 'd', pending: microUsd(4_000_000) } as const
  const deposited = step(frozen, deposit).snapshot
  t.match(deposited, { value: 'frozen', context: { cash: 4_300_000n, promo: 1_000_100n } })
  t.equal(step(deposited, UNFREEZE).snapshot.value, 'healthy')
})

t.test('calls that were admitted before the freeze end as usual', async (t) => {
  const held = step(sampleAgentSnapshot(0, 300_000), sampleAgentHoldEvent('call-1', 40)).snapshot
  const { snapshot: frozen } = step(held, freezeAt(AGENT_TEST_NOON_MS))
  const captured = step(frozen, sampleAgentHoldCaptureEvent('call-1', 30))
  t.match(captured, { refused: null, snapshot: { context: { cash: 299_970n, held: 0n } } })
  const released = step(frozen, sampleAgentHoldReleaseEvent('call-1'))
  t.match(released, { refused: null, snapshot: { context: { cash: 300_000n, held: 0n } } })
  // Held in memory, from the same millisecond.
  const charged = step(frozen, sampleAgentChargeEvent(100))
  t.match(charged, { refused: null, snapshot: { value: 'frozen', context: { cash: 299_860n } } })
})

t.test('freezing and unfreezing twice change nothing', async (t) => {
  const open = sampleAgentSnapshot(0, 300_000)
  t.equal(step(open, UNFREEZE).snapshot.value, 'healthy')
  const frozen = step(open, freezeAt(5)).snapshot
  t.strictSame(step(frozen, freezeAt(9)).snapshot.context, frozen.context, 'since the first time')
  const thawed = step(frozen, UNFREEZE)
  t.match(thawed, { snapshot: { value: 'healthy', context: { frozen: null } }, emitted: [] })
})

t.test('a level that a running call crossed is told when the agent goes on', async (t) => {
  const held = step(
    sampleAgentSnapshot(0, 300_000),
    sampleAgentHoldEvent('call-1', 200_000),
  ).snapshot
  const frozen = step(held, freezeAt(AGENT_TEST_NOON_MS)).snapshot
  const captured = step(frozen, sampleAgentHoldCaptureEvent('call-1', 200_000))
  t.strictSame([captured.snapshot.value, captured.emitted], ['frozen', []])
  const { snapshot, emitted } = step(captured.snapshot, UNFREEZE)
  t.equal(snapshot.value, 'warning')
  t.match(emitted, [{ type: 'low_balance', tier: 'warning', from: 'healthy', balance: 100_000n }])
})

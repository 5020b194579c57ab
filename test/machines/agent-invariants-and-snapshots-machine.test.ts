import fc from 'fast-check'
import t from 'tap'
import { parseWithBigints, stringifyWithBigints } from '../../core/json/bigint.ts'
import { smallerOfTwoMicros, sumMicros, type Micros } from '../../core/money.ts'
import { agentMachine } from '../../machines/agent-machine.ts'
import type { AgentMachineEvent } from '../../machines/agent/agent-machine-events.ts'
import type { AgentMachineContext } from '../../machines/agent/agent-balance.ts'
import {
  readGoldenSnapshots,
  shortestEventPaths,
  restoreSnapshot,
  stepStateMachine,
  microUsd,
} from '../support/machines/state-machine-stepper.ts'
import {
  stepAgentMachineForRefusal,
  sampleAgentSnapshot,
  type AgentMachineSnapshot,
  sampleAgentDebitEvent,
  sampleAgentHoldEvent,
  sampleAgentHoldReleaseEvent,
  sampleAgentHoldCaptureEvent,
  sampleAgentChargeEvent,
  sampleAgentSpendCheckEvent,
  sampleAgentCreditEvent,
} from '../support/machines/agent-machine-sample-events.ts'

const total = ({ promo, cash, held }: AgentMachineContext): Micros => sumMicros([promo, cash, held])

t.test('on all paths no balance is negative and held is the sum of the holds', async (t) => {
  const events = [
    sampleAgentCreditEvent(50_000, 0),
    sampleAgentCreditEvent(0, 60_000),
    sampleAgentHoldEvent('call-1', 50_000, { keyId: 'key-1', keyCap: microUsd(90_000) }),
    sampleAgentHoldEvent('call-2', 30_000),
    sampleAgentHoldCaptureEvent('call-1', 20_000),
    sampleAgentHoldCaptureEvent('call-2', 30_000),
    sampleAgentHoldReleaseEvent('call-1'),
    sampleAgentHoldReleaseEvent('call-2'),
    sampleAgentChargeEvent(40_000, 'key-1', 90_000),
    sampleAgentDebitEvent(60_000, 'cash'),
    sampleAgentDebitEvent(10_000, 'any', 20_000),
  ]
  const bucket = ({ value, context }: AgentMachineSnapshot) => {
    const { promo, cash, holds } = context
    const [free, own] = [
      smallerOfTwoMicros(microUsd(200_000), promo),
      smallerOfTwoMicros(microUsd(400_000), cash),
    ]
    return `${String(value)} ${free / 50_000n} ${own / 60_000n} ${Object.keys(holds).toSorted().join()}`
  }
  const walks = shortestEventPaths(
    agentMachine,
    sampleAgentSnapshot(0, 300_000),
    events,
    bucket,
    20_000,
  )
  t.ok(walks.length > 30, `${walks.length} paths`)
  for (const walk of walks) {
    let snapshot = sampleAgentSnapshot(0, 300_000)
    for (const event of walk) snapshot = stepStateMachine(agentMachine, snapshot, event).snapshot
    const { promo, cash, held, holds } = snapshot.context
    if (promo < 0n || cash < 0n || held < 0n) t.fail('a negative amount', { walk })
    const parts = Object.values(holds).flatMap((one) => [one.promo, one.cash])
    if (sumMicros(parts) !== held) t.fail('held differs from the holds', { walk })
    if ((snapshot.context.keySpent['key-1'] ?? 0n) > 90_000n) t.fail('above the cap', { walk })
  }
})

const amount = fc.nat(120_000)
const call = fc.constantFrom('call-1', 'call-2', 'call-3')
const key = fc.constantFrom(null, 'key-1', 'key-2')
const anyEvent: fc.Arbitrary<AgentMachineEvent> = fc.oneof(
  fc
    .tuple(amount, amount)
    .map(([wanted, reserved]) =>
      sampleAgentSpendCheckEvent(wanted, { reserved: microUsd(reserved) }),
    ),
  fc.tuple(amount, amount).map(([wanted, reserved]) => ({
    ...sampleAgentHoldEvent('call-s', wanted, { reserved: microUsd(reserved) }),
    type: 'SPEND' as const,
    callId: 'call-s',
  })) as fc.Arbitrary<AgentMachineEvent>,
  fc
    .tuple(call, amount, key, fc.option(amount))
    .map(([callId, wanted, keyId, cap]) =>
      sampleAgentHoldEvent(callId, wanted, { keyId, keyCap: cap === null ? null : microUsd(cap) }),
    ),
  fc
    .tuple(amount, key, fc.option(amount))
    .map(([cost, keyId, cap]) => sampleAgentChargeEvent(cost, keyId, cap)),
  fc.tuple(call, amount).map(([callId, cost]) => sampleAgentHoldCaptureEvent(callId, cost)),
  call.map(sampleAgentHoldReleaseEvent),
  fc.tuple(amount, amount).map(([promo, cash]) => sampleAgentCreditEvent(promo, cash)),
  fc.constantFrom<AgentMachineEvent>({ type: 'FREEZE', at: 1 }, { type: 'UNFREEZE' }),
  fc
    .tuple(amount, fc.constantFrom('cash' as const, 'any' as const), amount)
    .map(([wanted, from, reserved]) => sampleAgentDebitEvent(wanted, from, reserved)),
)

/** How much an accepted event changes promo + cash + held. */
function flow(event: AgentMachineEvent): bigint {
  if (event.type === 'CREDIT') return event.promo + event.cash
  const leaves = ['CHARGE', 'SPEND', 'CAPTURE', 'DEBIT'].includes(event.type)
  return leaves && 'amount' in event ? -event.amount : 0n
}

t.test('money only enters by credit and leaves by charge, spend, capture and debit', async (t) => {
  const property = fc.property(fc.array(anyEvent, { maxLength: 40 }), (events) => {
    let snapshot = sampleAgentSnapshot(100_000, 100_000)
    for (const event of events) {
      const { snapshot: next, refused, emitted } = stepStateMachine(agentMachine, snapshot, event)
      const expected = total(snapshot.context) + (refused === null ? flow(event) : 0n)
      const { promo, cash, held } = next.context
      if (total(next.context) !== expected) return false
      if (refused !== null && (next.value !== snapshot.value || emitted.length > 0)) return false
      if (promo < 0n || cash < 0n || held < 0n) return false
      snapshot = next
    }
    return true
  })
  fc.assert(property, { numRuns: 300, verbose: 1 })
  t.pass('the sum was kept')
})

t.test('snapshots of version 1 still resolve and accept events', async (t) => {
  for (const stored of readGoldenSnapshots('agent-v1.json')) {
    const snapshot = restoreSnapshot(agentMachine, stored)
    t.equal(snapshot.value, stored.value, stored.name)
    t.equal(stringifyWithBigints(snapshot.context), stringifyWithBigints(stored.context))
    t.equal(
      stepStateMachine(agentMachine, snapshot, sampleAgentCreditEvent(0, 1_000_000)).snapshot.value,
      'healthy',
    )
    for (const callId of Object.keys(snapshot.context.holds)) {
      t.equal(
        stepAgentMachineForRefusal(snapshot, sampleAgentHoldReleaseEvent(callId)),
        null,
        `${stored.name} releases ${callId}`,
      )
    }
  }
})

t.test('a context is equal after encoding and decoding', async (t) => {
  const { snapshot } = stepStateMachine(
    agentMachine,
    sampleAgentSnapshot(30, 70),
    sampleAgentHoldEvent('call-1', 40),
  )
  t.strictSame(
    parseWithBigints<AgentMachineContext>(stringifyWithBigints(snapshot.context)),
    snapshot.context,
  )
})

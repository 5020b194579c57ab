import t from 'tap'
import { ZERO_MICROS } from '../../core/money.ts'
import { CRITICAL_BALANCE_MICROS, WARNING_BALANCE_MICROS } from '../../domain/pricing.ts'
import { agentMachine } from '../../machines/agent-machine.ts'
import {
  stepMachineToInitialState,
  stepMachineThroughEvents,
  stepStateMachine,
  microUsd,
} from '../support/machines/state-machine-stepper.ts'
import {
  sampleAgentSnapshot,
  sampleAgentDebitEvent,
  stepAgentMachineForRefusal,
  AGENT_TEST_NOON_MS,
  sampleAgentHoldEvent,
  sampleAgentHoldReleaseEvent,
  sampleAgentHoldCaptureEvent,
  sampleAgentChargeEvent,
  sampleAgentSpendCheckEvent,
  sampleAgentCreditEvent,
} from '../support/machines/agent-machine-sample-events.ts'

t.test('an agent starts in the tier of its balance and emits nothing', async (t) => {
  const tiers = [
    [0, 'empty'],
    [1, 'critical'],
    [Number(CRITICAL_BALANCE_MICROS), 'critical'],
    [Number(CRITICAL_BALANCE_MICROS) + 1, 'warning'],
    [Number(WARNING_BALANCE_MICROS), 'warning'],
    [Number(WARNING_BALANCE_MICROS) + 1, 'healthy'],
  ] as const
  for (const [cash, tier] of tiers) {
    const opened = stepMachineToInitialState(agentMachine, {
      agentId: 'agent-1',
      promo: ZERO_MICROS,
      cash: microUsd(cash),
    })
    t.equal(opened.snapshot.value, tier)
    t.strictSame(opened.emitted, [])
  }
})

t.test('falling into a tier emits one event, rising emits none', async (t) => {
  const { snapshot, emitted } = stepStateMachine(
    agentMachine,
    sampleAgentSnapshot(0, 250_001),
    sampleAgentChargeEvent(1),
  )
  t.strictSame(emitted, [
    { type: 'low_balance', tier: 'warning', from: 'healthy', balance: 250_000n },
  ])
  const lower = stepStateMachine(agentMachine, snapshot, sampleAgentChargeEvent(1))
  t.equal(lower.snapshot.value, 'warning')
  t.strictSame(lower.emitted, [], 'the same tier again')
  const critical = stepStateMachine(agentMachine, lower.snapshot, sampleAgentChargeEvent(200_000))
  t.match(critical.emitted, [{ tier: 'critical', balance: 49_999n }])
  const up = stepStateMachine(agentMachine, critical.snapshot, sampleAgentCreditEvent(0, 1_000_000))
  t.equal(up.snapshot.value, 'healthy')
  t.strictSame(up.emitted, [])
  const empty = stepStateMachine(agentMachine, up.snapshot, sampleAgentChargeEvent(1_049_999))
  t.strictSame(
    empty.emitted,
    [{ type: 'low_balance', tier: 'empty', from: 'healthy', balance: 0n }],
    'skipped tiers emit nothing',
  )
})

t.test('a balance change reaches every tier from every other', async (t) => {
  const balances = { empty: 0, critical: 1, warning: 100_000, healthy: 300_000 }
  const order = Object.keys(balances)
  for (const [from, has] of Object.entries(balances)) {
    for (const [to, gets] of Object.entries(balances)) {
      const change =
        gets >= has ? sampleAgentCreditEvent(0, gets - has) : sampleAgentChargeEvent(has - gets)
      const { snapshot, emitted } = stepStateMachine(
        agentMachine,
        sampleAgentSnapshot(0, has),
        change,
      )
      t.equal(snapshot.value, to, `${from} to ${to}`)
      t.equal(
        emitted.length,
        order.indexOf(to) < order.indexOf(from) ? 1 : 0,
        `${from} to ${to} told`,
      )
    }
  }
})

t.test('held credits count in the balance that determines the tier', async (t) => {
  const { snapshot, emitted } = stepStateMachine(
    agentMachine,
    sampleAgentSnapshot(0, 300_000),
    sampleAgentHoldEvent('call-1', 300_000),
  )
  t.equal(snapshot.value, 'healthy')
  t.strictSame(emitted, [])
})

t.test(
  'a check accepts up to the balance without holds in memory, and changes nothing',
  async (t) => {
    const start = sampleAgentSnapshot(30, 70)
    const exact = stepStateMachine(
      agentMachine,
      start,
      sampleAgentSpendCheckEvent(60, { reserved: microUsd(40) }),
    )
    t.equal(exact.refused, null)
    t.strictSame(exact.snapshot.context, start.context)
    t.equal(
      stepAgentMachineForRefusal(start, sampleAgentSpendCheckEvent(61, { reserved: microUsd(40) })),
      'payment_required',
    )
    t.equal(
      stepAgentMachineForRefusal(
        start,
        sampleAgentHoldEvent('call-1', 61, { reserved: microUsd(40) }),
      ),
      'payment_required',
    )
  },
)

t.test('a free call is admitted without credits and with a key at its cap', async (t) => {
  const spent = stepStateMachine(
    agentMachine,
    sampleAgentSnapshot(0, 10),
    sampleAgentChargeEvent(10, 'key-1', 10),
  ).snapshot
  const keyed = {
    keyId: 'key-1',
    keyCap: microUsd(5),
    reserved: microUsd(3),
    keyReserved: microUsd(3),
  }
  t.equal(stepAgentMachineForRefusal(spent, sampleAgentSpendCheckEvent(0, keyed)), null)
  t.equal(stepAgentMachineForRefusal(spent, sampleAgentHoldEvent('call-1', 0, keyed)), null)
  t.equal(stepAgentMachineForRefusal(spent, sampleAgentChargeEvent(0, 'key-1', 5)), null)
})

t.test('the cap of a key counts its spend, durable holds and holds in memory', async (t) => {
  const keyed = { keyId: 'key-1', keyCap: microUsd(100) }
  const { snapshot } = stepMachineThroughEvents(agentMachine, sampleAgentSnapshot(0, 1_000), [
    sampleAgentChargeEvent(20, 'key-1', 100),
    sampleAgentHoldEvent('call-1', 30, keyed),
    sampleAgentHoldEvent('call-2', 500, { keyId: 'key-2', keyCap: null }),
  ])
  t.equal(
    stepAgentMachineForRefusal(
      snapshot,
      sampleAgentSpendCheckEvent(10, { ...keyed, keyReserved: microUsd(40) }),
    ),
    null,
    'exactly the cap',
  )
  t.equal(
    stepAgentMachineForRefusal(
      snapshot,
      sampleAgentSpendCheckEvent(11, { ...keyed, keyReserved: microUsd(40) }),
    ),
    'key_cap_exceeded',
  )
  t.equal(
    stepAgentMachineForRefusal(snapshot, sampleAgentHoldEvent('call-3', 51, keyed)),
    'key_cap_exceeded',
  )
  t.equal(
    stepAgentMachineForRefusal(snapshot, sampleAgentChargeEvent(50, 'key-1', 100)),
    null,
    'a charge counts no memory',
  )
  t.equal(
    stepAgentMachineForRefusal(snapshot, sampleAgentChargeEvent(51, 'key-1', 100)),
    'key_cap_exceeded',
  )
  t.equal(
    stepAgentMachineForRefusal(
      snapshot,
      sampleAgentSpendCheckEvent(51, { keyId: 'key-1', keyCap: null }),
    ),
    null,
    'a cap that was lifted',
  )
  t.equal(
    stepAgentMachineForRefusal(snapshot, sampleAgentSpendCheckEvent(2_000, keyed)),
    'key_cap_exceeded',
    'the cap is asked before the funds',
  )
})

t.test('only keys with a cap are counted', async (t) => {
  const { snapshot } = stepMachineThroughEvents(agentMachine, sampleAgentSnapshot(0, 1_000), [
    sampleAgentChargeEvent(10, 'free-key', null),
    sampleAgentHoldEvent('call-1', 20, { keyId: 'free-key' }),
    sampleAgentHoldCaptureEvent('call-1', 20),
    sampleAgentHoldEvent('call-2', 30, { keyId: 'key-1', keyCap: microUsd(100) }),
    sampleAgentHoldCaptureEvent('call-2', 25),
    sampleAgentChargeEvent(5, 'key-1', 100),
    sampleAgentChargeEvent(5, null, null),
  ])
  t.strictSame(snapshot.context.keySpent, { 'key-1': 30n })
})

t.test('a charge takes promotional credits first and rejects one micro too much', async (t) => {
  const start = sampleAgentSnapshot(30, 70)
  t.match(stepStateMachine(agentMachine, start, sampleAgentChargeEvent(40)).snapshot.context, {
    promo: 0n,
    cash: 60n,
  })
  t.match(stepStateMachine(agentMachine, start, sampleAgentChargeEvent(100)).snapshot, {
    value: 'empty',
    context: { promo: 0n, cash: 0n },
  })
  t.equal(stepAgentMachineForRefusal(start, sampleAgentChargeEvent(101)), 'payment_required')
})

t.test('a hold reserves promo then cash and records the call', async (t) => {
  const { snapshot } = stepStateMachine(
    agentMachine,
    sampleAgentSnapshot(30, 70),
    sampleAgentHoldEvent('call-1', 40, { keyId: 'key-1', keyCap: microUsd(50) }),
  )
  t.match(snapshot.context, { promo: 0n, cash: 60n, held: 40n })
  t.strictSame(snapshot.context.holds['call-1'], {
    promo: 30n,
    cash: 10n,
    external: 0n,
    payment: null,
    passId: null,
    loans: [],
    keyId: 'key-1',
    capped: true,
    taskId: 'task-1',
    backpackId: null,
    at: AGENT_TEST_NOON_MS,
    tool: 'web_search',
    idempotencyKey: null,
  })
})

t.test('a call cannot hold twice', async (t) => {
  const { snapshot } = stepStateMachine(
    agentMachine,
    sampleAgentSnapshot(30, 70),
    sampleAgentHoldEvent('call-1', 40),
  )
  const again = stepStateMachine(agentMachine, snapshot, sampleAgentHoldEvent('call-1', 10))
  t.equal(again.refused, 'call_settled')
  t.strictSame(again.snapshot.context, snapshot.context)
})

t.test('a capture spends the promo part first and returns the rest to its source', async (t) => {
  const { snapshot } = stepStateMachine(
    agentMachine,
    sampleAgentSnapshot(30, 70),
    sampleAgentHoldEvent('call-1', 40),
  )
  const captured = (amount: number) =>
    stepStateMachine(agentMachine, snapshot, sampleAgentHoldCaptureEvent('call-1', amount)).snapshot
      .context
  t.match(captured(0), { promo: 30n, cash: 70n, held: 0n, holds: {} })
  t.match(captured(25), { promo: 5n, cash: 70n, held: 0n })
  t.match(captured(35), { promo: 0n, cash: 65n, held: 0n })
  t.match(captured(40), { promo: 0n, cash: 60n, held: 0n })
  t.strictSame(captured(40).holds, {})
})

t.test('a call settles once and never above its hold', async (t) => {
  const { snapshot } = stepStateMachine(
    agentMachine,
    sampleAgentSnapshot(30, 70),
    sampleAgentHoldEvent('call-1', 40),
  )
  t.equal(
    stepAgentMachineForRefusal(snapshot, sampleAgentHoldCaptureEvent('call-1', 41)),
    'call_settled',
  )
  t.equal(
    stepAgentMachineForRefusal(snapshot, sampleAgentHoldCaptureEvent('call-2', 1)),
    'call_settled',
  )
  t.equal(
    stepAgentMachineForRefusal(snapshot, sampleAgentHoldReleaseEvent('call-2')),
    'call_settled',
  )
  const settled = stepStateMachine(
    agentMachine,
    snapshot,
    sampleAgentHoldCaptureEvent('call-1', 40),
  ).snapshot
  t.equal(
    stepAgentMachineForRefusal(settled, sampleAgentHoldCaptureEvent('call-1', 40)),
    'call_settled',
  )
  t.equal(
    stepAgentMachineForRefusal(settled, sampleAgentHoldReleaseEvent('call-1')),
    'call_settled',
  )
})

t.test('a release returns the whole hold and leaves other holds unchanged', async (t) => {
  const { snapshot } = stepMachineThroughEvents(agentMachine, sampleAgentSnapshot(30, 70), [
    sampleAgentHoldEvent('call-1', 40),
    sampleAgentHoldEvent('call-2', 20),
    sampleAgentHoldReleaseEvent('call-1'),
  ])
  t.match(snapshot.context, { promo: 30n, cash: 50n, held: 20n })
  t.strictSame(Object.keys(snapshot.context.holds), ['call-2'])
})

t.test('a transfer takes cash only, and calls in memory use promo before that cash', async (t) => {
  const start = sampleAgentSnapshot(30, 70)
  t.match(
    stepStateMachine(agentMachine, start, sampleAgentDebitEvent(70, 'cash')).snapshot.context,
    {
      promo: 30n,
      cash: 0n,
    },
  )
  t.equal(
    stepAgentMachineForRefusal(start, sampleAgentDebitEvent(71, 'cash')),
    'promo_not_transferable',
  )
  t.equal(
    stepAgentMachineForRefusal(start, sampleAgentDebitEvent(100, 'cash')),
    'promo_not_transferable',
  )
  t.equal(stepAgentMachineForRefusal(start, sampleAgentDebitEvent(101, 'cash')), 'payment_required')
  t.equal(
    stepAgentMachineForRefusal(start, sampleAgentDebitEvent(70, 'cash', 30)),
    null,
    'promo covers what is in memory',
  )
  t.equal(stepAgentMachineForRefusal(start, sampleAgentDebitEvent(69, 'cash', 31)), null)
  t.equal(
    stepAgentMachineForRefusal(start, sampleAgentDebitEvent(70, 'cash', 31)),
    'payment_required',
  )
  t.equal(
    stepAgentMachineForRefusal(start, sampleAgentDebitEvent(71, 'cash', 29)),
    'promo_not_transferable',
  )
})

t.test('a debit from any credits takes promo first', async (t) => {
  const start = sampleAgentSnapshot(30, 70)
  t.match(
    stepStateMachine(agentMachine, start, sampleAgentDebitEvent(40, 'any')).snapshot.context,
    {
      promo: 0n,
      cash: 60n,
    },
  )
  t.equal(stepAgentMachineForRefusal(start, sampleAgentDebitEvent(90, 'any', 10)), null)
  t.equal(
    stepAgentMachineForRefusal(start, sampleAgentDebitEvent(91, 'any', 10)),
    'payment_required',
  )
})

t.test('an unknown event is rejected and changes nothing', async (t) => {
  const start = sampleAgentSnapshot(30, 70)
  const outcome = stepStateMachine(agentMachine, start, { type: 'NO_SUCH_EVENT' } as never)
  t.equal(outcome.refused, 'internal')
  t.strictSame(outcome.snapshot.context, start.context)
})

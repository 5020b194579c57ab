import t from 'tap'
import { DAY } from '../../../core/clock.ts'
import { backpackMachine } from '../../../machines/backpack-machine.ts'
import {
  BACKPACK_TEST_NOON_MS,
  BACKPACK_TEST_EXPIRES_AT_MS,
  fuseLimitsFromUsd,
  sampleBackpackInput,
  sampleBackpackSnapshot,
  sampleBackpackSpendCheckEvent,
  backpackHoldEvent,
  backpackChargeEvent,
  backpackCaptureEvent,
  backpackReleaseEvent,
  backpackRevokeEvent,
  backpackRenewEvent,
  backpackExpiryTimerEvent,
  backpackRejectionOfMachineStep,
  trippedFuseLimitOfMachineStep,
} from '../../support/machines/backpack-machine-sample-events.ts'
import {
  stepMachineToInitialState,
  stepMachineThroughEvents,
  stepStateMachine,
} from '../../support/machines/state-machine-stepper.ts'

t.test('a new Backpack is far from its expiry and sets its three timers', async (t) => {
  const { snapshot, timers } = stepMachineToInitialState(backpackMachine, sampleBackpackInput())
  t.strictSame(snapshot.value, { active: 'far' })
  t.strictSame(timers, {
    'xstate.after.weekBefore.backpack.active': 83 * DAY,
    'xstate.after.dayBefore.backpack.active': 89 * DAY,
    'xstate.after.expiry.backpack.active': 90 * DAY,
  })
  t.match(snapshot.context, {
    day: '2026-11-21',
    month: '2026-11',
    spentTotal: 0n,
    calls: 0,
    told: {},
  })
})

t.test('a Backpack created shortly before its expiry starts there and emits nothing', async (t) => {
  const cases = [
    [7 * DAY, 'far'],
    [7 * DAY - 1, 'week'],
    [DAY, 'week'],
    [DAY - 1, 'day'],
  ] as const
  for (const [left, state] of cases) {
    const { snapshot, emitted, timers } = stepMachineToInitialState(
      backpackMachine,
      sampleBackpackInput({ expiresAt: BACKPACK_TEST_NOON_MS + left }),
    )
    t.strictSame(snapshot.value, { active: state })
    t.strictSame(emitted, [])
    t.equal(timers['xstate.after.expiry.backpack.active'], left)
  }
})

t.test('timers warn 7 days and 1 day before, then it expires', async (t) => {
  const week = stepStateMachine(
    backpackMachine,
    sampleBackpackSnapshot(),
    backpackExpiryTimerEvent('weekBefore'),
  )
  t.strictSame(week.snapshot.value, { active: 'week' })
  t.strictSame(week.emitted, [{ type: 'backpack.expiring', days: 7 }])
  t.strictSame(week.cancelled, [], 'the other timers go on')
  const day = stepStateMachine(
    backpackMachine,
    week.snapshot,
    backpackExpiryTimerEvent('dayBefore'),
  )
  t.strictSame(day.snapshot.value, { active: 'day' })
  t.strictSame(day.emitted, [{ type: 'backpack.expiring', days: 1 }])
  const expired = stepStateMachine(
    backpackMachine,
    day.snapshot,
    backpackExpiryTimerEvent('expiry'),
  )
  t.equal(expired.snapshot.value, 'expired')
  t.strictSame(expired.emitted, [])
})

t.test('a late or repeated timer emits no warning', async (t) => {
  const { snapshot } = stepStateMachine(
    backpackMachine,
    sampleBackpackSnapshot(),
    backpackExpiryTimerEvent('dayBefore'),
  )
  for (const late of [
    backpackExpiryTimerEvent('weekBefore'),
    backpackExpiryTimerEvent('dayBefore'),
  ]) {
    const outcome = stepStateMachine(backpackMachine, snapshot, late)
    t.strictSame([outcome.refused, outcome.emitted], [null, []])
    t.strictSame(outcome.snapshot.value, { active: 'day' })
  }
  const revoked = stepStateMachine(backpackMachine, snapshot, backpackRevokeEvent).snapshot
  t.equal(
    stepStateMachine(backpackMachine, revoked, backpackExpiryTimerEvent('expiry')).snapshot.value,
    'revoked',
  )
})

t.test(
  'expiry by the clock rejects calls before its timer fires, in the right order',
  async (t) => {
    const strict = sampleBackpackSnapshot({
      tools: ['price_feed'],
      fuse: fuseLimitsFromUsd(0, 0, 0),
    })
    t.equal(
      backpackRejectionOfMachineStep(
        strict,
        sampleBackpackSpendCheckEvent(1, BACKPACK_TEST_EXPIRES_AT_MS),
      ),
      'EXPIRED',
    )
    t.equal(
      backpackRejectionOfMachineStep(strict, backpackHoldEvent(1, BACKPACK_TEST_EXPIRES_AT_MS)),
      'EXPIRED',
    )
    t.equal(
      backpackRejectionOfMachineStep(
        strict,
        sampleBackpackSpendCheckEvent(1, BACKPACK_TEST_EXPIRES_AT_MS - 1),
      ),
      'TOOL_NOT_ALLOWED',
    )
    t.equal(
      backpackRejectionOfMachineStep(
        strict,
        sampleBackpackSpendCheckEvent(0, BACKPACK_TEST_EXPIRES_AT_MS - 1),
      ),
      'TOOL_NOT_ALLOWED',
      'a free call too',
    )
    t.equal(
      trippedFuseLimitOfMachineStep(
        strict,
        sampleBackpackSpendCheckEvent(1, BACKPACK_TEST_EXPIRES_AT_MS - 1, {}, 'price_feed'),
      ),
      'per_call',
    )
    t.equal(
      backpackRejectionOfMachineStep(strict, {
        type: 'SET',
        tools: null,
        at: BACKPACK_TEST_EXPIRES_AT_MS,
      }),
      'EXPIRED',
    )
    t.equal(
      backpackRejectionOfMachineStep(strict, {
        type: 'SET',
        tools: null,
        at: BACKPACK_TEST_EXPIRES_AT_MS - 1,
      }),
      null,
    )
  },
)

t.test('SET changes only the named fields', async (t) => {
  const { snapshot } = stepStateMachine(backpackMachine, sampleBackpackSnapshot(), {
    type: 'SET',
    fuse: fuseLimitsFromUsd(1, null, null),
    at: BACKPACK_TEST_NOON_MS,
  })
  t.equal(snapshot.context.tools, null)
  t.equal(trippedFuseLimitOfMachineStep(snapshot, sampleBackpackSpendCheckEvent(2)), 'per_call')
  const listed = stepStateMachine(backpackMachine, snapshot, {
    type: 'SET',
    tools: ['price_feed'],
    at: BACKPACK_TEST_NOON_MS,
  }).snapshot
  t.equal(
    backpackRejectionOfMachineStep(listed, sampleBackpackSpendCheckEvent(0)),
    'TOOL_NOT_ALLOWED',
  )
  t.equal(listed.context.fuse.perCall, 1n)
  const pager = { webhookUrl: 'https://example.com/hook', ownerEmail: null, ownerTelegram: null }
  const all = stepStateMachine(backpackMachine, listed, {
    type: 'SET',
    tools: null,
    pager,
    at: BACKPACK_TEST_NOON_MS,
  }).snapshot
  t.match(all.context, { tools: null, pager })
})

t.test('an expired Backpack settles admitted calls and rejects new ones', async (t) => {
  const { snapshot } = stepMachineThroughEvents(backpackMachine, sampleBackpackSnapshot(), [
    backpackHoldEvent(40),
    backpackExpiryTimerEvent('expiry'),
  ])
  for (const event of [
    sampleBackpackSpendCheckEvent(0),
    backpackHoldEvent(0),
    { type: 'SET', tools: [], at: BACKPACK_TEST_NOON_MS } as const,
  ]) {
    t.equal(backpackRejectionOfMachineStep(snapshot, event), 'EXPIRED', event.type)
  }
  t.equal(backpackRejectionOfMachineStep(snapshot, backpackChargeEvent(10)), null)
  t.equal(trippedFuseLimitOfMachineStep(snapshot, backpackChargeEvent(51)), 'per_call')
  t.equal(backpackRejectionOfMachineStep(snapshot, backpackCaptureEvent(40, 40)), null)
  t.equal(backpackRejectionOfMachineStep(snapshot, backpackReleaseEvent(40)), null)
  t.equal(
    stepStateMachine(backpackMachine, snapshot, backpackRevokeEvent).snapshot.value,
    'revoked',
  )
})

t.test('a revoked Backpack stops charges at once and only settles durable holds', async (t) => {
  const { snapshot, cancelled } = stepMachineThroughEvents(
    backpackMachine,
    sampleBackpackSnapshot(),
    [backpackHoldEvent(40), backpackRevokeEvent],
  )
  t.equal(cancelled.length, 3, 'its timers are gone')
  const set = { type: 'SET', tools: [], at: BACKPACK_TEST_NOON_MS } as const
  for (const event of [
    sampleBackpackSpendCheckEvent(0),
    backpackHoldEvent(0),
    backpackChargeEvent(0),
    set,
    backpackRenewEvent(BACKPACK_TEST_EXPIRES_AT_MS + DAY),
  ]) {
    const outcome = stepStateMachine(backpackMachine, snapshot, event)
    t.equal(outcome.refused, 'REVOKED', event.type)
    t.equal(outcome.snapshot.value, 'revoked')
  }
  t.equal(
    stepStateMachine(backpackMachine, snapshot, backpackRevokeEvent).refused,
    null,
    'to say it twice is no fault',
  )
  t.match(stepStateMachine(backpackMachine, snapshot, backpackCaptureEvent(40, 30)).snapshot, {
    value: 'revoked',
    context: { heldDay: 0n, spentDay: 30n },
  })
  t.equal(backpackRejectionOfMachineStep(snapshot, backpackReleaseEvent(40)), null)
})

t.test('spending outside tools needs its name in the list', async (t) => {
  const named = sampleBackpackSnapshot({ tools: ['price_feed', 'agent_send', 'purchase'] })
  t.equal(
    backpackRejectionOfMachineStep(
      named,
      sampleBackpackSpendCheckEvent(1, BACKPACK_TEST_NOON_MS, {}, 'agent_send'),
    ),
    null,
  )
  t.equal(
    backpackRejectionOfMachineStep(
      named,
      sampleBackpackSpendCheckEvent(1, BACKPACK_TEST_NOON_MS, {}, 'purchase'),
    ),
    null,
  )
  t.equal(
    backpackRejectionOfMachineStep(
      named,
      sampleBackpackSpendCheckEvent(1, BACKPACK_TEST_NOON_MS, {}, 'pack_install'),
    ),
    null,
    'a pack is a purchase',
  )
  t.equal(
    backpackRejectionOfMachineStep(
      named,
      sampleBackpackSpendCheckEvent(1, BACKPACK_TEST_NOON_MS, {}, 'tip'),
    ),
    'TOOL_NOT_ALLOWED',
  )
  t.equal(
    backpackRejectionOfMachineStep(
      sampleBackpackSnapshot({ tools: ['pack_install'] }),
      sampleBackpackSpendCheckEvent(1, BACKPACK_TEST_NOON_MS, {}, 'pack_install'),
    ),
    null,
  )
  t.equal(
    backpackRejectionOfMachineStep(
      sampleBackpackSnapshot({ tools: ['pack_install'] }),
      sampleBackpackSpendCheckEvent(1, BACKPACK_TEST_NOON_MS, {}, 'purchase'),
    ),
    'TOOL_NOT_ALLOWED',
  )
  const all = sampleBackpackSnapshot({ tools: null })
  for (const name of ['agent_send', 'tip', 'bounty', 'purchase', 'pack_install'])
    t.equal(
      backpackRejectionOfMachineStep(
        all,
        sampleBackpackSpendCheckEvent(1, BACKPACK_TEST_NOON_MS, {}, name),
      ),
      'TOOL_NOT_ALLOWED',
      `${name} is not among all`,
    )
})

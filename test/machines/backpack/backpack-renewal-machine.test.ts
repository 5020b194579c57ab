import t from 'tap'
import { DAY } from '../../../core/clock.ts'
import { backpackMachine } from '../../../machines/backpack-machine.ts'
import {
  BACKPACK_TEST_NOON_MS,
  BACKPACK_TEST_EXPIRES_AT_MS,
  sampleBackpackSnapshot,
  sampleBackpackSpendCheckEvent,
  backpackChargeEvent,
  backpackRenewEvent,
  backpackExpiryTimerEvent,
  backpackRejectionOfMachineStep,
} from '../../support/machines/backpack-machine-sample-events.ts'
import {
  stepMachineThroughEvents,
  stepStateMachine,
} from '../../support/machines/state-machine-stepper.ts'
t.test('renewal restarts the timers from the new expiry', async (t) => {
  const warned = stepStateMachine(
    backpackMachine,
    sampleBackpackSnapshot(),
    backpackExpiryTimerEvent('weekBefore'),
  ).snapshot
  const at = BACKPACK_TEST_EXPIRES_AT_MS - 3 * DAY
  const renewed = stepStateMachine(backpackMachine, warned, backpackRenewEvent(at + 30 * DAY, at))
  t.strictSame(renewed.snapshot.value, { active: 'far' })
  t.strictSame(renewed.timers, {
    'xstate.after.weekBefore.backpack.active': 23 * DAY,
    'xstate.after.dayBefore.backpack.active': 29 * DAY,
    'xstate.after.expiry.backpack.active': 30 * DAY,
  })
  t.strictSame(renewed.cancelled, Object.keys(renewed.timers))
  t.match(
    stepStateMachine(backpackMachine, renewed.snapshot, backpackExpiryTimerEvent('weekBefore'))
      .emitted,
    [{ days: 7 }],
    'warned anew',
  )
  const short = stepStateMachine(
    backpackMachine,
    sampleBackpackSnapshot({ expiresAt: BACKPACK_TEST_NOON_MS + DAY }),
    backpackRenewEvent(BACKPACK_TEST_NOON_MS + 2 * DAY),
  )
  t.strictSame([short.snapshot.value, short.emitted], [{ active: 'week' }, []])
})

t.test('a renewal that ends earlier changes nothing: the later end holds', async (t) => {
  for (const end of [
    BACKPACK_TEST_NOON_MS + 1,
    BACKPACK_TEST_EXPIRES_AT_MS - 1,
    BACKPACK_TEST_EXPIRES_AT_MS,
  ]) {
    const kept = stepStateMachine(
      backpackMachine,
      sampleBackpackSnapshot(),
      backpackRenewEvent(end),
    )
    t.equal(kept.refused, null)
    t.equal(kept.snapshot.context.expiresAt, BACKPACK_TEST_EXPIRES_AT_MS)
    t.strictSame([kept.timers, kept.cancelled, kept.emitted], [{}, [], []])
  }
  t.equal(
    stepStateMachine(
      backpackMachine,
      sampleBackpackSnapshot(),
      backpackRenewEvent(BACKPACK_TEST_EXPIRES_AT_MS + 1),
    ).snapshot.context.expiresAt,
    BACKPACK_TEST_EXPIRES_AT_MS + 1,
  )
})

t.test('renewal reactivates an expired Backpack with its counters', async (t) => {
  const { snapshot } = stepMachineThroughEvents(backpackMachine, sampleBackpackSnapshot(), [
    backpackChargeEvent(30),
    backpackExpiryTimerEvent('expiry'),
  ])
  const renewed = stepStateMachine(
    backpackMachine,
    snapshot,
    backpackRenewEvent(BACKPACK_TEST_EXPIRES_AT_MS + 90 * DAY, BACKPACK_TEST_EXPIRES_AT_MS),
  )
  t.strictSame(renewed.snapshot.value, { active: 'far' })
  t.equal(Object.keys(renewed.timers).length, 3)
  t.equal(renewed.snapshot.context.spentTotal, 30n)
  t.equal(
    backpackRejectionOfMachineStep(
      renewed.snapshot,
      sampleBackpackSpendCheckEvent(1, BACKPACK_TEST_EXPIRES_AT_MS),
    ),
    null,
  )
})

t.test('renewal into the past is rejected', async (t) => {
  const expired = stepStateMachine(
    backpackMachine,
    sampleBackpackSnapshot(),
    backpackExpiryTimerEvent('expiry'),
  ).snapshot
  for (const snapshot of [sampleBackpackSnapshot(), expired]) {
    const outcome = stepStateMachine(
      backpackMachine,
      snapshot,
      backpackRenewEvent(BACKPACK_TEST_NOON_MS, BACKPACK_TEST_NOON_MS),
    )
    t.equal(outcome.refused, 'invalid_input')
    t.strictSame(outcome.snapshot.context, snapshot.context)
    t.equal(
      backpackRejectionOfMachineStep(
        snapshot,
        backpackRenewEvent(BACKPACK_TEST_NOON_MS + 1, BACKPACK_TEST_NOON_MS),
      ),
      null,
    )
  }
})

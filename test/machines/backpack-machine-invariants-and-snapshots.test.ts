import t from 'tap'
import { DAY } from '../../core/clock.ts'
import { stringifyWithBigints } from '../../core/json/bigint.ts'
import { smallerOfTwoMicros, ZERO_MICROS } from '../../core/money.ts'
import { backpackMachine } from '../../machines/backpack-machine.ts'
import type { BackpackMachineEvent } from '../../machines/backpack/backpack-guards-and-actions.ts'
import {
  type BackpackSnapshot,
  BACKPACK_TEST_NOON_MS,
  BACKPACK_TEST_NEXT_MIDNIGHT_MS,
  BACKPACK_TEST_EXPIRES_AT_MS,
  fuseLimitsFromUsd,
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
} from '../support/machines/backpack-machine-sample-events.ts'
import {
  readGoldenSnapshots,
  shortestEventPaths,
  restoreSnapshot,
  stepStateMachine,
  microUsd,
} from '../support/machines/state-machine-stepper.ts'

t.test('every state rejects unknown events', async (t) => {
  const unknown = { type: 'NO_SUCH_EVENT' } as never
  t.equal(backpackRejectionOfMachineStep(sampleBackpackSnapshot(), unknown), 'internal')
  t.equal(
    backpackRejectionOfMachineStep(
      stepStateMachine(
        backpackMachine,
        sampleBackpackSnapshot(),
        backpackExpiryTimerEvent('expiry'),
      ).snapshot,
      unknown,
    ),
    'EXPIRED',
  )
  t.equal(
    backpackRejectionOfMachineStep(
      stepStateMachine(backpackMachine, sampleBackpackSnapshot(), backpackRevokeEvent).snapshot,
      unknown,
    ),
    'REVOKED',
  )
})

t.test('on all paths limits hold, no counter is negative and no window reopens', async (t) => {
  const events = [
    ...[BACKPACK_TEST_NOON_MS, BACKPACK_TEST_NEXT_MIDNIGHT_MS].flatMap(
      (at): BackpackMachineEvent[] => [
        sampleBackpackSpendCheckEvent(51, at),
        backpackHoldEvent(40, at),
        backpackChargeEvent(40, at, BACKPACK_TEST_NOON_MS),
        backpackChargeEvent(30, at),
        backpackCaptureEvent(40, 30, at, BACKPACK_TEST_NOON_MS),
        backpackReleaseEvent(40, at),
      ],
    ),
    backpackRevokeEvent,
    backpackRenewEvent(BACKPACK_TEST_EXPIRES_AT_MS + DAY),
    backpackExpiryTimerEvent('weekBefore'),
    backpackExpiryTimerEvent('dayBefore'),
    backpackExpiryTimerEvent('expiry'),
  ]
  const bucket = ({ value, context: { day, spentDay, heldDay } }: BackpackSnapshot) => {
    const [spent, held] = [
      smallerOfTwoMicros(spentDay, microUsd(120)),
      smallerOfTwoMicros(heldDay, microUsd(80)),
    ]
    return `${JSON.stringify(value)} ${day} ${spent} ${held}`
  }
  const stocked = () => sampleBackpackSnapshot({ fuse: fuseLimitsFromUsd(50, 100, 200) })
  const walks = shortestEventPaths(backpackMachine, stocked(), events, bucket, 20_000)
  t.ok(walks.length > 100, `${walks.length} paths`)
  const inDay = ({ context: { spentDay, heldDay } }: BackpackSnapshot) => spentDay + heldDay
  for (const walk of walks) {
    let snapshot = stocked()
    for (const event of walk) {
      const next = stepStateMachine(backpackMachine, snapshot, event).snapshot
      const { day, spentDay, heldDay, spentMonth, heldMonth } = next.context
      if (day < snapshot.context.day) t.fail('a day came back', { walk })
      if ([spentDay, heldDay, spentMonth, heldMonth].some((one) => one < ZERO_MICROS)) {
        t.fail('a negative amount', { walk })
      }
      const admits = event.type === 'HOLD' || event.type === 'CHARGE'
      if (admits && inDay(next) > inDay(snapshot) && inDay(next) > 100n) {
        t.fail('beyond the day', { walk })
      }
      snapshot = next
    }
  }
})

t.test('snapshots of version 1 still resolve and accept events', async (t) => {
  for (const stored of readGoldenSnapshots('backpack-v1.json')) {
    const snapshot = restoreSnapshot(backpackMachine, stored)
    t.strictSame(snapshot.value, stored.value, stored.name)
    t.equal(stringifyWithBigints(snapshot.context), stringifyWithBigints(stored.context))
    const { value } = snapshot
    const code = typeof value === 'string' ? value.toUpperCase() : null
    t.equal(
      backpackRejectionOfMachineStep(
        snapshot,
        sampleBackpackSpendCheckEvent(0, BACKPACK_TEST_NOON_MS + DAY, {}, 'price_feed'),
      ),
      code,
    )
    t.equal(
      backpackRejectionOfMachineStep(
        snapshot,
        backpackReleaseEvent(0, BACKPACK_TEST_NOON_MS + DAY),
      ),
      null,
    )
  }
})

import t from 'tap'
import { createDatabaseTimeSync } from '../../app/database-time-sync.ts'
import { DAY, HOUR, SECOND, createDatabaseAdjustedClock } from '../../core/clock.ts'

const START = Date.UTC(2026, 10, 21, 22)

/** A machine whose two hands are moved one by one, and a database that lives by the true time. */
function machine({ ahead = 0 } = {}) {
  let [wall, mono, truth] = [START + ahead, 5_000.25, START]
  const clock = createDatabaseAdjustedClock({ wall: () => wall, mono: () => mono })
  let during = () => {}
  const asked: number[] = []
  const database = {
    async clockOffset(localNow: () => number) {
      const before = localNow()
      const at = truth
      asked.push(at)
      during()
      return Math.round(at - (before + localNow()) / 2)
    },
  }
  return {
    clock,
    asked,
    measured: createDatabaseTimeSync(clock, database),
    truth: () => truth,
    pass(ms: number) {
      wall += ms
      mono += ms
      truth += ms
    },
    /** The monotonic clock stops while the machine is suspended. */
    sleep(ms: number) {
      wall += ms
      truth += ms
    },
    set: (byMs: number) => void (wall += byMs),
    during: (deed: () => void) => void (during = deed),
  }
}

t.test('a change of the wall clock changes no time and triggers a measurement', async (t) => {
  const { clock, measured, asked, truth, pass, set } = machine({ ahead: 3 * HOUR })
  await measured.syncInitially()
  t.equal(clock.now(), truth())
  for (const by of [26 * HOUR, -3 * DAY, 2 * SECOND]) {
    await measured.syncIfNeeded()
    const before = asked.length
    set(by)
    pass(1_500)
    t.equal(clock.now(), truth())
    t.equal(clock.hasJumped(), true)
    await measured.syncIfNeeded()
    t.equal(asked.length, before + 1)
    t.equal(clock.hasJumped(), false)
    t.equal(clock.now(), truth())
  }
  const before = asked.length
  set(900)
  pass(500)
  await measured.syncIfNeeded()
  t.equal(asked.length, before, 'a clock that is slewed is no disturbance')
  t.ok(Number.isSafeInteger(clock.now()))
})

t.test('after a suspend no new day starts before a measurement', async (t) => {
  const { clock, measured, truth, sleep } = machine()
  await measured.syncInitially()
  sleep(8 * HOUR)
  t.ok(clock.now() < START + SECOND, 'time lags: nothing ends too early')
  t.equal(clock.hasJumped(), true)
  await measured.syncIfNeeded()
  t.equal(clock.now(), truth())
})

t.test('a measurement interrupted by a suspend is discarded and repeated', async (t) => {
  const { clock, measured, asked, truth, sleep, during } = machine()
  during(() => {
    if (asked.length === 1) sleep(6 * HOUR)
  })
  await measured.syncInitially()
  t.equal(asked.length, 2)
  t.equal(clock.now(), truth())
})

t.test('a failed measurement is repeated at the next check', async (t) => {
  const { clock, measured, truth, sleep, during } = machine()
  await measured.syncInitially()
  sleep(HOUR)
  during(() => {
    throw new Error('the database is away')
  })
  await t.rejects(measured.syncIfNeeded(), /away/)
  during(() => {})
  await measured.syncIfNeeded()
  t.equal(clock.now(), truth())
})

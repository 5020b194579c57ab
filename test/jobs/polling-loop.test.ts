import t, { type Test } from 'tap'
import { createPollingLoop } from '../../jobs/polling-loop.ts'

const turn = () => new Promise((resolve) => setImmediate(resolve))

t.test('a round with endless work ends when the service stops', async (t) => {
  let steps = 0
  const again = createPollingLoop({
    async work(stopping) {
      for (; !stopping(); steps += 1) await turn()
    },
    everyMs: 1,
    log: (error) => t.fail(String(error)),
  })
  again.start()
  while (steps < 3) await turn()
  await again.stop()
  const done = steps
  for (let at = 0; at < 20; at += 1) await turn()
  t.equal(steps, done, 'and no other one begins')
})

t.test('the first of consecutive failures is logged, and then the next success', async (t) => {
  const told: unknown[] = []
  let steps = 0
  const again = createPollingLoop({
    async work() {
      steps += 1
      if (steps < 4) throw new Error(`round ${steps}`)
    },
    everyMs: 1,
    log: (error) => told.push(error instanceof Error ? error.message : error),
  })
  again.start()
  while (told.length < 2) await turn()
  await again.stop()
  t.strictSame(told, ['round 1', null])
})

/** A loop whose rounds return `dueIn`; `rounds` counts them. */
function resting(t: Test, everyMs: number, dueIn: () => number | void) {
  let rounds = 0
  const loop = createPollingLoop({
    async work() {
      rounds += 1
      return dueIn()
    },
    everyMs,
    idleMs: 3_600_000,
    log: (error) => t.fail(String(error)),
  })
  t.teardown(loop.stop)
  const reach = async (wanted: number) => {
    while (rounds < wanted) await turn()
  }
  return { ...loop, reach, rounds: () => rounds }
}
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

t.test('while nothing is due it rests, until it is woken or something is expected', async (t) => {
  const loop = resting(t, 5, () => Infinity)
  loop.start()
  await loop.reach(1)
  await pause(50)
  t.equal(loop.rounds(), 1)
  loop.wake()
  await loop.reach(2)
  loop.expect()
  await loop.reach(3)
  await pause(50)
  t.equal(loop.rounds(), 3, 'and rests again')
})

t.test('what is expected during a round is looked for after it', async (t) => {
  const loop = resting(t, 5, () => {
    if (loop.rounds() === 1) loop.expect()
    return Infinity
  })
  loop.start()
  await loop.reach(2)
  await pause(50)
  t.equal(loop.rounds(), 2)
})

t.test('a round that knows when something is due is followed by one at that time', async (t) => {
  const loop = resting(t, 20, () => (loop.rounds() < 3 ? 60 : Infinity))
  const startedAt = performance.now()
  loop.start()
  await loop.reach(3)
  t.ok(performance.now() - startedAt >= 115, 'not before it')
  const overdue = resting(t, 20, () => -1_000)
  const from = performance.now()
  overdue.start()
  await overdue.reach(4)
  t.ok(performance.now() - from >= 55, 'and never more often than it would')
})

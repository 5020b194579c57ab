import t from 'tap'
import { createPollingLoop } from '../../jobs/polling-loop.ts'

const turn = () => new Promise((resolve) => setImmediate(resolve))

t.test('a round that always finds more to do ends when the service stops', async (t) => {
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

t.test('of consecutive failures the first is logged, and then the next success', async (t) => {
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

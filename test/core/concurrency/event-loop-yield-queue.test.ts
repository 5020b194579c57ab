import t from 'tap'
import { createEventLoopYieldQueue } from '../../../core/concurrency/event-loop-yield-queue.ts'

t.test('a burst runs one by one, interleaved with other work', async (t) => {
  const turn = createEventLoopYieldQueue()
  const said: string[] = []
  const burst = [1, 2, 3].map((one) => turn().then(() => said.push(`paid ${one}`)))
  const other = (async () => {
    for (const one of [1, 2, 3]) {
      await new Promise((resolve) => setImmediate(resolve))
      said.push(`other ${one}`)
    }
  })()
  await Promise.all([...burst, other])
  t.strictSame(said, ['paid 1', 'other 1', 'paid 2', 'other 2', 'paid 3', 'other 3'])
  await turn()
  t.pass('and again when all were served')
})

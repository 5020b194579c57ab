import t from 'tap'
import { createBatchLoader } from '../../../core/concurrency/batch-loader.ts'

/** A loader that answers on command. */
function asking(options: { most: number; atOnce?: number }) {
  const asked: { items: readonly number[]; answer: () => void; fail: () => void }[] = []
  const ask = createBatchLoader<number, number>(
    (items) =>
      new Promise((resolve, reject) => {
        const answer = () => resolve(items.map((item) => item * 10))
        asked.push({ items, answer, fail: () => reject(new Error('down')) })
      }),
    options,
  )
  const begun = () => asked.map(({ items }) => items)
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  return { ask, asked, begun, turn }
}

t.test('requests of one turn are batched, and each gets its own result', async (t) => {
  const { ask, asked, begun, turn } = asking({ most: 10 })
  const all = Promise.all([ask(1), ask(2), ask(3)])
  await turn()
  t.strictSame(begun(), [[1, 2, 3]])
  asked[0]?.answer()
  t.strictSame(await all, [10, 20, 30])
})

t.test('requests during a batch wait for the next one, up to its size', async (t) => {
  const { ask, asked, begun, turn } = asking({ most: 2, atOnce: 1 })
  const all = [ask(1)]
  await turn()
  all.push(ask(2), ask(3), ask(4))
  await turn()
  t.strictSame(begun(), [[1]])
  for (const at of [0, 1, 2]) {
    asked[at]?.answer()
    await turn()
  }
  t.strictSame(begun(), [[1], [2, 3], [4]])
  t.strictSame(await Promise.all(all), [10, 20, 30, 40])
})

t.test('several batches run concurrently where that is allowed', async (t) => {
  const { ask, begun, turn } = asking({ most: 2, atOnce: 2 })
  for (const item of [1, 2, 3, 4, 5]) void ask(item)
  await turn()
  t.strictSame(begun(), [
    [1, 2],
    [3, 4],
  ])
})

t.test('a failed batch fails only its own requests', async (t) => {
  const { ask, asked, turn } = asking({ most: 2 })
  const [first, second, third] = [ask(1), ask(2), ask(3)]
  await turn()
  asked[0]?.fail()
  await t.rejects(first, /down/)
  await t.rejects(second, /down/)
  await turn()
  asked[1]?.answer()
  t.equal(await third, 30)
})

t.test('a result may itself be a promise', async (t) => {
  const ask = createBatchLoader<number, number>(
    async (items) =>
      items.map((item) => (item > 1 ? Promise.reject(new Error('one of them')) : item)),
    { most: 10 },
  )
  const [good, bad] = [ask(1), ask(2)]
  t.equal(await good, 1)
  await t.rejects(bad, /one of them/)
})

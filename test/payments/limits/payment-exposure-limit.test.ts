import t from 'tap'
import { fromUsdc, type Micros } from '../../../core/money.ts'
import { createUnpaidExposureLimit } from '../../../payments/limits/unpaid-exposure-limit.ts'

/** A store that answers on command, and a manual clock. */
function meter() {
  let now = 0
  const readings: ((stake: Micros) => void)[] = []
  const read = () => new Promise<Micros>((resolve) => void readings.push(resolve))
  const made = createUnpaidExposureLimit(read, { mono: () => now })
  return {
    readings,
    later: () => void (now += 300),
    room: () => made.room(fromUsdc(0.05), fromUsdc(0.1)),
    async answer(usdc: number): Promise<void> {
      readings.at(-1)?.(fromUsdc(usdc))
      await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

t.test('payments that a read may have missed count until a later read', async (t) => {
  const { room, answer, later, readings } = meter()
  const first = room()
  await answer(0)
  const place = await first
  t.ok(place, 'there is room')
  later()
  // This reading begins before the commit of the first claim, and does not see it.
  const second = room()
  place?.release()
  await answer(0)
  t.ok(await second)
  t.equal(await room(), null, 'both are counted')
  later()
  const third = room()
  t.equal(readings.length, 3)
  await answer(0.05)
  t.equal(await third, null, 'the second has not ended, the first was read')
})

t.test('an ended claim counts as the next read reports it', async (t) => {
  const { room, answer, later } = meter()
  const [first, second] = [room(), room()]
  await answer(0)
  for (const place of [await first, await second]) place?.release()
  t.equal(await room(), null, 'full until it is read again')
  later()
  const third = room()
  await answer(0)
  t.ok(await third, 'they came to nothing, or have settled')
})

t.test('a failed read is not cached', async (t) => {
  let fails = true
  const read = async () => {
    if (fails) throw new Error('no answer')
    return fromUsdc(0)
  }
  const made = createUnpaidExposureLimit(read, { mono: () => 0 })
  await t.rejects(made.room(fromUsdc(0.05), fromUsdc(0.1)), /no answer/)
  fails = false
  t.ok(await made.room(fromUsdc(0.05), fromUsdc(0.1)))
})

import t, { type Test } from 'tap'
import { createOutboxStore } from '../../persistence/outbox-store.ts'
import { createSignalStore } from '../../persistence/realtime/channel-signal-store.ts'
import { createStreamReplayLimiter } from '../../realtime/stream-replay-limiter.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'
import { eventually } from '../support/mail/test-mail-and-telegram-servers.ts'
import { createManualClock } from '../support/tools/test-tool-context.ts'

/** Pages that may be read at a time. */
const PLACES = 4
const NOW = new Date()

/** History whose pages are read, or fail, on command. */
async function paged(t: Test) {
  const { sql } = await createTestDatabase(t)
  const [signals, outbox] = [createSignalStore(sql), createOutboxStore(sql)]
  const begun: string[] = []
  const held = new Map<string, { go(): void; fail(error: Error): void }>()
  let most = 0
  async function holding<T>(page: string, read: () => Promise<T>): Promise<T> {
    begun.push(page)
    await new Promise<void>((go, fail) => {
      held.set(page, { go, fail })
      most = Math.max(most, held.size)
    })
    held.delete(page)
    return read()
  }
  const gated = createStreamReplayLimiter({
    clock: createManualClock(),
    signals: {
      between: (channels, ...asked) =>
        holding(String(channels[0]), () => signals.between(channels, ...asked)),
      crowded: (channels, ...asked) =>
        holding(String(channels[0]), () => signals.crowded(channels, ...asked)),
    },
    outbox: {
      oldest: outbox.oldest,
      between: (id, ...asked) => holding(`facts of ${id}`, () => outbox.between(id, ...asked)),
    },
  })
  return {
    begun,
    gated,
    most: () => most,
    /** A page of signals, by its name; resolves to whether it could be read. */
    read: (agent: string, page: string): Promise<boolean> =>
      gated(agent)
        .signals.between([page], 0n, 1n, NOW, 10)
        .then(
          () => true,
          () => false,
        ),
    async end(page: string): Promise<void> {
      await eventually(() => held.has(page), page)
      held.get(page)?.go()
    },
    async break(page: string): Promise<void> {
      await eventually(() => held.has(page), page)
      held.get(page)?.fail(new Error('no answer'))
      held.delete(page)
    },
    begins: (count: number) => eventually(() => begun.length === count, `page ${count}`),
  }
}

t.test(
  'four pages are read at a time, three of one agent, and agents without one first',
  async (t) => {
    const { begun, gated, most, read, end, begins } = await paged(t)
    const pages = Array.from({ length: 8 }, (_, n) => `a${n}`)
    const all = pages.map((page) => read('a', page))
    all.push(read('b', 'b0'), read('b', 'b1'))
    const facts = gated('c').outbox.between('c', 0n, 1n, 10)
    await begins(PLACES)
    t.strictSame(begun, ['a0', 'a1', 'a2', 'b0'])
    t.equal(await gated('d').outbox.oldest(), null, 'what costs nothing does not wait')
    await end('a0')
    await begins(PLACES + 1)
    const late = read('d', 'd0')
    await end('a1')
    await begins(PLACES + 2)
    t.strictSame(begun.slice(PLACES), ['facts of c', 'd0'])
    for (let at = 2; at < all.length + 2; at += 1) {
      await eventually(() => begun.length > at, `page ${at}`)
      await end(begun[at] ?? '')
    }
    t.strictSame(new Set(await Promise.all([...all, late])), new Set([true]))
    t.strictSame(await facts, [])
    t.equal(most(), PLACES)
  },
)

t.test('a page that cannot be read frees its slot', async (t) => {
  const { gated, most, read, end, break: fail, begins } = await paged(t)
  for (const round of [1, 2, 3]) {
    const all = ['a', 'b', 'c', 'd', 'e'].map((agent) => read(agent, `${agent}${round}`))
    const crowded = gated('f').signals.crowded([`f${round}`], 0n, 1n, NOW, 10)
    await begins(6 * round - 2)
    for (const agent of ['a', 'b', 'c', 'd']) await fail(`${agent}${round}`)
    await begins(6 * round)
    for (const agent of ['e', 'f']) await end(`${agent}${round}`)
    t.strictSame(await Promise.all(all), [false, false, false, false, true])
    t.strictSame(await crowded, [])
  }
  t.equal(most(), PLACES)
})

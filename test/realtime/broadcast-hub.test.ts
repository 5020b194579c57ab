import t from 'tap'
import fc from 'fast-check'
import { createDatabaseAdjustedClock } from '../../core/clock.ts'
import { createBroadcastHub, type HubSubscriber } from '../../realtime/broadcast-hub.ts'
import {
  createWebSocketAndSseEventEncoder,
  type EncodedWebSocketAndSseEvents,
} from '../../realtime/encoded-websocket-and-sse-events.ts'

interface Row {
  readonly id: bigint
  readonly at: Date
  readonly channel: string
}

const CHANNELS = ['a', 'b', 'c', 'd']

const hubOf = () =>
  createBroadcastHub<Row>({
    clock: createDatabaseAdjustedClock(),
    channelOf: ({ channel }) => channel,
    encoder: createWebSocketAndSseEventEncoder(({ id }) => `${id} `),
    log: () => {},
  })

const idsOf = (told: EncodedWebSocketAndSseEvents): bigint[] =>
  String(Buffer.concat(told.events())).trim().split(' ').map(BigInt)
const unfailing = (): never => {
  throw new Error('it did not throw')
}
const quiet = () => new Promise((resolve) => setImmediate(resolve))
async function settled(condition: () => boolean): Promise<void> {
  while (!condition()) await quiet()
}

/** The expected events of a listener, beside the received ones. */
class Model {
  readonly heard: bigint[] = []
  due: Row[] = []
  readonly channels = new Map<string, () => void>()
  readonly listener: HubSubscriber
  readonly #costsMs: number

  constructor(at: ReturnType<typeof hubOf>, costsMs: number) {
    this.#costsMs = costsMs
    this.listener = at.addSubscriber((told) => {
      this.heard.push(...idsOf(told))
      const until = performance.now() + this.#costsMs
      while (performance.now() < until);
    }, unfailing)
  }

  owed = (): bigint[] => this.due.map(({ id }) => id)
  waits = () => this.due.slice(this.heard.length)

  listen(channel: string): void {
    if (!this.channels.has(channel)) this.channels.set(channel, this.listener.listen(channel))
  }

  /** Pending events of a channel are dropped after unsubscribing. */
  leave(channel: string): void {
    const told = this.due.slice(0, this.heard.length)
    this.due = [...told, ...this.waits().filter((row) => row.channel !== channel)]
    this.channels.get(channel)?.()
    this.channels.delete(channel)
  }
}

type Step =
  | { readonly kind: 'pass'; readonly on: readonly number[] }
  | { readonly kind: 'listen' | 'leave'; readonly who: number; readonly channel: number }
  | { readonly kind: 'turn' }

const who = fc.nat({ max: 11 })
const channel = fc.nat({ max: CHANNELS.length - 1 })
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('pass' as const),
      on: fc.array(channel, { minLength: 1, maxLength: 20 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom('listen' as const, 'leave' as const),
      who,
      channel,
    }),
  },
  { weight: 3, arbitrary: fc.constant({ kind: 'turn' as const }) },
)

t.test('each listener gets the events of its subscription once and in order', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const at = hubOf()
      const all = Array.from({ length: 12 }, (_, n) => new Model(at, n % 3 === 0 ? 0.4 : 0))
      for (const [n, each] of all.entries()) each.listen(CHANNELS[n % 4] ?? 'a')
      let id = 0n
      for (const next of steps) {
        if (next.kind === 'turn') await quiet()
        else if (next.kind === 'pass') {
          const rows = next.on.map((n) => ({
            id: ++id,
            at: new Date(),
            channel: CHANNELS[n] ?? 'a',
          }))
          for (const row of rows)
            for (const each of all) if (each.channels.has(row.channel)) each.due.push(row)
          at.pass(rows, id)
        } else all[next.who]?.[next.kind](CHANNELS[next.channel] ?? 'a')
        for (const each of all) {
          const [first] = each.waits()
          const cursor = each.listener.cursor()
          if (cursor !== (first === undefined ? id : first.id - 1n))
            throw new Error(`the cursor is ${cursor}, and ${first?.id} waits`)
        }
      }
      await settled(() => all.every((each) => each.waits().length === 0))
      for (const each of all) t.strictSame(each.heard, each.owed())
    }),
    { numRuns: 150 },
  )
})

t.test('events that arrive during a broadcast are sent together', async (t) => {
  const at = hubOf()
  const bundles: bigint[][] = []
  for (let n = 0; n < 10; n += 1) {
    const first = n === 0
    const slow = at.addSubscriber((told) => {
      if (!first) bundles.push(idsOf(told))
      const until = performance.now() + 1
      while (performance.now() < until);
    }, unfailing)
    slow.listen('a')
  }
  const row = (id: bigint) => ({ id, at: new Date(), channel: 'a' })
  at.pass([row(1n)], 1n)
  at.pass([row(2n)], 2n)
  await settled(() => bundles.flat().length === 18)
  t.strictSame(
    bundles,
    Array.from({ length: 9 }, () => [1n, 2n]),
  )
})

t.test('a failing listener affects no other and gets nothing more', async (t) => {
  const logged: string[] = []
  const at = createBroadcastHub<Row>({
    clock: createDatabaseAdjustedClock(),
    channelOf: ({ channel }) => channel,
    encoder: createWebSocketAndSseEventEncoder(({ id }) => `${id} `),
    log: (message) => void logged.push(message),
  })
  const heard: bigint[] = []
  let [asked, failed] = [0, 0]
  const gone = () => {
    asked += 1
    throw new Error('gone')
  }
  at.addSubscriber(gone, () => void (failed += 1)).listen('a')
  at.addSubscriber((told) => void heard.push(...idsOf(told)), unfailing).listen('a')
  for (const id of [1n, 2n]) {
    at.pass([{ id, at: new Date(), channel: 'a' }], id)
    await settled(() => heard.at(-1) === id)
  }
  t.strictSame(logged, ['a subscriber has failed'])
  t.strictSame({ asked, failed }, { asked: 1, failed: 1 })
})

t.test('an event is serialized once for all combinations', async (t) => {
  let written = 0
  const at = createBroadcastHub<Row>({
    clock: createDatabaseAdjustedClock(),
    channelOf: ({ channel }) => channel,
    encoder: createWebSocketAndSseEventEncoder(({ id }) => {
      written += 1
      return `${id} `.padEnd(20_000)
    }),
    log: () => {},
  })
  const CROWD = 40
  let told = 0
  for (let n = 0; n < CROWD; n += 1) {
    const own = at.addSubscriber((some) => {
      told += some.frames().length
    }, unfailing)
    own.listen('all')
    own.listen(`own:${n}`)
  }
  const rows = Array.from({ length: CROWD + 3 }, (_, n) => ({
    id: BigInt(n + 1),
    at: new Date(),
    channel: n < CROWD ? `own:${n}` : 'all',
  }))
  at.pass(rows, BigInt(rows.length))
  await settled(() => told === CROWD * 4)
  t.equal(written, rows.length)
})

t.test('the queue has room again after waiting listeners were served', async (t) => {
  const at = hubOf()
  let told = 0
  const listener = at.addSubscriber((some) => {
    told += idsOf(some).length
    const until = performance.now() + 2
    while (performance.now() < until);
  }, unfailing)
  listener.listen('a')
  const rows = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, n) => ({
      id: BigInt(from + n),
      at: new Date(),
      channel: 'a',
    }))
  at.pass(rows(1, 101), 100n)
  await at.room()
  t.ok(100 - told < 64, `${100 - told} wait`)
  at.pass([], 100n)
  await settled(() => told === 100)
})

t.test('a closed listener gets no further events', async (t) => {
  const at = hubOf()
  const heard: bigint[] = []
  const slow = at.addSubscriber(() => {
    const until = performance.now() + 2
    while (performance.now() < until);
  }, unfailing)
  slow.listen('a')
  const listener = at.addSubscriber((told) => void heard.push(...idsOf(told)), unfailing)
  listener.listen('a')
  at.pass([{ id: 1n, at: new Date(), channel: 'a' }], 1n)
  listener.end()
  t.notOk(heard.length)
  slow.end()
  t.notOk(at.has('a'))
  for (let n = 0; n < 5; n += 1) await quiet()
  t.strictSame(heard, [])
})

t.test('the lag is that of the last delivered event', async (t) => {
  const at = hubOf()
  const listener = at.addSubscriber(() => {}, unfailing)
  listener.listen('a')
  at.pass([{ id: 1n, at: new Date(Date.now() - 90_000), channel: 'a' }], 1n)
  await settled(() => listener.cursor() === 1n)
  await at.room()
  await settled(() => at.lag() > 80)
  at.pass([{ id: 2n, at: new Date(), channel: 'nobody' }], 2n)
  t.ok(at.lag() < 10)
  at.pass([{ id: 3n, at: new Date(), channel: 'a' }], 3n)
  listener.flush()
  for (let n = 0; n < 5; n += 1) await quiet()
  t.ok(at.lag() < 10, `${at.lag()} s`)
})

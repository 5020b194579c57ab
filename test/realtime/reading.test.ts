import t, { type Test } from 'tap'
import { systemClock } from '../../core/clock.ts'
import { keyStore } from '../../persistence/keys.ts'
import { outboxStore } from '../../persistence/outbox.ts'
import { startPlane, type Sql } from '../../persistence/plane.ts'
import { pulseStore } from '../../persistence/pulses.ts'
import { signalStore } from '../../persistence/signals.ts'
import { realtime } from '../../realtime/realtime.ts'
import type { Outlet } from '../../http/streams/outlet.ts'
import { nothingHeard, subscriptions } from '../../http/streams/subscriptions.ts'
import { testDatabase } from '../support/database.ts'

const NOBODY = '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4d'

/** What agents hear on a node, over a database that others write to without a word. */
async function listeningNode(t: Test) {
  const { settings } = await testDatabase(t)
  const database = { ...settings, redisUrl: null, dataDir: t.testdir(), redis: 'none' } as const
  const plane = await startPlane({ ...database, log: () => {} })
  const { sql, bus } = plane
  const node = await realtime({
    clock: systemClock(),
    bus,
    keys: keyStore(sql, Buffer.alloc(32, 1)),
    signals: signalStore(sql),
    outbox: outboxStore(sql),
    pulses: pulseStore(sql),
    log: () => {},
  })
  t.teardown(async () => {
    await node.stop()
    await plane.stop()
  })
  return { node, sql }
}

/** So many signals in one commit, by turns on two channels; answers the id of the last. */
async function published(sql: Sql, count: number): Promise<bigint> {
  const [row] = await sql<{ last: bigint }[]>`
    with made as (
      insert into signals (call_id, agent_id, channel, type, payload, at, expires_at, kept_until)
      select gen_random_uuid(), ${NOBODY}, 'turn:' || n % 2, 'result', '{}', now(),
             now() + interval '1 hour', now() + interval '1 day'
        from generate_series(1, ${count}) n
      returning id)
    select max(id) as last from made`
  return row?.last ?? 0n
}

t.test('who has heard more than this node has read waits for it, and is told no gap', async (t) => {
  const { node, sql } = await listeningNode(t)
  const last = await published(sql, 5)
  t.ok(node.marks().signals < last, 'nobody has said that there is something new')
  const heard: string[] = []
  await node.replaySignals(NOBODY, ['turn:0', 'turn:1'], {
    since: last,
    gap: () => void heard.push('gap'),
    replay: ({ id }) => void heard.push(`again ${id}`),
    room: async () => true,
    live: (mark) => void heard.push(`live ${mark}`),
  })
  t.strictSame(heard, [`live ${last}`])
})

t.test('what nobody can have heard is a gap still', async (t) => {
  const { node, sql } = await listeningNode(t)
  const last = await published(sql, 2)
  const gaps: object[] = []
  await node.replaySignals(NOBODY, ['turn:0'], {
    since: last + 1_000n,
    gap: (gap) => void gaps.push(gap),
    replay: () => {},
    room: async () => true,
    live: () => {},
  })
  t.strictSame(gaps, [{ channel: 'turn:0', from: last + 1_000n, to: last }])
})

t.test('many short works in a row let everything else have its turns', async (t) => {
  const { node, sql } = await listeningNode(t)
  const count = 60
  let [told, turns, over] = [0, 0, false]
  const busy = () => {
    told += 1
    const until = performance.now() + 1
    while (performance.now() < until);
  }
  for (const channel of ['turn:0', 'turn:1']) node.onSignals(channel, busy)
  const look = () => {
    if (told > 0) turns += 1
    if (!over) setImmediate(look)
  }
  look()
  await published(sql, count)
  node.grew('signals')
  while (told < count) await new Promise((resolve) => setImmediate(resolve))
  over = true
  t.ok(turns >= 10, `${turns} turns while ${count} were told`)
})

/** Listeners of a channel, each of them slow; what runs when so many of them have been told, in a turn of its own. */
function slowListeners(node: Node, count: number) {
  const stops: (() => void)[] = []
  let told = 0
  for (let n = 0; n < count; n += 1)
    stops.push(
      node.onSignals('turn:1', () => {
        told += 1
        const until = performance.now() + 1
        while (performance.now() < until);
      }),
    )
  const amidst = async () => {
    while (told === 0) await new Promise((resolve) => setImmediate(resolve))
    if (told === count) throw new Error('all were told in one turn')
  }
  return { amidst, leave: () => stops.forEach((stop) => stop()), told: () => told }
}
type Node = Awaited<ReturnType<typeof listeningNode>>['node']

t.test('one signal for many listeners lets everything else have its turns', async (t) => {
  const { node, sql } = await listeningNode(t)
  const slow = slowListeners(node, 60)
  const before = node.marks().signals
  const last = await published(sql, 1)
  node.grew('signals')
  await slow.amidst()
  t.equal(node.marks().signals, before, 'it counts as passed on when the last one was told')
  while (node.marks().signals < last) await new Promise((resolve) => setImmediate(resolve))
  t.equal(slow.told(), 60)
})

for (const others of ['stay', 'leave'])
  t.test(`who comes while a signal is told hears it once, when the others ${others}`, async (t) => {
    const { node, sql } = await listeningNode(t)
    const slow = slowListeners(node, 60)
    const since = node.marks().signals
    const last = await published(sql, 1)
    node.grew('signals')
    await slow.amidst()
    const heard: string[] = []
    let ended = () => {}
    const end = new Promise<void>((resolve) => (ended = resolve))
    if (others === 'leave') slow.leave()
    await node.replaySignals(NOBODY, ['turn:1'], {
      since,
      gap: () => void heard.push('gap'),
      replay: ({ id }) => void heard.push(`again ${id}`),
      room: async () => true,
      live(mark) {
        if (mark >= last) return ended()
        node.onSignals('turn:1', ({ through }) => {
          heard.push(`live ${through}`)
          ended()
        })
      },
    })
    await end
    t.equal(heard.length, 1, heard.join())
    t.match(heard[0], new RegExp(` ${last}$`))
  })

t.test(
  'a socket that was told before others knows how far it is, and is told no more',
  async (t) => {
    const { node, sql } = await listeningNode(t)
    const heard: bigint[] = []
    const out = { tell: ({ through }) => void heard.push(through) } as Partial<Outlet> as Outlet
    const told = nothingHeard()
    const socket = subscriptions(node, out, NOBODY, told)
    await socket.subscribe(['turn:1'], null)
    const slow = slowListeners(node, 60)
    const last = await published(sql, 1)
    node.grew('signals')
    await slow.amidst()
    t.strictSame(heard, [last])
    t.ok(node.marks().signals < last)
    t.equal(socket.cursors().signals, String(last), 'it resumes behind what it was told')
    socket.unsubscribe(['turn:1'])
    const again = socket.subscribe(['turn:1'], null)
    t.ok(node.marks().signals < last, 'it came back while others were told')
    await again
    const greeted = subscriptions(node, out, NOBODY, told)
    await greeted.subscribe(['turn:1'], null)
    t.ok(node.marks().signals < last, 'so did who greets anew on the same socket')
    while (node.marks().signals < last) await new Promise((resolve) => setImmediate(resolve))
    t.strictSame(heard, [last])
    socket.end()
    greeted.end()
  },
)

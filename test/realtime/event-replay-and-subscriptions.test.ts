import t, { type Test } from 'tap'
import { createDatabaseAdjustedClock } from '../../core/clock.ts'
import { createApiKeyStore } from '../../persistence/agents/api-key-store.ts'
import { createOutboxStore } from '../../persistence/outbox-store.ts'
import { startPostgresAndRedis, type Sql } from '../../persistence/start-postgres-and-redis.ts'
import { createAgentGoalPulseStore } from '../../persistence/realtime/agent-goal-pulse-store.ts'
import { enterCursorEpochs } from '../../persistence/realtime/cursor-epochs.ts'
import { createSignalStore } from '../../persistence/realtime/channel-signal-store.ts'
import { startRealtimeService } from '../../realtime/realtime-service.ts'
import type { EncodedWebSocketAndSseEvents } from '../../realtime/encoded-websocket-and-sse-events.ts'
import type { WsFrameWriter } from '../../http/websocket/websocket-frame-writer.ts'
import { createWebSocketSubscriptions } from '../../http/websocket/websocket-subscriptions.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'
import { createStationDataDir } from '../support/station/temporary-station-data-directory.ts'

const unfailing = (): never => {
  throw new Error('it did not throw')
}
const NOBODY = '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4d'

/** Events that a node sends to agents, over a database that receives rows without a notification. */
async function listeningNode(
  t: Test,
  meanwhile = async (_sql: Sql) => {},
  readable = async () => {},
) {
  const { settings } = await createTestDatabase(t)
  const database = {
    ...settings,
    redisUrl: null,
    dataDir: createStationDataDir(t),
    redis: 'none',
  } as const
  const plane = await startPostgresAndRedis({ ...database, log: () => {} })
  const { sql, bus } = plane
  const signals = createSignalStore(sql)
  const node = await startRealtimeService({
    clock: createDatabaseAdjustedClock(),
    bus,
    keys: createApiKeyStore(sql, Buffer.alloc(32, 1)),
    signals: {
      ...signals,
      async tail() {
        const tail = await signals.tail()
        return { ...tail, read: () => readable().then(tail.read) }
      },
      async between(...asked) {
        const page = await signals.between(...asked)
        await meanwhile(sql)
        return page
      },
    },
    outbox: createOutboxStore(sql),
    pulses: createAgentGoalPulseStore(sql),
    epochs: await enterCursorEpochs(sql),
    log: () => {},
  })
  t.teardown(async () => {
    await node.stop()
    await plane.stop()
  })
  return { node, sql }
}

/** Commits the given number of signals, alternating on two channels; returns the last id. */
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

t.test('a client ahead of this node waits for it and gets no gap', async (t) => {
  const { node, sql } = await listeningNode(t)
  const last = await published(sql, 5)
  t.ok(node.marks().signals < last, 'no notification has arrived')
  const heard: string[] = []
  await node.replaySignals(NOBODY, ['turn:0', 'turn:1'], {
    since: last,
    onGap: () => void heard.push('gap'),
    onRow: ({ id }) => void heard.push(`again ${id}`),
    waitForRoom: async () => true,
    onLive: (mark) => void heard.push(`live ${mark}`),
  })
  t.strictSame(heard, [`live ${last}`])
})

t.test('a client ahead of this node’s readable history is notified, without a gap', async (t) => {
  let isAway = false
  const { node, sql } = await listeningNode(t, undefined, async () => {
    if (isAway) throw new Error('the database is away')
  })
  const last = await published(sql, 5)
  isAway = true
  const heard: string[] = []
  const resumed = () =>
    node.replaySignals(NOBODY, ['turn:0', 'turn:1'], {
      since: last,
      onGap: () => void heard.push('gap'),
      onRow: ({ id }) => void heard.push(`again ${id}`),
      waitForRoom: async () => true,
      onLive: (mark) => void heard.push(`live ${mark}`),
    })
  await t.rejects(resumed(), { code: 'unavailable' })
  t.strictSame(heard, [])
  isAway = false
  await resumed()
  t.strictSame(heard, [`live ${last}`])
})

t.test('an impossible cursor is still a gap', async (t) => {
  const { node, sql } = await listeningNode(t)
  const last = await published(sql, 2)
  const gaps: object[] = []
  await node.replaySignals(NOBODY, ['turn:0'], {
    since: last + 1_000n,
    onGap: (gap) => void gaps.push(gap),
    onRow: () => {},
    waitForRoom: async () => true,
    onLive: () => {},
  })
  t.strictSame(gaps, [{ channel: 'turn:0', from: last + 1_000n, to: last }])
})

t.test('a replay finishes, even with events published during each read', async (t) => {
  let pages = 0
  const heard: bigint[] = []
  const { node, sql } = await listeningNode(t, async () => {
    pages += 1
    const last = await published(sql, 2)
    node.grew('signals')
    while (node.marks().signals < last) await new Promise((resolve) => setImmediate(resolve))
  })
  const first = (await published(sql, 45)) - 44n
  const last = await published(sql, 1)
  node.grew('signals')
  while (node.marks().signals < last) await new Promise((resolve) => setImmediate(resolve))
  let live: bigint | null = null
  await node.replaySignals(NOBODY, ['turn:0', 'turn:1'], {
    since: 0n,
    onGap: () => t.fail('there is no gap'),
    onRow: ({ id }) => void heard.push(id),
    waitForRoom: async () => pages < 20,
    onLive: (mark) => void (live = mark),
  })
  t.equal(live, node.marks().signals)
  t.equal(heard.at(-1), live)
  t.strictSame(
    heard,
    Array.from({ length: heard.length }, (_, n) => first + BigInt(n)),
  )
})

t.test('many short tasks in a row yield to other work', async (t) => {
  const { node, sql } = await listeningNode(t)
  const count = 60
  let [told, turns, over] = [0, 0, false]
  const listener = node.listeners.signals((some) => {
    told += idsOf(some).length
    busyFor(1)
  }, unfailing)
  for (const channel of ['turn:0', 'turn:1']) listener.listen(channel)
  const look = () => {
    if (told > 0) turns += 1
    if (!over) setImmediate(look)
  }
  look()
  await published(sql, count)
  node.grew('signals')
  while (told < count) await new Promise((resolve) => setImmediate(resolve))
  over = true
  t.ok(turns >= 5, `${turns} turns while ${count} were told`)
})

const idsOf = (told: EncodedWebSocketAndSseEvents) =>
  [...String(Buffer.concat(told.events())).matchAll(/^id: (\d+)$/gm)].map(([, id = '']) => id)

function busyFor(ms: number): void {
  const until = performance.now() + ms
  while (performance.now() < until);
}

/** Listeners of a channel, each of them slow. */
function slowListeners(node: Node, count: number) {
  let told = 0
  const all = Array.from({ length: count }, () =>
    node.listeners.signals(() => {
      told += 1
      busyFor(1)
    }, unfailing),
  )
  for (const each of all) each.listen('turn:1')
  const until = async (enough: () => boolean) => {
    while (!enough()) await new Promise((resolve) => setImmediate(resolve))
  }
  return {
    /** Some listeners have the signal, others wait. */
    async amidst() {
      await until(() => told > 0)
      if (told === count) throw new Error('all were notified in one turn')
    },
    all: () => until(() => told === count),
    cursors: () => all.map((each) => each.cursor()),
  }
}
type Node = Awaited<ReturnType<typeof listeningNode>>['node']

t.test('one signal for many listeners yields to other work', async (t) => {
  const { node, sql } = await listeningNode(t)
  const slow = slowListeners(node, 60)
  const before = node.marks().signals
  const last = await published(sql, 1)
  node.grew('signals')
  await slow.amidst()
  t.equal(node.marks().signals, last, 'it is on its way')
  t.strictSame(new Set(slow.cursors()), new Set([before, last]), 'who waits has not heard it')
  await slow.all()
  t.strictSame(new Set(slow.cursors()), new Set([last]))
})

t.test('a client that subscribes during a broadcast gets the signal once', async (t) => {
  const { node, sql } = await listeningNode(t)
  const slow = slowListeners(node, 60)
  const since = node.marks().signals
  const last = await published(sql, 1)
  node.grew('signals')
  await slow.amidst()
  const heard: string[] = []
  const listener = node.listeners.signals(
    (told) => void heard.push(`live ${idsOf(told).join()}`),
    unfailing,
  )
  await node.replaySignals(NOBODY, ['turn:1'], {
    since,
    onGap: () => void heard.push('gap'),
    onRow: ({ id }) => void heard.push(`again ${id}`),
    waitForRoom: async () => true,
    onLive: () => void listener.listen('turn:1'),
  })
  await slow.all()
  t.strictSame(heard, [`again ${last}`])
})

/** A socket behind many slow listeners during a broadcast, with its received events. */
async function lastInLine(t: Test) {
  const { node, sql } = await listeningNode(t)
  const heard: bigint[] = []
  const out = {
    sendEvent: (told) => void heard.push(...idsOf(told).map(BigInt)),
    sendRaw: (frame) => void heard.push(BigInt(JSON.parse(frame).id)),
    waitForRoom: async () => true,
  } as Partial<WsFrameWriter> as WsFrameWriter
  const slow = slowListeners(node, 60)
  const socket = createWebSocketSubscriptions(node, out, { agentId: NOBODY, backpackId: null })
  await socket.subscribe(['turn:1'], null)
  const before = node.marks().signals
  const last = await published(sql, 1)
  node.grew('signals')
  await slow.amidst()
  return { node, socket, heard, out, before, last, slow }
}

t.test('a socket that waits for its turn reports its position', async (t) => {
  const { socket, heard, before, last, slow } = await lastInLine(t)
  t.equal(socket.cursors().signals, String(before))
  await slow.all()
  while (heard.length === 0) await new Promise((resolve) => setImmediate(resolve))
  t.strictSame(heard, [last])
  t.equal(socket.cursors().signals, String(last))
})

t.test('a socket that repeats hello or a subscription gets each event once', async (t) => {
  const { node, socket, heard, before, last, slow, out } = await lastInLine(t)
  socket.end()
  t.strictSame(heard, [last], 'pending events are sent before the restart')
  const greeted = createWebSocketSubscriptions(node, out, { agentId: NOBODY, backpackId: null })
  await greeted.subscribe(['turn:1'], String(before))
  t.strictSame(heard, [last, last], 'as it asked')
  greeted.unsubscribe(['turn:1'])
  await greeted.subscribe(['turn:1'], null)
  await slow.all()
  t.strictSame(heard, [last, last])
  t.equal(greeted.cursors().signals, String(last))
})

t.test(
  'a client that adds a channel gets its pending events of other channels first',
  async (t) => {
    const { socket, heard, before, last, slow } = await lastInLine(t)
    const { recovered } = await socket.subscribe(['turn:0'], String(before))
    t.ok(recovered)
    t.strictSame(heard, [last], 'the answer says that everything up to its cursor has been sent')
    t.equal(socket.cursors().signals, String(last))
    await slow.all()
    t.strictSame(heard, [last])
  },
)

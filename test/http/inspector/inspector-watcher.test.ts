import { EventEmitter } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { InspectionFeedWatcher } from '../../../actors/inspection/inspection-feed.ts'
import type { RecordedCommand } from '../../../actors/inspection/command-recorder.ts'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { startInspectorWatcher } from '../../../http/inspector/inspector-watcher.ts'
import { createSharedInspectorStepFrames } from '../../../http/inspector/shared-inspector-step-frames.ts'
import type { ActorSearchResult } from '../../../persistence/inspector/actor-search-store.ts'

/** A watcher of the inspector over a socket that reads as slowly as a test wants. */

const DROP = { kind: 'drop', id: 'none', aggregateId: 'none' } as const

/** A command of one step to a drop, that leads to this version. */
function dropCommand(version = 2): RecordedCommand {
  const event = { type: 'REDEEM', agentId: 'a'.repeat(500) }
  const snapshot = { value: 'open', context: { slots: version } }
  return {
    ...{ aggregateId: 'none', aggregateKind: 'drop', commandId: 'c', command: 'drop.redeem' },
    ...{ version, at: 1, cause: 'request', requestId: null, callId: null, node: 'n' },
    steps: [{ ...DROP, event, snapshot, edges: [], refused: null, isNew: false }],
  }
}

const storedDrop = (id: string, slots: unknown = 1): ActorSearchResult => ({
  ...{ ...DROP, id, aggregateKind: 'drop', version: 1, machineVersion: 1, isArchived: false },
  name: id,
  state: { value: 'open', context: { slots } },
})

interface WatchedSocket {
  readonly socket: EventEmitter & { readyState: number; bufferedAmount: number }
  /** What the watcher was sent, as text. */
  readonly sent: string[]
  readonly closes: number[]
}

function createSocket(): WatchedSocket {
  const [sent, closes]: [string[], number[]] = [[], []]
  const socket = Object.assign(new EventEmitter(), {
    ...{ OPEN: 1, readyState: 1, bufferedAmount: 0, terminate() {} },
    send: (text: string) => void sent.push(text),
    close: (code: number) => void closes.push(code),
  })
  return { socket, sent, closes }
}

/** Starts a watcher of these stored actors. `told` is what the feed calls. */
function watch(
  t: Test,
  { socket, sent }: WatchedSocket,
  newest: () => Promise<ActorSearchResult[]>,
  mono?: () => number,
) {
  const clock = createDatabaseAdjustedClock()
  let told: InspectionFeedWatcher = { heard() {}, missed() {} }
  const watcher = startInspectorWatcher(
    {
      clock: mono === undefined ? clock : { ...clock, mono },
      feed: { watch: (listener) => ((told = listener), () => {}) },
      directory: { newest, countByKind: async () => ({ drop: 1 }) },
      framesOf: createSharedInspectorStepFrames({ nameOf: () => undefined, remember() {} }),
      log: (message) => t.fail(message),
    },
    {
      socket: socket as never,
      connection: {
        ...{ cork() {}, uncork() {} },
        write: (bytes: Buffer) => (sent.push(bytes.toString('latin1')), true),
      } as never,
    },
    {},
  )
  return { told, watcher }
}

const until = async (isTrue: () => boolean): Promise<void> => {
  while (!isTrue()) await pause(2)
}
const hasJoined = (sent: readonly string[]): boolean =>
  sent.some((text) => text.includes('gas.joined'))

t.test('a reader learns what it missed although no frame follows', async (t) => {
  const shown = createSocket()
  const { sent, socket } = shown
  const { told } = watch(t, shown, async () => [])
  await until(() => hasJoined(sent))
  told.missed(3)
  t.strictSame(sent.slice(1), ['{"type":"gas.missed","frames":3}'])
  socket.bufferedAmount = 2_000_000
  told.missed(4)
  t.equal(sent.length, 2, 'it is behind')
  socket.bufferedAmount = 0
  await until(() => sent.length > 2)
  t.strictSame(sent.slice(2), ['{"type":"gas.missed","frames":4}'])
})

t.test(
  'a reader that never reads is kept at a mebibyte, and closed after half a minute',
  async (t) => {
    const shown = createSocket()
    const { sent, closes, socket } = shown
    const unread = () => sent.reduce((sum, text) => sum + text.length, 0)
    Object.defineProperty(socket, 'bufferedAmount', { get: unread })
    let now = 0
    const { told } = watch(
      t,
      shown,
      async () => [],
      () => now,
    )
    await until(() => hasJoined(sent))
    for (let commands = 0; commands < 3_000; commands++) told.heard(dropCommand())
    t.ok(unread() > 1_000_000 && unread() < 1_060_000, `${unread()} bytes wait`)
    now = 30_000
    told.heard(dropCommand())
    t.strictSame(closes, [], 'it may still catch up')
    now = 30_001
    told.heard(dropCommand())
    t.strictSame(closes, [1013])
  },
)

t.test('the stored actors wait for a slow reader, and none is left out', async (t) => {
  const shown = createSocket()
  const { sent, socket } = shown
  const large = 'x'.repeat(1_900)
  const actors = Array.from({ length: 200 }, (_, n) =>
    storedDrop(
      `drop-${n}`,
      Array.from({ length: 10 }, () => large),
    ),
  )
  let read = 0
  const unread = () => sent.slice(read).reduce((sum, text) => sum + text.length, 0)
  Object.defineProperty(socket, 'bufferedAmount', { get: unread })
  let most = 0
  const reader = setInterval(() => {
    most = Math.max(most, unread())
    read = sent.length
  }, 2)
  t.teardown(() => clearInterval(reader))
  watch(t, shown, async () => actors)
  await until(() => hasJoined(sent))
  t.ok(sent.join('').length > 3_000_000, 'more than what may wait')
  t.ok(most < 400_000, `${most} bytes waited`)
  t.equal(sent.filter((text) => text.includes('@xstate.actor')).length, 200)
  t.notOk(sent.some((text) => text.includes('gas.missed')))
})

t.test('a stored actor is not sent after what has happened to it since', async (t) => {
  const shown = createSocket()
  const { sent } = shown
  let answer: (actors: ActorSearchResult[]) => void = () => {}
  const { told } = watch(t, shown, () => new Promise((resolve) => (answer = resolve)))
  told.heard(dropCommand(2))
  answer([storedDrop('none'), storedDrop('other')])
  await until(() => hasJoined(sent))
  const frames = sent.filter((text) => text.includes('"sessionId":"drop:none"'))
  t.match(frames[0], /@xstate.actor.*"slots":2/)
  t.notOk(
    frames.some((text) => text.includes('"slots":1')),
    'not the older state',
  )
  t.ok(sent.some((text) => text.includes('drop:other')))
})

t.test('the stored actors are read once at a time, and at last for the last filter', async (t) => {
  const shown = createSocket()
  const { sent } = shown
  let [reads, most, all] = [0, 0, 0]
  const { watcher } = watch(t, shown, async () => {
    reads += 1
    all += 1
    most = Math.max(most, reads)
    await pause(5)
    reads -= 1
    return [storedDrop('none')]
  })
  for (let at = 0; at < 10; at++) watcher.setFilter({ q: String(at) })
  await until(() => hasJoined(sent) && reads === 0)
  t.equal(most, 1)
  t.equal(all, 2, 'the first filter, and the last')
  t.equal(sent.filter((text) => text.includes('gas.joined')).length, 1)
})

t.test('a closed socket reads no actors', async (t) => {
  const shown = createSocket()
  let reads = 0
  const { watcher } = watch(t, shown, async () => ((reads += 1), []))
  await until(() => hasJoined(shown.sent))
  shown.socket.readyState = 3
  watcher.setFilter({ q: 'x' })
  await pause(5)
  t.equal(reads, 1)
})

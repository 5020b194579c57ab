import { connect } from 'node:net'
import { mock } from 'node:test'
import fastify from 'fastify'
import t from 'tap'
import { openSseStream, type SseStream } from '../../../http/sse/sse-stream.ts'

/** How often a reader is looked at: three times in the half minute it may take nothing. */
const LOOK_MS = 10_000
/** Turns of the event loop without a change, after which the buffers of the system are full. */
const SETTLED_TURNS = 2_000
/** More than the system holds between the two ends of a connection. */
const LARGE = 16 * 1_048_576

t.test('a slow reader gets the whole stream, one that never reads is disconnected', async (t) => {
  const part = 'x'.repeat(1_200_000)
  const app = fastify()
  let opened: (events: SseStream) => void = () => {}
  const first = new Promise<SseStream>((resolve) => (opened = resolve))
  app.get('/', (_request, reply) => {
    const events = openSseStream(reply, { resumes: false }, { idleMs: 600, lastReadMs: 60_000 })
    for (let n = 0; n < 10; n += 1) events.send('partial', part)
    events.end()
    opened(events)
  })
  t.teardown(() => app.close())
  const url = new URL(await app.listen({ host: '127.0.0.1', port: 0 }))
  const reader = connect(Number(url.port), url.hostname)
  reader.on('error', () => {}).pause()
  reader.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  await (
    await first
  ).closed
  t.pass('what was held for it is free')
  const text = await (await fetch(url)).text()
  t.equal(text.split('event: partial').length, 11)
  t.ok(text.length > 10 * part.length)
  reader.destroy()
})

/** Much more than a reader that reads nothing can be sent. */
function tooMuch(events: SseStream): void {
  for (let n = 0; n < 5; n += 1) events.send('partial', 'x'.repeat(LARGE))
}

/** Enough to fill the buffers of the server, and below the limit for resumable readers. */
async function enough(events: SseStream): Promise<void> {
  for (; !events.isBehind(); await new Promise((done) => setImmediate(done)))
    events.send('signal', 'x'.repeat(32_768))
}

/** A long stream whose reader has read nothing yet. */
async function unread(
  t: { teardown(work: () => unknown): unknown },
  resumes = false,
  fill: (events: SseStream) => void | Promise<void> = tooMuch,
) {
  const app = fastify()
  let opened: (events: SseStream) => void = () => {}
  let waiting = () => 0
  const first = new Promise<SseStream>((resolve) => (opened = resolve))
  app.get('/', (_request, reply) => {
    const { socket } = reply.raw
    waiting = () => socket?.writableLength ?? 0
    const events = openSseStream(reply, { resumes })
    void Promise.resolve(fill(events)).then(() => opened(events))
  })
  t.teardown(() => app.close())
  const url = new URL(await app.listen({ host: '127.0.0.1', port: 0 }))
  mock.timers.enable({ apis: ['setInterval', 'setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const reader = connect(Number(url.port), url.hostname)
  reader.on('error', () => {}).pause()
  // A stream that a failed test leaves open would keep the server.
  t.teardown(() => reader.destroy())
  reader.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  const events = await first
  let isOpen = true
  void events.closed.then(() => (isOpen = false))
  const turn = () => new Promise((done) => setImmediate(done))
  return {
    events,
    /** Checks it the given number of times and returns whether it is still open. */
    async looks(count: number): Promise<boolean> {
      for (let n = 0; n < count; n += 1) mock.timers.tick(LOOK_MS)
      // The end of a connection is reported in a later turn.
      for (let n = 0; n < 5; n += 1) await turn()
      return isOpen
    },
    /** The reader takes a part of it. */
    async reads(): Promise<void> {
      const upTo = reader.bytesRead + LARGE
      reader.resume()
      while (reader.bytesRead < upTo) await turn()
      reader.pause()
      // The system goes on taking what it has room for: a look meanwhile would see that as reading.
      for (let [still, left] = [0, -1]; still < SETTLED_TURNS; await turn()) {
        still = waiting() === left ? still + 1 : 0
        left = waiting()
      }
    },
  }
}

t.test('a reader that reads occasionally is not disconnected', async (t) => {
  const { looks, reads } = await unread(t)
  // The first check only records the position.
  t.ok(await looks(3))
  await reads()
  t.ok(await looks(3), 'it has taken something: the time begins again')
  await reads()
  t.ok(await looks(3))
  t.notOk(await looks(1), 'three looks in a row have found it where it was')
})

t.test('a finished stream may be read for at most two minutes', async (t) => {
  const { events, looks, reads } = await unread(t)
  events.end()
  for (let n = 0; n < 11; n += 1) {
    // To its last look: it is not cut off for having taken nothing.
    if ([2, 5, 8, 10].includes(n)) await reads()
    t.ok(await looks(1), `${n + 1} looks after its end`)
  }
  t.notOk(await looks(1))
})

t.test(
  'the server does not wait for resumable readers after the end of their stream',
  async (t) => {
    const { events, looks } = await unread(t, true, enough)
    t.ok(await looks(1))
    events.end()
    t.notOk(await looks(1), 'a station that stops would wait for it as well')
  },
)

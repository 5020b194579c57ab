import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { LIMITS } from '../../../core/limits.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import { startTestLlmApi } from '../../support/upstreams/test-llm-api.ts'

/** More than the system and a stream hold together before their reader is behind, in less than one answer may have. */
const WORDS = Array.from({ length: 30 }, (_, n) => `${n}`.padStart(32_000, 'x'))
const ANSWER = WORDS.join(' ')

const models = await startTestLlmApi(t)
models.answer = () => ANSWER
const main = await startInProcessTestStation(t, { LLM_PROVIDERS: models.providers({ small: {} }) })

/** A connection with small buffers, so that the system holds little. */
const door = join(t.testdir(), 'door')
const narrow = createServer((socket) => main.station.server.server.emit('connection', socket))
await new Promise<void>((ready) => narrow.listen(door, ready))
t.teardown(() => new Promise((done) => narrow.close(done)))

interface Slow {
  readonly socket: Socket
  /** Reads the remaining events in order. */
  rest(): Promise<{ event: string; data: Record<string, unknown> }[]>
}

/** Asks for a stream and takes nothing of it. */
function slowly({ key }: TestAgent, prompt: string): Slow {
  const socket = connect(door)
  t.teardown(() => socket.destroy())
  socket.pause()
  const body = JSON.stringify({ tool: 'llm_routing', prompt })
  const head = [
    'POST /api/refuel/stream HTTP/1.1',
    'host: gas.test',
    'connection: close',
    'content-type: application/json',
    'x-forwarded-for: 203.0.113.7',
    `x-api-key: ${key}`,
    `content-length: ${Buffer.byteLength(body)}`,
  ]
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
  return {
    socket,
    async rest() {
      let text = ''
      socket.on('data', (part) => (text += part.toString())).resume()
      await once(socket, 'close')
      return eventsOf(text)
    },
  }
}

/** The events of an answer in chunks. */
function eventsOf(answer: string) {
  const events: { event: string; data: Record<string, unknown> }[] = []
  const frames = answer.replaceAll(/\r\n[0-9a-f]+\r\n/g, '').matchAll(/event: (\w+)\ndata: (.*)\n/g)
  for (const [, event = '', data = ''] of frames) events.push({ event, data: JSON.parse(data) })
  return events
}

const answered = async ({ id }: TestAgent, calls: number) => {
  const made = () => main.sql`select from calls where agent_id = ${id} and tool = 'llm_routing'`
  while ((await made()).length < calls) await new Promise(setImmediate)
}

t.test('a slow reader receives everything it paid for', async (t) => {
  const guest = await main.onboard()
  const quick = await main.ask('POST', '/api/refuel/stream', {
    key: guest.key,
    json: { tool: 'llm_routing', prompt: 'quick' },
  })
  const steps = (events: readonly { event: string; data: object }[]) =>
    events.flatMap(({ event, data }) =>
      event === 'progress' ? [(data as { step: string }).step] : [],
    )
  t.strictSame(steps(quick.frames), ['run', 'settle'])

  const reader = slowly(guest, 'slow')
  await answered(guest, 2)
  const events = await reader.rest()
  t.strictSame(steps(events), ['run', 'settle'], 'the answer comes when it is paid for')
  const said = events.flatMap(({ event, data }) => (event === 'text' ? [data['delta']] : []))
  t.equal(said.join(''), ANSWER)
  t.strictSame(
    events.slice(-2).map(({ event }) => event),
    ['result', 'done'],
  )
  t.equal(events.at(-2)?.data['text'], ANSWER)
})

t.test('an unread stream keeps its reader’s slot', async (t) => {
  const guest = await main.onboard()
  const readers = Array.from({ length: LIMITS.streamsPerKey }, (_, n) => slowly(guest, `${n}`))
  await answered(guest, readers.length)
  const more = () =>
    main.ask('POST', '/api/refuel/stream', {
      key: guest.key,
      json: { tool: 'llm_routing', prompt: 'more' },
    })
  t.match(await more(), {
    status: 429,
    body: { code: 'rate_limited', limit: LIMITS.streamsPerKey },
  })
  t.equal((await readers[0]?.rest())?.at(-1)?.event, 'done')
  const next = await more()
  t.equal(next.frames.at(-1)?.event, 'done')
})

t.test('the ledger is sound', () => main.verify())

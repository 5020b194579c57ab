import t from 'tap'
import { ServiceError } from '../../../core/errors.ts'
import { LIMITS } from '../../../core/limits.ts'
import crew from '../../../tools/intelligence/crew.ts'
import { withLlmTimeout } from '../../../tools/intelligence/crew/crew-llm-timeout.ts'
import { connectReadyWebSocket } from '../../support/http/websocket-and-sse-clients.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import {
  createRecordingToolContext,
  awaitRejectionDetails,
} from '../../support/tools/test-tool-context.ts'

const COLD = {
  icpDescription: 'Heads of operations at small logistics companies who plan routes by hand',
  offerDescription: 'A route planner that cuts fuel costs by a tenth and is set up in a day',
}
const ISSUE = { topic: 'Account abstraction gas fees', targetAudience: 'Developers of wallets' }

/** No source of the web answers here. */
const GOAL = 'Research how bananas ripen in winter'

const main = await startInProcessTestStation(t, { RATE_LIMITS: 'on' })
const rich = await startInProcessTestStation(t, { RATE_LIMITS: 'on', STARTER_CREDITS_USDC: '3' })

t.test('a dry run is a quote, and runs nothing', async (t) => {
  const guest = await main.onboard()
  const { key } = guest
  const quoted = { status: 200, body: { tool: 'crew', price_usdc: 0.2, would_refuse: null } }
  const asked = { ...COLD, dry_run: true }
  t.match(await main.ask('POST', '/api/agent/crew', { key, json: asked }), quoted)
  t.match(await main.ask('POST', '/api/t/crew', { key, json: asked }), quoted)
  const odd = { key, json: { ...COLD, dry_run: 'yes' } }
  t.equal((await main.ask('POST', '/api/agent/crew', odd)).status, 400)
  t.equal(await main.balance(guest), 0.5)
})

t.test('an agent starts six crews per minute, with any outcome', async (t) => {
  const { key } = await rich.onboard()
  const begin = (path: string, json: object, headers = {}) =>
    rich.ask('POST', path, { key, json, headers })
  const call = { tool: 'crew', ...COLD }
  const once = { 'idempotency-key': 'one-and-the-same' }
  for (let n = 0; n < 7; n += 1) {
    t.equal((await begin('/api/agent/crew', { domain: '???' }, once)).status, 400, 'bad input')
    t.equal((await begin('/api/refuel', { ...call, colour: 'red' })).status, 400)
  }
  t.equal((await begin('/api/agent/crew', COLD, once)).status, 200)
  for (let n = 0; n < 7; n += 1) {
    const { status, headers } = await begin('/api/agent/crew', COLD, once)
    t.strictSame([status, headers['idempotency-replayed']], [200, 'true'], 'a repetition')
  }
  t.equal((await begin('/api/agent/crew', COLD)).status, 200)
  t.match(
    await begin('/api/refuel', { tool: 'crew', goal: GOAL }),
    { status: 502 },
    'it fails, and counts',
  )
  t.equal((await begin('/api/refuel/stream', call)).status, 200)
  t.equal((await begin('/api/agent/crew', { ...COLD, dry_run: true })).status, 200)
  t.equal((await begin('/api/t/crew', COLD)).status, 200)
  const { body: batch } = await begin('/api/pipeline', { calls: [call, call] })
  t.match(batch, { succeeded: 1, failed: 1 }, 'each crew of a batch takes a turn')
  const limited = (batch['results'] as { ok: boolean }[]).find(({ ok }) => !ok)
  t.match(limited, { error: { code: 'rate_limited' } })
  for (const [path, json] of [
    ['/api/agent/crew', COLD],
    ['/api/refuel', call],
    ['/api/refuel/stream', call],
    ['/api/t/crew', COLD],
  ] as const) {
    const refused = await begin(path, json)
    t.match(refused, { status: 429, body: { code: 'rate_limited' } }, path)
    const wait = Number(refused.headers['retry-after'])
    t.ok(wait > 0 && wait <= 60, path)
  }
  t.equal(
    (await begin('/api/agent/crew', COLD, once)).status,
    200,
    'its answer is kept all the same',
  )
  await rich.verify()
})

t.test('an agent without credits starts no crew', async (t) => {
  const { key } = await rich.onboard(0.3)
  const begin = () => rich.ask('POST', '/api/agent/crew', { key, json: COLD })
  t.equal((await begin()).status, 200)
  for (let n = 0; n < 7; n += 1) t.equal((await begin()).status, 402)
})

t.test('the WebSocket and all keys of an agent share the six crews', async (t) => {
  const { key } = await rich.onboard()
  const { body } = await rich.ask('POST', '/api/keys', { key, json: { name: 'second' } })
  const socket = await connectReadyWebSocket(t, rich.url, key)
  const frame = { type: 'refuel', tool: 'crew', ...COLD }
  const other = () => rich.ask('POST', '/api/agent/crew', { key: body.api_key, json: COLD })
  for (let n = 0; n < 3; n += 1) {
    t.match(await socket.ask(frame), { type: 'ack', result: { type: 'cold_email' } })
    t.equal((await other()).status, 200)
  }
  const { problem } = await socket.ask(frame)
  t.match(problem, { code: 'rate_limited', status: 429 })
  const wait = Number(problem['retry_after'])
  t.ok(wait > 0 && wait <= 60)
  t.equal((await other()).status, 429)
  t.match(await socket.ask({ type: 'refuel', tool: 'hive_trending' }), { type: 'ack' })
  await socket.close()
})

t.test('a crew ends after 90 seconds, whichever stages are running', async (t) => {
  t.match(crew, { slow: true, timeoutMs: 90_000, effect: 'none' })
  t.equal(LIMITS.toolDeadlineMs, 90_000)
  const late = new AbortController()
  const reason = new ServiceError('tool_timeout')
  const waiting = (_: unknown, signal: AbortSignal) =>
    new Promise<never>((_done, reject) =>
      signal.addEventListener('abort', () => reject(signal.reason as Error)),
    )
  const { context: within } = createRecordingToolContext({
    signal: late.signal,
    search: { providers: [], searchWeb: waiting, searchHive: async () => [] },
    social: { platforms: [], search: waiting },
    text: { keywords: async () => [] } as never,
  })
  const running = Promise.resolve(crew.run({ type: 'newsletter', ...ISSUE }, within))
  const model = withLlmTimeout(within, (own) => waiting(0, own.signal), 20)
  t.equal(await model, null, 'a model is waited for less long')
  late.abort(reason)
  t.match(reason.details, { stage: 'search' }, 'as soon as its time is over')
  t.equal(await running.then(null, (error: unknown) => error), reason)
})

t.test('the timeout does not name a finished stage', async (t) => {
  const late = new AbortController()
  const reason = new ServiceError('tool_timeout')
  let asked: () => void = () => {}
  const reached = new Promise<void>((resolve) => (asked = resolve))
  const found = { results: [], source: 'wikipedia', mode: 'fixture', degraded: false, failed: [] }
  const { context: within } = createRecordingToolContext({
    signal: late.signal,
    search: { providers: [], searchWeb: async () => found as never, searchHive: async () => [] },
    social: {
      platforms: [],
      search: (_, signal) =>
        new Promise<never>((_done, reject) => {
          asked()
          signal.addEventListener('abort', () => reject(signal.reason as Error))
        }),
    },
    text: { keywords: async () => [] } as never,
  })
  let ended: () => void = () => {}
  const searched = new Promise<void>((resolve) => (ended = resolve))
  const emit = ({ type, step, note }: { type: string; step?: string; note?: string }) => {
    if (type === 'progress' && step === 'search' && note !== 'started') ended()
  }
  const running = Promise.resolve(crew.run({ type: 'newsletter', ...ISSUE }, { ...within, emit }))
  await Promise.all([reached, searched])
  late.abort(reason)
  t.match(reason.details, { stage: 'social' })
  t.equal(await running.then(null, (error: unknown) => error), reason)
})

t.test('a failing stage ends the concurrent stages', async (t) => {
  let ended: unknown = null
  const failing = async () => {
    throw new ServiceError('upstream_error')
  }
  const { context: within } = createRecordingToolContext({
    search: { providers: [], searchWeb: failing, searchHive: async () => [] },
    social: {
      platforms: [],
      search: (_, signal) =>
        new Promise<never>((_done, reject) =>
          signal.addEventListener('abort', () => {
            ended = signal.reason
            reject(signal.reason as Error)
          }),
        ),
    },
    text: { keywords: async () => [] } as never,
  })
  const failed = await awaitRejectionDetails(
    Promise.resolve(crew.run({ type: 'newsletter', ...ISSUE }, within)),
  )
  t.match(failed, { code: 'upstream_error', stage: 'search' })
  t.match(ended, { details: { stage: 'search' } })
})

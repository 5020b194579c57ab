import t from 'tap'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import crew from '../../tools/crew.ts'
import { inTime } from '../../tools/crew/patience.ts'
import { joined } from '../support/sockets.ts'
import { startStation } from '../support/station.ts'
import { context } from './kit.ts'

const COLD = {
  icpDescription: 'Heads of operations at small logistics companies who plan routes by hand',
  offerDescription: 'A route planner that cuts fuel costs by a tenth and is set up in a day',
}
const ISSUE = { topic: 'Account abstraction gas fees', targetAudience: 'Developers of wallets' }

const main = await startStation(t, { RATE_LIMITS: 'on' })

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

t.test('crews of an agent begin six times a minute, whatever came of them', async (t) => {
  const { key } = await main.onboard(0)
  const begin = (path: string, json: object) => main.ask('POST', path, { key, json })
  const call = { tool: 'crew', ...COLD }
  for (let n = 0; n < 3; n += 1)
    t.equal((await begin('/api/agent/crew', COLD)).status, 402, 'it fails, and counts')
  t.equal((await begin('/api/refuel', call)).status, 402)
  t.equal((await begin('/api/refuel/stream', call)).status, 402)
  t.equal((await begin('/api/agent/crew', { ...COLD, dry_run: true })).status, 200)
  t.equal((await begin('/api/t/crew', COLD)).status, 402)
  for (const [path, json] of [
    ['/api/agent/crew', COLD],
    ['/api/refuel', call],
    ['/api/refuel/stream', call],
    ['/api/t/crew', COLD],
    ['/api/pipeline', { calls: [call] }],
  ] as const) {
    const refused = await begin(path, json)
    t.match(refused, { status: 429, body: { code: 'rate_limited' } }, path)
    const wait = Number(refused.headers['retry-after'])
    t.ok(wait > 0 && wait <= 60, path)
  }
})

t.test('a socket and every key of an agent draw on the same six', async (t) => {
  const { key } = await main.onboard(0)
  const { body } = await main.ask('POST', '/api/keys', { key, json: { name: 'second' } })
  const socket = await joined(t, main.url, key)
  const frame = { type: 'refuel', tool: 'crew', ...COLD }
  const other = () => main.ask('POST', '/api/agent/crew', { key: body.api_key, json: COLD })
  for (let n = 0; n < 3; n += 1) {
    t.match(await socket.ask(frame), { type: 'error', problem: { code: 'payment_required' } })
    t.equal((await other()).status, 402)
  }
  const { problem } = await socket.ask(frame)
  t.match(problem, { code: 'rate_limited', status: 429 })
  const wait = Number(problem['retry_after'])
  t.ok(wait > 0 && wait <= 60)
  t.equal((await other()).status, 429)
  t.match(await socket.ask({ type: 'refuel', tool: 'hive_trending' }), {
    problem: { code: 'payment_required' },
  })
  await socket.close()
})

t.test('its time is over after 90 seconds, whatever its stages wait for', async (t) => {
  t.match(crew, { slow: true, timeoutMs: 90_000, effect: 'none' })
  t.equal(LIMITS.toolDeadlineMs, 90_000)
  const late = new AbortController()
  const reason = new ServiceError('tool_timeout')
  const waiting = (_: unknown, signal: AbortSignal) =>
    new Promise<never>((_done, reject) =>
      signal.addEventListener('abort', () => reject(signal.reason as Error)),
    )
  const { context: within } = context({
    signal: late.signal,
    search: { providers: [], web: waiting, hive: async () => [] },
    social: { platforms: [], ask: waiting },
    text: { keywords: async () => [] } as never,
  })
  const running = Promise.resolve(crew.run({ type: 'newsletter', ...ISSUE }, within))
  const model = inTime(within, (own) => waiting(0, own.signal), 20)
  t.equal(await model, null, 'a model is waited for less long')
  late.abort(reason)
  t.match(reason.details, { stage: 'search' }, 'as soon as its time is over')
  t.equal(await running.then(null, (error: unknown) => error), reason)
})

t.test('a stage that has ended is not the one that took too long', async (t) => {
  const late = new AbortController()
  const reason = new ServiceError('tool_timeout')
  let asked: () => void = () => {}
  const reached = new Promise<void>((resolve) => (asked = resolve))
  const found = { results: [], source: 'wikipedia', mode: 'fixture', degraded: false, failed: [] }
  const { context: within } = context({
    signal: late.signal,
    search: { providers: [], web: async () => found as never, hive: async () => [] },
    social: {
      platforms: [],
      ask: (_, signal) =>
        new Promise<never>((_done, reject) => {
          asked()
          signal.addEventListener('abort', () => reject(signal.reason as Error))
        }),
    },
    text: { keywords: async () => [] } as never,
  })
  let ended: () => void = () => {}
  const searched = new Promise<void>((resolve) => (ended = resolve))
  const emit = ({ type, path }: { type: string; path?: string }) => {
    if (type === 'partial' && path === '/stages/0') ended()
  }
  const running = Promise.resolve(crew.run({ type: 'newsletter', ...ISSUE }, { ...within, emit }))
  await Promise.all([reached, searched])
  late.abort(reason)
  t.match(reason.details, { stage: 'social' })
  t.equal(await running.then(null, (error: unknown) => error), reason)
})

import { availableParallelism } from 'node:os'
import t from 'tap'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import {
  isToolOutputSseFrame,
  isProgressEventOfStep,
  openRefuelStream,
} from '../../support/http/refuel-stream-test-reader.ts'
import { sendJsonFixture, startFixtureServer } from '../../support/upstreams/fixture-server.ts'

/** A call is paid when its caller or its own program ends it (decision 149). */

const COST = 0.05
const HOSTS = Math.max(2, availableParallelism() - 1)
const round = (usdc: number): number => Math.round(usdc * 1e6) / 1e6

/** A server that answers some addresses on command and the others at once. */
const held = new Map<string, () => void>()
const gate = await startFixtureServer(t, ({ url = '' }, response) => {
  const answer = () => sendJsonFixture(response, { dogecoin: { usd: 0.5 } })
  if (/page|dogecoin/.test(url)) held.set(url, answer)
  else answer()
})
const addressOf = (part: string) => [...held.keys()].find((url) => url.includes(part)) ?? ''
const arrived = (part: string) => eventually(() => addressOf(part) !== '', part)
const answer = (part: string) => held.get(addressOf(part))?.()
const main = await startInProcessTestStation(t, {
  STARTER_CREDITS_USDC: '20',
  PATH: process.env['PATH'] ?? '',
  COINGECKO_BASE: gate.base,
  SSRF_ALLOW: '127.0.0.1:1024-65535',
})

/** The rows of an agent's calls, the latest last. */
const rowsOf = ({ id }: TestAgent) =>
  main.sql<{ call_id: string; status: string; error_code: string | null; cost_micros: string }[]>`
    select call_id, status, error_code, cost_micros from calls
     where agent_id = ${id} order by call_id`

/** The row of the latest call, once the given number of rows exists. */
async function lastRow(guest: TestAgent, calls = 1) {
  await eventually(async () => (await rowsOf(guest)).length >= calls, `call ${calls}`)
  return (await rowsOf(guest)).at(-1)
}

/** Programs that write to the result file of the runner and end at once. */
const LEFT: readonly string[] = [
  'open(path, "w").write("x")',
  'open(path, "w").write("[]")',
  'open(path, "w").write("null")',
  `open(path, "w").write('{"result": 1, "error": null}')`,
  `open(path, "w").write('{"result": "]", "error": null}')`,
  `open(path, "w").write('{"result": null, "error": {"a": 1}}')`,
  'open(path, "wb").write(bytes([255, 254, 0]))',
  'os.mkdir(path)',
  `open(path, "w").write("[" * 50000)`,
  'pass',
]

t.test(
  'programs that corrupt their result file or end themselves are charged, 20 of each',
  async (t) => {
    const guest = await main.onboard()
    const before = await main.balance(guest)
    for (let n = 0; n < 20; n += 1) {
      const left = LEFT[n % LEFT.length] ?? ''
      const code = `import os\npath = "/tmp/result.json"\nprint("worth ${n}")\n${left}\nos._exit(0)`
      const stream = await openRefuelStream(main, guest, { tool: 'code_sandbox', code })
      const frames = await stream.rest()
      const result = frames.find(({ event }) => event === 'result')?.data
      t.match(
        result,
        {
          stdout: `worth ${n}\n`,
          success: false,
          error: /interpreter ended|result cannot be read/,
          result: null,
          _meta: { cost_usdc: COST },
        },
        left,
      )
      t.equal(await main.balance(guest), round(before - (n + 1) * COST))
    }
  },
)

t.test('a result forged by a program is its result at any depth', async (t) => {
  const guest = await main.onboard()
  const deep = `'{"result": "' + "[" * 50000 + "]" * 50000 + '", "error": null}'`
  const code = `import os\nopen("/tmp/result.json", "w").write(${deep})\nos._exit(0)`
  const { status, body } = await main.call(guest, 'code_sandbox', { code })
  t.equal(status, 200)
  t.equal(body['result'], '['.repeat(50_000) + ']'.repeat(50_000))
})

t.test('a program whose caller disconnects runs to its end and is charged', async (t) => {
  const programs = {
    python: 'print("the answer")\nwhile True: pass',
    javascript: 'console.log("the answer"); for (;;) {}',
    bash: 'echo the answer; sleep 20',
  }
  for (const [language, code] of Object.entries(programs)) {
    const guest = await main.onboard()
    const before = await main.balance(guest)
    const fields = { code, language, timeout_ms: 500 }
    const headers = { 'idempotency-key': `left-${language}` }
    const json = { tool: 'code_sandbox', ...fields }
    const stream = await openRefuelStream(main, guest, json, headers)
    await stream.until(isProgressEventOfStep('program'))
    t.notOk(stream.frames.some(isToolOutputSseFrame), 'nothing has been delivered')
    stream.disconnect()
    t.match(await lastRow(guest), { status: 'ok', cost_micros: '50000' }, language)
    t.equal(await main.balance(guest), round(before - COST))
    const again = await main.ask('POST', '/api/refuel/stream', { key: guest.key, json, headers })
    const result = again.frames.find(({ event }) => event === 'result')?.data
    t.match(result, { success: false, error: /timed out/ }, 'its answer is found under its key')
    t.equal(await main.balance(guest), round(before - COST), 'and is paid for once')
  }
})

t.test('a program whose caller disconnects before it gets a host costs nothing', async (t) => {
  const [busy, guest] = [await main.onboard(), await main.onboard()]
  const before = await main.balance(guest)
  const sleeper = { tool: 'code_sandbox', language: 'bash', code: 'sleep 20', timeout_ms: 10_000 }
  const others = await Promise.all(
    Array.from({ length: HOSTS - 1 }, () => openRefuelStream(main, busy, sleeper)),
  )
  await Promise.all(others.map((other) => other.until(isProgressEventOfStep('program'))))
  const stream = await openRefuelStream(main, guest, sleeper)
  await stream.until(isProgressEventOfStep('run'))
  stream.disconnect()
  t.match(await lastRow(guest), { status: 'failed', error_code: 'cancelled', cost_micros: '0' })
  t.equal(await main.balance(guest), before)
  t.notOk(
    others.some(({ frames }) => frames.some(isProgressEventOfStep('settle'))),
    'all hosts for long programs were taken until then',
  )
  await Promise.all(others.map((other) => other.rest()))
})

t.test('a read-only tool is completed and charged after its caller disconnected', async (t) => {
  const guest = await main.onboard()
  const before = await main.balance(guest)
  const leaving = new AbortController()
  const request = {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-api-key': guest.key,
      'idempotency-key': 'read',
    },
    body: JSON.stringify({ tool: 'agent_see', url: `${gate.base}/page`, engine: 'http' }),
  }
  const first = fetch(`${main.url}/api/refuel`, { ...request, signal: leaving.signal })
  await arrived('/page')
  leaving.abort()
  await t.rejects(first)
  answer('/page')
  t.match(await lastRow(guest), { status: 'ok', cost_micros: '30000' })
  t.equal(await main.balance(guest), round(before - 0.03))
  const again = await fetch(`${main.url}/api/refuel`, request)
  t.equal(again.headers.get('idempotency-replayed'), 'true')
  t.match(await again.json(), { status_code: 200 })
})

t.test('a free call whose caller disconnects uses its slot', async (t) => {
  const guest = await main.onboard()
  const headers = { 'x-forwarded-for': '198.51.100.9' }
  const claims = ['2 + 2 = 4', 'DOGE costs 0.5 USD']
  const json = { tool: 'hallucination_pill', claims }
  const stream = await openRefuelStream(main, guest, json, headers)
  await arrived('dogecoin')
  t.notOk(stream.frames.some(isToolOutputSseFrame), 'no verdict has left')
  stream.disconnect()
  answer('dogecoin')
  t.match(await lastRow(guest), { status: 'ok' })
  const quote = await main.ask('POST', '/api/quote', { key: guest.key, json, headers })
  t.equal(quote.body['free_calls_left'], 4)
})

t.test('gas verify finds no difference', async () => main.verify())

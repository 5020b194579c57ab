import { once } from 'node:events'
import { connect } from 'node:net'
import { randomUUID } from 'node:crypto'
import t from 'tap'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { connectReadyWebSocket } from '../../support/http/websocket-and-sse-clients.ts'
import {
  callMcpTool,
  MCP_TEST_PROTOCOL_VERSIONS,
  problemOfRefusedMcpCall,
  toMcpTestMessage,
} from '../../support/mcp/mcp-test-client.ts'

const TOOL = 'hive_trending'
const PRICE = 0.005

t.test('calls over MCP', async (t) => {
  const main = await startInProcessTestStation(t)

  t.test('are charged, and answer the output of the tool as JSON and as text', async (t) => {
    const guest = await main.onboard()
    for (const [at, era] of MCP_TEST_PROTOCOL_VERSIONS.entries()) {
      const { result, reply } = await callMcpTool(main, TOOL, { limit: 3 }, { guest, era })
      t.equal(reply.status, 200)
      t.notOk(result.isError)
      t.equal(result.content[0]?.text, JSON.stringify(result.structuredContent))
      t.notOk('_meta' in (result.structuredContent ?? {}), 'the schema of the tool holds')
      const left = 0.5 - PRICE * (at + 1)
      t.match(result._meta['gas/call'], { cost_usdc: PRICE, rail: 'credits', balance_usdc: left })
      t.match(result.content[1]?.text, `This call cost ${PRICE} USDC. ${left} USDC are left.`)
    }
    t.equal(await main.balance(guest), 0.5 - 2 * PRICE)
  })

  t.test('repeat the answer to an idempotency key', async (t) => {
    const guest = await main.onboard()
    const key = randomUUID()
    const meta = { 'gas/idempotency_key': key }
    const first = await callMcpTool(main, TOOL, { limit: 2 }, { guest, meta })
    const again = await callMcpTool(main, TOOL, { limit: 2 }, { guest, meta, era: '2025-11-25' })
    t.strictSame(again.result.structuredContent, first.result.structuredContent)
    t.equal(again.result._meta['gas/replayed'], true)
    const byHeader = { guest, headers: { 'idempotency-key': key } }
    const other = await callMcpTool(main, TOOL, { limit: 3 }, byHeader)
    t.match(problemOfRefusedMcpCall(other), { code: 'idempotency_key_reused', status: 422 })
    const bad = await callMcpTool(main, TOOL, {}, { guest, meta: { 'gas/idempotency_key': 7 } })
    t.match(problemOfRefusedMcpCall(bad), {
      code: 'invalid_input',
      errors: [{ pointer: '/_meta/gas~1idempotency_key' }],
    })
    t.equal(await main.balance(guest), 0.5 - PRICE)
  })

  t.test('count against a task, and may be private', async (t) => {
    const guest = await main.onboard()
    const budget = { name: 'work', budget_usdc: PRICE }
    const task = await main.ask('POST', '/api/task/start', { key: guest.key, json: budget })
    const meta = { 'gas/task_id': task.body.task_id, 'gas/ghost_mode': 'stealth' }
    const { result } = await callMcpTool(main, TOOL, {}, { guest, meta })
    t.match(result._meta['gas/call'], { ghost_protocol: { active: true }, echo_recycled: false })
    const over = await callMcpTool(main, TOOL, {}, { guest, meta })
    t.match(over.result, { isError: true })
    t.match(problemOfRefusedMcpCall(over), { code: 'task_budget_exceeded', status: 402 })
    t.equal(over.result._meta['x402/error'], undefined, 'a payment does not pass the owner')
    const { calls } = (await main.ask('GET', '/api/calls', { key: guest.key })).body
    t.match(calls, [{ task_id: task.body.task_id, ghost: true, operation: 'refuel', tool: TOOL }])
  })

  t.test('free tools need no key until their calls of the day are used', async (t) => {
    const headers = { 'x-forwarded-for': '203.0.113.7' }
    for (let at = 0; at < 10; at += 1) {
      const { result } = await callMcpTool(main, 'hive_read', { query: 'x' }, { headers })
      t.match(result._meta['gas/call'], { cost_usdc: 0 })
    }
    const last = await callMcpTool(main, 'hive_read', { query: 'x' }, { headers })
    t.match(problemOfRefusedMcpCall(last), { code: 'payment_required', free_calls: { left: 0 } })
    t.equal(last.reply.status, 200)
  })

  t.test('what is wrong with the input is a result that a model can read', async (t) => {
    const guest = await main.onboard()
    for (const era of MCP_TEST_PROTOCOL_VERSIONS) {
      const bad = await callMcpTool(main, TOOL, { limit: 'many', extra: 1 }, { guest, era })
      t.match(bad.result, { isError: true, structuredContent: undefined })
      t.match(JSON.parse(bad.result.content[0]?.text ?? ''), {
        code: 'invalid_input',
        errors: [{ pointer: '/extra' }, { pointer: '/limit' }],
      })
      const missing = await callMcpTool(main, 'hive_trendin', {}, { guest, era })
      t.match(missing, {
        reply: { status: 200 },
        error: { code: -32602, message: /Did you mean hive_trending/ },
      })
    }
    const list = { name: TOOL, arguments: [1] }
    const { json, headers } = toMcpTestMessage('tools/call', list)
    const { text } = await main.ask('POST', '/mcp', { json, headers, key: guest.key })
    t.match(text, '"code":-32602')
    t.equal(await main.balance(guest), 0.5)
  })

  t.test('tell their progress only to a client that asks for it', async (t) => {
    const guest = await main.onboard()
    const args = { language: 'bash', code: 'echo hello' }
    const meta = { progressToken: 'p1' }
    for (const era of MCP_TEST_PROTOCOL_VERSIONS) {
      const told = await callMcpTool(main, 'code_sandbox', args, { guest, meta, era })
      t.match(told.reply.headers['content-type'], /^text\/event-stream/)
      t.equal(told.reply.headers['x-accel-buffering'], 'no')
      const steps = told.messages.slice(0, -1) as {
        readonly params: { readonly progress: number }
      }[]
      t.ok(steps.length > 0)
      for (const [at, step] of steps.entries())
        t.match(step, {
          method: 'notifications/progress',
          params: { progressToken: 'p1', progress: at + 1, message: String },
        })
      t.match(told.messages.at(-1), { id: 7, result: { structuredContent: { stdout: 'hello\n' } } })
      const silent = await callMcpTool(main, 'code_sandbox', args, { guest, era })
      t.match(silent.reply.headers['content-type'], /^application\/json/)
    }
    const accept = { accept: 'application/json' }
    const plain = await callMcpTool(main, 'code_sandbox', args, { guest, meta, headers: accept })
    t.match(plain.reply.headers['content-type'], /^application\/json/, 'it reads no streams')
    const only = { accept: 'text/event-stream' }
    const stream = await callMcpTool(main, TOOL, {}, { guest, headers: only })
    t.match(stream.reply.headers['content-type'], /^text\/event-stream/)
    t.match(stream.result._meta['gas/call'], { cost_usdc: PRICE })
  })

  t.test('a client that is gone in mid-call pays once or not at all', async (t) => {
    const guest = await main.onboard()
    const meta = { 'gas/idempotency_key': randomUUID() }
    const args = { language: 'bash', code: 'sleep 0.3; echo done' }
    const { json, headers } = toMcpTestMessage(
      'tools/call',
      { name: 'code_sandbox', arguments: args },
      { meta },
    )
    const body = JSON.stringify(json)
    const { hostname, port } = new URL(main.url)
    const socket = connect(Number(port), hostname)
    await once(socket, 'connect')
    const lines = Object.entries({ ...headers, 'x-api-key': guest.key, host: 'localhost' })
    socket.write(
      [
        'POST /mcp HTTP/1.1',
        ...lines.map(([name, value]) => `${name}: ${value}`),
        'content-type: application/json',
        `content-length: ${Buffer.byteLength(body)}`,
        '',
        body,
      ].join('\r\n'),
    )
    await new Promise((resolve) => setTimeout(resolve, 100))
    socket.destroy()
    const again = await callMcpTool(main, 'code_sandbox', args, { guest, meta })
    t.match(again.result.structuredContent, { stdout: 'done\n' })
    const { calls } = (await main.ask('GET', '/api/calls', { key: guest.key })).body
    const paid = (calls as { cost_usdc: number }[]).filter(({ cost_usdc: cost }) => cost > 0)
    t.equal(paid.length, 1)
  })

  t.test('a race over REST, WebSocket and MCP spends exactly the balance', async (t) => {
    const guest = await main.onboard(PRICE * 10)
    const socket = await connectReadyWebSocket(t, main.url, guest.key)
    const attempts = Array.from({ length: 36 }, (_, at) => at)
    const outcomes = await Promise.all(
      attempts.map(async (at): Promise<boolean> => {
        if (at % 3 === 0) return (await main.call(guest, TOOL)).status === 200
        const era = MCP_TEST_PROTOCOL_VERSIONS[at % 2] ?? '2026-07-28'
        if (at % 3 === 1) return !(await callMcpTool(main, TOOL, {}, { guest, era })).result.isError
        return (await socket.ask({ type: 'refuel', tool: TOOL })).type === 'ack'
      }),
    )
    t.equal(outcomes.filter(Boolean).length, 10)
    t.equal(await main.balance(guest), 0)
  })

  t.test('the books are right', () => main.verify())
})

import { once } from 'node:events'
import { createServer, connect, type AddressInfo, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { startStdioMcpProcess } from '../../support/mcp/stdio-mcp-process.ts'

const TOOL = 'hive_trending'
const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
}
const callOf = (name: string, args: object = {}, meta: object = {}) => ({
  name,
  arguments: args,
  ...(Object.keys(meta).length === 0 ? {} : { _meta: meta }),
})

/** A proxy that forwards requests, and closes the connection instead of the first `cuts` answers. */
async function startCuttingProxy(t: Test, target: string, cuts: number): Promise<string> {
  const { hostname, port } = new URL(target)
  let left = cuts
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname)
    for (const one of [client, upstream]) {
      sockets.add(one)
      one.on('error', () => {})
    }
    client.pipe(upstream)
    upstream.on('data', (bytes) => {
      left -= 1
      if (left >= 0) client.destroy()
      else client.write(bytes)
    })
    upstream.on('close', () => client.end())
    client.on('close', () => upstream.destroy())
  }).listen(0, '127.0.0.1')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

t.test('gas mcp', async (t) => {
  const main = await startInProcessTestStation(t)
  const guest = await main.onboard()
  const env = { GAS_URL: main.url, GAS_API_KEY: guest.key }

  t.test('serves a client of 2025, and pays with the key', async (t) => {
    const server = startStdioMcpProcess(t, env)
    const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'x' } }
    t.match(await server.ask('initialize', params), { result: { protocolVersion: '2025-06-18' } })
    server.writeLine({ jsonrpc: '2.0', method: 'notifications/initialized' })
    const { result } = await server.ask('tools/list')
    t.ok((result['tools'] as unknown[]).length > 30)
    const called = await server.ask('tools/call', callOf(TOOL))
    t.match(called.result._meta['gas/call'], { cost_usdc: 0.005, rail: 'credits' })
    t.match(await server.ask('prompts/list'), { error: { code: -32601 } })
    t.equal(await server.end(), 0)
    t.equal(await main.balance(guest), 0.495)
  })

  t.test('serves a client of 2026, and names that no header can hold', async (t) => {
    const server = startStdioMcpProcess(t, env)
    t.match(await server.ask('server/discover', { _meta: META }), {
      result: { supportedVersions: ['2026-07-28'], resultType: 'complete' },
    })
    const called = await server.ask('tools/call', callOf(TOOL, {}, META))
    t.match(called.result, { resultType: 'complete', structuredContent: Object })
    const odd = await server.ask('tools/call', callOf('räum auf', {}, META))
    t.match(odd.error, { code: -32602, message: /räum auf/ })
    const steps = { ...META, progressToken: 1 }
    const program = { language: 'bash', code: 'echo hello' }
    const run = await server.ask('tools/call', callOf('code_sandbox', program, steps))
    t.match(run.result.structuredContent, { stdout: 'hello\n' })
    t.ok(server.messages.some(({ method }) => method === 'notifications/progress'))
  })

  t.test('answers what is no message, and goes on', async (t) => {
    const server = startStdioMcpProcess(t, env)
    server.writeLine('{')
    server.writeLine('')
    server.writeLine([{ jsonrpc: '2.0', id: 1, method: 'ping' }])
    server.writeLine({ jsonrpc: '2.0', id: 'big', method: 'ping', params: { x: 'x'.repeat(2e6) } })
    t.match((await server.answerTo('big')).error, { code: -32600, message: /at most/ })
    t.match(await server.ask('ping'), { result: {} })
    const errors = server.messages.filter(({ id }) => id === undefined)
    t.match(errors, [{ error: { code: -32700 } }, { error: { code: -32600, message: /Batches/ } }])
  })

  t.test('a cancelled call is answered by nothing', async (t) => {
    const server = startStdioMcpProcess(t, env)
    const slow = { language: 'bash', code: 'sleep 20' }
    server.writeLine({
      jsonrpc: '2.0',
      id: 'slow',
      method: 'tools/call',
      params: callOf('code_sandbox', slow, { progressToken: 1 }),
    })
    t.match(await server.ask('ping'), { result: {} })
    const cancelled = { requestId: 'slow', reason: 'enough' }
    server.writeLine({ jsonrpc: '2.0', method: 'notifications/cancelled', params: cancelled })
    t.match(await server.ask('ping'), { result: {} })
    t.equal(await server.end(), 0)
    t.notOk(server.messages.some(({ id }) => id === 'slow'))
  })

  t.test('a lost answer is asked for again, and charged once', async (t) => {
    const payer = await main.onboard()
    const url = await startCuttingProxy(t, main.url, 2)
    const server = startStdioMcpProcess(t, { GAS_URL: url, GAS_API_KEY: payer.key })
    const { result } = await server.ask('tools/call', callOf(TOOL, {}, META))
    t.match(result._meta, { 'gas/replayed': true, 'gas/call': { cost_usdc: 0.005 } })
    t.equal(await main.balance(payer), 0.495)
  })

  t.test('a station that is away, and a bad key, are named', async (t) => {
    const away = startStdioMcpProcess(t, { GAS_URL: 'http://127.0.0.1:1', GAS_API_KEY: 'gas_x' })
    t.match(await away.ask('ping'), {
      error: { code: -32603, message: /127.0.0.1:1 does not answer/ },
    })
    const bad = startStdioMcpProcess(t, { ...env, GAS_API_KEY: 'gas_x' })
    const init = await bad.ask('initialize', { protocolVersion: '2025-11-25', capabilities: {} })
    t.match(init.result['instructions'], /API key of this connection is unknown/)
    const refused = await bad.ask('tools/call', callOf(TOOL))
    t.match(refused.result._meta['gas/problem'], {
      code: 'payment_required',
      key_status: 'invalid',
    })
  })

  t.test('the books are right', () => main.verify())
})

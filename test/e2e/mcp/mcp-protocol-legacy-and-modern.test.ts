import t from 'tap'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import {
  askMcp,
  MCP_TEST_PROTOCOL_VERSIONS,
  sendToMcp,
  toMcpTestMessage,
} from '../../support/mcp/mcp-test-client.ts'

interface ListedTool {
  readonly name: string
  readonly description: string
  readonly inputSchema: { readonly type: string }
  readonly outputSchema?: { readonly type: string }
  readonly annotations: Readonly<Record<string, boolean>>
  readonly _meta: Readonly<Record<string, unknown>>
}

const SERVER = { name: 'gas-station', version: String }

t.test('the Model Context Protocol', async (t) => {
  const main = await startInProcessTestStation(t)

  t.test('2026-07-28: discovery and results name the server', async (t) => {
    const { reply, result } = await askMcp(main, 'server/discover')
    t.match(reply, { status: 200, headers: { 'content-type': /^application\/json/ } })
    t.match(result, {
      resultType: 'complete',
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {} },
      instructions: /idempotency_key/,
      ttlMs: 60_000,
      cacheScope: 'public',
      _meta: { 'io.modelcontextprotocol/serverInfo': SERVER },
    })
    t.equal(reply.headers['mcp-session-id'], undefined)
  })

  t.test('2025: initialize agrees on a version, and keeps no session', async (t) => {
    for (const [wanted, agreed] of [
      ['2025-11-25', '2025-11-25'],
      ['2025-06-18', '2025-06-18'],
      ['2025-03-26', '2025-03-26'],
      ['2026-07-28', '2025-11-25'],
      ['1.0', '2025-11-25'],
    ]) {
      const params = { protocolVersion: wanted, capabilities: {}, clientInfo: { name: 'x' } }
      const json = { jsonrpc: '2.0', id: 'a', method: 'initialize', params }
      const { reply, messages } = await sendToMcp(main, { json })
      t.equal(reply.status, 200)
      t.match(messages[0], {
        jsonrpc: '2.0',
        id: 'a',
        result: { protocolVersion: agreed, capabilities: { tools: {} }, serverInfo: SERVER },
      })
      t.equal(reply.headers['mcp-session-id'], undefined)
    }
    const initialized = { jsonrpc: '2.0', method: 'notifications/initialized' }
    t.match(await sendToMcp(main, { json: initialized }), { reply: { status: 202, text: '' } })
    const ping = await askMcp(main, 'ping', {}, { era: '2025-11-25' })
    t.strictSame(ping.messages, [{ jsonrpc: '2.0', id: 7, result: {} }])
  })

  t.test('both eras list the same tools, with prices and schemas', async (t) => {
    const [modern, legacy] = await Promise.all(
      MCP_TEST_PROTOCOL_VERSIONS.map((era) => askMcp(main, 'tools/list', {}, { era })),
    )
    const tools = modern?.result['tools'] as ListedTool[]
    t.strictSame(legacy?.result['tools'], tools)
    t.match(modern?.result, { resultType: 'complete', ttlMs: Number, cacheScope: 'public' })
    t.strictSame(Object.keys(legacy?.result ?? {}), ['tools'])
    const { body } = await main.ask('GET', '/api/tools')
    t.equal(tools.length, body['total'])
    for (const tool of tools) {
      t.equal(tool.inputSchema.type, 'object', tool.name)
      t.match(tool.description, /USDC|Free/, tool.name)
      if (tool.outputSchema !== undefined) t.equal(tool.outputSchema.type, 'object', tool.name)
    }
    const named = (name: string) => tools.find((tool) => tool.name === name)
    t.match(named('hive_trending'), {
      description: /Costs 0.005 USDC a call\.$/,
      annotations: { readOnlyHint: true, destructiveHint: false },
      _meta: { 'gas/price_usdc': 0.005, 'gas/access': 'paid' },
    })
    t.match(named('web_search')?.description, /Free for 10 calls a day, then 0.01 USDC a call\.$/)
    t.match(named('tx_broadcast')?.annotations, { readOnlyHint: false, destructiveHint: true })
    t.ok(named('gas_ping_for_updates'), 'a beacon carries the name of the service')
    t.notOk(named('ping_for_updates'))
    t.notMatch(modern?.reply.text, /x-mcp-header/, 'no argument is repeated in a header')
    const again = await askMcp(main, 'tools/list')
    t.equal(again.reply.text, modern?.reply.text, 'in a fixed order')
  })

  t.test('hivecast has the free discovery tools alone', async (t) => {
    const path = '/hivecast/mcp'
    const { result } = await askMcp(main, 'tools/list', {}, { path })
    t.strictSame((result['tools'] as ListedTool[]).map(({ name }) => name).sort(), [
      'gas_discover_new_tools',
      'gas_get_latest_gas_station',
      'gas_ping_for_updates',
    ])
    const name = 'gas_get_latest_gas_station'
    for (const era of MCP_TEST_PROTOCOL_VERSIONS) {
      const news = await askMcp(main, 'tools/call', { name, arguments: {} }, { path, era })
      t.match(news.result, { _meta: { 'gas/call': { cost_usdc: 0, rail: 'free' } } })
      const paid = { name: 'hive_trending', arguments: {} }
      const { error } = await askMcp(main, 'tools/call', paid, { path, era })
      t.match(error, { code: -32602, data: { code: 'unknown_tool', tool: 'hive_trending' } })
    }
  })

  t.test('GET describes an endpoint, and opens no stream', async (t) => {
    for (const path of ['/mcp', '/hivecast/mcp']) {
      t.match(await main.ask('GET', path), {
        status: 200,
        body: {
          url: `http://gas.test${path}`,
          transport: 'streamable-http',
          protocol_versions: ['2026-07-28', '2025-11-25', '2025-06-18'],
        },
      })
      const headers = { accept: 'text/event-stream' }
      t.match(await main.ask('GET', path, { headers }), { status: 405, headers: { allow: 'POST' } })
      t.equal((await main.ask('DELETE', path)).status, 405)
    }
  })

  t.test('2026-07-28: headers that differ from the body are refused', async (t) => {
    const call = { name: 'hive_trending', arguments: {} }
    const { json, headers } = toMcpTestMessage('tools/call', call)
    const mismatch = async (changes: Record<string, string | undefined>, detail: RegExp) => {
      const sent = Object.entries({ ...headers, ...changes }).filter(
        ([, value]) => value !== undefined,
      )
      const answer = await sendToMcp(main, {
        json,
        headers: Object.fromEntries(sent) as Record<string, string>,
      })
      t.equal(answer.reply.status, 400, answer.reply.text)
      t.match(answer.messages[0], { id: 7, error: { code: -32020, message: detail } })
    }
    await mismatch({ 'mcp-protocol-version': undefined }, /MCP-Protocol-Version is missing/)
    await mismatch({ 'mcp-protocol-version': '2025-11-25' }, /MCP-Protocol-Version is "2025-11-25"/)
    await mismatch({ 'mcp-method': undefined }, /Mcp-Method is missing/)
    await mismatch({ 'mcp-method': 'TOOLS/CALL' }, /Mcp-Method is "TOOLS\/CALL"/)
    await mismatch({ 'mcp-name': undefined }, /Mcp-Name is missing/)
    await mismatch({ 'mcp-name': 'web_search' }, /Mcp-Name is "web_search"/)
    await mismatch({ 'mcp-name': '=?base64?d2ViX3NlYXJjaA==?=' }, /Mcp-Name is "web_search"/)
    const encoded = `=?base64?${Buffer.from('hive_trending').toString('base64')}?=`
    const spelled = await sendToMcp(main, { json, headers: { ...headers, 'mcp-name': encoded } })
    t.equal(spelled.reply.status, 200, 'an encoded name is compared decoded')
  })

  t.test('2026-07-28: versions, fields and methods that it lacks', async (t) => {
    const version = 'io.modelcontextprotocol/protocolVersion'
    const unknown = await askMcp(
      main,
      'tools/list',
      {},
      {
        meta: { [version]: '2099-01-01' },
        headers: { 'mcp-protocol-version': '2099-01-01' },
      },
    )
    t.match(unknown, {
      reply: { status: 400 },
      error: { code: -32022, data: { supported: ['2026-07-28'], requested: '2099-01-01' } },
    })
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' }
    for (const _meta of [undefined, {}, { [version]: '2026-07-28' }]) {
      const params = _meta === undefined ? {} : { _meta }
      const json = { jsonrpc: '2.0', id: 3, method: 'tools/list', params }
      const { reply, messages } = await sendToMcp(main, { json, headers })
      t.equal(reply.status, 400)
      t.match(messages[0], { id: 3, error: { code: -32602, message: /_meta/ } })
    }
    t.match(await askMcp(main, 'resources/list'), {
      reply: { status: 404 },
      error: { code: -32601 },
    })
    t.match(await askMcp(main, 'initialize'), { reply: { status: 404 }, error: { code: -32601 } })
    t.match(await askMcp(main, 'tools/list', { cursor: 'x' }), { error: { code: -32602 } })
  })

  t.test('2026-07-28: a subscription is acknowledged, and ends', async (t) => {
    const { messages } = await askMcp(main, 'subscriptions/listen', {
      notifications: { toolsListChanged: true },
    })
    const _meta = { 'io.modelcontextprotocol/subscriptionId': 7 }
    t.match(messages, [
      { method: 'notifications/subscriptions/acknowledged', params: { _meta, notifications: {} } },
      { id: 7, result: { resultType: 'complete', _meta } },
    ])
  })

  t.test('2025: unknown versions and methods', async (t) => {
    const headers = { 'mcp-protocol-version': '2024-01-01' }
    const json = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
    t.match(await sendToMcp(main, { json, headers }), {
      reply: { status: 400 },
      error: { code: -32022 },
    })
    t.match(await sendToMcp(main, { json }), { result: { tools: Array } }, 'without a header')
    const other = await askMcp(main, 'prompts/list', {}, { era: '2025-11-25' })
    t.match(other, { reply: { status: 200 }, error: { code: -32601 } })
  })

  t.test('what is no message is refused with a JSON-RPC error', async (t) => {
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
    const bad: [string, object | string, number, RegExp][] = [
      ['a batch', [message, message], -32600, /Batches are not supported/],
      ['an empty batch', [], -32600, /Batches/],
      ['no JSON', '{', -32700, /valid JSON/],
      ['nothing', '', -32600, /JSON-RPC message/],
      ['a text', '"x"', -32600, /JSON-RPC message/],
      ['another version', { ...message, jsonrpc: '1.0' }, -32600, /jsonrpc/],
      ['an id of null', { ...message, id: null }, -32600, /`id`/],
      ['a response', { jsonrpc: '2.0', id: 1, result: {} }, -32600, /`method`/],
      ['params of a list', { ...message, params: [1] }, -32602, /`params`/],
      ['meta of a text', { ...message, params: { _meta: 'x' } }, -32602, /`_meta`/],
      ['NUL', { ...message, params: { a: '\0' } }, -32600, /NUL/],
    ]
    for (const [name, body, code, detail] of bad) {
      const raw = typeof body === 'string' ? body : JSON.stringify(body)
      const { reply, error } = await sendToMcp(main, {
        raw,
        headers: { 'content-type': 'application/json' },
      })
      t.equal(reply.status, 400, `${name}: ${reply.text}`)
      t.match(reply.headers['content-type'], /^application\/json/)
      t.match(error, { code, message: detail }, name)
    }
    const text = await sendToMcp(main, { raw: 'x', headers: { 'content-type': 'text/plain' } })
    t.match(text, { reply: { status: 415 }, error: { code: -32600 } })
  })

  t.test('a field of another type is refused, and is no failure of the server', async (t) => {
    // No text can be made of it.
    const odd = { toString: 1, valueOf: 1 }
    const versionKey = 'io.modelcontextprotocol/protocolVersion'
    const capabilities = 'io.modelcontextprotocol/clientCapabilities'
    for (const value of [odd, 7, null, ['2026-07-28'], true])
      for (const [name, meta] of [
        ['protocolVersion', { [versionKey]: value }],
        ['clientCapabilities', { [capabilities]: value === odd ? 'x' : value }],
      ] as const) {
        const { reply, error } = await askMcp(main, 'tools/list', {}, { meta })
        t.equal(reply.status, 400, `${name} ${reply.text}`)
        t.match(error, { code: -32602, message: new RegExp(name) }, name)
      }
    for (const era of MCP_TEST_PROTOCOL_VERSIONS)
      for (const name of [odd, 7, null, undefined]) {
        const { error } = await askMcp(main, 'tools/call', { name, arguments: {} } as never, {
          era,
        })
        t.match(error, { code: -32602, message: /`name`/ })
      }
    for (const protocolVersion of [odd, 7, null])
      t.match(await askMcp(main, 'initialize', { protocolVersion }, { era: '2025-11-25' }), {
        reply: { status: 200 },
        result: { protocolVersion: '2025-11-25' },
      })
    for (const method of ['constructor', '__proto__', 'toString', ''])
      t.match(
        await askMcp(main, method),
        { reply: { status: 404 }, error: { code: -32601 } },
        method,
      )
    const name = 'x'.repeat(200_000)
    const long = await askMcp(main, 'tools/call', { name, arguments: {} }, { era: '2025-11-25' })
    t.match(long.error, { code: -32602, data: { code: 'unknown_tool' } })
    t.ok(long.reply.text.length < 1_000, 'a long name is not sent back')
  })

  t.test('a body of 30 MB is refused before it is read', async (t) => {
    const raw = Buffer.alloc(30_000_000, 0x20)
    const headers = { 'content-type': 'application/json' }
    const answer = await sendToMcp(main, { raw, headers }).catch((error: Error) => error)
    if (answer instanceof Error) t.match(answer.message, /socket|EPIPE|reset/i)
    else t.match(answer, { reply: { status: 413 }, error: { data: { code: 'body_too_large' } } })
    const params = { name: 'hive_trending', arguments: { pad: 'x'.repeat(300_000) } }
    const { error } = await askMcp(main, 'tools/call', params)
    t.match(error, { code: -32600, data: { code: 'body_too_large' } }, 'too large without a key')
    const guest = await main.onboard()
    const { result } = await askMcp(main, 'tools/call', params, { guest })
    t.match(result, { isError: true, _meta: { 'gas/problem': { code: 'body_too_large' } } })
  })

  t.test('a page of another site is refused, also under a rebound name', async (t) => {
    const { json, headers } = toMcpTestMessage('tools/list', {})
    const told = async (more: Record<string, string>) =>
      (await sendToMcp(main, { json, headers: { ...headers, ...more } })).reply
    for (const origin of ['https://evil.example', 'null', 'http://gas.test.evil.example'])
      t.match(await told({ origin }), { status: 403, body: { error: { code: -32600 } } }, origin)
    for (const origin of ['http://gas.test', 'http://localhost:6274', 'http://127.0.0.1:1'])
      t.equal((await told({ origin })).status, 200, origin)
    for (const host of ['evil.example', 'gas.test.evil.example'])
      t.match(await told({ host }), { status: 403, text: /origin_not_allowed/ }, host)
    for (const host of ['gas.test', 'localhost:1', '10.0.0.7:80', 'station', 'gas.internal'])
      t.equal((await told({ host })).status, 200, host)
    const preflight = await main.ask('OPTIONS', '/mcp')
    t.match(preflight.headers['access-control-allow-headers'], /Mcp-Method/)
  })
})

t.test('calls count against the rate of their agent', async (t) => {
  const main = await startInProcessTestStation(t, { RATE_LIMITS: 'on' })
  const guest = await main.onboard()
  const call = { name: 'hive_trending', arguments: { limit: 'many' } }
  const codesOf = async () => {
    const answers = await Promise.all(
      Array.from({ length: 120 }, () => askMcp(main, 'tools/call', call, { guest })),
    )
    t.notOk(answers.some(({ reply }) => reply.status === 401))
    return answers.flatMap(({ result }) => result._meta['gas/problem']?.['code'] ?? [])
  }
  // The bucket refills within two seconds, which a busy machine may need for a round.
  for (let round = 0; round < 5; round += 1) {
    const codes = await codesOf()
    t.ok(codes.includes('invalid_input'))
    if (codes.includes('rate_limited')) return
  }
  t.fail('no call was refused for its rate')
})

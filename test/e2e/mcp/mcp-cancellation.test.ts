import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import {
  createAgentBackpack,
  createBackpackBoundKey,
} from '../../support/agents/test-backpack-bound-keys.ts'
import { callMcpTool, sendToMcp } from '../../support/mcp/mcp-test-client.ts'

/** A site that answers when it is told to. */
const open: ServerResponse[] = []
const site = createServer((_request, response) => void open.push(response)).listen(0, '127.0.0.1')
await once(site, 'listening')
t.teardown(() => site.close().closeAllConnections())
const url = `http://127.0.0.1:${(site.address() as AddressInfo).port}/`
const main = await startInProcessTestStation(t, { SSRF_ALLOW: new URL(url).host })

const call = (id: unknown, name = 'data_retrieval') => ({
  jsonrpc: '2.0',
  ...{ id, method: 'tools/call', params: { name, arguments: { url } } },
})
const cancel = (requestId: unknown) => ({
  jsonrpc: '2.0',
  ...{ method: 'notifications/cancelled', params: { requestId, reason: 'changed my mind' } },
})

t.test('a notification cancels the call of the same key and id, which costs nothing', async (t) => {
  const [guest, other] = [await main.onboard(), await main.onboard()]
  const send = (json: object, { key } = guest) => sendToMcp(main, { json, key })
  for (const id of [7, 0, -1, '', 'seven']) {
    const arrived = once(site, 'request')
    const answer = send(call(id))
    await arrived
    // Of another id, type or key: nothing happens, and the notification is accepted.
    for (const [wrong, by] of [
      ['8', guest],
      [`${id}x`, guest],
      [null, guest],
      [id, other],
    ] as const)
      t.equal((await send(cancel(wrong), by)).reply.status, 202)
    t.equal((await send(cancel(id))).reply.status, 202)
    const { result, messages } = await answer
    t.match(messages[0], { id })
    t.match(result, { isError: true, _meta: { 'gas/problem': { code: 'cancelled' } } })
  }
  t.equal(await main.balance(guest), 0.5)
  const { body } = await main.ask('GET', '/api/credits/balance', { key: guest.key })
  t.match(body, { held_usdc: 0 })
  t.equal((await send(cancel(7))).reply.status, 202, 'a call that is over is not known any more')
})

t.test('an id that two running calls of a key share cancels neither', async (t) => {
  const guest = await main.onboard()
  open.length = 0
  const send = (json: object) => sendToMcp(main, { json, key: guest.key })
  const first = once(site, 'request')
  const answers = [send(call(1))]
  await first
  const second = once(site, 'request')
  answers.push(send(call(1)))
  await second
  await send(cancel(1))
  for (const response of open) response.end('done')
  for (const { result } of await Promise.all(answers)) t.notOk(result.isError)
  const again = once(site, 'request')
  const reused = send(call(1))
  await again
  await send(cancel(1))
  t.match((await reused).result, { isError: true }, 'the id is free again')
})

t.test('errors name the id of the request wherever it is known', async (t) => {
  const { key } = await main.onboard()
  const raw = (text: string) => sendToMcp(main, { raw: text, key })
  for (const [text, id] of [
    [
      '{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"web_search","arguments":{"query":"a\\u0000b"}}}',
      9,
    ],
    [
      '{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"web_search","arguments":{"n":9007199254740993}}}',
      'x',
    ],
    ['{"jsonrpc":"1.0","id":0,"method":"ping"}', 0],
    ['{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 1.5],
    ['{"jsonrpc":"2.0","id":-1}', -1],
    ['{"jsonrpc":"2.0","id":1e2,"method":"nothing"}', 100],
    ['{"jsonrpc":"2.0","id":"","method":"tools/list","params":[]}', ''],
  ] as const) {
    const { messages, error } = await raw(text)
    t.match([error?.code, messages[0]?.['id']], [Number, id], text)
  }
  for (const text of ['{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}', '{"id":1', '[]'])
    t.notOk('id' in ((await raw(text)).messages[0] ?? {}), text)
})

t.test('a client that accepts event streams only gets them for every answer', async (t) => {
  const { key } = await main.onboard()
  const ask = (json: object, accept: string) => sendToMcp(main, { json, key, headers: { accept } })
  for (const method of ['initialize', 'tools/list', 'ping', 'nothing', ''])
    for (const [accept, type] of [
      ['text/event-stream', /^text\/event-stream/],
      ['application/json, text/event-stream', /^application\/json/],
      ['*/*', /^application\/json/],
    ] as const) {
      const json = { jsonrpc: method === '' ? '1.0' : '2.0', id: 3, method, params: {} }
      const { reply, messages } = await ask(json, accept)
      t.match(reply.headers['content-type'], type, `${method} ${accept}`)
      t.match(messages[0], { jsonrpc: '2.0', id: 3 }, `${method} ${accept}`)
    }
})

t.test('the list has what the key may call and what the address selects', async (t) => {
  const owner = await main.onboard()
  const names = async (path: string, key?: string) => {
    const json = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
    const { result } = await sendToMcp(main, { path, json, ...(key === undefined ? {} : { key }) })
    return (result['tools'] as { name: string }[]).map(({ name }) => name).sort()
  }
  const all = await names('/mcp')
  t.strictSame(await names('/mcp', owner.key), all)
  const bound = await createAgentBackpack(main, owner, { tools: ['hive_trending', 'web_search'] })
  const { key } = await createBackpackBoundKey(main, owner, bound)
  t.strictSame(await names('/mcp', key), ['hive_trending', 'web_search'])
  t.strictSame(await names('/mcp?tools=web-search,agent_see', key), ['web_search'])
  t.strictSame(await names('/mcp?tools=web_search&tools=gas_ping_for_updates'), [
    'gas_ping_for_updates',
    'web_search',
  ])
  const memory = await names('/mcp?category=memory')
  t.ok(memory.includes('hive_read') && !memory.includes('web_search') && memory.length < all.length)
  const any = await createBackpackBoundKey(main, owner, await createAgentBackpack(main, owner))
  const free = await names('/mcp', any.key)
  t.notOk(
    free.includes('pack_install') || free.includes('self_audit'),
    'what every such key is refused',
  )
  t.ok(free.includes('web_search'))
  await main.ask('POST', `/api/backpack/${bound}/revoke`, { key: owner.key })
  t.strictSame(await names('/mcp', key), [])
  for (const path of ['/mcp?tools=web_serch', '/mcp?category=wob']) {
    const { error } = await sendToMcp(main, {
      path,
      json: { jsonrpc: '2.0', id: 1, method: 'tools/list' },
    })
    t.match(error, { code: -32602, message: /Did you mean/ }, path)
  }
  const { error } = await callMcpTool(
    main,
    'hive_trending',
    {},
    { guest: owner, path: '/mcp?tools=web_search' },
  )
  t.match(error, { code: -32602 }, 'a tool that the address does not offer is not called')
})

import { once } from 'node:events'
import type { Server } from 'node:http'
import { connect, type Socket } from 'node:net'
import t from 'tap'
import { createTestPauseGate, type TestPauseGate } from '../../support/actors/test-actor-node.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { startTestSearchApis } from '../../support/upstreams/test-search-apis.ts'
import { startFixtureServer } from '../../support/upstreams/fixture-server.ts'
import { startTestSocialApis } from '../../support/upstreams/test-social-apis.ts'

const ISSUE = { topic: 'Account abstraction gas fees', targetAudience: 'Developers of wallets' }

const web = await startTestSearchApis(t)
const people = await startTestSocialApis(t)
/** Blocks requests to Wikipedia. */
let at: TestPauseGate = createTestPauseGate()
const front = await startFixtureServer(t, (request, response) => {
  void at.pass().then(async () => {
    const answer = await fetch(`${web.servers.wikipedia.base}${request.url}`)
    response.writeHead(answer.status, { 'content-type': 'application/json', 'x-fixture': '1' })
    response.end(await answer.text())
  })
})
const { SEARXNG_URL: _s, BRAVE_API_KEY: _b, TAVILY_API_KEY: _t, ...keyless } = web.settings
const { HACKERNEWS_BASE: _h, ...posts } = people.settings
const main = await startInProcessTestStation(t, {
  ...keyless,
  ...posts,
  WIKIPEDIA_BASE: front.base,
  SSRF_ALLOW: '127.0.0.1:1024-65535',
})

/** Sends the request, disconnects once Wikipedia was called, and resolves when the station has noticed. */
async function leaves(path: string, key: string, json: object): Promise<void> {
  at = createTestPauseGate()
  const server: Server = main.station.server.server
  const accepted = once(server, 'connection') as Promise<[Socket]>
  const { hostname, port } = new URL(main.url)
  const caller = connect(Number(port), hostname)
  const body = JSON.stringify(json)
  const head = [
    `POST ${path} HTTP/1.1`,
    'host: gas.test',
    'content-type: application/json',
    `x-api-key: ${key}`,
    'idempotency-key: left-alone',
    `content-length: ${Buffer.byteLength(body)}`,
  ]
  caller.write(`${head.join('\r\n')}\r\n\r\n${body}`)
  const [socket] = await accepted
  await at.reached
  // It may be reset: that is its end as well.
  const known = new Promise((resolve) => socket.once('close', resolve))
  caller.destroy()
  await known
}

t.test(
  'a crew whose caller disconnected completes, is charged once and is found under its key',
  async (t) => {
    const ways = [
      ['/api/agent/crew', ISSUE],
      ['/api/refuel/stream', { tool: 'crew', ...ISSUE }],
    ] as const
    for (const [path, json] of ways) {
      const guest = await main.onboard()
      const { id, key } = guest
      await leaves(path, key, json)
      const held = async () => (await main.ask('GET', '/api/credits/balance', { key })).body
      t.match(await held(), { held_usdc: 0.15, balance_usdc: 0.35 }, path)
      at.open()
      while ((await held())['held_usdc'] !== 0) await new Promise(setImmediate)
      const again = await main.ask('POST', path, {
        key,
        json,
        headers: { 'idempotency-key': 'left-alone' },
      })
      t.equal(again.headers['idempotency-replayed'], 'true', again.text.slice(0, 300))
      const answer = again.frames.find(({ event }) => event === 'result')?.data ?? again.body
      t.match(answer, { type: 'newsletter', _meta: { cost_usdc: 0.15 } }, path)
      t.equal(await main.balance(guest), 0.35)
      const calls = await main.sql`select cost_micros from calls where agent_id = ${id}`
      t.strictSame(
        calls.map((call) => Number(call['cost_micros'])),
        [150_000],
        path,
      )
    }
    await main.verify()
  },
)

import t from 'tap'
import { LIMITS } from '../../../core/limits.ts'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { sendJsonFixture, startFixtureServer } from '../../support/upstreams/fixture-server.ts'

/** Failures that a caller can bring about are refunded, and bounded (decision 151). */

let broken = true
const site = await startFixtureServer(t, (request, response) => {
  if (!broken) return sendJsonFixture(response, { n: 1 })
  response.writeHead(200, { 'content-type': 'text/html' })
  response.write('<p>useful bytes')
  request.socket.destroy()
})
let later = 0
const clock = createDatabaseAdjustedClock()
const on = await startInProcessTestStation(
  t,
  { RATE_LIMITS: 'on', STARTER_CREDITS_USDC: '10', SSRF_ALLOW: '127.0.0.1:1024-65535' },
  { clock: { ...clock, mono: () => clock.mono() + later } },
)

t.test(
  'calls to a failing site of the caller are refunded a limited number of times',
  async (t) => {
    const [caller, other] = [await on.onboard(), await on.onboard()]
    const before = await on.balance(caller)
    const see = (guest = caller) => on.call(guest, 'agent_see', { url: site.base, engine: 'http' })
    for (let n = 0; n < LIMITS.failedCallsPerWindow; n += 1) {
      const { status, body } = await see()
      t.match(
        { status, body },
        { status: 502, body: { refunded: true, cost_usdc: 0 } },
        `visit ${n}`,
      )
      t.notMatch(JSON.stringify(body), /useful bytes/)
    }
    const asked = site.requests.length
    t.match(await see(), {
      status: 429,
      body: {
        code: 'rate_limited',
        limit_source: 'rate.failed_visits',
        limit: LIMITS.failedCallsPerWindow,
      },
    })
    t.equal(site.requests.length, asked, 'it is not asked any more')
    t.equal(await on.balance(caller), before)
    t.match(await see(other), { status: 502 }, 'another agent has its own bound')
    broken = false
    const data = await on.call(caller, 'data_retrieval', { url: site.base })
    t.equal(data.status, 200, 'and so has another tool')
    later += LIMITS.failedCallsWindowSeconds * 1_000
    t.equal((await see()).status, 200, 'it may try again after a while')
    await on.verify()
  },
)

t.test('a batch without a key may not contain tools with external effects', async (t) => {
  const calls = [
    { tool: 'web_search', query: 'base' },
    { tool: 'agent_act', url: site.base, instruction: 'extract title' },
  ]
  const { status, body } = await on.ask('POST', '/api/pipeline', { json: { calls } })
  t.match({ status, body }, { status: 400, body: { errors: [{ pointer: '/calls/1/tool' }] } })
  const { key } = await on.onboard()
  const kept = await on.ask('POST', '/api/pipeline', { key, json: { calls } })
  t.equal(kept.status, 200, 'with a key each call pays for itself')
})

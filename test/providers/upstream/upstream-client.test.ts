import t from 'tap'
import Type from 'typebox'
import { createUpstreamClientWithManualClock } from '../../support/upstreams/upstream-client-with-manual-clock.ts'
import {
  sendJsonFixture,
  startFixtureServer,
  UPSTREAM_FAULTS,
} from '../../support/upstreams/fixture-server.ts'
import type { UpstreamFault } from '../../support/upstreams/fixture-server.ts'
import { createManualClock, awaitRejectionDetails } from '../../support/tools/test-tool-context.ts'

const signal = new AbortController().signal

t.test('the upstream client', async (t) => {
  const schema = Type.Object({ n: Type.Number() })

  t.test('returns data that fits the schema, and reports fixtures', async (t) => {
    const [fixture, live] = [
      await startFixtureServer(t, (_, response) => sendJsonFixture(response, { n: 1 })),
      await startFixtureServer(t, (_, response) => response.end('{"n":2}')),
    ]
    const upstream = createUpstreamClientWithManualClock(t)
    const ask = (url: string) => upstream.json({ provider: 'p', url, schema, signal })
    t.same(await ask(fixture.base), { data: { n: 1 }, mode: 'fixture' })
    t.same(await ask(live.base), { data: { n: 2 }, mode: 'live' })
  })

  t.test('names each kind of invalid reply', async (t) => {
    const wrong: Partial<Record<UpstreamFault, object>> = {
      '500': { code: 'upstream_error', upstream_status: 500 },
      redirect: { code: 'upstream_error', upstream_status: 302 },
      malformed: { code: 'upstream_schema' },
      hang: { code: 'upstream_timeout' },
      drip: { code: 'upstream_timeout' },
      bomb: { code: 'response_too_large' },
    }
    for (const [name, expected] of Object.entries(wrong)) {
      const { base: url } = await startFixtureServer(t, UPSTREAM_FAULTS[name as UpstreamFault])
      const asked = createUpstreamClientWithManualClock(t).json({
        provider: name,
        url,
        schema,
        timeoutMs: name === 'hang' || name === 'drip' ? 300 : 30_000,
        maxBytes: 99_999,
        signal,
      })
      t.match(await awaitRejectionDetails(asked), { ...expected }, name)
    }
    const drifted = await startFixtureServer(t, (_, response) =>
      sendJsonFixture(response, { n: '1' }),
    )
    const asked = createUpstreamClientWithManualClock(t).json({
      provider: 'p',
      url: drifted.base,
      schema,
      signal,
    })
    t.match(await awaitRejectionDetails(asked), { code: 'upstream_schema', provider: 'p' })
  })

  t.test('does not call a provider before its retry time', async (t) => {
    for (const [retryAfter, seconds] of [
      ['7', 7],
      ['Sat, 21 Nov 2026 10:00:20 GMT', 20],
      ['soon', 30],
      ['99999999', 600],
    ] as const) {
      const clock = createManualClock()
      const upstream = createUpstreamClientWithManualClock(t, clock)
      let limits = true
      const { base: url, requests } = await startFixtureServer(t, (_, response) =>
        limits
          ? response.writeHead(429, { 'retry-after': retryAfter }).end()
          : sendJsonFixture(response, { n: 1 }),
      )
      const ask = () => awaitRejectionDetails(upstream.json({ provider: 'p', url, schema, signal }))
      t.match(await ask(), { code: 'upstream_rate_limited' }, retryAfter)
      limits = false
      t.match(await ask(), { code: 'upstream_rate_limited', retry_after: seconds })
      clock.pass(seconds * 1000 - 1)
      t.match(await ask(), { code: 'upstream_rate_limited', retry_after: 1 })
      t.equal(requests.length, 1)
      clock.pass(1)
      t.match(await ask(), { code: 'not refused' })
    }
  })

  t.test('opens the breaker after five failures and permits one request later', async (t) => {
    const clock = createManualClock()
    const upstream = createUpstreamClientWithManualClock(t, clock)
    let healthy = false
    const { base: url, requests } = await startFixtureServer(t, (_, response) =>
      healthy ? sendJsonFixture(response, { n: 1 }) : response.writeHead(500).end(),
    )
    const ask = () => awaitRejectionDetails(upstream.json({ provider: 'p', url, schema, signal }))
    for (let n = 0; n < 5; n += 1) t.match(await ask(), { upstream_status: 500 })
    t.match(await ask(), { code: 'upstream_error', reason: 'breaker_open' })
    t.equal(requests.length, 5)
    clock.pass(15_000)
    const [first, second] = [ask(), ask()]
    t.match(await second, { reason: 'breaker_open' }, 'only one tries')
    t.match(await first, { upstream_status: 500 })
    healthy = true
    clock.pass(15_000)
    t.match(await ask(), { code: 'not refused' })
    t.match(await ask(), { code: 'not refused' })
  })

  t.test('a client fault does not count as a failure of the provider', async (t) => {
    const upstream = createUpstreamClientWithManualClock(t)
    const { base: url, requests } = await startFixtureServer(t, (_, response) =>
      sendJsonFixture(response, {}, 404),
    )
    for (let n = 0; n < 8; n += 1) {
      t.match(await awaitRejectionDetails(upstream.json({ provider: 'p', url, schema, signal })), {
        upstream_status: 404,
      })
    }
    t.equal(requests.length, 8)
  })

  t.test('limits concurrent requests per provider', async (t) => {
    const release: (() => void)[] = []
    const { base: url, requests } = await startFixtureServer(
      t,
      (_, response) => void release.push(() => sendJsonFixture(response, { n: 1 })),
    )
    const upstream = createUpstreamClientWithManualClock(t, createManualClock(), 2)
    const ask = (owner: string) =>
      upstream.json({ provider: 'p', owner, url: `${url}/${owner}`, schema, signal })
    const running = ['one', 'one', 'one', 'other'].map(ask)
    while (release.length < 2) await new Promise(setImmediate)
    t.strictSame(requests.toSorted(), ['GET /one', 'GET /other'], 'half of its places to an owner')
    for (let n = 0; n < running.length; n += 1) {
      while (release.length <= n) await new Promise(setImmediate)
      t.ok(release.length <= n + 2)
      release[n]?.()
    }
    t.equal((await Promise.all(running)).length, 4)
    const crowd = Array.from({ length: 18 }, () => awaitRejectionDetails(ask('one')))
    t.match(await crowd.at(-1), { code: 'upstream_rate_limited', retry_after: 1 })
    for (let n = running.length; n < running.length + 17; n += 1) {
      while (release.length <= n) await new Promise(setImmediate)
      release[n]?.()
    }
    await Promise.all(crowd)
  })
})

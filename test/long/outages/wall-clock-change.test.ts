import t from 'tap'
import { DAY, HOUR, createDatabaseAdjustedClock } from '../../../core/clock.ts'
import x402Parse from '../../../tools/finance/x402-parse.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

let moved = 0
const clock = createDatabaseAdjustedClock({
  wall: () => Date.now() + moved,
  mono: () => performance.now(),
})
const main = await startInProcessTestStation(t, { FREE_TIER_PER_DAY: '2' }, { clock })

t.test('a change of the wall clock starts no new day and ends no key', async (t) => {
  const guest = await main.onboard()
  const made = await main.ask('POST', '/api/backpack/create', {
    key: guest.key,
    json: { agent_name: 'x', fuse: { per_day_usdc: 0.01 } },
  })
  const pack = { 'x-backpack-id': String(made.body.backpack_id) }
  const expires = new Date(clock.now() + HOUR).toISOString()
  const short = await main.ask('POST', '/api/keys', {
    key: guest.key,
    json: { expires_at: expires },
  })
  const paid = () => main.call(guest, 'hive_trending', {}, pack)
  // Two free calls a day, and two paid ones within the fuse.
  const free = (ip: string) =>
    main.ask('POST', '/api/refuel', {
      json: { tool: 'x402_parse', ...x402Parse.examples[0] },
      headers: { 'x-forwarded-for': ip },
    })

  t.match(await paid(), { status: 200 })
  t.match(await paid(), { status: 200 })
  t.match(await paid(), { status: 403, body: { code: 'FUSE_TRIPPED' } })
  const before = await Promise.all([free('203.0.113.7'), free('203.0.113.7')])
  t.strictSame(
    before.map(({ status }) => status),
    [200, 200],
    before[0]?.text,
  )
  t.match(await free('203.0.113.7'), { status: 429 })

  for (const by of [26 * HOUR, 40 * DAY, -26 * HOUR]) {
    moved += by
    t.match(await paid(), { status: 403, body: { code: 'FUSE_TRIPPED' } }, `moved by ${by} ms`)
    t.match(await free('203.0.113.7'), { status: 429 }, 'the free calls of today stay used')
    const me = await main.ask('GET', '/api/agent/me', { key: short.body.api_key })
    t.equal(me.status, 200, 'a key lives as long as it was given')
  }
  await main.verify()
})

t.test('a changed wall clock is detected, and the database time is read', async (t) => {
  const asked = new Promise<void>((resolve) => {
    const { setJumpBaseline } = clock
    clock.setJumpBaseline = () => {
      setJumpBaseline()
      resolve()
    }
  })
  moved += 5 * HOUR
  t.equal(clock.hasJumped(), true)
  await asked
  t.equal(clock.hasJumped(), false)
})

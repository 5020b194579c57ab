import t from 'tap'
import { judgeCommunityToolByMeasuredCallsCommand } from '../../../actors/commands/community-tool-commands.ts'
import { COMMUNITY_TOOLS_TOPIC } from '../../../domain/community-tool-record.ts'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { startTestCommunityToolMarket } from '../../support/tools/test-community-tool-market.ts'
import { sendJson } from '../../support/tools/test-tool-builder-server.ts'

/** A tool of an agent on two nodes: registered on one, called through the other, changed on either. */

/** Resolves for all callers once so many have called it. */
function createBarrier(callers: number): () => Promise<void> {
  let [waiting, open] = [0, () => {}]
  const opened = new Promise<void>((resolve) => (open = resolve))
  return () => {
    waiting += 1
    if (waiting === callers) open()
    return opened
  }
}

await t.test('what one node changes the other one knows', async (t) => {
  const market = await startTestCommunityToolMarket(t)
  const { builder, station: one, settings, buyer, open, patch } = market
  const two = await startInProcessTestStation(t, settings, { database: one.database })
  builder.on('/weather', (_, reply) => sendJson(reply, { celsius: 21.5 }))
  await open('weather-now', '/weather')
  const call = (at: typeof one) =>
    at.ask('POST', '/api/tools/weather-now/invoke', { key: buyer.key, json: { city: 'Rome' } })
  await eventually(async () => (await call(two)).status === 200, 'the other node knows the tool')
  t.match(await call(two), { status: 200, body: { celsius: 21.5, _meta: { cost_usdc: 0.01 } } })

  t.equal((await patch('weather-now', { price_per_call_usdc: 0.004 })).status, 200)
  const cheaper = async () => (await call(two)).body._meta?.['cost_usdc'] === 0.004
  await eventually(cheaper, 'the other node charges the new price')
  t.match(await call(one), { body: { _meta: { cost_usdc: 0.004 } } })

  const [tool] = await one.sql<{ since: number }[]>`
    select (extract(epoch from measured_from) * 1000)::float8 as since from community_tools`
  const poor = {
    since: Math.round(tool?.since ?? 0),
    calls: 50,
    successes: 24,
    payers: 3,
    failingPayers: 3,
  }
  await one.station.actors.ask('tool:weather-now', judgeCommunityToolByMeasuredCallsCommand, poor)
  await one.station.plane.bus.publish(COMMUNITY_TOOLS_TOPIC, 'weather-now')
  for (const node of [one, two]) {
    const refused = async () => (await call(node)).body['code'] === 'tool_not_active'
    await eventually(refused, 'both refuse a suspended tool')
  }
  await one.verify()
})

await t.test('of names that look the same, registered at one instant, one is taken', async (t) => {
  const market = await startTestCommunityToolMarket(t)
  const { builder, station: one, settings, seller, buyer, tool } = market
  const two = await startInProcessTestStation(t, settings, { database: one.database })
  const names = ['night-sky', 'nightsky', 'night-5ky', 'ni-ght-sky']
  // Each has passed the check of its name when the first one is written.
  builder.beforeProof(createBarrier(names.length))
  const register = (slug: string, at: number) =>
    (at % 2 === 0 ? one : two).ask('POST', '/api/tools/register', {
      key: (at < 2 ? seller : buyer).key,
      json: tool(slug),
      headers: { 'idempotency-key': slug },
    })
  const replies = await Promise.all(names.map(register))
  const made = replies.filter((reply) => reply.status === 201)
  t.equal(made.length, 1)
  const winner = String(made[0]?.body['slug'])
  for (const [at, reply] of replies.entries())
    if (reply.status !== 201)
      t.match(reply, {
        status: 409,
        body: { code: 'slug_taken', slug: names[at], did_you_mean: winner },
      })
  builder.beforeProof(() => {})
  t.equal((await register(winner, names.indexOf(winner))).status, 201, 'a repetition')
  const rows = await one.sql`
    select slug from community_tools union all select slug from community_tool_places`
  t.strictSame(
    rows.map(({ slug }) => String(slug)),
    [winner, winner],
    'the others take no place of their builders',
  )
  await one.verify()
})

import t from 'tap'
import { LIMITS } from '../../../core/limits.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { startTestCommunityToolMarket } from '../../support/tools/test-community-tool-market.ts'
import { createStationDataDir } from '../../support/station/temporary-station-data-directory.ts'

/** An agent sells at most so many tools, also when it registers them at one instant on two nodes. */

const REGISTRATIONS = 30
const market = await startTestCommunityToolMarket(t)
const { station, settings, ask, seller, tool } = market
const second = await startInProcessTestStation(
  t,
  { ...settings, DATA_DIR: createStationDataDir(t) },
  { database: station.database },
)

const names = Array.from(
  { length: REGISTRATIONS },
  (_, at) => `race-${at}-${'abcdefghij'[at % 10]}`,
)
const count = async () =>
  (
    await station.sql<{ n: number }[]>`
    select count(*)::int as n from community_tools where state <> 'retired'`
  )[0]?.n

t.test('registrations at one instant on two nodes', async (t) => {
  const replies = await Promise.all(
    names.map((slug, at) =>
      (at % 2 === 0 ? ask : second.ask)('POST', '/api/tools/register', {
        key: seller.key,
        json: tool(slug),
        headers: { 'idempotency-key': slug },
      }),
    ),
  )
  const made = replies.filter(({ status }) => status === 201)
  t.equal(made.length, LIMITS.communityTools)
  for (const { status, body } of replies.filter((reply) => !made.includes(reply)))
    t.match(
      { status, body },
      { status: 409, body: { code: 'limit_reached', limit: 20, of: 'tools' } },
    )
  t.equal(await count(), LIMITS.communityTools)
  const first = String(made[0]?.body['slug'])
  const again = await ask('POST', '/api/tools/register', {
    key: seller.key,
    json: tool(first),
    headers: { 'idempotency-key': first },
  })
  t.match(again, { status: 201, body: { slug: first } }, 'a repetition takes no second place')
  const retired = await ask('DELETE', `/api/tools/${first}`, { key: seller.key })
  t.match(retired, { status: 200, body: { status: 'retired' } })
  const replies2 = await Promise.all(
    [ask, second.ask, ask, second.ask].map((on, at) =>
      on('POST', '/api/tools/register', { key: seller.key, json: tool(`later-${at}-tool`) }),
    ),
  )
  t.strictSame(
    replies2.map(({ status }) => status).toSorted((a, b) => a - b),
    [201, 409, 409, 409],
    'a retired tool leaves one place',
  )
  t.equal(await count(), LIMITS.communityTools)
})

t.test('the ledger adds up', async () => station.verify())

import t from 'tap'
import { DAY, createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { createRoyaltyStore } from '../../../persistence/hive/royalty-store.ts'
import { countReplies, type TestReply } from '../../support/http/test-http-client.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import { startTestPriceApis } from '../../support/upstreams/test-price-apis.ts'
import { requestUntilReplyMatches } from '../../support/payments/deposit-wallet-and-scanner-test-fixtures.ts'

const house = await startTestPriceApis(t)
/** The time of this station can be moved on. */
const clock = movable()
const main = await startInProcessTestStation(
  t,
  { COINGECKO_BASE: house.settings.coingecko },
  { clock },
)
const beside = await spawnSecondNode(t, main)
const { sql } = main
const [author, reader, mate, other] = [
  await main.onboard(),
  await main.onboard(),
  await main.onboard(),
  await main.onboard(),
] as [TestAgent, TestAgent, TestAgent, TestAgent]

function movable() {
  const clock = createDatabaseAdjustedClock()
  let ahead = 0
  return { ...clock, now: () => clock.now() + ahead, pass: (ms: number) => void (ahead += ms) }
}

type Fields = Record<string, unknown>
const write = async (guest: TestAgent, content: string, more: Fields = {}): Promise<string> => {
  const json = { content, ...more }
  const { status, body, text } = await main.ask('POST', '/api/hive/write', { key: guest.key, json })
  if (status !== 201) throw new Error(`writing answered ${status}: ${text}`)
  return String(body['id'])
}
const read = (
  node: TestStation,
  guest: TestAgent | null,
  query: string,
  headers = {},
): Promise<TestReply> =>
  node.ask('GET', `/api/hive/read?query=${encodeURIComponent(query)}`, { key: guest?.key, headers })
const royalties = () =>
  sql<{ reader: string; paid: boolean }[]>`
    select reader, paid_by is not null as paid from royalties order by reader`

t.test('a read earns one royalty per reader and day on any number of nodes', async (t) => {
  const fleet = await main.ask('POST', '/api/fleet/create', {
    key: author.key,
    json: { name: 'house' },
  })
  const join = { fleet_id: fleet.body['fleet_id'], agent_id: mate.id, agent_key: mate.key }
  t.equal(
    (await main.ask('POST', '/api/fleet/add-agent', { key: author.key, json: join })).status,
    200,
  )
  await write(author, 'Flashblocks on Base arrive every two hundred milliseconds, four a second.')
  const reads = await Promise.all(
    Array.from({ length: 12 }, (_, at) =>
      read(at % 2 === 0 ? main : beside, reader, 'flashblocks'),
    ),
  )
  for (const { status, body } of reads) t.match([status, body], [200, { total: 1 }])
  const elsewhere = { 'x-forwarded-for': '203.0.113.9' }
  for (const guest of [author, mate, null])
    t.match((await read(main, guest, 'flashblocks', elsewhere)).body, { total: 1 })
  t.strictSame([...(await royalties())], [{ reader: reader.id, paid: false }])
  const { body } = await main.ask('GET', '/api/credits/balance', { key: author.key })
  t.match(body, { royalties_usdc: 0, pending_royalty_usdc: 0.02 })
})

t.test('only a public entry of your own can be featured', async (t) => {
  const own = await write(author, 'A private thought about flashblocks and how to use them well.', {
    is_public: false,
  })
  const [public_] = await sql<{ id: string }[]>`select id from hive_entries where is_public`
  const asked = (guest: TestAgent, entry_id: string) =>
    main.call(guest, 'hive_feature', { entry_id })
  t.match(await asked(author, own), { status: 403, body: { code: 'entry_not_yours' } })
  t.match(await asked(other, public_?.id ?? ''), { status: 403 })
  t.match(await asked(other, own), { status: 404, body: { code: 'entry_not_found' } })
  t.equal(await main.balance(other), 0.5)
})

t.test('one of several concurrent requests gets the featured place, for a day', async (t) => {
  const wishes = await Promise.all(
    [author, reader, mate, other].map(async (guest, at) => ({
      guest,
      node: at % 2 === 0 ? main : beside,
      entry_id: await write(
        guest,
        `Finding number ${at} about sequencers that others should know.`,
      ),
    })),
  )
  const answers = await Promise.all(
    wishes.map(({ guest, node, entry_id }) => node.call(guest, 'hive_feature', { entry_id })),
  )
  t.strictSame(countReplies(answers), { '200': 1, '409 feature_taken': 3 })
  const winner = answers.find(({ status }) => status === 200)?.body['entry_id']
  const balances = await Promise.all(wishes.map(({ guest }) => main.balance(guest)))
  t.equal(balances.filter((usdc) => usdc < 0.3).length, 1, 'and one has paid')
  const { body: digest } = await main.ask('GET', '/api/hive/digest')
  t.match(digest, { window_hours: 24, entries: [{ id: winner, featured: true, reads_24h: 0 }] })
  const shown = (digest['entries'] as { id: string }[]).filter(({ id }) => id === winner)
  t.equal(shown.length, 1, 'and is listed once')
  const { body: stats } = await main.ask('GET', '/api/hive/stats')
  t.match(stats, { total_entries: 6, public_entries: 5, featured_entries: [{ id: winner }] })
  t.match(
    (stats['domains'] as { domain: string }[]).slice(0, 9).map(({ domain }) => domain),
    ['monad', 'base', 'defi', 'nft', 'trading', 'code', 'search', 'virtuals', 'crosschain'],
  )
})

const watch = (node: TestStation, guest: TestAgent, fields: Fields) =>
  node.call(guest, 'hive_watch', fields)

t.test('of twelve concurrent watches on two nodes ten start, and two are free', async (t) => {
  const before = await main.balance(mate)
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, at) =>
      watch(at % 2 === 0 ? main : beside, mate, { action: 'subscribe', keyword: `topic${at}` }),
    ),
  )
  t.strictSame(countReplies(answers), { '200': 10, '409 limit_reached': 2 })
  t.equal(await main.balance(mate), Math.round((before - 0.2) * 1e6) / 1e6)
  const watch_id = answers.find(({ status }) => status === 200)?.body['watch_id']
  const end = { action: 'unsubscribe', watch_id }
  t.match((await watch(main, mate, end)).body, { status: 'removed', _meta: { cost_usdc: 0 } })
  t.match(await watch(beside, mate, end), { status: 404, body: { code: 'watch_not_found' } })
  t.equal((await watch(main, mate, { action: 'subscribe', keyword: 'topic20' })).status, 200)
})

t.test('later entries are queued for the watch, and no cursor loses one', async (t) => {
  t.match(await watch(main, other, { action: 'subscribe', keyword: 'the' }), { status: 400 })
  t.match(await watch(main, other, { action: 'subscribe' }), { status: 400 })
  const began = await watch(main, other, { action: 'subscribe', keyword: 'Blob fees' })
  t.equal(began.status, 200)
  const asked = { action: 'matches', watch_id: began.body['watch_id'], limit: 2 }
  t.match((await watch(main, other, asked)).body, { matches: { length: 0 }, next_cursor: null })
  const text = (at: number) => `Note ${at}: the fee of a blob rises with demand for data space.`
  await Promise.all([0, 1, 2].map((at) => write(author, text(at), { namespace: 'base' })))
  await write(author, 'Nothing in here that anybody has asked to be told about, I think.')
  await write(author, `${text(9)} But this one is for me.`, { is_public: false })
  await write(other, `${text(8)} My own notes do not come back to me.`)
  const first = (await watch(beside, other, asked)).body
  t.match(first, { matches: { length: 2 }, _meta: { cost_usdc: 0 } })
  const more = { ...asked, cursor: first['next_cursor'] }
  const second = (await watch(main, other, more)).body
  const ids = [first, second].flatMap(({ matches }) =>
    (matches as { entry: { id: string } }[]).map(({ entry }) => entry.id),
  )
  t.equal(new Set(ids).size, 3)
  t.match((await watch(main, other, { ...asked, cursor: second['next_cursor'] })).body, {
    matches: { length: 0 },
    next_cursor: second['next_cursor'],
  })
  const late = await watch(main, reader, { action: 'subscribe', keyword: 'blob fees' })
  const since = { action: 'matches', watch_id: late.body['watch_id'] }
  t.match(
    (await watch(main, reader, since)).body,
    { matches: { length: 0 } },
    'nothing from before',
  )
  const all = await watch(main, reader, { action: 'matches' })
  t.match(all.body, { matches: { length: 0 } }, 'nor what others watch for')
  t.match((await watch(main, other, { action: 'list' })).body, {
    watches: [{ keyword: 'blob fees', namespace: null, matches: 3 }],
  })
})

t.test('results include matching Hive entries, unless the call is private', async (t) => {
  await write(author, 'BTC and ETH move together in crashes, so holding both is no hedge at all.')
  const ask = (mode: string | null) =>
    main.call(
      reader,
      'price_feed',
      { query: 'BTC,ETH' },
      mode === null ? {} : { 'x-ghost-mode': mode },
    )
  // A late look-up result is omitted and cached for the next call.
  const { body } = await requestUntilReplyMatches(
    () => ask(null),
    (answer) => answer.body['hive'] !== undefined,
  )
  t.match(body, { hive: { entries: [{ excerpt: /no hedge/, agent_id: null }] } })
  t.match((await ask('observe')).body, { hive: { entries: { length: 1 } } })
  t.notOk('hive' in (await ask('stealth')).body)
})

t.test('the pool pays each royalty once, up to its balance', async (t) => {
  const store = createRoyaltyStore(sql)
  const [fees] = await sql<{ usdc: bigint }[]>`
    select sum(amount_micros)::bigint as usdc from transfers where kind = 'fee'`
  const open = (await royalties()).filter(({ paid }) => !paid).length
  const payable = Number(fees?.usdc ?? 0n) / 4 / 20_000
  t.ok(open >= 4 && payable >= 1 && payable < open, `${open} are owed, ${payable} can be paid`)
  const before = await main.balance(author)
  // By then every fee of this test is old enough to be shared.
  const at = new Date(clock.now() + 60_000)
  await Promise.all(Array.from({ length: 4 }, () => store.pay(at, true)))
  const paid = (await royalties()).filter((royalty) => royalty.paid).length
  t.equal(paid, Math.floor(payable))
  t.equal(await main.balance(author), Math.round((before + paid * 0.02) * 1e6) / 1e6)
  const { body } = await main.ask('GET', '/api/credits/balance', { key: author.key })
  t.match(body, {
    royalties_usdc: (paid * 20_000) / 1e6,
    pending_royalty_usdc: Math.round((open - paid) * 20_000) / 1e6,
  })
  await main.verify()
})

t.test('public entries can be searched without a key twenty times per hour', async (t) => {
  const { database } = main
  const limited = await startInProcessTestStation(t, { RATE_LIMITS: 'on' }, { database })
  const answers: TestReply[] = []
  for (let at = 0; at < 21; at += 1)
    answers.push(await limited.ask('GET', '/api/hive/public?q=flashbloks'))
  t.match(answers[0]?.body, { total: 1, entries: [{ agent_id: null }] })
  t.strictSame(countReplies(answers), { '200': 20, '429 rate_limited': 1 })
  t.match((await main.ask('GET', '/api/hive/public')).status, 400)
})

t.test('after a day the featured place is free again', async (t) => {
  clock.pass(DAY + 1_000)
  const { body } = await main.ask('GET', '/api/hive/stats')
  t.match(body, { featured_entries: { length: 0 } })
  const fresh = await main.onboard()
  const entry_id = await write(fresh, 'The next one takes the place: sequencers earn by ordering.')
  t.equal((await main.call(fresh, 'hive_feature', { entry_id })).status, 200)
  for (const guest of [author, reader, mate, reader])
    t.match((await read(main, guest, 'earn by ordering')).body, { entries: [{ id: entry_id }] })
  const { body: digest } = await main.ask('GET', '/api/hive/digest')
  t.match(digest, { entries: [{ id: entry_id, featured: true, reads_24h: 3 }] })
  await main.verify()
})

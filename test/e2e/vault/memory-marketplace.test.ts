import t from 'tap'
import { countReplies } from '../../support/http/test-http-client.ts'
import { insertArrivedDeposit } from '../../support/payments/insert-test-deposit.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'

/** The marketplace: lists, sells, rates and withdraws memories. */

const settings = { PROMO_TRANSFERABLE: 'true' }
const main = await startInProcessTestStation(t, settings)
const NOBODY = '018f6f7a-0000-7000-8000-000000000000'

const TOO_MANY = Array.from({ length: 201 }, (_, at) => `${NOBODY.slice(0, -3)}${100 + at}`)

const get = (guest: TestAgent | null, path: string) => main.ask('GET', path, { key: guest?.key })
const post = (guest: TestAgent, path: string, json: object = {}, headers = {}, station = main) =>
  station.ask('POST', path, { key: guest.key, json, headers })
async function remember(guest: TestAgent, content: string, fields: object = {}): Promise<string> {
  const { body } = await post(guest, '/api/vault/write', { content, type: 'fact', ...fields })
  return (body['pack'] as { id: string }).id
}
const sell = (guest: TestAgent, entries: readonly string[], fields: object = {}) =>
  post(guest, '/api/marketplace/list', {
    name: 'Fees by hour',
    description: 'Median gas prices of four weeks on Base.',
    entry_ids: entries,
    price_usdc: 0.25,
    ...fields,
  })
/** A new listing of one memory that takes promotional credits. */
async function listed(guest: TestAgent, fields: object = {}): Promise<string> {
  const id = await remember(guest, `Between five and six the median was ${Math.random()} gwei.`)
  const { body, text } = await sell(guest, [id], { accepts_promo: true, ...fields })
  const pack = body['pack_id']
  if (typeof pack !== 'string') throw new Error(text)
  return pack
}
const buy = (guest: TestAgent, pack: string, headers = {}, station = main) =>
  post(guest, `/api/marketplace/buy/${pack}`, {}, headers, station)
const withdraw = ({ key }: TestAgent, pack: string) =>
  main.ask('DELETE', `/api/marketplace/${pack}`, { key })
async function purse(guest: TestAgent): Promise<[number, number]> {
  const { body } = await get(guest, '/api/credits/balance')
  return [Number(body['promo_usdc']), Number(body['cash_usdc'])]
}
const memories = async (guest: TestAgent) =>
  (await get(guest, '/api/vault/export')).body['memories'] as Record<string, unknown>[]

t.test('memories are listed, found, bought, rated and withdrawn', async (t) => {
  const [seller, buyer] = [await main.onboard(), await main.onboard()]
  await insertArrivedDeposit(main, buyer.id, 1)
  const texts = ['Between five and six UTC the median was 0.004 gwei.', 'Weekends are cheaper.']
  const ids = [
    await remember(seller, texts[0] ?? '', { tags: ['gas', 'base'] }),
    await remember(seller, texts[1] ?? '', { tags: ['gas'], type: 'skill' }),
  ]
  const made = await sell(seller, ids)
  t.match(made, {
    status: 200,
    body: { price_usdc: 0.25, your_share_usdc: 0.205, accepts_promo: false, entry_count: 2 },
  })
  const pack = String(made.body['pack_id'])
  const shown = {
    pack_id: pack,
    types: ['fact', 'skill'],
    tags: ['gas', 'base'],
    previews: ['Between five and six UTC …', 'Weekends …'],
    seller_agent_id: null,
    seller_reputation: { tier: 'newcomer' },
    rating: { average: null, count: 0 },
    sold_count: 0,
    status: 'open',
    buy_endpoint: `/api/marketplace/buy/${pack}`,
  }
  t.match((await get(null, '/api/marketplace')).body, { listings: [shown] })
  t.notMatch((await get(null, '/api/marketplace')).text, texts[1] ?? '')
  for (const query of ['q=gas+median', 'type=skill', 'tag=base', 'max_price_usdc=0.25'])
    t.match((await get(null, `/api/marketplace?${query}`)).body, { listings: [shown] }, query)
  for (const query of ['q=poems', 'type=context', 'tag=eth', 'max_price_usdc=0.249999'])
    t.match((await get(null, `/api/marketplace?${query}`)).body, { count: 0 }, query)
  const item = { id: `listing:${pack}`, price_usdc: 0.25, request: { method: 'POST' } }
  const store = (await get(null, '/api/store')).body['items'] as { id: string }[]
  t.match(
    store.find(({ id }) => id === item.id),
    item,
  )

  // The listing has the memories as they were.
  const newer = { type: 'fact', content: 'Between five and six UTC the median was 0.009 gwei.' }
  t.equal((await post(seller, '/api/vault/write', { ...newer, supersedes: [ids[0]] })).status, 200)
  const bought = await buy(buyer, pack)
  t.match(bought, { status: 200, body: { price_usdc: 0.25, promo_usdc: 0, entries_added: 2 } })
  t.match(bought.body, { namespace: `listing:${pack}`, balance_usdc: 1.5 })
  const kept = await memories(buyer)
  t.strictSame(new Set(kept.map(({ content }) => content)), new Set(texts))
  t.match(
    kept.find(({ content }) => content === texts[0]),
    {
      id: (bought.body['entry_ids'] as string[])[0],
      type: 'fact',
      tags: ['gas', 'base'],
      immortal: true,
      namespace: `listing:${pack}`,
    },
  )
  t.strictSame(await purse(seller), [0.5, 0.205])
  t.strictSame(await purse(buyer), [0.75, 0.75])
  t.match(await buy(buyer, pack), { status: 409, body: { code: 'already_owned' } })
  t.match(await buy(seller, pack), { status: 403, body: { code: 'own_listing' } })

  const rate = (guest: TestAgent, stars: number) =>
    post(guest, `/api/marketplace/rate/${pack}`, { stars })
  t.match(await rate(seller, 5), { status: 403, body: { code: 'not_bought' } })
  t.match(await rate(buyer, 4), { status: 200, body: { stars: 4, pack_id: pack } })
  t.match(await rate(buyer, 5), { status: 409, body: { code: 'already_rated' } })
  t.match((await get(null, `/api/marketplace/${pack}`)).body, {
    rating: { average: 4, count: 1 },
    sold_count: 1,
  })
  t.match((await get(buyer, '/api/marketplace/bought')).body, {
    purchases: [{ pack_id: pack, price_usdc: 0.25, entry_count: 2, your_stars: 4 }],
  })
  t.match((await get(seller, '/api/marketplace/mine')).body, { listings: [{ earned_usdc: 0.205 }] })

  const statement = async (guest: TestAgent) =>
    ((await get(guest, '/api/agent/statement')).body['movements'] as object[])[0]
  t.match(await statement(seller), {
    kind: 'sale',
    amount_usdc: 0.205,
    counterparty: 'agent',
    agent_id: null,
    call_id: null,
    reference: pack,
  })
  t.match(await statement(buyer), { kind: 'purchase', amount_usdc: -0.25, fee_usdc: 0.045 })

  t.match(await withdraw(buyer, pack), { status: 403, body: { code: 'listing_not_yours' } })
  const ended = await withdraw(seller, pack)
  t.match(ended, { status: 200, body: { status: 'withdrawn' } })
  t.strictSame((await withdraw(seller, pack)).body, ended.body, 'twice is the same')
  t.match(await buy(await main.onboard(), pack), {
    status: 409,
    body: { code: 'listing_withdrawn' },
  })
  t.match((await get(null, '/api/marketplace')).body, { count: 0 })
  t.equal((await memories(buyer)).length, 2, 'the copies stay')

  // Nothing that the seller can read names the buyer.
  const paths = ['/api/agent/statement', '/api/marketplace/mine', `/api/marketplace/${pack}`]
  const actors = [`/api/actors/listing/${pack}`, `/api/actors/agent/${seller.id}`]
  for (const path of [...paths, '/api/agent/transfers', ...actors.map((one) => `${one}/history`)]) {
    const { status, text } = await get(seller, path)
    t.equal(status, 200, path)
    t.notMatch(text, buyer.id, path)
  }
  const events = await main.sql`select data::text from outbox where agent_id = ${seller.id}`
  t.match(JSON.stringify(events), pack)
  t.notMatch(JSON.stringify(events), buyer.id)
  t.equal((await get(buyer, `/api/actors/listing/${pack}/history`)).status, 404)
})

t.test('promotional credits count only where the seller accepts them', async (t) => {
  const [seller, buyer] = [await main.onboard(), await main.onboard()]
  const cashOnly = await listed(seller, { accepts_promo: false, price_usdc: 0.4 })
  const refused = { code: 'cash_required', cash_usdc: 0, promo_usdc: 0.5, missing_usdc: 0.4 }
  t.match(await buy(buyer, cashOnly), { status: 402, body: refused })
  const dear = await listed(seller, { price_usdc: 0.6 })
  t.match(await buy(buyer, dear), { status: 402, body: { code: 'payment_required' } })
  t.equal((await memories(buyer)).length, 0)
  await insertArrivedDeposit(main, buyer.id, 1)
  t.strictSame(await purse(buyer), [0.75, 1])
  const mixed = await listed(seller, { price_usdc: 1.000_001 })
  t.match((await buy(buyer, mixed)).body, { promo_usdc: 0.75 })
  // 82 % of 1.000001 are 0.82: the cash of the price goes to the seller first.
  t.strictSame(await purse(seller), [1.069_999, 0.250_001])
  t.strictSame(await purse(buyer), [0, 0.749_999])
})

t.test('the limits of a spender count the price', async (t) => {
  const seller = await main.onboard()
  const packs = [await listed(seller), await listed(seller), await listed(seller)]
  const buyer = await main.onboard()
  const [first = '', second = ''] = packs
  const begun = await post(buyer, '/api/task/start', { name: 'x', budget_usdc: 0.3 })
  const task = { 'x-task-id': String(begun.body.task_id) }
  t.match(await buy(buyer, first, task), { status: 200, body: {} })
  t.match(await buy(buyer, second, task), { status: 402, body: { code: 'task_budget_exceeded' } })
  t.match(await buy(buyer, second, { 'x-task-id': NOBODY }), {
    status: 404,
    body: { code: 'task_not_found' },
  })
  t.match((await get(buyer, `/api/task/${String(begun.body.task_id)}`)).body, { spent_usdc: 0.25 })

  const pack = async (fields: object) => {
    const { body } = await post(buyer, '/api/backpack/create', { agent_name: 'x', ...fields })
    return { 'x-backpack-id': String(body.backpack_id) }
  }
  const forbidden = { status: 403, body: { code: 'TOOL_NOT_ALLOWED' } }
  t.match(await buy(buyer, second, await pack({})), forbidden, 'every tool is no permission to buy')
  const tools = ['purchase']
  const narrow = await pack({ tools, fuse: { per_day_usdc: 0.2 } })
  t.match(await buy(buyer, second, narrow), { status: 403, body: { code: 'FUSE_TRIPPED' } })
  const key = await post(buyer, '/api/keys', { cap_usdc: 0.24 })
  const capped = { id: buyer.id, key: String(key.body.api_key) }
  t.match(await buy(capped, second), { status: 403, body: { code: 'key_cap_exceeded' } })
  t.strictSame(await purse(buyer), [0.25, 0])
  const wide = await pack({ tools, fuse: { per_day_usdc: 0.25 } })
  t.match(await buy(buyer, second, wide), { status: 200 })
  const spend = await get(buyer, `/api/backpack/${wide['x-backpack-id']}/spend`)
  t.match(spend.text, /"purchase"/)
})

t.test('bought and received memories are not for sale', async (t) => {
  const [seller, buyer] = [await main.onboard(), await main.onboard()]
  await insertArrivedDeposit(main, buyer.id, 1)
  const secret = 'The gateway of the staging cluster restarts on Tuesdays at four in the morning.'
  const own = await remember(seller, secret)
  const pack = String((await sell(seller, [own])).body['pack_id'])
  const [copy = ''] = (await buy(buyer, pack)).body['entry_ids'] as string[]
  const foreign = (reason: string) => ({ status: 403, body: { code: 'not_for_sale', reason } })
  t.match(await sell(buyer, [copy]), foreign('bought'))
  t.match(await sell(buyer, [await remember(buyer, secret)]), foreign('bought'), 'written again')
  const content = { status: 403, body: { code: 'pack_content' } }
  const shared = { entry_id: copy, to_agent_id: seller.id }
  t.match(await post(buyer, '/api/vault/share', shared), content)
  t.match(await main.call(buyer, 'vault_promote', { memory_id: copy }), content)
  const gift = await remember(seller, 'Deploys are frozen in the last week of the year.')
  await post(seller, '/api/vault/share', { entry_id: gift, to_agent_id: buyer.id })
  t.match(await sell(buyer, [gift]), { status: 404, body: { code: 'memory_not_found' } })
  const rewritten = await remember(buyer, 'Deploys are frozen in the last week of the year.')
  t.match(await sell(buyer, [rewritten]), foreign('shared'))
})

t.test('what is no listing is refused', async (t) => {
  const seller = await main.onboard()
  const id = await remember(seller, 'x')
  const wrong: [object, string][] = [
    [{ price_usdc: 0.099_999 }, '/price_usdc'],
    [{ price_usdc: 100.000_001 }, '/price_usdc'],
    [{ price_usdc: 0.100_000_1 }, '/price_usdc'],
    [{ entry_ids: [] }, '/entry_ids'],
    [{ entry_ids: TOO_MANY }, '/entry_ids'],
    [{ entry_ids: [id, id] }, '/entry_ids'],
    [{ entry_ids: [id, id.toUpperCase()] }, '/entry_ids'],
    [{ entry_ids: ['x'] }, '/entry_ids/0'],
    [{ name: 'a\u202Eb' }, '/name'],
    [{ description: ' ' }, '/description'],
    [{ accepts_promo: 'yes' }, '/accepts_promo'],
    [{ seller_id: seller.id }, '/seller_id'],
  ]
  for (const [fields, pointer] of wrong)
    t.match(await sell(seller, [id], fields), { status: 400, body: { errors: [{ pointer }] } })
  t.match(await sell(seller, [NOBODY]), { status: 404, body: { code: 'memory_not_found' } })
  t.match(await sell(await main.onboard(), [id]), {
    status: 404,
    body: { code: 'memory_not_found' },
  })
  const lost = { status: 404, body: { code: 'listing_not_found' } }
  for (const nowhere of [NOBODY, 'x', '__proto__']) {
    t.match(await buy(seller, nowhere), lost)
    t.match(await withdraw(seller, nowhere), lost)
    t.match(await post(seller, `/api/marketplace/rate/${nowhere}`, { stars: 5 }), lost)
    t.match(await get(null, `/api/marketplace/${nowhere}`), lost)
  }
  const pack = await listed(seller)
  for (const stars of [0, 6, 1.5, '5'])
    t.equal((await post(seller, `/api/marketplace/rate/${pack}`, { stars })).status, 400)
  t.equal((await get(null, '/api/marketplace?cursor=x')).status, 400)
  t.equal((await main.ask('POST', `/api/marketplace/buy/${pack}`, { json: {} })).status, 401)
  // A page at a time, each listing once.
  const second = await listed(seller)
  const page = await get(null, '/api/marketplace?limit=1')
  const rest = await get(null, `/api/marketplace?cursor=${String(page.body['next_cursor'])}`)
  t.match(page.body, { listings: [{ pack_id: second }] })
  t.match(rest.body, { listings: [{ pack_id: pack }] })
  await Promise.all([pack, second].map((one) => withdraw(seller, one)))
  // 20 a day.
  for (let more = 2; more < 20; more += 1) t.equal((await sell(seller, [id])).status, 200)
  t.match(await sell(seller, [id]), { status: 429, body: { code: 'quota_exceeded' } })
})

t.test('races on two nodes', async (t) => {
  const beside = await startInProcessTestStation(t, settings, { database: main.database })
  const nodeOf = (at: number) => (at % 2 === 0 ? main : beside)
  const seller = await main.onboard()
  const [pack, brief] = [await listed(seller), await listed(seller)]
  const buyers = await Promise.all(Array.from({ length: 64 }, () => main.onboard()))
  const answers = await Promise.all(buyers.map((buyer, at) => buy(buyer, pack, {}, nodeOf(at))))
  t.strictSame(countReplies(answers), { '200': 64 })
  t.strictSame(await purse(seller), [13.62, 0], '64 times 82 % of 0.25')
  t.match((await get(null, `/api/marketplace/${pack}`)).body, { sold_count: 64 })

  const [one] = [await main.onboard()]
  const eight = Array.from({ length: 8 }, (_, at) => nodeOf(at))
  const again = await Promise.all(eight.map((node) => buy(one, pack, {}, node)))
  t.strictSame(countReplies(again), { '200': 1, '409 already_owned': 7 })
  t.strictSame(await purse(one), [0.25, 0])
  t.equal((await memories(one)).length, 1)
  const keyed = { 'idempotency-key': 'the-same-purchase' }
  const [two] = [await main.onboard()]
  const same = await Promise.all(eight.map((node) => buy(two, pack, keyed, node)))
  t.strictSame(new Set(same.map(({ text }) => text)).size, 1)
  t.strictSame(await purse(two), [0.25, 0])

  const early = buyers.slice(0, 16).map((buyer, at) => buy(buyer, brief, {}, nodeOf(at)))
  const [ended, ...late] = await Promise.all([withdraw(seller, brief), ...early])
  t.equal(ended.status, 200)
  const sold = late.filter(({ status }) => status === 200).length
  const counts = countReplies(late)
  t.equal(sold + (counts['409 listing_withdrawn'] ?? 0), 16, JSON.stringify(counts))
  t.match((await get(null, `/api/marketplace/${brief}`)).body, { sold_count: sold })
  t.match(await buy(one, brief), { status: 409, body: { code: 'listing_withdrawn' } })
})

t.test('the ledger is sound', () => main.verify())

import t from 'tap'
import { HOUR } from '../../../core/clock.ts'
import { stringifyWithBigints } from '../../../core/json/bigint.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { fromUsdc } from '../../../core/money.ts'
import { countReplies, type TestReply } from '../../support/http/test-http-client.ts'
import { createTestClock } from '../../support/actors/test-actor-node.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
  type InProcessStation,
} from '../../support/station/start-test-station.ts'
import { requestUntilReplyMatches } from '../../support/payments/deposit-wallet-and-scanner-test-fixtures.ts'

const N = 64
const NOBODY = '018f6f7a-0000-7000-8000-000000000000'
const order = {
  title: 'Gas on Base',
  description: 'What does a transfer of USDC cost right now, and why?',
  domain: 'base',
  reward_usdc: 0.25,
}

const post = (node: TestStation, { key }: TestAgent, fields: object = {}, headers = {}) =>
  node.ask('POST', '/api/bounties', { key, json: { ...order, ...fields }, headers })
const claim = (node: TestStation, { key }: TestAgent, id: string, content = 'gas', headers = {}) =>
  node.ask('POST', `/api/bounties/${id}/claim`, { key, json: { content }, headers })
const cancel = (node: TestStation, { key }: TestAgent, id: string, headers = {}) =>
  node.ask('DELETE', `/api/bounties/${id}`, { key, headers })
const show = (node: TestStation, id: string, guest?: TestAgent) =>
  node.ask('GET', `/api/bounties/${id}`, { key: guest?.key })
const list = async (node: TestStation, query = '') => {
  const { body } = await node.ask('GET', `/api/bounties?${query}`)
  return {
    bounties: body['bounties'] as Record<string, unknown>[],
    next: body['next_cursor'] as string | null,
  }
}

async function posted(node: TestStation, guest: TestAgent, fields: object = {}): Promise<string> {
  const { status, text, body } = await post(node, guest, fields)
  if (status !== 201) throw new Error(`posting answered ${status}: ${text}`)
  return String(body['bounty_id'])
}

/** Promotional credits and cash. */
async function purse(node: TestStation, { key }: TestAgent): Promise<[number, number]> {
  const { body } = await node.ask('GET', '/api/credits/balance', { key })
  return [Number(body['promo_usdc']), Number(body['cash_usdc'])]
}

/** A deposit as the watcher of the chain books it: the ledger row and the message, in one commit. */
async function deposit({ sql }: InProcessStation, { id }: TestAgent, usdc: number): Promise<void> {
  const [amount, arrival] = [fromUsdc(usdc), newUuidV7(Date.now())]
  const event = { type: 'DEPOSIT', id: arrival, pending: amount, chain: 'base', tx: '0x1' }
  await sql.begin(async (tx) => {
    await tx`insert into ledger (id, owner, debit, credit, amount_micros, kind, at)
      values (${arrival}, ${id}, 'world:base', ${`agent:${id}:pending`}, ${amount}, 'deposit', now())`
    await tx`insert into inbox (receiver, receiver_kind, id, event, at)
      values (${id}, 'agent', ${`deposit:${arrival}`},
              ${stringifyWithBigints({ ...event, source: 'deposit' })}::text::jsonb, now())`
  })
}

t.test('one station', async (t) => {
  // Where promotional credits may become a reward; where they may not: promo.test.ts.
  const main = await startInProcessTestStation(t, { PROMO_TRANSFERABLE: 'true' })
  const [ann, bob] = [await main.onboard(), await main.onboard()]

  t.test('a bounty is posted, listed, claimed and paid', async (t) => {
    const asks = { required_keywords: ['USDC', 'gas price'], min_quality_score: 28, ttl_hours: 5 }
    const made = await post(main, ann, asks)
    t.match(made, { status: 201, body: { ...order, ...asks, status: 'open', balance_usdc: 0.25 } })
    const id = String(made.body['bounty_id'])
    t.match(made.body, { posted_by: ann.id, promo_usdc: 0.25, claimed_by: null, closed_at: null })
    const life = (name: string) => Date.parse(String(made.body[name]))
    t.equal(life('expires_at') - life('created_at'), 5 * HOUR)

    const words = 'The GAS price is low; a transfer costs little'
    const short = await claim(main, bob, id, words)
    t.match(short, { status: 422, body: { code: 'bounty_mismatch', missing_keywords: ['USDC'] } })
    const poor = await claim(main, bob, id, 'usdc gas price')
    t.match(poor, { status: 422, body: { missing_keywords: [], points: { variety: 20 } } })
    t.match(poor.body, { quality_score: 23, min_quality_score: 28, bounty_id: id })
    t.match(await claim(main, ann, id, words), { status: 403, body: { code: 'own_bounty' } })
    t.match(await cancel(main, bob, id), { status: 403, body: { code: 'bounty_not_yours' } })
    t.strictSame(await purse(main, bob), [0.5, 0], 'what was refused is paid nothing')

    const content = `${words} usdc`
    const paid = await claim(main, bob, id, content)
    t.match(paid, { status: 200, body: { bounty_id: id, status: 'claimed', paid_usdc: 0.25 } })
    t.match(paid.body, { promo_usdc: 0.25, quality_score: 30 })
    t.match(await claim(main, bob, id, content), {
      status: 409,
      body: { code: 'already_claimed', bounty_id: id },
    })
    t.match(await cancel(main, ann, id), { status: 409, body: { code: 'already_claimed' } })

    const facts = { status: 'claimed', claimed_by: bob.id, closed_reason: 'claimed' }
    t.match((await show(main, id, ann)).body, { ...facts, claim: { content, quality_score: 30 } })
    for (const other of [undefined, bob]) {
      const seen = await show(main, id, other)
      const claimer = other === undefined ? null : bob.id
      t.match(seen.body, { ...facts, claimed_by: claimer, claim: null })
      t.notMatch(seen.text, content)
    }
    const { text } = await main.ask('GET', '/api/bounties')
    t.match(text, id)
    t.notMatch(text, content)
    const told = await main.sql`
      select agent_id, data from outbox where type = 'bounty_received' order by id`
    t.match(
      [...told],
      [
        { agent_id: bob.id, data: { status: 'paid', bounty_id: id, amount_usdc: 0.25 } },
        { agent_id: ann.id, data: { status: 'claimed', bounty_id: id, claimed_by: bob.id } },
      ],
    )
    t.strictSame(
      [await purse(main, ann), await purse(main, bob)],
      [
        [0.25, 0],
        [0.75, 0],
      ],
    )
  })

  t.test('promotional bounties are paid and returned as promotional credits', async (t) => {
    const [rich, eve] = [await main.onboard(), await main.onboard()]
    await deposit(main, rich, 1)
    t.strictSame(await purse(main, rich), [0.75, 1])
    const made = await post(main, rich, { reward_usdc: 1 })
    t.match(made.body, { reward_usdc: 1, promo_usdc: 0.75, balance_usdc: 0.75 })
    const id = String(made.body['bounty_id'])
    t.match(await cancel(main, rich, id), {
      status: 200,
      body: { status: 'expired', closed_reason: 'cancelled', returned_usdc: 1 },
    })
    t.strictSame(await purse(main, rich), [0.75, 1])
    const twice = await cancel(main, rich, id)
    t.match(twice, { status: 200, body: { closed_reason: 'cancelled', returned_usdc: 1 } })
    t.strictSame(await purse(main, rich), [0.75, 1], 'it came back once')
    t.match(await claim(main, eve, id), {
      status: 409,
      body: { code: 'bounty_ended', closed_reason: 'cancelled' },
    })
    const again = await posted(main, rich, { reward_usdc: 1 })
    t.match((await claim(main, eve, again)).body, { paid_usdc: 1, promo_usdc: 0.75 })
    t.strictSame(
      [await purse(main, rich), await purse(main, eve)],
      [
        [0, 0.75],
        [1.25, 0.25],
      ],
    )
  })

  t.test('insufficient credits return a 402 with the funding address', async (t) => {
    const guest = await main.onboard()
    const poor = await post(main, guest, { reward_usdc: 0.51 })
    t.match(poor, { status: 402, body: { code: 'payment_required', limit_source: 'balance' } })
    t.match(poor.body, { needed_usdc: 0.51, balance_usdc: 0.5, agent_id: guest.id })
    t.equal(poor.body.fund_url, `http://gas.test/fund/${guest.id}`)
    t.strictSame(await purse(main, guest), [0.5, 0])
    const { body } = await main.ask('POST', '/api/keys', { key: guest.key, json: { cap_usdc: 1 } })
    const capped = await post(main, { ...guest, key: body.api_key })
    t.match(capped, { status: 403, body: { code: 'insufficient_scope' } })
  })

  t.test('invalid bounties and claims are rejected', async (t) => {
    const wrong: [object, string][] = [
      [{ reward_usdc: 0.049999 }, '/reward_usdc'],
      [{ reward_usdc: 0.0500001 }, '/reward_usdc'],
      [{ ttl_hours: 0 }, '/ttl_hours'],
      [{ ttl_hours: 721 }, '/ttl_hours'],
      [{ min_quality_score: 101 }, '/min_quality_score'],
      [{ min_quality_score: 1.5 }, '/min_quality_score'],
      [{ required_keywords: ['gas', '--'] }, '/required_keywords/1'],
      [{ required_keywords: Array.from({ length: 21 }, () => 'x') }, '/required_keywords'],
      [{ title: '' }, '/title'],
    ]
    for (const [fields, pointer] of wrong)
      t.match(await post(main, ann, fields), { status: 400, body: { errors: [{ pointer }] } })
    const id = await posted(main, bob)
    t.match(await claim(main, ann, id, 'x'.repeat(20_001)), { status: 400 })
    for (const nowhere of [NOBODY, 'x', '__proto__', `${id}0`]) {
      const lost = { status: 404, body: { code: 'bounty_not_found' } }
      t.match(await claim(main, ann, nowhere), lost)
      t.match(await cancel(main, ann, nowhere), lost)
      t.match(await show(main, nowhere), lost)
    }
    t.match(await main.ask('GET', '/api/bounties?status=lost'), { status: 400 })
    t.match(await main.ask('GET', '/api/bounties?cursor=x'), { status: 400 })
    t.equal((await claim(main, ann, id.toUpperCase())).status, 200, 'an id in capitals is the same')
  })

  t.test('lists by status, page by page', async (t) => {
    const guest = await main.onboard()
    const ids: string[] = []
    for (let at = 0; at < 7; at += 1) ids.push(await posted(main, guest, { reward_usdc: 0.05 }))
    for (const id of ids.slice(0, 2)) await claim(main, ann, id)
    await cancel(main, guest, ids[2] ?? '')
    const all = async (status: string) => {
      const found: unknown[] = []
      let cursor = ''
      do {
        const page = await list(main, `${status}&limit=2${cursor}`)
        t.ok(page.bounties.length <= 2)
        found.push(...page.bounties.map(({ bounty_id: id }) => id))
        cursor = page.next === null ? '' : `&cursor=${page.next}`
      } while (cursor !== '')
      return found.filter((id) => ids.includes(String(id)))
    }
    const newest = [...ids].reverse()
    t.strictSame(await all(''), newest)
    t.strictSame(await all('status=open'), newest.slice(0, 4))
    t.strictSame(await all('status=expired'), [ids[2]])
    t.strictSame(await all('status=claimed'), [ids[1], ids[0]])
  })
  t.test('gas verify finds no difference afterwards', () => main.verify())
})

/** Everybody at once, dealt over the nodes. */
const storm = (
  nodes: readonly TestStation[],
  asks: readonly ((node: TestStation) => Promise<TestReply>)[],
) => Promise.all(asks.map((ask, at) => ask(nodes[at % nodes.length] as TestStation)))

t.test('two nodes', async (t) => {
  const main = await startInProcessTestStation(t)
  const both = [main, await spawnSecondNode(t, main)]
  const guests = await Promise.all(Array.from({ length: N }, () => main.onboard()))
  const [poster, other] = [await main.onboard(), await main.onboard()]

  t.test(`one of ${N} concurrent claims is paid`, async (t) => {
    const id = await posted(main, poster)
    const answers = await storm(
      both,
      guests.map((guest) => (node) => claim(node, guest, id)),
    )
    t.strictSame(countReplies(answers), { 200: 1, '409 already_claimed': N - 1 })
    const balances = await Promise.all(guests.map((guest) => main.balance(guest)))
    const winner = answers.findIndex(({ status }) => status === 200)
    t.strictSame(
      balances,
      guests.map((_, at) => (at === winner ? 0.75 : 0.5)),
    )
    t.equal(await main.balance(poster), 0.25)
    t.match((await show(main, id, poster)).body, { claimed_by: guests[winner]?.id })
    await main.verify()
  })

  t.test('concurrent claims and cancellations either pay or refund', async (t) => {
    const before = await main.balance(other)
    const id = await posted(main, other)
    const asks = guests.map(
      (guest, at) => (node: TestStation) =>
        at % 4 < 2 ? cancel(node, other, id) : claim(node, guest, id),
    )
    const answers = await storm(both, asks)
    const won = answers.filter(({ status }) => status === 200)
    const paid = won.some(({ body }) => body['status'] === 'claimed')
    // A second cancellation gets the same answer.
    const cancels = asks.filter((_, at) => at % 4 < 2).length
    const wanted = paid
      ? { 200: 1, '409 already_claimed': N - 1 }
      : { 200: cancels, '409 bounty_ended': N - cancels }
    t.strictSame(countReplies(answers), wanted)
    t.equal(await main.balance(other), paid ? before - order.reward_usdc : before)
    await main.verify()
  })

  t.test('a repeated Idempotency-Key gets the stored answer on either node', async (t) => {
    const [ann, bob] = [await main.onboard(), await main.onboard()]
    const headers = { 'idempotency-key': 'one' }
    const same = async (ask: (node: TestStation) => Promise<TestReply>, status: number) => {
      const answers = await storm(
        both,
        Array.from({ length: 16 }, () => ask),
      )
      const kinds = new Set(answers.map(({ status, body }) => body.code ?? status))
      for (const kind of kinds) t.ok([status, 'idempotency_in_flight'].includes(kind), String(kind))
      for (const node of both) answers.push(await ask(node))
      const texts = answers.filter((one) => one.status === status).map(({ text }) => text)
      t.equal(new Set(texts).size, 1)
      t.equal(answers.at(-1)?.headers['idempotency-replayed'], 'true')
      return answers.at(-1) as TestReply
    }
    const { body } = await same((node) => post(node, ann, {}, headers), 201)
    const id = String(body['bounty_id'])
    t.equal(await main.balance(ann), 0.25, 'escrowed once')
    await same((node) => claim(node, bob, id, 'gas', headers), 200)
    t.equal(await main.balance(bob), 0.75, 'paid once')
    t.match(await claim(main, bob, id, 'other', headers), {
      status: 422,
      body: { code: 'idempotency_key_reused' },
    })
    t.match(
      await claim(main, poster, id, 'gas', headers),
      {
        status: 409,
        body: { code: 'already_claimed' },
      },
      'the key of another agent is another request',
    )
    const more = await posted(main, ann)
    await same((node) => cancel(node, ann, more, headers), 200)
    t.equal(await main.balance(ann), 0.25, 'returned once')
    await main.verify()
  })
})

t.test(
  'an escrow that expired while every node was down is refunded after the next start',
  async (t) => {
    const first = await startInProcessTestStation(t)
    const guest = await first.onboard()
    const ids = [await posted(first, guest, { ttl_hours: 1 }), await posted(first, guest)]
    t.equal(await first.balance(guest), 0)
    await first.station.close()
    const clock = createTestClock(Date.now() + 2 * HOUR)
    const next = await startInProcessTestStation(t, {}, { database: first.database, clock })
    await requestUntilReplyMatches(
      () => show(next, ids[0] ?? ''),
      ({ body }) => body['status'] !== 'open',
    )
    t.match((await show(next, ids[0] ?? '')).body, { closed_reason: 'expired', claimed_by: null })
    t.match((await show(next, ids[1] ?? '')).body, { status: 'open' })
    t.equal(await next.balance(guest), 0.25)
    t.match(await claim(next, await next.onboard(), ids[0] ?? ''), {
      status: 409,
      body: { code: 'bounty_ended', closed_reason: 'expired' },
    })
    await next.verify()
  },
)

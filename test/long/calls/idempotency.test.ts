import { randomUUID } from 'node:crypto'
import t from 'tap'
import { countReplies, type TestReply } from '../../support/http/test-http-client.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
  type InProcessStation,
} from '../../support/station/start-test-station.ts'

const N = 64
const TOOL = 'hive_trending'
const usdc = (micros: number) => Math.round(micros) / 1e6

t.test('64 equal requests with one Idempotency-Key', async (t) => {
  const main = await startInProcessTestStation(t)
  const beside = await spawnSecondNode(t, main)
  const charges = async (guest: TestAgent) =>
    Math.round((0.5 - (await main.balance(guest))) * 1e6) / 5_000
  const repeat = async (
    nodes: readonly TestStation[],
    guest: TestAgent,
    path: string,
    body: object,
  ) => {
    const headers = { 'idempotency-key': 'one' }
    const once = (node: TestStation) =>
      node.ask('POST', path, { key: guest.key, json: body, headers })
    const calls = Array.from({ length: N }, (_, at) =>
      once(nodes[at % nodes.length] as TestStation),
    )
    return { once, answers: await Promise.all(calls) }
  }

  const others = (answers: TestReply[]) =>
    Object.keys(countReplies(answers)).filter(
      (kind) => !['200', '409 idempotency_in_flight'].includes(kind),
    )

  t.test('in one process all get the same reply and one is charged', async (t) => {
    const guest = await main.onboard()
    const { once, answers } = await repeat([main], guest, '/api/refuel', { tool: TOOL })
    t.strictSame(countReplies(answers), { 200: N })
    t.equal(new Set(answers.map(({ text }) => text)).size, 1)
    const replays = answers.filter(({ headers }) => headers['idempotency-replayed'] === 'true')
    t.equal(replays.length, N - 1)
    t.equal((await once(main)).text, answers[0]?.text)
    t.equal(await charges(guest), 1)
  })

  t.test('with two processes every request gets the same reply or a retry', async (t) => {
    const guest = await main.onboard()
    const { once, answers } = await repeat([main, beside], guest, '/api/refuel', { tool: TOOL })
    t.strictSame(others(answers), [])
    const texts = answers.filter(({ status }) => status === 200).map(({ text }) => text)
    for (const node of [main, beside]) texts.push((await once(node)).text)
    t.equal(new Set(texts).size, 1)
    t.equal(await charges(guest), 1)
  })

  t.test('on two processes a transfer is made once', async (t) => {
    const [guest, other] = [await main.onboard(), await main.onboard()]
    const gift = { to_agent_id: other.id, amount_usdc: 0.01 }
    const { once, answers } = await repeat([main, beside], guest, '/api/agent/send', gift)
    t.strictSame(others(answers), [])
    const texts = answers.filter(({ status }) => status === 200).map(({ text }) => text)
    for (const node of [main, beside]) texts.push((await once(node)).text)
    t.equal(new Set(texts).size, 1)
    t.equal(await main.balance(guest), 0.49)
    t.equal(await beside.balance(other), 0.51)
  })

  t.test('on two processes each call of a batch is charged once', async (t) => {
    const guest = await main.onboard()
    const batch = { calls: [{ tool: TOOL }, { tool: TOOL, limit: 3 }] }
    const { once, answers } = await repeat([main, beside], guest, '/api/pipeline', batch)
    const ids = ({ body }: TestReply) =>
      (body['results'] as { result: TestReply['body'] | null }[]).map(
        ({ result }) => result?._meta.call_id,
      )
    const final = await once(beside)
    t.match(final.body, { ok: true, total_cost_usdc: 0.01 })
    for (const answer of answers) {
      if (answer.body['ok'] === true) t.strictSame(ids(answer), ids(final))
    }
    t.equal(await charges(guest), 2)
  })

  t.test('another batch under the key is rejected without a charge', async (t) => {
    const guest = await main.onboard()
    const headers = { 'idempotency-key': 'batch' }
    const batch = (...calls: object[]) =>
      main.ask('POST', '/api/pipeline', { key: guest.key, json: { calls }, headers })
    const first = await batch({ tool: TOOL })
    t.match(first, { status: 200, body: { ok: true } })
    const other = await batch({ tool: TOOL, limit: 3 }, { tool: TOOL, limit: 4 })
    t.match(other, { status: 422, body: { code: 'idempotency_key_reused' } })
    t.equal(await charges(guest), 1)
    t.match(await batch({ tool: TOOL }), { headers: { 'idempotency-replayed': 'true' } })
  })

  t.test('a repeated stream is marked as such and costs nothing more', async (t) => {
    const guest = await main.onboard()
    const asked = { key: guest.key, json: { tool: TOOL }, headers: { 'idempotency-key': 'flow' } }
    const first = await main.ask('POST', '/api/refuel/stream', asked)
    const again = await main.ask('POST', '/api/refuel/stream', asked)
    t.match(again, { status: 200, headers: { 'idempotency-replayed': 'true' } })
    const result = ({ frames }: TestReply) => frames.find(({ event }) => event === 'result')?.data
    t.strictSame(result(again), result(first))
    const callId = String(first.frames[0]?.data['call_id'])
    t.match(again.frames[0], { id: `${callId}:1`, data: { call_id: callId } })
    // A client that reconnects by itself: with its key the answer again, without it no second call.
    const back = { 'last-event-id': `${callId}:2` }
    const resumed = await main.ask('POST', '/api/refuel/stream', {
      ...asked,
      headers: { ...asked.headers, ...back },
    })
    t.strictSame(result(resumed), result(first))
    t.match(await main.ask('POST', '/api/refuel/stream', { ...asked, headers: back }), {
      status: 400,
      body: { code: 'invalid_input', detail: /last-event-id needs the Idempotency-Key/ },
    })
    t.equal(await charges(guest), 1)
  })

  t.test('another request under the key is rejected without a charge', async (t) => {
    const guest = await main.onboard()
    const headers = { 'idempotency-key': 'two' }
    const first = await main.call(guest, TOOL, {}, headers)
    const task = { 'x-task-id': '018f6f7a-0000-7000-8000-000000000000' }
    for (const node of [main, beside]) {
      for (const answer of [
        await node.call(guest, TOOL, { limit: 3 }, headers),
        await node.call(guest, 'agent_ping', { target_agent_id: guest.id, message: 'x' }, headers),
        await node.call(guest, TOOL, {}, { ...headers, ...task }),
        await node.ask('POST', '/api/tip', {
          key: guest.key,
          json: { to_agent_id: guest.id, amount_usdc: 0.01 },
          headers,
        }),
      ]) {
        t.match(answer, { status: 422, body: { code: 'idempotency_key_reused' } })
      }
      t.equal((await node.call(guest, TOOL, {}, headers)).text, first.text)
    }
    const stranger = await main.onboard()
    const own = await main.call(stranger, TOOL, {}, headers)
    t.match(own, { status: 200, headers: { 'idempotency-replayed': undefined } })
    t.equal(await charges(guest), 1)
  })

  t.test(
    'a rejection for lack of credits is not stored: the same request succeeds with credits',
    async (t) => {
      const [poor, rich] = [await main.onboard(0.004), await main.onboard()]
      const headers = { 'idempotency-key': 'three' }
      t.match(await main.call(poor, TOOL, {}, headers), { status: 402 })
      const gift = { to_agent_id: poor.id, amount_usdc: 0.01 }
      await main.ask('POST', '/api/agent/send', { key: rich.key, json: gift })
      t.match(await beside.call(poor, TOOL, {}, headers), { status: 200 })
      t.equal(await main.balance(poor), 0.009)
    },
  )
  t.test('gas verify finds no difference afterwards', () => main.verify())
})

t.test('onboarding with an Idempotency-Key', async (t) => {
  const main = await startInProcessTestStation(t)
  const beside = await spawnSecondNode(t, main)
  const agents = async () => (await main.sql`select from agents`).count
  const join = (
    node: TestStation,
    key: string,
    path = '/api/onboard',
    json: object = { name: 'ann' },
  ) => node.ask('POST', path, { json, headers: { 'idempotency-key': key } })
  const both = { agents: [{ name: 'ann' }, { name: 'bob' }] }
  const known = async ({ api_key: key, agent_id: id }: TestReply['body']) =>
    t.match(await main.ask('GET', '/api/agent/me', { key }), {
      status: 200,
      body: { agent_id: id },
    })

  const once = randomUUID()

  t.test('creates one agent on two processes for any number of requests', async (t) => {
    const answers = await Promise.all(
      Array.from({ length: N }, (_, at) => join(at % 2 === 0 ? main : beside, once)),
    )
    answers.push(await join(main, once), await join(beside, once))
    t.strictSame(
      Object.keys(countReplies(answers)).filter((kind) => !/^201|in_flight$/.test(kind)),
      [],
    )
    const joined = answers.filter(({ status }) => status === 201)
    t.equal(new Set(joined.map(({ text }) => text)).size, 1)
    t.equal(await agents(), 1)
    await known(answers.at(-1)?.body as TestReply['body'])
  })

  for (const [path, json, count, status] of [
    ['/api/onboard', { name: 'ann' }, 1, 201],
    ['/api/onboard/bulk', both, 2, 200],
  ] as const) {
    t.test(
      `${path}: returns the same agent after a crash before its answer was stored`,
      async (t) => {
        const [before, key] = [await agents(), randomUUID()]
        // Its agents are there, and then the process cannot say so.
        await main.sql.unsafe(`
        create function lose() returns trigger language plpgsql as $$ begin raise 'lost'; end $$;
        create trigger lose before insert on calls for each row execute function lose()`)
        t.equal((await join(main, key, path, json)).status, 500)
        t.equal(await agents(), before + count)
        await main.sql`drop function lose cascade`
        const [here, there] = [
          await join(beside, key, path, json),
          await join(main, key, path, json),
        ]
        t.equal(here.status, status)
        t.equal(there.text, here.text)
        t.equal(await agents(), before + count, 'no agent is created twice')
        const joined = (here.body['agents'] as TestReply['body'][] | undefined) ?? [here.body]
        t.equal(joined.length, count)
        for (const one of joined) await known(one)
        t.match(await join(main, key, path, { name: 'other' }), { status: count === 1 ? 422 : 400 })
      },
    )
  }
  t.test('is repeated for ten minutes, and then creates a new agent', async (t) => {
    const key = randomUUID()
    const [first, repeated] = [await join(main, key), await join(beside, key)]
    t.equal(repeated.text, first.text)
    t.equal(repeated.headers['idempotency-replayed'], 'true')
    const age = async (minutes: number) => {
      await main.sql`update idempotency_drafts set at = now() - make_interval(mins => ${minutes})`
      await main.sql`
        update calls set at = now() - make_interval(mins => ${minutes}) where idempotency_key = ${key}`
    }
    await age(9)
    t.equal((await join(main, key)).text, first.text)
    await age(11)
    const late = await join(main, key, '/api/onboard', { name: 'somebody' })
    t.equal(late.status, 201, 'not even the other request is held against it')
    t.not(late.body['api_key'], first.body['api_key'])
    await known(late.body)
    await known(first.body)
  })

  t.test('needs a key that other clients behind the same address cannot guess', async (t) => {
    const [before, short] = [await agents(), ['onboard-1', 'a'.repeat(21), `${'a'.repeat(22)}!`]]
    for (const path of ['/api/onboard', '/api/agents/register', '/api/onboard/bulk']) {
      for (const key of short)
        t.match(await join(main, key, path, path.endsWith('bulk') ? both : { name: 'ann' }), {
          status: 400,
          body: {
            code: 'invalid_input',
            errors: [
              {
                pointer: '/headers/idempotency-key',
                detail: /UUID or at least 22 random characters/,
              },
            ],
          },
        })
    }
    t.equal(await agents(), before)
    for (const key of ['0123456789abcdef012345', 'nQ8-_zR5tK1mV3xW7yB9cD'])
      t.equal((await join(main, key)).status, 201, key)
  })
  t.test('gas verify finds no difference afterwards', () => main.verify())
})

/** Balances of all agents from snapshots and pending inboxes, in one consistent view. */
async function wealth({ sql }: InProcessStation): Promise<{ total: bigint; least: bigint }> {
  const [row] = await sql<{ total: bigint; least: bigint }[]>`
    with purse as (select id, (state->'context'->'promo'->>'$n')::bigint
        + (state->'context'->'cash'->>'$n')::bigint
        + (state->'context'->'held'->>'$n')::bigint as own from actors where kind = 'agent'),
    coming as (select coalesce(sum((event->'promo'->>'$n')::bigint
        + (event->'cash'->>'$n')::bigint), 0)::bigint as amount from inbox where absorbed_at is null)
    select (sum(own) + max(coming.amount))::bigint as total, min(own)::bigint as least
      from purse, coming`
  return row as { total: bigint; least: bigint }
}

t.test('transfers between agents', async (t) => {
  const main = await startInProcessTestStation(t)
  const beside = await spawnSecondNode(t, main)
  const nodes = [main, beside]

  t.test(
    'calls, transfers and tips from one balance give exact balances of payer and payees',
    async (t) => {
      const [payer, a, b] = [await main.onboard(0.3), await main.onboard(), await main.onboard()]
      const pay = (node: TestStation, path: string, to: TestAgent) =>
        node.ask('POST', path, { key: payer.key, json: { to_agent_id: to.id, amount_usdc: 0.011 } })
      const deeds = Array.from({ length: 96 }, (_, at) => {
        const node = nodes[at % 2] as TestStation
        if (at % 3 === 0) return node.call(payer, TOOL)
        return at % 3 === 1 ? pay(node, '/api/agent/send', a) : pay(node, '/api/tip', b)
      })
      const answers = await Promise.all(deeds)
      const done = (kind: number) =>
        answers.filter(({ status }, at) => status === 200 && at % 3 === kind).length
      const [calls, sends, tips] = [done(0), done(1), done(2)]
      t.strictSame(countReplies(answers), {
        200: calls + sends + tips,
        '402 payment_required': 96 - calls - sends - tips,
      })
      const left = 300_000 - calls * 5_000 - (sends + tips) * 11_000
      t.ok(left >= 0 && left < 11_000, `${left} micro-USDC are left`)
      t.equal(await main.balance(payer), usdc(left))
      t.equal(await beside.balance(a), usdc(500_000 + sends * 11_000))
      t.equal(
        await beside.balance(b),
        usdc(500_000 + tips * 10_450),
        'a tip arrives without its 5 %',
      )
      await main.verify()
    },
  )

  t.test('the sum of all balances is constant', async (t) => {
    const guests = await Promise.all(Array.from({ length: 8 }, () => main.onboard()))
    const { total } = await wealth(main)
    let seed = 20_261_121
    const next = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below
    t.comment('seed 20261121')
    let running = true
    const reads: { total: bigint; least: bigint }[] = []
    const reader = (async () => {
      while (running) {
        reads.push(await wealth(main))
        const guest = guests[next(8)] as TestAgent
        t.ok((await (nodes[next(2)] as TestStation).balance(guest)) >= 0)
      }
    })()
    const worker = async () => {
      const answers: TestReply[] = []
      for (let step = 0; step < 25; step += 1) {
        const [from, to] = [next(8), next(7)]
        const json = {
          to_agent_id: guests[to < from ? to : to + 1]?.id,
          amount_usdc: usdc(10_000 + next(250_000)),
        }
        const key = guests[from]?.key
        answers.push(
          await (nodes[step % 2] as TestStation).ask('POST', '/api/agent/send', { key, json }),
        )
      }
      return answers
    }
    const kinds = countReplies((await Promise.all(Array.from({ length: 12 }, worker))).flat())
    running = false
    await reader
    t.ok((kinds['200'] ?? 0) > 50, `${kinds['200']} transfers`)
    t.strictSame(Object.keys(kinds), ['200', '402 payment_required'])
    t.ok(reads.length > 5, `${reads.length} reads`)
    t.ok(reads.every((read) => read.total === total && read.least >= 0n))
    const sums = await Promise.all(guests.map((guest) => main.balance(guest)))
    t.equal(Math.round(sums.reduce((all, one) => all + one, 0) * 1e6), 4_000_000)
    await main.verify()
  })
})

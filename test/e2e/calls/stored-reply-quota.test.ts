import { randomUUID } from 'node:crypto'
import t from 'tap'
import { LIMITS } from '../../../core/limits.ts'
import { countReplies, type TestReply } from '../../support/http/test-http-client.ts'
import {
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import { sendJsonFixture, startFixtureServer } from '../../support/upstreams/fixture-server.ts'

/** Answers `/1000` with about a thousand bytes of JSON. */
const house = await startFixtureServer(t, (request, response) =>
  sendJsonFixture(response, { text: 'x'.repeat(Number(request.url?.slice(1))) }),
)
const SETTINGS = { SSRF_ALLOW: `127.0.0.1:${house.port}` }
const get = (node: TestStation, guest: TestAgent | null, bytes: number, key: string) =>
  node.call(
    guest,
    'data_retrieval',
    { url: `http://127.0.0.1:${house.port}/${bytes}` },
    { 'idempotency-key': key },
  )
const note = ({ body }: TestReply) => (body._meta as Record<string, unknown>)['kept_note']
const isGone = { status: 410, body: { code: 'answer_not_kept' } }

t.test('a long free reply is sent once, marked as not stored', async (t) => {
  const main = await startInProcessTestStation(t, SETTINGS)
  const guest = await main.onboard()
  const [short, long] = [randomUUID(), randomUUID()]
  const first = await get(main, guest, 60_000, short)
  t.equal(first.status, 200)
  t.equal('kept' in first.body._meta, false)
  t.equal((await get(main, guest, 60_000, short)).text, first.text)

  const once = await get(main, guest, 70_000, long)
  t.match(once, { status: 200, body: { _meta: { kept: false, cost_usdc: 0 } } })
  t.match(note(once), /free calls above 65536 bytes/)
  const again = await get(main, guest, 70_000, long)
  t.match(again, isGone)
  t.match(again.body, {
    reason: 'too_large',
    detail: /was served, and its answer was given once/,
    remedy: { action: 'repeat_with_another_idempotency_key' },
  })
  t.equal(again.headers['content-type'], 'application/problem+json')
  t.equal(again.headers['idempotency-replayed'], 'true')
  t.match(await get(main, guest, 71_000, long), { status: 422 }, 'the key stays what it was')
  const [row] = await main.sql<{ n: number; bytes: number }[]>`
    select count(*)::int as n, max(length(response))::int as bytes from calls
     where idempotency_key = ${long}`
  t.equal(row?.n, 1, 'it ran once')
  t.ok((row?.bytes ?? 9e9) < 1_000)
  await main.verify()
})

t.test('the stored bytes of an agent per day are bounded exactly, on two nodes', async (t) => {
  const before = await startInProcessTestStation(t, SETTINGS)
  const guest = await before.onboard()
  const other = await before.onboard()
  await get(before, guest, 2_000, randomUUID())
  await before.station.close()
  // All but 100 KB of today is used up.
  const used = LIMITS.storedResponseBytesPerDay - 100_000
  await before.sql`
    update actors set state = jsonb_set(state, '{context,kept}', to_jsonb(${used}::bigint))
     where kind = 'quota' and aggregate_id = ${guest.id}`
  const { database } = before
  const nodes = await Promise.all(
    [1, 2].map(() => startInProcessTestStation(t, SETTINGS, { database })),
  )
  const node = (at: number) => nodes[at % 2] as (typeof nodes)[number]
  const keys = Array.from({ length: 6 }, () => randomUUID())
  const answers = await Promise.all(keys.map((key, at) => get(node(at), guest, 40_000, key)))
  t.ok(
    answers.every(({ status }) => status === 200),
    'no call is rejected',
  )
  const dropped = keys.filter((_, at) => note(answers[at] as TestReply) !== undefined)
  t.equal(dropped.length, 4, 'two of 40 KB fit')
  t.match(note(answers.find((one) => note(one) !== undefined) as TestReply), /reached 50 MiB/)
  for (const [at, key] of keys.entries()) {
    const again = await get(node(at + 1), guest, 40_000, key)
    if (dropped.includes(key)) t.match(again, { ...isGone, body: { reason: 'daily_bytes' } })
    else t.equal(again.text, answers[at]?.text)
  }
  t.equal(note(await get(node(0), guest, 500, randomUUID())), undefined, 'a short one is no burden')
  t.equal(note(await get(node(0), other, 40_000, randomUUID())), undefined, 'nor is another agent')
  await before.verify()
})

t.test('the bytes of clipboards and keyrings per agent and day are bounded', async (t) => {
  const main = await startInProcessTestStation(t)
  const beside = await startInProcessTestStation(t, {}, { database: main.database })
  const guest = await main.onboard()
  const ask = (node: TestStation, path: string, json: object) =>
    node.ask('POST', path, { key: guest.key, json })
  const packs = await Promise.all(
    [1, 2].map(async () => (await ask(main, '/api/backpack/create', {})).body.backpack_id),
  )
  const path = (n: number, what: string) => `/api/backpack/${packs[n % 2]}/${what}`
  t.equal((await ask(main, path(0, 'clipboard'), { key: 'a', value: 'first' })).status, 200)
  await main.sql`update daily_storage_bytes set bytes = ${LIMITS.storedBytesPerDay - 100_000}`
  const value = 'x'.repeat(30_000)
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, n) =>
      ask(n % 2 === 0 ? main : beside, path(n >> 1, 'clipboard'), { key: `k${n}`, value }),
    ),
  )
  t.strictSame(
    countReplies(answers),
    { 200: 3, '429 daily_bytes_exceeded': 5 },
    'exactly, on two nodes',
  )
  const secret = { name: 'A', secret: 's'.repeat(8_000), hosts: ['a.example'] }
  t.equal((await ask(main, path(0, 'keyring'), secret)).status, 200)
  t.match(await ask(main, path(1, 'keyring'), secret), {
    status: 429,
    body: {
      code: 'daily_bytes_exceeded',
      limit_bytes: LIMITS.storedBytesPerDay,
      retry_after: Number,
    },
  })
  const [row] = await main.sql`select count(*)::int as n from clipboard where key like 'k%'`
  t.equal(row?.['n'], 3)
})

t.test('plain writes have a separate limit', async (t) => {
  const main = await startInProcessTestStation(t)
  const guest = await main.onboard()
  const pack = await main.ask('POST', '/api/backpack/create', {
    key: guest.key,
    json: { agent_name: 'ann' },
  })
  const path = `/api/backpack/${pack.body.backpack_id}/clipboard`
  const put = (value: string, key: string) =>
    main.ask('POST', path, {
      key: guest.key,
      json: { key: 'note', value },
      headers: { 'idempotency-key': key },
    })
  const [one, two, three] = [randomUUID(), randomUUID(), randomUUID()]
  const first = await put('x'.repeat(30_000), one)
  t.equal(first.status, 200, first.text.slice(0, 200))
  t.equal((await put('x'.repeat(30_000), one)).text, first.text)
  t.equal(first.headers['idempotency-kept'], undefined)
  await main.sql`update daily_reply_bytes set bytes = ${LIMITS.storedResponseBytesPerDay - 10_000}`
  const late = await put('y'.repeat(30_000), two)
  t.match(late, { status: 200, headers: { 'idempotency-kept': 'false; reason=daily_bytes' } })
  t.match(await put('y'.repeat(30_000), two), isGone)
  const short = await put('z', three)
  t.equal((await put('z', three)).text, short.text, 'short answers are kept all the same')
  const [row] = await main.sql<{ value: string }[]>`select value from clipboard where key = 'note'`
  t.match(row?.value, 'z', 'a repetition that was refused wrote nothing')
})

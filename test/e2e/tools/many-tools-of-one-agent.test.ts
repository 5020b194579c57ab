import t from 'tap'
import { LIMITS } from '../../../core/limits.ts'
import { nameImportedTools } from '../../../tools/import/imported-tool.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { sendJsonFixture, startFixtureServer } from '../../support/upstreams/fixture-server.ts'

/** What one agent imports, retires and registers, counted and read within bounds. */

const operation = (operationId: string, values = ['a']) => ({
  get: {
    operationId,
    parameters: [{ name: 'a', in: 'query', schema: { type: 'string', enum: values } }],
    responses: {},
  },
})
/** As long as the values of an enumeration may be; 12 KiB together. */
const LONG = Array.from({ length: 12 }, (_, n) => `${n}${'é'.repeat(490)}`)
const document = (paths: object) => ({
  ...{ openapi: '3.0.3', info: { title: 'Shop', version: '1' }, paths },
})
const DOCUMENTS: Record<string, () => object> = {
  '/wide.json': () =>
    document(
      Object.fromEntries(
        Array.from({ length: 15 }, (_, at) => `n${at}`).map((name) => [
          `/${name}`,
          operation(name, LONG),
        ]),
      ),
    ),
  '/same.json': () =>
    document(
      Object.fromEntries(Array.from({ length: 21 }, (_, n) => [`/p${n}`, operation('same')])),
    ),
}
const shown = { token: '' }
const site = await startFixtureServer(t, (request, response) => {
  const made = DOCUMENTS[request.url ?? '']
  if (made === undefined) return void response.end(shown.token)
  sendJsonFixture(response, made())
})
const station = await startInProcessTestStation(t, { SSRF_ALLOW: `127.0.0.1:${site.port}` })
const { ask, sql } = station
const seller = await station.onboard()
const { key } = seller
const run = (file: string) =>
  ask('POST', '/api/tools/import', {
    key,
    json: { price_per_call_usdc: 0.01, openapi_url: `${site.base}${file}` },
  })
const refused = await run('/same.json')
shown.token = (refused.body['challenge'] as { token: string }).token
// The process that reads documents is started before anything is measured.
await run('/same.json')

t.test('what an import keeps counts, wherever its text comes from', async (t) => {
  const set = (bytes: number) => sql`
    insert into daily_storage_bytes (agent_id, day, bytes)
    values (${seller.id}, (now() at time zone 'UTC')::date, ${bytes})
    on conflict (agent_id, day) do update set bytes = excluded.bytes`
  const limit = LIMITS.storedBytesPerDay
  // What this node may have reserved is less than the import needs.
  await set(limit)
  const full = await run('/wide.json')
  t.match(full, {
    status: 429,
    body: { code: 'daily_bytes_exceeded', limit_bytes: limit, needed_bytes: /^\d+$/ },
  })
  const rows = await sql`select from community_tools where builder_id = ${seller.id}`
  t.equal(rows.length, 0, 'nothing is imported')
  await set(1)
  const made = await run('/wide.json')
  t.match(made, { status: 201, body: { count: 15 } }, made.text.slice(0, 300))
  const [kept] = await sql<{ bytes: bigint }[]>`
    select sum(octet_length(definition::text))::bigint as bytes from community_tools
     where builder_id = ${seller.id}`
  const [used] = await sql<{ bytes: bigint }[]>`
    select bytes from daily_storage_bytes where agent_id = ${seller.id}`
  const [text, counted] = [Number(kept?.bytes), Number(used?.bytes)]
  t.ok(text > LIMITS.storedBytesLease / 2, `${text} bytes of definitions`)
  t.ok(counted > LIMITS.keptCopies * text * 0.9, `${counted} bytes are counted`)
  const again = await run('/wide.json')
  t.match(again.body, { tools: [{ imported: false }, {}, {}] }, 'and keeps nothing again')
})

t.test('equal names are numbered one after the other, and not before the limit', async (t) => {
  t.match(await run('/same.json'), { status: 409, body: { code: 'limit_reached' } })
  const same = Array.from({ length: 4_000 }, () => ({ operation: 'same' }))
  const before = process.cpuUsage()
  const slugs = new Set(nameImportedTools('p', same).map(({ slug }) => slug))
  const { user } = process.cpuUsage(before)
  t.equal(slugs.size, same.length)
  t.ok(user < 1_500_000, `${user} µs of CPU`)
})

t.test('retired tools are not read whole', async (t) => {
  const own = (await run('/wide.json')).body['tools'] as { slug: string }[]
  await sql`
    insert into community_tools (slug, looks, tool_id, builder_id, builder_name, builder_visitor, state, definition,
        price_micros, accepts_promo, review, secret_number, measured_from, registered_at, change_id)
    select 'old-' || n, translate('old' || n, '015', 'ols'), gen_random_uuid(), builder_id, builder_name, builder_visitor, 'retired', '{"name":"x"}'::jsonb,
           price_micros, false, 'none', 1, now(), now() + n * interval '1 second', gen_random_uuid()
      from community_tools, generate_series(20000, 70000) n where slug = ${own[0]?.slug ?? ''}`
  const before = process.cpuUsage()
  const tool = (slug: string) => ({
    ...{ slug, name: 'x', description: 'x', price_per_call_usdc: 0.01 },
    endpoint_url: `${site.base}/x`,
  })
  const register = (slug: string) => ask('POST', '/api/tools/register', { key, json: tool(slug) })
  for (let n = 0; n < 10; n += 1)
    t.match(await register('o-ld-2-l-o-o-o'), {
      status: 409,
      body: { code: 'slug_taken', did_you_mean: 'old-21000' },
    })
  t.equal((await register('another')).status, 201)
  const { body } = await ask('GET', '/api/builder', { key })
  const tools = body['tools'] as { slug: string; status: string }[]
  t.strictSame(
    tools.slice(0, 16).map(({ slug }) => slug),
    [...own.map(({ slug }) => slug), 'another'],
    'those that are not retired come first, oldest first',
  )
  t.strictSame(
    tools.slice(16).map(({ slug }) => slug),
    Array.from({ length: LIMITS.pageDefault - 16 }, (_, n) => `old-${70_000 - n}`),
    'then retired ones, newest first',
  )
  const { user } = process.cpuUsage(before)
  t.ok(user < 1_500_000, `${user} µs of CPU`)
  const query = `cursor=${String(body['next_cursor'])}&limit=2`
  t.match((await ask('GET', `/api/builder?${query}`, { key })).body, {
    tools: [{ slug: `old-${70_000 - LIMITS.pageDefault + 16}` }, {}],
    next_cursor: String,
  })
  await sql`delete from community_tools where slug like 'old-%'`
})

t.test('the ledger adds up', async () => station.verify())

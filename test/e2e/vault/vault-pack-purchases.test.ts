import t from 'tap'
import { MEMORY_LIFETIME_DAYS } from '../../../domain/memory-decay.ts'
import { fromUsdc } from '../../../core/money.ts'
import { MEMORY_PACK_BUNDLE, MEMORY_PACKS } from '../../../memory/packs/memory-pack-catalogue.ts'
import { countReplies, type TestReply } from '../../support/http/test-http-client.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'

const main = await startInProcessTestStation(t, { STARTER_CREDITS_USDC: '50' })
const beside = await spawnSecondNode(t, main)
const install = (guest: TestAgent, slug: string, on: TestStation = main): Promise<TestReply> =>
  on.ask('POST', '/api/packs/install', { key: guest.key, json: { slug } })
const installed = async (guest: TestAgent) =>
  (await main.ask('GET', '/api/packs/installed', { key: guest.key })).body
const memories = async (guest: TestAgent) =>
  (await main.ask('GET', '/api/vault/export', { key: guest.key })).body['memories'] as {
    namespace: string
    immortal: boolean
  }[]

t.test('a pack contains what it lists: 30 entries for 34.96, or 24.99 as a bundle', async (t) => {
  const [{ body }, market] = await Promise.all([
    main.ask('GET', '/api/packs'),
    main.ask('GET', '/api/marketplace/packs'),
  ])
  t.strictSame(market.body, body)
  const shown = body['packs'] as { slug: string; price_usdc: number; entry_count: number }[]
  t.strictSame(
    shown.map(({ slug, price_usdc, entry_count }) => [slug, price_usdc, entry_count]),
    [
      ['iagent-core', 4.99, 8],
      ['alpha-stim', 9.99, 8],
      ['focus-stack', 4.99, 6],
      ['secret-sauce', 14.99, 8],
    ],
  )
  t.match(body, {
    total_entries: 30,
    bundle: {
      slug: 'full-stack-bundle',
      price_usdc: 24.99,
      entry_count: 30,
      individual_total_usdc: 34.96,
      savings_usdc: 9.97,
      install_endpoint: 'http://gas.test/api/packs/install',
    },
  })
  const sum = MEMORY_PACKS.reduce((all, { price }) => all + price, 0n)
  t.equal(sum - MEMORY_PACK_BUNDLE.price, fromUsdc(9.97))
})

t.test('every entry is actionable, unique and names its source', async (t) => {
  const entries = MEMORY_PACKS.flatMap((pack) => pack.entries)
  t.equal(new Set(entries.map(({ content }) => content)).size, 30)
  for (const { content, source, tags, type, importance } of entries) {
    t.ok(content.length >= 200 && content.length <= 2_000, content.slice(0, 40))
    t.match(source, /https:\/\/|RFC \d+|\((19|20)\d\d\)/, source)
    t.ok(tags.length >= 2 && type in MEMORY_LIFETIME_DAYS && importance > 0.5)
  }
})

t.test('a pack bought twice at once on two nodes is paid for and installed once', async (t) => {
  const guest = await main.onboard()
  const answers = await Promise.all([
    install(guest, 'iagent-core'),
    install(guest, 'iagent-core', beside),
    install(guest, 'iagent-core'),
  ])
  t.strictSame(countReplies(answers), { '200': 1, '409 already_owned': 2 })
  t.equal(await main.balance(guest), 45.01)
  t.match(await install(guest, 'iagent-core'), { status: 409, body: { code: 'already_owned' } })
  t.match(await installed(guest), {
    count: 1,
    installed: [{ slug: 'iagent-core', entries: 8, namespace: 'pack:iagent-core' }],
  })
  const query = '/api/vault/query?q=idempotency+key+after+a+timeout'
  const { body } = await main.ask('GET', query, { key: guest.key })
  t.match(body, {
    memories: [{ namespace: 'pack:iagent-core', immortal: true, source: /datatracker/ }],
  })
})

t.test('the bundle adds missing packs and no duplicates', async (t) => {
  const guest = await main.onboard()
  t.match(await install(guest, 'focus-stack'), { status: 200, body: { entries_added: 6 } })
  t.match(await install(guest, 'full-stack-bundle'), {
    status: 200,
    body: { entries_added: 24, already_owned: ['focus-stack'], _meta: { cost_usdc: 24.99 } },
  })
  t.equal((await memories(guest)).length, 30)
  t.match(await install(guest, 'full-stack-bundle'), { status: 409 })
  t.equal(await main.balance(guest), 20.02)
})

t.test('an agent without credits buys nothing, and unknown packs are not sold', async (t) => {
  const poor = await main.onboard(4.98)
  t.match(await install(poor, 'iagent-core'), { status: 402, body: { price_usdc: 4.99 } })
  t.match(await install(poor, 'constructor'), { status: 404, body: { code: 'pack_not_found' } })
  t.strictSame(await memories(poor), [])
  t.match(await installed(poor), { count: 0 })
  t.equal((await main.ask('POST', '/api/packs/install', { json: { slug: 'x' } })).status, 401)
})

t.test('bought entries cannot be published', async (t) => {
  const [guest, friend] = [await main.onboard(), await main.onboard()]
  await install(guest, 'focus-stack')
  const { body } = await main.ask('GET', '/api/vault/export', { key: guest.key })
  const [{ id }] = body['memories'] as [{ id: string }]
  const share = { entry_id: id, to_agent_id: friend.id }
  const shared = await main.ask('POST', '/api/vault/share', { key: guest.key, json: share })
  t.match(shared, { status: 403, body: { code: 'pack_content' } })
  const promoted = await main.call(guest, 'vault_promote', { memory_id: id })
  t.match(promoted, { status: 403, body: { code: 'pack_content' } })
})

t.test('gas verify finds no difference afterwards', async () => main.verify())

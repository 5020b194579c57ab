import t from 'tap'
import { DAY, createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { countReplies, type TestReply } from '../../support/http/test-http-client.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'

/** The time of this station can be moved on. */
const clock = movable()
const main = await startInProcessTestStation(t, {}, { clock })
const beside = await spawnSecondNode(t, main)

function movable() {
  const clock = createDatabaseAdjustedClock()
  let ahead = 0
  return { ...clock, now: () => clock.now() + ahead, pass: (ms: number) => void (ahead += ms) }
}

interface Kept {
  readonly pack: { readonly id: string }
  readonly superseded: readonly unknown[]
  readonly free_tier_remaining: number
}
type Fields = Record<string, unknown>
const post = (guest: TestAgent, path: string, json: Fields = {}, on: TestStation = main) =>
  on.ask('POST', `/api/vault/${path}`, { key: guest.key, json })
const get = async (guest: TestAgent, path: string) =>
  (await main.ask('GET', `/api/vault/${path}`, { key: guest.key })).body
async function write(guest: TestAgent, content: string, more: Fields = {}): Promise<Kept> {
  const { status, body, text } = await post(guest, 'write', { content, type: 'fact', ...more })
  if (status !== 200) throw new Error(`writing answered ${status}: ${text}`)
  return body as unknown as Kept
}
const found = async (guest: TestAgent, q: string) => {
  const { memories } = await get(guest, `query?q=${encodeURIComponent(q)}`)
  return memories as { id: string; content: string; score: number; similarity: number }[]
}

t.test(
  'a memory is found by its owner only, by content words and despite spelling errors',
  async (t) => {
    const [owner, stranger] = [await main.onboard(), await main.onboard()]
    const { status, body } = await post(owner, 'write', {
      content: 'The staging API of Acme allows 20 requests a second; above that it answers 429.',
      type: 'fact',
      tags: ['limits'],
      importance: 0.9,
    })
    t.match(
      [status, body],
      [
        200,
        {
          pack: { id: String, namespace: 'vault' },
          status: 'stored',
          decay: { strength: 1, lifetime_days: 365, formula: /0\.25 \^ \(age_days \/ 365\)/ },
          free_tier_remaining: 499,
          _meta: { cost_usdc: 0, rail: 'free' },
        },
      ],
    )
    await write(owner, 'Cats sleep sixteen hours a day.')
    t.match(await found(owner, 'request limit of the Acme API'), [{ content: /20 requests/ }])
    t.match(await found(owner, 'requestts'), [{ content: /20 requests/ }])
    t.strictSame(await found(stranger, 'request limit of the Acme API'), [])
    const { id } = body['pack'] as { id: string }
    for (const [path, fields] of [
      ['share', { entry_id: id, to_agent_id: owner.id }],
      ['write', { content: 'mine now', type: 'fact', supersedes: [id] }],
    ] as const)
      t.match(await post(stranger, path, fields), {
        status: 404,
        body: { code: 'memory_not_found' },
      })
    const promoted = await main.call(stranger, 'vault_promote', { memory_id: id })
    t.match(promoted, { status: 404, body: { code: 'memory_not_found' } })
    t.match(await get(stranger, 'export'), { count: 0 })
    t.equal((await main.ask('GET', '/api/vault/export')).status, 401)
    t.match(await get(stranger, 'stats'), {
      queries: 1,
      hits: 0,
      hit_rate: 0,
      knowledge_gaps: [{ query: 'request limit of the acme api', times_asked: 1 }],
    })
    t.match(await get(owner, 'stats'), { queries: 2, hits: 2, top_memories: [{ id, recalls: 2 }] })
  },
)

t.test(
  'a contradicting memory supersedes the old one and reports it; other memories do not',
  async (t) => {
    const guest = await main.onboard()
    const first = await write(guest, 'The request limit of the Foo API is 10 per second.')
    const other = await write(guest, 'The request limit of the Bar API is 30 per second.')
    t.strictSame(other.superseded, [], 'another thing')
    const second = await write(guest, 'The request limit of the Foo API is 20 per second.')
    t.match(second.superseded, [{ id: first.pack.id, reason: 'other_numbers' }])
    t.equal(second.superseded.length, 1)
    const support = await write(guest, 'The Quux bridge supports native withdrawals of USDC.')
    const denial = 'The Quux bridge does not support native withdrawals of USDC.'
    const kept = { keep_contradicted: true }
    const beside = await write(guest, `${denial} Everybody says so.`, kept)
    t.strictSame(beside.superseded, [], 'asked not to')
    const denied = await write(guest, denial)
    t.match(denied.superseded, [{ id: support.pack.id, reason: 'opposite' }])
    for (const [price, on] of [
      ['3000', '2026-11-20'],
      ['3100', '2026-11-21'],
    ]) {
      const dated = await write(guest, `The price of ETH on ${on} was ${price} dollars.`)
      t.strictSame(dated.superseded, [], 'another day')
    }
    t.notMatch(await found(guest, 'request limit Foo API'), [{ content: /is 10 per/ }])
    const { memories } = await get(guest, 'export')
    t.match((memories as Fields[])[0], {
      id: first.pack.id,
      status: 'superseded',
      archived_by: second.pack.id,
    })
    const again = { content: 'x', type: 'fact', supersedes: [first.pack.id] }
    t.match(await post(guest, 'write', again), {
      status: 404,
      body: { heir_id: second.pack.id, detail: `superseded by ${second.pack.id}` },
    })
  },
)

t.test(
  'concurrent writes on two nodes use each free write once, and the rest are charged',
  async (t) => {
    const guest = await main.onboard(0.05)
    const calls = (batch: string) =>
      Array.from({ length: 9 }, (_, at) => ({
        tool: 'vault_write',
        content: `Note number ${at} of batch ${batch} that is written at once.`,
        type: 'context',
        keep_contradicted: true,
      }))
    for (let round = 0; round < 11; round += 1) {
      const batches = await Promise.all(
        Array.from({ length: 5 }, (_, batch) =>
          main.ask('POST', '/api/pipeline', {
            key: guest.key,
            json: { calls: calls(`${round}-${batch}`) },
          }),
        ),
      )
      for (const { body } of batches) t.match(body, { ok: true, total_cost_usdc: 0 })
    }
    const fields = (at: number) => ({
      content: `One more note: ${at}.`,
      type: 'context',
      keep_contradicted: true,
    })
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, at) =>
        post(guest, 'write', fields(at), at % 2 === 0 ? main : beside),
      ),
    )
    const free = answers.filter(({ body }) => body._meta?.cost_usdc === 0)
    const left = free.map(({ body }) => Number(body['free_tier_remaining'])).sort((a, b) => a - b)
    t.strictSame(left, [0, 1, 2, 3, 4])
    t.strictSame(
      countReplies(answers),
      { '200': 10, '402 payment_required': 2 },
      '5 free, 5 for 0.05',
    )
    t.equal(await main.balance(guest), 0)
    t.match(await get(guest, 'stats'), { memories: { live: 505 } })
  },
)

const TOPICS = [
  'Base gas was cheap in the night for batch transfers number',
  'The lending pool on Aave paid more interest in week',
  'The Redis cache of the search service was flushed in sprint',
]
async function fill(guest: TestAgent, count: number, from = 0): Promise<void> {
  for (let at = from; at < from + count; at += 1)
    await write(guest, `${TOPICS[at % TOPICS.length]} ${at}.`, { keep_contradicted: true })
}

t.test(
  'compressing archives its sources and writes summaries in one commit, also concurrently',
  async (t) => {
    const guest = await main.onboard()
    await fill(guest, 4)
    const few = await post(guest, 'compress')
    t.match(few, { status: 422, body: { code: 'not_enough_memories', refunded: true, found: 4 } })
    t.equal(await main.balance(guest), 0.5)
    await fill(guest, 5, 4)
    const answers = await Promise.all([
      post(guest, 'compress'),
      post(guest, 'compress', {}, beside),
    ])
    const won = answers.filter(({ status }) => status === 200)
    const losses = answers.filter(({ status }) => status !== 200)
    t.equal(won.length, 1)
    // The slower one finds the sources archived, before or after it has summarised them.
    for (const { body } of losses) t.match(body.code, /^(vault_changed|not_enough_memories)$/)
    const [{ body }] = won as [TestReply]
    t.match(body, {
      memories_archived: 9,
      method: 'embedded/clusters-1',
      _meta: { cost_usdc: 0.05 },
    })
    const summaries = body['summaries'] as { id: string; content: string; sources: string[] }[]
    t.ok(summaries.length >= 1 && summaries.length <= 5)
    t.equal(new Set(summaries.flatMap(({ sources }) => sources)).size, 9, 'each source in one')
    t.equal(await main.balance(guest), 0.45)
    t.match(await get(guest, 'stats'), { memories: { live: summaries.length, compressed: 9 } })
    const [{ id, sources }] = summaries as [(typeof summaries)[number]]
    const [entry] = sources as [string]
    const other = await main.onboard()
    const gone = { code: 'memory_not_found', memory_id: entry, heir_id: id }
    for (const [path, fields] of [
      ['share', { entry_id: entry.toUpperCase(), to_agent_id: other.id }],
      ['write', { content: 'x', type: 'fact', supersedes: [entry] }],
    ] as const) {
      const { status, body } = await post(guest, path, fields)
      t.match([status, body], [404, gone], path)
      t.match(body['detail'], `compressed into ${id}`)
    }
    const promoted = await main.call(guest, 'vault_promote', { memory_id: entry })
    t.match([promoted.status, promoted.body], [404, gone])
    const foreign = await main.call(other, 'vault_promote', { memory_id: entry })
    t.equal(foreign.status, 404)
    t.notMatch(foreign.text, id, 'not visible to other agents')
    t.equal(await main.balance(guest), 0.45)
  },
)

t.test('a dream summarises the vault and writes insights', async (t) => {
  const guest = await main.onboard()
  await write(guest, 'The Quux bridge supports native withdrawals.')
  await found(guest, 'who audits the reserves')
  t.match(await post(guest, 'dream'), {
    status: 422,
    body: { code: 'not_enough_memories', refunded: true },
  })
  await write(guest, 'The Quux bridge does not support native withdrawals.', {
    keep_contradicted: true,
  })
  // Other things with other numbers are no contradiction, however alike they are written.
  await write(guest, 'The staging API allows 20 requests a second.')
  await write(guest, 'The production API allows 50 requests a second.')
  await fill(guest, 4)
  const { status, body } = await post(guest, 'dream')
  t.match(
    [status, body],
    [
      200,
      {
        dream_report: {
          summary: /^8 memories/,
          contradictions: [{ reason: 'opposite' }],
          knowledge_gaps: [{ query: 'who audits the reserves', times_asked: 1 }],
        },
        memories_analyzed: 8,
        method: 'embedded/clusters-1',
      },
    ],
  )
  const report = body['dream_report'] as Record<
    'patterns' | 'recommended_actions' | 'contradictions',
    unknown[]
  >
  t.equal(report.contradictions.length, 1)
  t.ok(report.patterns.length >= 1 && report.recommended_actions.length >= 2)
  const written = Number(body['insights_written'])
  t.ok(written >= 3 && written <= 7)
  t.match(await get(guest, 'stats'), { memories: { live: 8 + written } })
  t.equal(await main.balance(guest), 0.45)
})

t.test('a dream without new memories is neither charged nor written again', async (t) => {
  const guest = await main.onboard()
  const insightsIn = async () => {
    const { memories } = await get(guest, 'export')
    return (memories as (Fields & { tags: string[] })[]).filter(({ tags }) => tags[0] === 'dream')
  }
  const contents = (insights: unknown) =>
    (insights as { content: string }[]).map((one) => one.content)
  await fill(guest, 6)
  const first = await post(guest, 'dream')
  t.match(first.body, { earlier_dream: null, _meta: { cost_usdc: 0.05 } })
  const written = await insightsIn()
  const callId = first.body._meta?.call_id
  const second = await post(guest, 'dream', {}, beside)
  t.match(second, {
    status: 200,
    body: {
      earlier_dream: { call_id: callId },
      insights_written: 0,
      memories_analyzed: 6,
      dream_report: { summary: new RegExp(`^Nothing is new since the dream of .*${callId}`) },
      _meta: { cost_usdc: 0, waived: new RegExp(`${callId}`) },
    },
  })
  t.same(new Set(contents(second.body['insights'])), new Set(contents(first.body['insights'])))
  t.equal(await main.balance(guest), 0.45)
  t.equal((await insightsIn()).length, written.length)

  const more = await write(guest, `${TOPICS[0]} 60.`, { keep_contradicted: true })
  const racing = [post(guest, 'dream'), post(guest, 'dream', {}, beside)]
  const answers = await Promise.all(racing)
  const paid = answers.filter(({ body }) => body._meta?.cost_usdc === 0.05)
  t.equal(paid.length, 1, 'of two at once one is charged')
  const [third] = paid as [TestReply]
  t.match(third.body, { memories_analyzed: 7, earlier_dream: null })
  const sources = (third.body['insights'] as { sources: string[] }[]).flatMap((one) => one.sources)
  t.ok(sources.includes(more.pack.id), 'it speaks of what is new')
  t.equal(await main.balance(guest), 0.4)
  const all = await insightsIn()
  t.equal(new Set(contents(all)).size, all.length, 'no insight is written twice')
  const grown = all.find(({ status }) => status === 'superseded')
  t.match(grown, { content: /^Recurring \(2 / }, 'a theme that has grown is told in its new size')
})

t.test('recurring topics are not reported as isolated', async (t) => {
  const guest = await main.onboard()
  for (const when of ['on Monday', 'on Tuesday', 'on Friday'])
    await write(guest, `The fees of the Quux bridge rose ${when}.`)
  const { body } = await post(guest, 'dream')
  const said = (body['insights'] as { content: string }[]).map(({ content }) => content)
  t.match(said, [/^Recurring \(3 memories/, /^One of what recurs/, /^One of what recurs/])
})

t.test('a shared memory is unchanged, and a promoted one names its source', async (t) => {
  const [giver, receiver] = [await main.onboard(), await main.onboard()]
  const old = 'The request limit of the Foo API is 10 per second for all keys of a team.'
  const { pack } = await write(giver, old)
  const strange = { entry_id: pack.id, to_agent_id: pack.id }
  t.match(await post(giver, 'share', strange), { status: 404, body: { code: 'agent_not_found' } })
  const given = { entry_id: pack.id, to_agent_id: receiver.id, memo: 'for tonight' }
  t.match(await post(giver, 'share', given), { status: 200, body: { status: 'shared' } })
  const promote = { memory_id: pack.id, namespace: 'code' }
  const both = [1, 2].map(() => main.call(giver, 'vault_promote', promote))
  const answers = (await Promise.all(both)).sort((a, b) => a.status - b.status)
  t.match(answers, [{ status: 200 }, { status: 409, body: { code: 'already_promoted' } }])
  const entry: Record<string, unknown> = answers[0]?.body ?? {}
  t.match(entry, { status: 'promoted', provenance: { memory_id: pack.id, origin: 'write' } })
  t.match(await main.call(giver, 'vault_promote', promote), {
    status: 409,
    body: { code: 'already_promoted' },
  })
  await write(giver, old.replace('10', '20'))
  const { memories } = await get(receiver, 'received')
  t.match(memories, [{ content: old, from_agent_id: giver.id, memo: 'for tonight' }])
  t.strictSame(await found(receiver, 'request limit'), [], 'it is not in the vault of the receiver')
  const { body } = await main.ask('GET', '/api/hive/read?query=request+limit+keys+team')
  t.match(body, { entries: [{ id: entry['entry_id'], content: old, agent_id: null }] })
  t.equal(await main.balance(giver), 0.39)
})

t.test('gas verify finds no difference afterwards', async () => main.verify())

t.test('old memories fade, rank lower and expire by the clock; immortal ones stay', async (t) => {
  const guest = await main.onboard()
  await write(guest, 'Deployments of the gateway.', {
    type: 'context',
  })
  await write(guest, 'Deployments of the gateway need two approvals.', { immortal: true })
  clock.pass(5 * DAY)
  await write(guest, 'Deployments of the gateway are frozen in December.', { type: 'context' })
  const [a, b, c] = await found(guest, 'deployments of the gateway')
  t.match(
    [a, b, c].map((one) => one?.content.split(' ').at(-1)).at(-1),
    'gateway.',
    'the old one is last',
  )
  t.match(c, { decay: { strength: 0.3715, age_days: Number, half_life_days: 3.5 } })
  clock.pass(2 * DAY + 60_000)
  const later = (await found(guest, 'deployments of the gateway')).map(({ content }) => content)
  t.equal(later.length, 2)
  t.notOk(later.some((content) => content.endsWith('gateway.')))
  const { memories } = await get(guest, 'export')
  t.match((memories as Fields[])[0], { status: 'expired' })
})

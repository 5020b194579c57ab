import t from 'tap'
import { DAY } from '../../../core/clock.ts'
import {
  describeMemoryDecay,
  MEMORY_LIFETIME_DAYS,
  MEMORY_TYPES,
} from '../../../domain/memory-decay.ts'
import {
  cosineSimilarity,
  quantizeVector,
  dequantizeVector,
} from '../../../domain/vector-quantization.ts'
import { createRuleBasedTextAnalysis } from '../../../memory/text/text-analysis.ts'
import { compareMemoriesForContradiction } from '../../../tools/memory/vault/memory-text-contradiction.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import { startTestLlmApi, type ChatRequestBody } from '../../support/upstreams/test-llm-api.ts'

t.test(
  'the strength of a memory halves every half-life, and the formula is returned',
  async (t) => {
    const at = Date.UTC(2026, 10, 21)
    for (const type of MEMORY_TYPES) {
      const days = MEMORY_LIFETIME_DAYS[type]
      const after = (share: number) =>
        describeMemoryDecay({ type, immortal: false, at }, at + share * days * DAY)
      t.match(
        [0, 0.5, 1].map((share) => after(share).strength),
        [1, 0.5, 0.25],
        type,
      )
      t.match(after(0), {
        half_life_days: days / 2,
        expires_at: new Date(at + days * DAY).toISOString(),
        formula: `strength = 0.25 ^ (age_days / ${days}); it is forgotten after ${days} days`,
      })
    }
    const immortal = describeMemoryDecay({ type: 'context', immortal: true, at }, at + 9_999 * DAY)
    t.match(immortal, { strength: 1, expires_at: null, half_life_days: null })
  },
)

t.test('a packed vector is equal after unpacking', async (t) => {
  const text = createRuleBasedTextAnalysis()
  const vector = await text.vector('Base settles in seconds and is final with Ethereum.')
  const bytes = dequantizeVector(Buffer.from(quantizeVector(vector).slice(2), 'hex'))
  t.equal(bytes.length, 256)
  t.ok(cosineSimilarity(vector, bytes) > 0.99)
  t.equal(cosineSimilarity(vector, Array<number>(256).fill(0)), 0)
})

t.test('only incompatible statements are contradictions', async (t) => {
  const text = createRuleBasedTextAnalysis()
  const cases: [older: string, newer: string, why: string | null][] = [
    ['The fee of the pool is 30 points.', 'The fee of the pool is 5 points.', 'other_numbers'],
    ['The fee of the pool is 30 points.', 'The fee of the pool is 30 points.', null],
    ['The fee of the v2 pool is 30 points.', 'The fee of the v3 pool is 5 points.', null],
    ['Server 1 has a limit of 10 jobs.', 'Server 2 has a limit of 20 jobs.', null],
    ['The limit of team A is 10 jobs.', 'The limit of team B is 20 jobs.', null],
    ['Base withdrawals take 7 days.', 'Optimism withdrawals take 5 days.', null],
    ['Revenue in Q1 was 10 million.', 'Revenue in Q2 was 12 million.', null],
    [
      'The node answers in March 3 with 10 peers.',
      'The node answers in March 4 with 12 peers.',
      null,
    ],
    [
      'The indexer supports archive queries.',
      'The indexer does not support archive queries.',
      'opposite',
    ],
    ['The indexer supports archive queries.', 'Cats sleep sixteen hours a day.', null],
  ]
  for (const [older, newer, why] of cases)
    t.equal(await compareMemoriesForContradiction(text, older, newer), why, `${older} / ${newer}`)
})

/** Pairs that cannot both hold. */
const CLASHES: readonly (readonly [older: string, newer: string])[] = [
  ['The fee of the pool is 30 points.', 'The fee of the pool is 5 points.'],
  ['The staging API allows 20 requests a second.', 'The staging API allows 50 requests a second.'],
  ['Support answers within 2 hours.', 'Support answers within 24 hours.'],
  ['The API key expires after 30 days.', 'The API key expires after 90 days.'],
  ['The wallet of the treasury holds 12 ETH.', 'The wallet of the treasury holds 40 ETH.'],
  ['The indexer supports archive queries.', 'The indexer does not support archive queries.'],
  ['The token contract is verified.', 'The token contract is not verified.'],
  ['The Foobar bridge is safe to use.', 'The Foobar bridge is unsafe to use.'],
  ['Gas on Base is cheap on weekends.', 'Gas on Base is expensive on weekends.'],
  ['The nightly backup job works.', 'The nightly backup job fails.'],
  ['Withdrawals from the vault are open.', 'Withdrawals from the vault are closed.'],
  ['The search endpoint is free of charge.', 'The search endpoint is not free of charge.'],
  ['Alice approves refunds.', 'Alice never approves refunds.'],
  ['The user likes coffee in the morning.', 'The user does not like coffee in the morning.'],
  ['The client retries 3 times.', 'The client retries 5 times.'],
  ['The database runs on port 5432.', 'The database runs on port 5433.'],
  ['Two-factor login is required for admins.', 'Two-factor login is optional for admins.'],
  [
    'The debug mode of the staging server is enabled.',
    'The debug mode of the staging server is disabled.',
  ],
  ['The cache of the feed lasts 15 seconds.', 'The cache of the feed lasts 60 seconds.'],
  ['Uploads are allowed for guests.', 'Uploads are forbidden for guests.'],
]
/** Pairs that can: other things, other times, the same in other words. */
const NEIGHBOURS: readonly (readonly [older: string, newer: string])[] = [
  [
    'The gateway answers 429 above 20 requests a second.',
    'The gateway answers 503 while it is deployed.',
  ],
  [
    'Invoices are paid within 30 days by the finance team.',
    'Invoices above 1000 dollars need two signatures.',
  ],
  [
    'The staging API allows 20 requests a second.',
    'The production API allows 50 requests a second.',
  ],
  ['Base withdrawals take 7 days.', 'Optimism withdrawals take 5 days.'],
  ['BTC closed at 97,000 on Monday.', 'BTC closed at 98,500 on Tuesday.'],
  ['The Foobar bridge is safe.', 'The Foobar bridge is fast.'],
  ['Python is good for scripts.', 'Python is bad for kernels.'],
  ['The pool is open for deposits.', 'The pool is closed for withdrawals.'],
  ['Never send the key by e-mail.', 'Send the report by e-mail.'],
  ['The user likes tea in the morning.', 'The user does not like coffee in the evening.'],
  ['The meeting with Bob is at 10:00.', 'The meeting with Bob is at 14:00.'],
  ['The build of branch main passed.', 'The build of branch dev failed.'],
  ['Build 112 passed.', 'Build 113 failed.'],
  ['The cron job runs every 5 minutes.', 'The cron job takes 2 minutes.'],
  ['Retry 3 times on 503.', 'Retry 5 times on 429.'],
  ['The API does not support XML.', 'The API does not support YAML.'],
  ['The fee is 0.3 percent.', 'The minimum is 10 dollars.'],
  ['Alice has 2 phones.', 'Bob has 3 phones.'],
  ['Paris is the capital of France.', 'Berlin is the capital of Germany.'],
  ['The deploy takes 5 minutes.', 'The deploy of the frontend takes 2 minutes.'],
  ['The user prefers short answers.', 'The user does not want emojis.'],
  ['The API is fast in Europe.', 'The API is slow in Asia.'],
  ['Order 1001 was shipped with 3 items.', 'Order 1002 was shipped with 5 items.'],
  ['The server has 16 GB of memory.', 'The server has 8 cores.'],
  ['ETH rose 3 percent last week.', 'ETH fell 5 percent this week.'],
  ['Version 1.4 supports webhooks.', 'Version 1.3 does not support webhooks.'],
  ['The limit is 20 requests a second.', 'The limit is 20 requests a second for guests.'],
  ['The pool is open.', 'The pool is not closed.'],
  ['Take the pill before a meal.', 'Take the pill after a meal.'],
  ['The upper door is open.', 'The lower window is closed.'],
  ['The bridge is not safe to use.', 'The bridge is unsafe to use.'],
  ['The CEO of Acme is Ada.', 'The CEO of Acme is Grace.'],
  ['The report has 3 pages.', 'The report has 3 pages and 2 tables.'],
  ['Node 1 holds 12 ETH.', 'Node 2 holds 40 ETH.'],
  ['The wallet held 12 ETH yesterday.', 'The wallet held 40 ETH today.'],
  ['In June the fee was 30 points.', 'In July the fee was 5 points.'],
]

t.test('a dream reports no contradiction between compatible memories', async (t) => {
  const text = createRuleBasedTextAnalysis()
  const alike = async ([one, other]: readonly [string, string]) =>
    cosineSimilarity(await text.vector(one), await text.vector(other)) > 0.5
  for (const pair of CLASHES) {
    t.ok(await alike(pair), 'a dream looks at it')
    t.not(await compareMemoriesForContradiction(text, ...pair), null, pair.join(' / '))
    t.not(
      await compareMemoriesForContradiction(text, pair[1], pair[0]),
      null,
      `the other way: ${pair.join(' / ')}`,
    )
  }
  for (const [older, newer] of NEIGHBOURS) {
    t.equal(await compareMemoriesForContradiction(text, older, newer), null, `${older} / ${newer}`)
    t.equal(await compareMemoriesForContradiction(text, newer, older), null, `${newer} / ${older}`)
  }
})

const NOTES = [
  'The gateway answers 429 above 20 requests a second.',
  'The gateway answers 503 while it is deployed.',
  'The gateway is deployed on Tuesday mornings.',
  'Invoices are paid within 30 days by the finance team.',
  'Invoices above 1000 dollars need two signatures.',
]

t.test('text of a model is used if it fits, else the extractive text', async (t) => {
  const house = await startTestLlmApi(t)
  const main = await startInProcessTestStation(t, { LLM_PROVIDERS: house.providers({ small: {} }) })
  const vault = (guest: TestAgent, path: string, json: object = {}) =>
    main.ask('POST', `/api/vault/${path}`, { key: guest.key, json })
  const filled = async () => {
    const guest = await main.onboard()
    for (const content of NOTES) await vault(guest, 'write', { content, type: 'fact' })
    return guest
  }
  const groupsOf = ({ messages }: ChatRequestBody) =>
    (messages.at(-1)?.content ?? '').split('<group ').length - 1

  await t.test('gives one summary per group', async (t) => {
    house.answer = (body) =>
      JSON.stringify({ summaries: Array.from({ length: groupsOf(body) }, (_, at) => `Sum ${at}`) })
    const { status, body } = await vault(await filled(), 'compress')
    t.match([status, body], [200, { method: 'clusters+llm', summaries: [{ content: 'Sum 0' }] }])
    const prompt = house.requestsByModel['small']?.at(-1)?.body.messages.at(-1)?.content ?? ''
    for (const note of NOTES) t.ok(prompt.includes(note), note)
  })

  await t.test('rejects too few summaries', async (t) => {
    house.answer = () => JSON.stringify({ summaries: [] })
    const { body } = await vault(await filled(), 'compress')
    t.match(body, { method: 'embedded/clusters-1', memories_archived: 5 })
  })

  await t.test('writes the dream, with the sources it names', async (t) => {
    const insight = (content: string, notes: number[]) => ({ content, notes })
    house.answer = () =>
      JSON.stringify({
        summary: 'Operations and money.',
        insights: [insight('one', [1, 2]), insight('two', [3]), insight('three', [80])],
        actions: ['Ask the finance team.'],
      })
    const guest = await filled()
    const { body } = await vault(guest, 'dream')
    t.match(body, {
      method: 'clusters+llm',
      insights_written: 3,
      dream_report: { summary: 'Operations and money.', recommended_actions: [/finance/] },
    })
    const insights = body['insights'] as { sources: string[] }[]
    t.strictSame(
      insights.map(({ sources }) => sources.length),
      [2, 1, 0],
      'a number of no note is left out',
    )
    await vault(guest, 'write', { content: 'The gateway logs to the cold store.', type: 'fact' })
    const { body: later } = await vault(guest, 'dream')
    const said = (later['insights'] as { content: string }[]).map(({ content }) => content)
    t.notOk(said.includes('one'), 'what it says again is not written again')
    t.ok(said.length > 0 && said.every((content) => /^[A-Z]/.test(content)), said.join())
  })

  await t.test('a model that does not answer changes only the method', async (t) => {
    house.behaviours['small'] = '500'
    const guest = await filled()
    t.match((await vault(guest, 'dream')).body, { method: 'embedded/clusters-1' })
    t.match((await vault(guest, 'compress')).body, { method: 'embedded/clusters-1' })
    t.equal(await main.balance(guest), 0.4)
  })

  await t.test(
    'a quote shows remaining lifetime free calls, and a stream uses them too',
    async (t) => {
      const guest = await main.onboard(0.02)
      const fields = { content: 'A note.', type: 'context' }
      const quote = () =>
        main.ask('POST', '/api/quote', { key: guest.key, json: { tool: 'vault_write', ...fields } })
      t.match((await quote()).body, { price_usdc: 0, free_calls_left: 500 })
      const { frames } = await main.ask('POST', '/api/refuel/stream', {
        key: guest.key,
        json: { tool: 'vault-write', ...fields },
      })
      const result = frames.find(({ event }) => event === 'result')?.data
      t.match(result, { status: 'stored', free_tier_remaining: 499 })
      t.match((await quote()).body, { price_usdc: 0, free_calls_left: 499 })
      const bad = await main.call(guest, 'vault_write', { ...fields, type: 'dream' })
      t.match(bad, { status: 400, body: { code: 'invalid_input' } })
      t.match((await quote()).body, { free_calls_left: 499 }, 'what is refused uses none up')
    },
  )

  await t.test('unlisted operations are called by their address', async (t) => {
    const { body } = await main.ask('GET', '/api/tools')
    const slugs = (body['tools'] as { slug: string }[]).map(({ slug }) => slug)
    for (const slug of ['vault_write', 'vault_query', 'vault_compress', 'vault_promote'])
      t.ok(slugs.includes(slug), slug)
    for (const slug of ['vault_dream', 'vault_share', 'pack_install'])
      t.notOk(slugs.includes(slug), slug)
  })

  await t.test('gas verify finds no difference afterwards', async () => main.verify())
})

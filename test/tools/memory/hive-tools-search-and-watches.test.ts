import t from 'tap'
import {
  measureSearchQuality,
  loadSearchQualitySet,
} from '../../../bench/measure-search-quality.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { createHiveVectorIndex } from '../../../memory/hive/hive-vector-index.ts'
import { createHiveVectorStore } from '../../../persistence/hive/hive-vector-store.ts'
import { createEmbeddingsClient } from '../../../providers/embeddings/embeddings-client.ts'
import { createStreamingPostClient } from '../../../providers/upstream/streaming-post-client.ts'
import hiveFeature from '../../../tools/memory/hive-feature.ts'
import hiveWatch from '../../../tools/memory/hive-watch.ts'
import strategyPublish from '../../../tools/intelligence/strategy-publish.ts'
import { createHiveSearchService } from '../../../memory/hive/hive-search-and-trends.ts'
import { createHiveStore } from '../../../persistence/hive/hive-store.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import { startTestEmbeddingsApi } from '../../support/upstreams/test-embeddings-api.ts'
import {
  TEST_AUTHOR_AGENT_ID,
  TOOL_CALL_ID,
  createRecordingToolContext,
  createManualClock,
  TEST_READER_AGENT_ID,
  awaitRejectionDetails,
} from '../../support/tools/test-tool-context.ts'

t.test('entries are found by meaning with a provider of vectors, by words without', async (t) => {
  const { sql } = await createTestDatabase(t)
  const house = await startTestEmbeddingsApi(t)
  const postClient = createStreamingPostClient('test')
  t.teardown(() => postClient.close())
  const embeddings = createEmbeddingsClient({
    url: `${house.url}/`,
    model: 'm',
    key: null,
    postClient,
  })
  const going = new AbortController().signal
  const vectors = createHiveVectorIndex(createHiveVectorStore(sql), embeddings)
  const clock = createManualClock()
  const hive = createHiveSearchService(createHiveStore(sql), clock, vectors)
  const texts = {
    loan: 'Liquidations begin when the health factor of a position falls below one.',
    cost: 'Fees fall on weekends, when fewer transactions compete for space in blocks.',
    secret: 'My own collateral is seized at a factor that I will not tell anybody else.',
  }
  for (const [name, content] of Object.entries(texts)) {
    const id = `018f2f6e-7c1a-7b3a-9c55-00000000000${Object.keys(texts).indexOf(name)}`
    await sql`insert into hive_entries (id, agent_id, content, namespace, tags, confidence, is_public, call_id, at)
      values (${id}, ${TEST_AUTHOR_AGENT_ID}, ${content}, 'defi', '{}', 0.8, ${name !== 'secret'}, ${id}, ${new Date(clock.now())})`
  }
  const search = async (text: string, namespace: string | null = null) => {
    const asked = {
      text,
      namespace,
      minConfidence: 0,
      limit: 5,
      agentId: TEST_READER_AGENT_ID,
      reader: TEST_READER_AGENT_ID,
    }
    const { entries } = await hive.search({ ...asked, at: clock.now() })
    return entries.map(({ content }) => content)
  }
  const synonyms = 'when is my collateral seized'
  t.notOk((await search(synonyms)).includes(texts.loan), 'no word of it is there')
  t.equal(await vectors.learn(going), false, 'all of them at once')
  t.strictSame((await search(synonyms))[0], texts.loan)
  t.notOk((await search(synonyms)).includes(texts.secret), 'what is private stays it')
  t.strictSame(await search(synonyms, 'nft'), [], 'a namespace narrows it')
  const asked = house.asked
  t.equal(await vectors.learn(going), false)
  t.equal(house.asked, asked, 'nothing is asked twice')
  for (const mood of ['down', 'drift'] as const) {
    house.mood = mood
    t.strictSame(await search('health factor position'), [texts.loan], `${mood}: words are left`)
  }
  const { code } = await awaitRejectionDetails(embeddings.embed(['x'], AbortSignal.timeout(8_000)))
  t.equal(code, 'upstream_schema')
})

t.test('a text rejected by the provider does not block the vectors of others', async (t) => {
  const { sql } = await createTestDatabase(t)
  const house = await startTestEmbeddingsApi(t)
  const postClient = createStreamingPostClient('test')
  t.teardown(() => postClient.close())
  const embeddings = createEmbeddingsClient({ url: house.url, model: 'm', key: null, postClient })
  const vectors = createHiveVectorIndex(createHiveVectorStore(sql), embeddings)
  const going = new AbortController().signal
  for (const [at, content] of ['fees of a day', 'a poison', 'gas at night'].entries())
    await sql`insert into hive_entries (id, agent_id, content, namespace, tags, confidence, is_public, call_id, at)
      values (${newUuidV7(at)}, ${TEST_AUTHOR_AGENT_ID}, ${content}, 'defi', '{}', 0.8, true, ${TOOL_CALL_ID}, ${new Date(at)})`
  house.mood = 'strict'
  t.equal((await awaitRejectionDetails(vectors.learn(going))).code, 'upstream_error')
  t.strictSame([...(await sql`select from hive_vectors`)], [], 'who refuses all is not believed')
  house.mood = 'ok'
  t.equal(await vectors.learn(going), false)
  const near = { text: 'costs', namespace: null, minConfidence: 0, limit: 5 }
  t.equal((await vectors.nearest(near))?.length, 2)
  const { asked } = house
  t.equal(await vectors.learn(going), false)
  t.equal(house.asked, asked, 'what was refused is not asked again')
  await t.rejects(
    createHiveVectorIndex(createHiveVectorStore(sql), { ...embeddings, model: 'n' }).learn(
      AbortSignal.abort(),
    ),
  )
})

t.test('vectors are compared in slices, with other work between them', async (t) => {
  const { sql } = await createTestDatabase(t)
  await sql`insert into hive_entries (id, agent_id, content, namespace, tags, confidence, is_public, call_id, at)
    select gen_random_uuid(), ${TEST_AUTHOR_AGENT_ID}, 'x', 'defi', '{}', 0.8, true, ${TOOL_CALL_ID}, now() from generate_series(1, 3500)`
  await sql`insert into hive_vectors (entry_id, model, vector) select id, 'm', '{1,0}' from hive_entries`
  const embed = async () => [Float32Array.from([1, 0])]
  const vectors = createHiveVectorIndex(createHiveVectorStore(sql), { model: 'm', embed })
  await vectors.learn(new AbortController().signal)
  let turns = 0
  let done = false
  const tick = () => {
    turns += 1
    if (!done) setImmediate(tick)
  }
  setImmediate(tick)
  const ids = await vectors.nearest({ text: 'x', namespace: null, minConfidence: 0, limit: 5 })
  done = true
  t.equal(ids?.length, 5)
  t.ok(turns >= 2, `${turns} turns`)
})

t.test('by words alone eight of ten labelled questions find their answers', async (t) => {
  const { sql } = await createTestDatabase(t)
  const hive = createHiveSearchService(createHiveStore(sql), createManualClock())
  const set = loadSearchQualitySet('hive-quality')
  if (set === null) throw new Error('the labelled set is missing')
  const rows = set.entries.map(({ content, namespace }, at) => ({
    id: newUuidV7(1_000 + at),
    agent_id: TEST_AUTHOR_AGENT_ID,
    content,
    namespace,
    tags: [],
    confidence: 0.8,
    is_public: true,
    call_id: TOOL_CALL_ID,
    at: new Date(1_000),
    ghost: false,
  }))
  await sql`insert into hive_entries select r.* from
    jsonb_populate_recordset(null::hive_entries, ${JSON.stringify(rows)}::text::jsonb) r`
  const labels = new Map(set.entries.map(({ content, id }) => [content, id]))
  const about = {
    namespace: null,
    minConfidence: 0,
    limit: 10,
    agentId: null,
    reader: 'x',
    at: 2_000,
  }
  const { recallAt5, mrr, misses } = await measureSearchQuality(set, async (text) => {
    const { entries } = await hive.search({ ...about, text })
    return entries.map(({ content }) => labels.get(content) ?? '')
  })
  // Others say the same in other words (docs/hive.md): `npm run bench` prints the figures.
  t.ok(recallAt5 >= 0.8 && mrr >= 0.68, `recall@5 ${recallAt5}, MRR ${mrr}: ${misses.join()}`)
})

t.test('a common word does not hide a rare one', async (t) => {
  const { sql } = await createTestDatabase(t)
  const hive = createHiveSearchService(createHiveStore(sql), createManualClock())
  const texts = Array.from(
    { length: 8 },
    (_, at) => `Gas of the network is low today, as ${at} days ago.`,
  )
  const rare = 'Gas of a paymaster is paid by whoever sponsors the call of a wallet.'
  for (const [at, content] of [...texts, rare].entries()) {
    await sql`insert into hive_entries (id, agent_id, content, namespace, tags, confidence, is_public, call_id, at)
      values (${newUuidV7(at)}, ${TEST_AUTHOR_AGENT_ID}, ${content}, 'base', '{}', 0.8, true, ${TOOL_CALL_ID}, ${new Date(1_000 - at)})`
  }
  const about = {
    namespace: null,
    minConfidence: 0,
    limit: 3,
    agentId: null,
    reader: 'x',
    at: 2_000,
  }
  const { entries } = await hive.search({ ...about, text: 'which network gas paymaster works' })
  t.equal(entries[0]?.content, rare)
})

t.test('an invalid watch is rejected with its field before a charge', async (t) => {
  const hiveBoard = {
    isWatchable: async (keyword: string) => keyword !== 'the',
    hasWatch: async () => false,
  }
  const { context: given } = createRecordingToolContext({ hiveBoard: hiveBoard as never })
  const refused = (input: object) =>
    awaitRejectionDetails(Promise.resolve(hiveWatch.preflight?.(input as never, given)))
  t.match(await refused({ action: 'subscribe' }), { errors: [{ pointer: '/keyword' }] })
  t.match(await refused({ action: 'subscribe', keyword: 'the' }), { code: 'invalid_input' })
  t.match(await refused({ action: 'unsubscribe' }), { errors: [{ pointer: '/watch_id' }] })
  t.match(await refused({ action: 'matches', watch_id: TEST_READER_AGENT_ID }), {
    code: 'watch_not_found',
  })
  t.match(await refused({ action: 'list' }), { code: 'not refused' })
})

t.test('a late request for the featured place returns the time when it is free', async (t) => {
  const clock = createManualClock()
  const entry = { id: TEST_READER_AGENT_ID, agentId: TEST_AUTHOR_AGENT_ID, isPublic: true }
  const hiveBoard = {
    entry: async () => entry,
    featureFreeAt: async () => null,
    takeFeature: async () => clock.now() + 60_000,
  }
  const { context: given, recorded } = createRecordingToolContext({
    clock,
    hiveBoard: hiveBoard as never,
  })
  await hiveFeature.preflight?.({ entry_id: TEST_READER_AGENT_ID }, given)
  t.match(await awaitRejectionDetails(hiveFeature.run({ entry_id: TEST_READER_AGENT_ID }, given)), {
    code: 'feature_taken',
    free_at: '2026-11-21T10:01:00.000Z',
    retry_after: 60,
  })
  t.strictSame(recorded.rows, [])
})

t.test('the fields of a strategy may be wrapped, its own params among them', async (t) => {
  const lifted = (body: Record<string, unknown>) => strategyPublish.normalise?.(body)
  const own = { title: 'x', description: 'y', params: { a: 1 } }
  t.strictSame(lifted(own), own)
  t.strictSame(lifted({ params: { ...own, tool: 'z' } }), { ...own, strategy_tool: 'z' })
  t.strictSame(lifted({ title: 'x' }), { title: 'x' })
})

import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { createDatabaseAdjustedClock } from '../../core/clock.ts'
import { quantizeVector } from '../../domain/vector-quantization.ts'
import { createHiveVectorIndex } from '../../memory/hive/hive-vector-index.ts'
import { createRuleBasedTextAnalysis } from '../../memory/text/text-analysis.ts'
import { createVaultRecallAndStatsService } from '../../memory/vault/memory-vault-service.ts'
import { createHiveVectorStore } from '../../persistence/hive/hive-vector-store.ts'
import type { Sql } from '../../persistence/postgres/postgres-connection-pool.ts'
import { createVaultStore } from '../../persistence/vault/vault-store.ts'
import { createEmbeddingsClient } from '../../providers/embeddings/embeddings-client.ts'
import { createStreamingPostClient } from '../../providers/upstream/streaming-post-client.ts'
import { startFakeEmbeddingsServer } from '../local-embeddings-server.ts'
import {
  createBenchHiveSearcher,
  insertBenchHiveEntries,
  withBenchDatabase,
} from './hive-search-benchmark.ts'
import {
  measureSearchQuality,
  loadSearchQualitySet,
  type SearchQualitySet,
} from '../measure-search-quality.ts'
import { createBenchmarkReportRow, type BenchmarkRow } from '../benchmark-result-row.ts'

/** Benchmarks the recall of Hive and vault search over one labelled set. */

const OWNER = '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4d'

/** Measures searches by words and with vectors. */
export async function benchmarkSearchRecall(): Promise<BenchmarkRow[]> {
  const set = loadSearchQualitySet('hive-quality')
  if (set === null) throw new Error('test/fixtures/hive-quality.json is missing')
  return withBenchDatabase(async (sql) => {
    await insertBenchHiveEntries(sql, set.entries)
    const hive = await qualityRow(
      set,
      'hive search by words',
      contentsOf(createBenchHiveSearcher(sql)),
    )
    const near = await withVectors(set, sql)
    return [hive, near, await vaultRow(set, sql)]
  })
}

type Contents = (query: string) => Promise<readonly { content: string }[]>
const contentsOf = (search: Contents) => async (query: string) =>
  (await search(query)).map(({ content }) => content)

/** The same with vectors from `EMBEDDINGS_URL`, or from a local provider. */
async function withVectors(set: SearchQualitySet, sql: Sql): Promise<BenchmarkRow> {
  const { EMBEDDINGS_URL: given, EMBEDDINGS_MODEL: named = 'nomic-embed-text' } = process.env
  const local = given === undefined ? await startFakeEmbeddingsServer() : null
  const postClient = createStreamingPostClient('bench')
  try {
    const [url, model] = [local?.url ?? given ?? '', local?.model ?? named]
    const key = process.env['EMBEDDINGS_API_KEY'] ?? null
    const vectors = createHiveVectorIndex(
      createHiveVectorStore(sql),
      createEmbeddingsClient({ url, model, key, postClient }),
    )
    const going = new AbortController().signal
    while (await vectors.learn(going));
    const how = `hive search with ${model} of ${local === null ? 'EMBEDDINGS_URL' : 'a local provider'}`
    return await qualityRow(set, how, contentsOf(createBenchHiveSearcher(sql, vectors)))
  } finally {
    await postClient.close()
    await local?.stop()
  }
}

/** The same texts as memories of one agent. */
async function vaultRow(set: SearchQualitySet, sql: Sql): Promise<BenchmarkRow> {
  const text = createRuleBasedTextAnalysis()
  const at = createDatabaseAdjustedClock().now()
  const memories = await Promise.all(
    set.entries.map(async ({ content, namespace }) => ({
      id: newUuidV7(at),
      agent_id: OWNER,
      content,
      type: 'fact',
      tags: [],
      importance: 0.5,
      immortal: false,
      namespace,
      origin: {},
      vector: quantizeVector(await text.vector(content)),
      expires_at: null,
      call_id: OWNER,
      at: new Date(at),
    })),
  )
  await sql`insert into vault_memories select r.* from
    jsonb_populate_recordset(null::vault_memories, ${JSON.stringify(memories)}::text::jsonb) r`
  const vault = createVaultRecallAndStatsService(createVaultStore(sql))
  const asked = { agentId: OWNER, type: null, tag: null, limit: 10, at }
  return qualityRow(set, 'vault search by words and trigrams', async (query) => {
    const vector = await text.vector(query)
    return (await vault.recall({ ...asked, text: query, vector })).map((one) => one.memory.content)
  })
}

async function qualityRow(
  set: SearchQualitySet,
  how: string,
  search: (query: string) => Promise<readonly string[]>,
): Promise<BenchmarkRow> {
  const labels = new Map(set.entries.map(({ content, id }) => [content, id]))
  const { recallAt5, halves, mrr, misses } = await measureSearchQuality(set, async (query) =>
    (await search(query)).map((content) => labels.get(content) ?? ''),
  )
  return createBenchmarkReportRow({
    what: `${how}, labelled set of ${set.entries.length} entries: recall@5`,
    measured: `recall@5 ${recallAt5.toFixed(3)} (halves ${halves.map((one) => one.toFixed(3)).join(' and ')}), MRR ${mrr.toFixed(3)}`,
    baseline: misses.length === 0 ? '' : `missed: ${misses.join('; ')}`,
    result: recallAt5.toFixed(3),
    target: '>= 0.9',
    met: recallAt5 >= 0.9,
    n: `${set.queries.length} questions`,
  })
}

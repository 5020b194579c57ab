import { newId } from '../core/ids.ts'
import { systemClock } from '../core/clock.ts'
import { packed } from '../core/packed.ts'
import { createVectors } from '../memory/hive-vectors.ts'
import { createText } from '../memory/text/text.ts'
import { createVault } from '../memory/vault.ts'
import { vectorStore } from '../persistence/hive-vectors.ts'
import type { Sql } from '../persistence/postgres/connect.ts'
import { vaultStore } from '../persistence/vault.ts'
import { createEmbeddings } from '../tools/embeddings/embeddings.ts'
import { createPosting } from '../tools/upstream/posting.ts'
import { startEmbeddings } from './embeddings.ts'
import { searcher, store, withDatabase } from './hive.ts'
import { qualityOf, qualitySet, type QualitySet } from './quality.ts'
import { row, type Row } from './rows.ts'

const OWNER = '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4d'

/** What searches of the hive and of a vault find of what they should, over one labelled set. */
export async function searchRows(): Promise<Row[]> {
  const set = qualitySet('hive-quality')
  if (set === null) throw new Error('test/fixtures/hive-quality.json is missing')
  return withDatabase(async (sql) => {
    await store(sql, set.entries)
    const hive = await qualityRow(set, 'hive search by words', contentsOf(searcher(sql)))
    const near = await withVectors(set, sql)
    return [hive, near, await vaultRow(set, sql)]
  })
}

type Contents = (query: string) => Promise<readonly { content: string }[]>
const contentsOf = (search: Contents) => async (query: string) =>
  (await search(query)).map(({ content }) => content)

/** The same with vectors: of `EMBEDDINGS_URL`, else of a provider that is started here. */
async function withVectors(set: QualitySet, sql: Sql): Promise<Row> {
  const { EMBEDDINGS_URL: given, EMBEDDINGS_MODEL: named = 'nomic-embed-text' } = process.env
  const local = given === undefined ? await startEmbeddings() : null
  const posting = createPosting('bench')
  try {
    const [url, model] = [local?.url ?? given ?? '', local?.model ?? named]
    const key = process.env['EMBEDDINGS_API_KEY'] ?? null
    const vectors = createVectors(vectorStore(sql), createEmbeddings({ url, model, key, posting }))
    const going = new AbortController().signal
    while (await vectors.learn(going));
    const how = `hive search with ${model} of ${local === null ? 'EMBEDDINGS_URL' : 'a local provider'}`
    return await qualityRow(set, how, contentsOf(searcher(sql, vectors)))
  } finally {
    await posting.close()
    await local?.stop()
  }
}

/** The same texts as the memories of one agent. */
async function vaultRow(set: QualitySet, sql: Sql): Promise<Row> {
  const text = createText()
  const at = systemClock().now()
  const memories = await Promise.all(
    set.entries.map(async ({ content, namespace }) => ({
      id: newId(at),
      agent_id: OWNER,
      content,
      type: 'fact',
      tags: [],
      importance: 0.5,
      immortal: false,
      namespace,
      origin: {},
      vector: packed(await text.vector(content)),
      expires_at: null,
      call_id: OWNER,
      at: new Date(at),
    })),
  )
  await sql`insert into vault_memories select r.* from
    jsonb_populate_recordset(null::vault_memories, ${JSON.stringify(memories)}::text::jsonb) r`
  const vault = createVault(vaultStore(sql))
  const asked = { agentId: OWNER, type: null, tag: null, limit: 10, at }
  return qualityRow(set, 'vault search by words and trigrams', async (query) => {
    const vector = await text.vector(query)
    return (await vault.recall({ ...asked, text: query, vector })).map((one) => one.memory.content)
  })
}

async function qualityRow(
  set: QualitySet,
  how: string,
  search: (query: string) => Promise<readonly string[]>,
): Promise<Row> {
  const labels = new Map(set.entries.map(({ content, id }) => [content, id]))
  const { recallAt5, halves, mrr, misses } = await qualityOf(set, async (query) =>
    (await search(query)).map((content) => labels.get(content) ?? ''),
  )
  return row({
    what: `${how}, labelled set of ${set.entries.length} entries: recall@5`,
    measured: `recall@5 ${recallAt5.toFixed(3)} (halves ${halves.map((one) => one.toFixed(3)).join(' and ')}), MRR ${mrr.toFixed(3)}`,
    baseline: misses.length === 0 ? '' : `missed: ${misses.join('; ')}`,
    result: recallAt5.toFixed(3),
    target: '>= 0.9',
    met: recallAt5 >= 0.9,
    n: `${set.queries.length} questions`,
  })
}

import t from 'tap'
import type { Test } from 'tap'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { quantizeVector } from '../../../domain/vector-quantization.ts'
import { createHiveSearchService } from '../../../memory/hive/hive-search-and-trends.ts'
import { createRuleBasedTextAnalysis } from '../../../memory/text/text-analysis.ts'
import { createVaultRecallAndStatsService } from '../../../memory/vault/memory-vault-service.ts'
import { createHiveStore } from '../../../persistence/hive/hive-store.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { createVaultStore } from '../../../persistence/vault/vault-store.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import {
  TEST_AUTHOR_AGENT_ID,
  TOOL_CALL_ID,
  createManualClock,
} from '../../support/tools/test-tool-context.ts'

type Vectors = Parameters<typeof createHiveSearchService>[2]
const NOBODY = { namespace: null, minConfidence: 0, agentId: null }

async function writeTo(sql: Sql, contents: readonly string[]): Promise<string[]> {
  const ids = contents.map((_, at) => newUuidV7(1_000 + at))
  for (const [at, content] of contents.entries())
    await sql`insert into hive_entries (id, agent_id, content, namespace, tags, confidence, is_public, call_id, at)
      values (${ids[at] ?? ''}, ${TEST_AUTHOR_AGENT_ID}, ${content}, 'base', '{}', 0.8, true, ${TOOL_CALL_ID}, ${new Date(1_000 + at)})`
  return ids
}

/** A Hive with these entries; returns the results of a query, best first. */
async function hiveOf(t: Test, contents: readonly string[]) {
  const { sql } = await createTestDatabase(t)
  const ids = await writeTo(sql, contents)
  const search = (vectors: Vectors) => async (text: string) => {
    const hive = createHiveSearchService(createHiveStore(sql), createManualClock(), vectors)
    const { entries } = await hive.search({ ...NOBODY, text, limit: 10, reader: 'x', at: 2_000 })
    return entries.map(({ content }) => content)
  }
  return { sql, ids, find: search(null), findWith: search }
}

t.test('a name is found by its parts, and written together or apart', async (t) => {
  const cases: Record<string, readonly string[]> = {
    'The feed of ETH/USD moves each hour.': ['usd feed', 'eth', 'ETH/USD'],
    'EIP-7702 lets an account run code.': ['eip 7702', 'EIP7702', 'eip-7702'],
    'ERC1271 says who signed for a contract.': ['ERC-1271', 'erc 1271'],
    'Phishing pages ask for setApprovalForAll.': ['approval for all', 'setapprovalforall'],
    'Node.js keeps sockets alive.': ['node sockets', 'node.js'],
    'Send no e-mail on Sundays.': ['email', 'e-mail'],
    'A burst of 5,000 requests was refused.': ['5000 requests'],
    'A stablecoin of euros is thin.': ['stable coin'],
    'A flash loan is repaid at once.': ['flashloan'],
    'We optimise the order of calls.': ['optimize'],
  }
  const { find } = await hiveOf(t, Object.keys(cases))
  for (const [content, texts] of Object.entries(cases))
    for (const text of texts) t.equal((await find(text))[0], content, text)
})

t.test('a misspelt word matches the intended one and no other', async (t) => {
  const { find } = await hiveOf(t, [
    'The planner of routes prefers deep pools.',
    'Withdrawals wait for the exit of a validator.',
  ])
  t.match(await find('plannr'), [/^The planner/])
  t.match(await find('withdravels'), [/^Withdrawals/], 'two slips in a long word')
  t.strictSame(await find('plane'), [], 'a word of its own')
})

t.test('synonyms match after the word itself', async (t) => {
  const [literal, spelt, other] = [
    'A tx without a tip waits for hours.',
    'A transaction without a tip waits for days.',
    'Regular expressions with nested stars take for ever.',
  ] as const
  const { find } = await hiveOf(t, [spelt, literal, other, 'Bread rises overnight in the cold.'])
  t.strictSame(await find('tx hammering'), [literal, spelt])
  t.strictSame(await find('which regex hangs'), [other])
  t.strictSame((await find('how was the bread risen'))[0], 'Bread rises overnight in the cold.')
})

t.test('question words weigh less than the subject', async (t) => {
  const about = 'A paymaster sponsors gas for the calls of a wallet, within the budget of its app.'
  const { find } = await hiveOf(t, [about, 'You need a ladder.', 'A wallet has gas.'])
  t.equal((await find('do i need a paymaster'))[0], about)
})

t.test('a rare word without matches does not hide matches of common words', async (t) => {
  const { sql } = await hiveOf(t, ['Gas and fees of blobs', 'Gas alone', 'Blobs and fees alone'])
  const frequencies = { entries: 100_000, shares: new Map([['gas', 0.5], ['fee', 0.4], ['blob', 0.3]]) } // prettier-ignore
  const asked = { ...NOBODY, reader: 'x', day: '2026-11-21', candidates: 5, frequencies }
  const found = await createHiveStore(sql).search({ ...asked, text: 'hammering gas fees blobs' })
  t.match(found.candidates, [{ content: /^Gas and fees/ }, { content: /^Blobs and fees/ }])
  t.equal(found.candidates.length, 2, 'two of the rarest at least')
})

t.test('a clear match by words ranks above weak matches in both orders', async (t) => {
  const clear = 'Guardians of the bridge sign observations by thirteen of nineteen keys.'
  const faint = Array.from({ length: 6 }, (_, at) => `A bridge of kind ${at} waits.`)
  const meaning = 'Validators attest what they saw.'
  const { ids, findWith } = await hiveOf(t, [clear, ...faint, meaning])
  const [, ...others] = ids
  const near = [others.at(-1), ...others.slice(0, -1)].map((id, at) => ({ id: id ?? '', cosine: at === 0 ? 0.9 : 0.5 - at / 50 })) // prettier-ignore
  const find = findWith({ nearest: () => Promise.resolve(near) })
  const found = await find('which guardians sign observations of a bridge')
  t.equal(found[0], clear)
  t.ok(found.slice(0, 5).includes(meaning), 'what only vectors know is there')
})

t.test('a vault weighs rare words more and knows synonyms', async (t) => {
  const { sql } = await createTestDatabase(t)
  const [text, vault] = [
    createRuleBasedTextAnalysis(),
    createVaultRecallAndStatsService(createVaultStore(sql)),
  ]
  const contents = [
    'The limit of the staging API is low today.',
    'The limit of the search API is low on Sundays.',
    'The limit of the price API is low at noon.',
    'Rotate the password of Grafana each month.',
    'The database moves to Postgres 18 in May.',
  ]
  for (const content of contents)
    await sql`insert into vault_memories (id, agent_id, content, type, tags, importance, immortal, namespace,
        origin, vector, call_id, at) values (${newUuidV7(1)}, ${TEST_AUTHOR_AGENT_ID}, ${content}, 'fact', '{}', 0.5, false,
        'vault', '{}', ${quantizeVector(await text.vector(content))}::text::bytea, ${TOOL_CALL_ID}, ${new Date(1_000)})`
  const find = async (asked: string) => {
    const question = {
      agentId: TEST_AUTHOR_AGENT_ID,
      type: null,
      tag: null,
      limit: 5,
      at: 2_000,
      text: asked,
    }
    const found = await vault.recall({ ...question, vector: await text.vector(asked) })
    return found.map(({ memory }) => memory.content)
  }
  t.match((await find('limit of Grafana'))[0], /Grafana/)
  t.match((await find('creds of grafana'))[0], /Grafana/)
  t.match(await find('db version'), [/^The database/])
  t.match(await find('credential'), [/^Rotate/])
  t.strictSame(await find('zebra'), [])
})

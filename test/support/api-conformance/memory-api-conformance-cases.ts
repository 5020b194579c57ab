import type { ApiConformanceCase } from './api-conformance-case.ts'
import type { ApiConformanceStation } from './start-api-conformance-station.ts'

/** Specified operations of the Hive, the vault and packs. */

const PACK = 'slug name tagline price_usdc entry_count category tags best_for install_endpoint'
const packFields = (at: string): string =>
  PACK.split(' ')
    .map((field) => `${at}.${field}`)
    .join(' ')
const PACKS = `${packFields('packs[]')} ${packFields('bundle')}`
const BUNDLE = { bundle: { slug: 'full-stack-bundle', price_usdc: 24.99, savings_usdc: 9.97 } }
const ENTRY = 'id content confidence namespace agent_id created_at'
const ENTRIES = ENTRY.split(' ')
  .map((field) => `entries[].${field}`)
  .join(' ')
const GAS = 'Gas on Base is cheapest on weekend mornings, so batch what can wait until then.'

const remember =
  (word: string) =>
  async ({ post }: ApiConformanceStation): Promise<void> => {
    for (const at of ['first', 'second', 'third', 'fourth', 'fifth', 'sixth', 'seventh'])
      await post('/api/vault/write', {
        content: `The ${at} ${word} of the staging API is written down in the ${at} chapter.`,
        type: 'fact',
      })
  }

export const MEMORY_API_CONFORMANCE_CASES: readonly ApiConformanceCase[] = [
  {
    at: 'POST /api/hive/write',
    as: 'mate',
    body: { content: GAS, namespace: 'base', tags: ['gas'], confidence: 0.9, is_public: true },
    status: 201,
    fields: 'id namespace royalty_per_read_usdc status created_at',
    match: { royalty_per_read_usdc: 0.02 },
  },
  {
    at: 'GET /api/hive/read',
    path: '/api/hive/read?query=gas&domain=base',
    fields: `${ENTRIES} total query`,
  },
  {
    at: 'GET /api/hive/stats',
    fields:
      'total_entries public_entries total_reads avg_quality domains[].domain domains[].description domains[].entry_count featured_entries',
    match: { domains: { length: 9 } },
  },
  { at: 'GET /api/hive/public', path: '/api/hive/public?q=gas', fields: ENTRIES },
  { at: 'GET /api/hive/digest', fields: 'entries[].id entries[].featured' },
  {
    at: 'POST /api/vault/write',
    body: {
      ...{ content: 'The gateway deploys on Tuesdays.', type: 'skill' },
      ...{ tags: ['x'], importance: 0.9, immortal: true },
    },
    fields: 'pack.id status decay free_tier_remaining',
    keeps: { memory: 'pack.id' },
  },
  {
    at: 'GET /api/vault/query',
    path: '/api/vault/query?q=gateway',
    fields: 'memories[].content memories[].similarity memories[].importance _meta.cost_usdc',
    match: { _meta: { cost_usdc: 0 } },
  },
  { at: 'GET /api/vault/stats', fields: 'hit_rate confidence top_memories[].content' },
  { at: 'GET /api/vault/export', fields: 'memories[].content' },
  {
    at: 'POST /api/vault/compress',
    before: remember('limit'),
    fields: 'summaries[].content _meta.cost_usdc',
    match: { _meta: { cost_usdc: 0.05 } },
  },
  {
    at: 'POST /api/vault/dream',
    before: remember('address'),
    fields:
      'dream_report.summary dream_report.contradictions dream_report.patterns dream_report.recommended_actions dream_report.knowledge_gaps insights_written memories_analyzed',
    match: { _meta: { cost_usdc: 0.05 } },
  },
  {
    at: 'POST /api/vault/share',
    body: ({ ids, mate }) => ({ entry_id: ids['memory'], to_agent_id: mate.id, memo: 'x' }),
    fields: 'entry_id to_agent_id',
    match: { _meta: { cost_usdc: 0.01 } },
  },
  { at: 'GET /api/vault/received', as: 'mate', fields: 'memories[].content' },
  { at: 'GET /api/packs', fields: PACKS, match: BUNDLE },
  { at: 'GET /api/marketplace/packs', fields: PACKS, match: BUNDLE },
  {
    at: 'POST /api/packs/install',
    body: { slug: 'focus-stack' },
    fields: 'slug entries_added _meta.cost_usdc',
    match: { _meta: { cost_usdc: 4.99 } },
  },
  { at: 'GET /api/packs/installed', fields: 'installed[].slug' },
  {
    at: 'POST /api/marketplace/list',
    as: 'mate',
    before: async ({ post, mate, ids }) => {
      const note = { content: 'Fees of four weeks, by hour and day.', type: 'insight' }
      const { pack } = await post('/api/vault/write', note, mate)
      ids['forSale'] = (pack as { id: string }).id
    },
    body: ({ ids }) => ({
      name: 'Fees',
      description: 'Fees by hour.',
      entry_ids: [ids['forSale']],
      price_usdc: 0.1,
      accepts_promo: true,
    }),
    fields: 'pack_id price_usdc',
    keeps: { listing: 'pack_id' },
  },
  { at: 'GET /api/marketplace', fields: 'listings[].pack_id listings[].price_usdc' },
  {
    at: 'POST /api/marketplace/buy/{pack_id}',
    path: ({ ids }) => `/api/marketplace/buy/${ids['listing']}`,
    fields: 'pack_id price_usdc',
  },
]

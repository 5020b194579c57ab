import t from 'tap'
import { rankToolRecommendations } from '../../tools/intelligence/planner/rank-tool-recommendations.ts'
import type { CatalogueEntry } from '../../tools/tool-ports.ts'

/** Recommendations weigh how well a tool fits by how well its calls went. */

const entry = (slug: string, calls: number | null, rate: number | null): CatalogueEntry =>
  ({
    slug,
    price_usdc: 0.01,
    access: 'paid',
    success_rate: rate,
    ...(calls === null ? {} : { quality: { calls, success_rate: rate, p50_ms: 120 } }),
  }) as CatalogueEntry
const entries = [
  entry('new', 0, null),
  entry('bad', 100, 0.55),
  entry('good', 100, 0.99),
  entry('once', 1, 0),
  entry('native', null, 0.5),
]

t.test('of tools that fit alike, the ones whose calls succeed come first', async (t) => {
  const together = entries.map(({ slug }) => ({ tool: 'mine', other: slug, agents: 50, of: 50 }))
  const found = rankToolRecommendations(['mine'], together, [], entries)
  t.strictSame(
    found.map(({ tool, confidence, success_rate: rate }) => [tool, confidence, rate]),
    [
      ['new', 1, null],
      ['good', 0.99, 0.99],
      ['once', 0.91, 0],
      ['bad', 0.59, 0.55],
      ['native', 0.5, 0.5],
    ],
  )
  const reasonOf = (slug: string) => found.find(({ tool }) => tool === slug)?.reason
  t.match(reasonOf('good'), /it too\. Of 100 calls 99 % succeeded, half of them within 120 ms\.$/)
  t.match(reasonOf('new'), /it too\.$/)
})

t.test('a worse fit with better calls may come first', async (t) => {
  const found = rankToolRecommendations([], [], ['bad', 'good'], entries)
  t.strictSame(
    found.map(({ tool }) => tool),
    ['good', 'bad'],
  )
})

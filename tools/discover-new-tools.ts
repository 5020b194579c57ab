import Type from 'typebox'
import { ZERO } from '../core/money.ts'
import { SAID } from '../core/said.ts'
import { defineTool } from './define.ts'
import type { CatalogueRevision, OfferChange } from './news/port.ts'
import { demandSince, instant, newRevisions, SinceFields } from './news/since.ts'
import type { CatalogueEntry } from './ports.ts'

const STANDARD = 20
const FITTING = 5
const Text = Type.String()
const Revision = Type.Integer({ minimum: 0 })

type Dated = OfferChange & Pick<CatalogueRevision, 'revision' | 'at'>

/**
 * The last word on each tool, the newest first: what was added and changed since was added, what was
 * removed and came back was changed, what was added and removed again is no news.
 */
function lastWords(revisions: readonly CatalogueRevision[]): Dated[] {
  const news = new Map<string, Dated>()
  for (const { revision, at, changes } of revisions.toReversed()) {
    for (const change of changes) {
      const before = news.get(change.slug)
      news.delete(change.slug)
      const merged = before === undefined ? change : joined(before, change)
      if (merged !== null) news.set(change.slug, { ...merged, revision, at })
    }
  }
  return [...news.values()].toReversed()
}

function joined(before: OfferChange, after: OfferChange): OfferChange | null {
  if (after.change === 'removed') return before.change === 'added' ? null : after
  if (before.change === 'added') return { ...after, change: 'added', fields: [] }
  const fields = [...new Set([...before.fields, ...after.fields])]
  return { ...after, change: 'changed', fields }
}

const shown = (entry: CatalogueEntry) => ({
  slug: entry.slug,
  name: entry.name,
  category: entry.category,
  description: entry.description,
  access: entry.access,
  price_usdc: entry.price_usdc,
  docs_url: entry.docs_url,
})
const Shown = {
  slug: Text,
  name: Text,
  category: Text,
  description: Text,
  access: Text,
  price_usdc: Type.Number(),
  docs_url: Text,
}
const When = { revision: Revision, at: Type.String({ format: 'date-time' }) }

export default defineTool({
  slug: 'discover_new_tools',
  name: 'Discover New Tools',
  category: 'intelligence',
  description:
    'Which tools were added, changed or removed since a day or since the catalogue revision you know, and which ones serve an interest you name.',
  tags: ['discovery', 'beacon', 'tools'],
  useCases: ['Find tools you do not know yet', 'Notice that a price or a schema has changed'],
  examples: [{}, { since_revision: 0, interest: 'Read the price of a token' }],
  access: 'free',
  price: ZERO,
  effect: 'none',
  timeoutMs: 5_000,
  input: Type.Object(
    {
      ...SinceFields,
      interest: Type.Optional(
        Type.String({
          minLength: 3,
          maxLength: 500,
          pattern: SAID,
          description: 'What you want to do.',
        }),
      ),
      category: Type.Optional(Type.String({ minLength: 1, maxLength: 32, pattern: SAID })),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: STANDARD })),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    revision: Revision,
    version: Text,
    added: Type.Array(Type.Object({ ...Shown, ...When })),
    changed: Type.Array(Type.Object({ ...Shown, ...When, fields: Type.Array(Text) })),
    removed: Type.Array(Type.Object({ slug: Text, ...When })),
    more: Type.Boolean({ description: 'There is more news than the limit let through.' }),
    fitting: Type.Array(Type.Object(Shown), { description: 'For the interest, best first.' }),
  }),
  preflight: (input) => demandSince(input),
  async run({ interest, category, limit = STANDARD, ...since }, { news, catalogue, planner }) {
    const latest = await news.latest()
    const bySlug = new Map(catalogue.entries().map((entry) => [entry.slug, entry]))
    const wanted = (slug: string) =>
      category === undefined || bySlug.get(slug)?.category === category
    const words = lastWords(await newRevisions(news, latest, since)).filter(
      ({ slug, change }) => wanted(slug) && bySlug.has(slug) === (change !== 'removed'),
    )
    const told = words.slice(0, limit).map(({ slug, change, fields, revision, at }) => ({
      change,
      entry: bySlug.get(slug),
      slug,
      fields: [...fields],
      when: { revision, at: instant(at) },
    }))
    const listed = (kind: OfferChange['change']) =>
      told.flatMap(({ change, entry, fields, when }) =>
        change === kind && entry !== undefined ? [{ ...shown(entry), ...when, fields }] : [],
      )
    const fitting = interest === undefined ? [] : await planner.toolsFor(interest, FITTING)
    return {
      revision: latest.revision,
      version: news.version,
      added: listed('added').map(({ fields: _none, ...tool }) => tool),
      changed: listed('changed'),
      removed: told.flatMap(({ change, slug, when }) =>
        change === 'removed' ? [{ slug, ...when }] : [],
      ),
      more: words.length > limit,
      fitting: fitting.flatMap((slug) => {
        const entry = bySlug.get(slug)
        return entry === undefined || !wanted(slug) ? [] : [shown(entry)]
      }),
    }
  },
})

import Type from 'typebox'
import { ZERO_MICROS } from '../../core/money.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool } from '../define-tool.ts'
import type { CatalogueToolChange } from '../../domain/tool-catalogue-diff.ts'
import type { CatalogueRevision } from '../../domain/tool-catalogue-diff.ts'
import {
  assertSinceOrRevisionNotBoth,
  toIsoTimestampFromMs,
  listNewCatalogueRevisions,
  UpdatesSinceFields,
} from './station-updates/station-updates-since.ts'
import type { CatalogueEntry } from '../tool-ports.ts'

/** The tool `discover-new-tools`: changes of the catalogue. */

const DEFAULT_LIMIT = 20
const MAX_FITTING_TOOLS = 5
const Text = Type.String()
const Revision = Type.Integer({ minimum: 0 })

type DatedToolChange = CatalogueToolChange & Pick<CatalogueRevision, 'revision' | 'at'>

/**
 * Merges the changes per tool, newest first: added then changed is added, removed then added is changed,
 * added then removed is omitted.
 */
function latestChangePerTool(revisions: readonly CatalogueRevision[]): DatedToolChange[] {
  const news = new Map<string, DatedToolChange>()
  for (const { revision, at, changes } of revisions.toReversed()) {
    for (const change of changes) {
      const before = news.get(change.slug)
      news.delete(change.slug)
      const merged = before === undefined ? change : mergeChanges(before, change)
      if (merged !== null) news.set(change.slug, { ...merged, revision, at })
    }
  }
  return [...news.values()].toReversed()
}

function mergeChanges(
  before: CatalogueToolChange,
  after: CatalogueToolChange,
): CatalogueToolChange | null {
  if (after.change === 'removed') return before.change === 'added' ? null : after
  if (before.change === 'added') return { ...after, change: 'added', fields: [] }
  const fields = [...new Set([...before.fields, ...after.fields])]
  return { ...after, change: 'changed', fields }
}

const toToolSummary = (entry: CatalogueEntry) => ({
  slug: entry.slug,
  name: entry.name,
  category: entry.category,
  description: entry.description,
  access: entry.access,
  price_usdc: entry.price_usdc,
  docs_url: entry.docs_url,
})
const TOOL_SUMMARY_FIELDS = {
  slug: Text,
  name: Text,
  category: Text,
  description: Text,
  access: Text,
  price_usdc: Type.Number(),
  docs_url: Text,
}
const REVISION_FIELDS = { revision: Revision, at: Type.String({ format: 'date-time' }) }

export default defineTool({
  slug: 'discover_new_tools',
  name: 'Discover New Tools',
  category: 'intelligence',
  description:
    'Lists the tools that were added, changed or removed since a day or a catalogue revision you know, and the tools that match an interest.',
  tags: ['discovery', 'beacon', 'tools'],
  useCases: ['Find tools you do not know yet', 'Notice that a price or a schema has changed'],
  examples: [{}, { since_revision: 0, interest: 'Read the price of a token' }],
  access: 'free',
  price: ZERO_MICROS,
  effect: 'none',
  timeoutMs: 5_000,
  input: Type.Object(
    {
      ...UpdatesSinceFields,
      interest: Type.Optional(
        Type.String({
          minLength: 3,
          maxLength: 500,
          pattern: NOT_BLANK_PATTERN,
          description: 'Your goal.',
        }),
      ),
      category: Type.Optional(
        Type.String({ minLength: 1, maxLength: 32, pattern: NOT_BLANK_PATTERN }),
      ),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: DEFAULT_LIMIT })),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    revision: Revision,
    version: Text,
    added: Type.Array(Type.Object({ ...TOOL_SUMMARY_FIELDS, ...REVISION_FIELDS })),
    changed: Type.Array(
      Type.Object({ ...TOOL_SUMMARY_FIELDS, ...REVISION_FIELDS, fields: Type.Array(Text) }),
    ),
    removed: Type.Array(Type.Object({ slug: Text, ...REVISION_FIELDS })),
    more: Type.Boolean({ description: 'More changes exist than the limit allows.' }),
    fitting: Type.Array(Type.Object(TOOL_SUMMARY_FIELDS), {
      description: 'For the interest, best first.',
    }),
  }),
  preflight: (input) => assertSinceOrRevisionNotBoth(input),
  async run({ interest, category, limit = DEFAULT_LIMIT, ...since }, { news, catalogue, planner }) {
    const latest = await news.latestRevision()
    const bySlug = new Map(catalogue.entries().map((entry) => [entry.slug, entry]))
    const wanted = (slug: string) =>
      category === undefined || bySlug.get(slug)?.category === category
    const words = latestChangePerTool(await listNewCatalogueRevisions(news, latest, since)).filter(
      ({ slug, change }) => wanted(slug) && bySlug.has(slug) === (change !== 'removed'),
    )
    const entries = words.slice(0, limit).map(({ slug, change, fields, revision, at }) => ({
      change,
      entry: bySlug.get(slug),
      slug,
      fields: [...fields],
      when: { revision, at: toIsoTimestampFromMs(at) },
    }))
    const listed = (kind: CatalogueToolChange['change']) =>
      entries.flatMap(({ change, entry, fields, when }) =>
        change === kind && entry !== undefined
          ? [{ ...toToolSummary(entry), ...when, fields }]
          : [],
      )
    const fitting =
      interest === undefined ? [] : await planner.toolsFor(interest, MAX_FITTING_TOOLS)
    return {
      revision: latest.revision,
      version: news.version,
      added: listed('added').map(({ fields: _none, ...tool }) => tool),
      changed: listed('changed'),
      removed: entries.flatMap(({ change, slug, when }) =>
        change === 'removed' ? [{ slug, ...when }] : [],
      ),
      more: words.length > limit,
      fitting: fitting.flatMap((slug) => {
        const entry = bySlug.get(slug)
        return entry === undefined || !wanted(slug) ? [] : [toToolSummary(entry)]
      }),
    }
  },
})

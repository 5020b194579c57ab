/** The public properties of a tool that are compared between revisions. */
export interface ComparedCatalogueToolProperties {
  readonly slug: string
  readonly name: string
  readonly category: string
  readonly access: string
  /** USDC. */
  readonly price_usdc: number
  /**
   * What follows the free calls, as text. Without their number: it is a setting of each node, and
   * different nodes would alternately record changes.
   */
  readonly free_tier: string
  readonly description: string
  /** Hashes of its schemas. */
  readonly input: string
  readonly output: string
}

export interface CatalogueToolChange {
  readonly slug: string
  readonly change: 'added' | 'changed' | 'removed'
  /** Changed properties of a changed tool. */
  readonly fields: readonly string[]
}

export interface CatalogueRevision {
  /** Starts at 1, without gaps. */
  readonly revision: number
  /** Milliseconds. */
  readonly at: number
  readonly version: string
  readonly changes: readonly CatalogueToolChange[]
}

const COMPARED_FIELDS = [
  'name',
  'category',
  'access',
  'price_usdc',
  'free_tier',
  'description',
  'input',
  'output',
] as const

/** Changes between two catalogues, by slug; empty without changes. */
export function diffCatalogues(
  before: readonly ComparedCatalogueToolProperties[],
  after: readonly ComparedCatalogueToolProperties[],
): CatalogueToolChange[] {
  const [old, now] = [before, after].map((all) => new Map(all.map((one) => [one.slug, one])))
  const changes = after.flatMap((tool): CatalogueToolChange[] => {
    const was = old?.get(tool.slug)
    if (was === undefined) return [{ slug: tool.slug, change: 'added', fields: [] }]
    const fields = COMPARED_FIELDS.filter((name) => was[name] !== tool[name])
    return fields.length === 0 ? [] : [{ slug: tool.slug, change: 'changed', fields }]
  })
  const gone = before.filter(({ slug }) => now?.has(slug) !== true)
  return [
    ...changes,
    ...gone.map(({ slug }): CatalogueToolChange => ({ slug, change: 'removed', fields: [] })),
  ]
}

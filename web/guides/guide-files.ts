import { readFileSync } from 'node:fs'
import { findInPackage, readStaticFiles, type StaticFile } from '../static-files.ts'

/** The guides: Markdown files of the package, with their addresses, titles and order. */

export interface Guide {
  /** The last part of its address, `/docs/{slug}`. */
  readonly slug: string
  readonly title: string
  /** Its first paragraph, without marks. */
  readonly about: string
  readonly markdown: string
}

export interface GuideGroup {
  readonly title: string
  readonly guides: readonly Guide[]
}

interface GuideFiles {
  readonly groups: readonly GuideGroup[]
  readonly bySlug: ReadonlyMap<string, Guide>
  readonly images: ReadonlyMap<string, StaticFile>
}

/** Documents outside `docs/` that are guides as well: file -> slug. */
const OTHER_FILES: Readonly<Record<string, string>> = {
  'README.md': 'readme',
  'ARCHITECTURE.md': 'architecture',
  'CONTRIBUTING.md': 'contributing',
  'SECURITY.md': 'security',
  'CHANGELOG.md': 'changelog',
  'sdk/README.md': 'sdk',
}
/** The tables of the code; the address `/docs/reference` is the API reference. */
const TABLES = 'reference.md'
const TABLES_SLUG = 'tables'

/** In the order of reading; a guide that is not named here is in the last group. */
const GROUPS: readonly { readonly title: string; readonly slugs: readonly string[] }[] = [
  { title: 'Begin', slugs: ['quickstart', 'sdk', 'mcp', 'cli', 'demo'] },
  {
    title: 'Call and pay',
    slugs: [
      'tables',
      'keys',
      'owner',
      'limits',
      'conventions',
      'statement',
      'realtime',
      'webhooks',
    ],
  },
  {
    title: 'What agents use',
    slugs: ['schedules', 'hive', 'vault', 'crews', 'sandbox', 'browser', 'pages', 'public'],
  },
  {
    title: 'Operate',
    slugs: ['readme', 'configuration', 'inspector', 'retention', 'performance', 'security'],
  },
]
const REST = 'How it is built'

let files: GuideFiles | undefined

export const listGuideGroups = (): readonly GuideGroup[] => readGuides().groups

export const findGuide = (slug: string): Guide | null => readGuides().bySlug.get(slug) ?? null

/** An image by its path below `docs/`. */
export const findGuideImage = (path: string): StaticFile | null =>
  readGuides().images.get(path) ?? null

/** The slug of the guide that a link in a document leads to; null for files that are no guides. */
export function toGuideSlug(target: string): string | null {
  const path = target.replace(/^(\.\.?\/)+/, '')
  if (path === TABLES) return TABLES_SLUG
  const other = OTHER_FILES[path]
  if (other !== undefined) return other
  return /^[\w-]+\.md$/.test(path) ? path.slice(0, -3) : null
}

function readGuides(): GuideFiles {
  if (files !== undefined) return files
  const documents = readStaticFiles(findInPackage('docs'))
  const bySlug = new Map<string, Guide>()
  for (const [path, { body }] of documents)
    if (/^[\w-]+\.md$/.test(path)) addGuide(bySlug, toGuideSlug(path), body.toString('utf8'))
  for (const [path, slug] of Object.entries(OTHER_FILES)) {
    const found = findInPackage(path)
    if (found !== null) addGuide(bySlug, slug, readFileSync(found, 'utf8'))
  }
  const images = new Map([...documents].filter(([path]) => path.endsWith('.webp')))
  files = { bySlug, groups: toGroups(bySlug), images }
  return files
}

function addGuide(guides: Map<string, Guide>, slug: string | null, markdown: string): void {
  if (slug === null) return
  const [, title = slug] = /^# (.+)$/m.exec(markdown) ?? []
  const [, first = ''] = /^# .+\n+([A-Z`][^]*?)(?:\n\n|$)/.exec(markdown) ?? []
  const about = toPlainText(first.replace(/\s+/g, ' ').replace(/([.:]) .*$/, '$1'))
  guides.set(slug, { slug, title: toPlainText(title), about, markdown })
}

const toPlainText = (markdown: string): string =>
  markdown.replace(/\[([^\]]+)\]\([^)]*\)/g, '$1').replace(/[`*]/g, '')

function toGroups(bySlug: ReadonlyMap<string, Guide>): GuideGroup[] {
  const named = GROUPS.map(({ title, slugs }) => ({
    title,
    guides: slugs.flatMap((slug) => bySlug.get(slug) ?? []),
  }))
  const placed = new Set(GROUPS.flatMap(({ slugs }) => slugs))
  const rest = [...bySlug.values()].filter(({ slug }) => !placed.has(slug))
  rest.sort((one, other) => one.slug.localeCompare(other.slug))
  return [...named, { title: REST, guides: rest }].filter(({ guides }) => guides.length > 0)
}

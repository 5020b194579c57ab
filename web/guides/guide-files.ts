import { readFileSync } from 'node:fs'
import { findFileOrFolderInPackage, readStaticFiles, type StaticFile } from '../static-files.ts'

/** The guides: Markdown files of the package, with their addresses, titles and order. */

export interface Guide {
  /** The last part of its address, `/docs/{slug}`. */
  readonly slug: string
  readonly title: string
  /** A sentence; of a guide without one the first of its text, without marks. */
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

/** The guides in the order of reading, each with what it is about; one that is not named here comes last. */
const GROUPS: readonly {
  readonly title: string
  readonly guides: Readonly<Record<string, string>>
}[] = [
  {
    title: 'Begin',
    guides: {
      quickstart: 'From an empty folder to a paid call, in TypeScript, Python, MCP and curl.',
      sdk: 'The client library: typed tools, budgets, safe retries, streams and payments.',
      mcp: 'Every tool over the Model Context Protocol, with the settings of common clients.',
      cli: 'The command gas: every verb with its options and examples.',
      demo: 'What agents do in a day: the output of a run on local chains.',
    },
  },
  {
    title: 'Call and pay',
    guides: {
      tables: 'Every endpoint, tool and error code in tables.',
      conventions: 'Keys, errors, idempotency, paging, amounts and versions.',
      credits: 'Where credits come from, what they pay, and how every movement is booked.',
      'task-passes': 'Calls in bundles: what a pass pays, and until when.',
      limits: 'Sizes, counts, rates, and what each field accepts.',
      statement: 'Every movement of the credits, every call, and its receipt.',
      attestations: 'The public, signed tree of fees, and how anybody checks it.',
    },
  },
  {
    title: 'For owners',
    guides: {
      owner: 'The page that shows what agents spend, sets their limits, and stops them.',
      keys: 'Keys with scopes and caps, Backpacks with fuses, and freezing an agent.',
      webhooks: 'Signed events to your server, with retries and replays.',
    },
  },
  {
    title: 'What agents use',
    guides: {
      hive: 'The memory that agents share: reading, writing, royalties and watches.',
      vault: 'The private memory of an agent: writing, searching, compressing and sharing it.',
      crews: 'Several tools as one purchase, refunded in full when a stage fails.',
      schedules: 'Tools that run at intervals, each run within its budget.',
      realtime: 'Signals, messages and streams over SSE and WebSocket.',
      pages: 'What agent_see returns of a page, and what may be meant to mislead a machine.',
      browser: 'How agent_act fills in and submits pages, and how its browser is isolated.',
      sandbox: 'What code_sandbox runs, and what its programs cannot reach.',
      public: 'What the station shows without a key, and how its figures and tiers are computed.',
    },
  },
  {
    title: 'Sell and buy',
    guides: {
      'community-tools': 'Sell a tool of your own: registration, prices, quality and payment.',
      import: 'Sell an OpenAPI document or an MCP server as priced tools, in one command.',
      marketplace: 'Sell copies of memories to other agents, and buy theirs.',
      'x402-registry': 'The list of pay-per-call APIs, with prices from probes.',
    },
  },
  {
    title: 'Operate',
    guides: {
      readme: 'What the station is, how it starts, and what it guarantees.',
      configuration: 'Every setting, with its default.',
      inspector: 'Every state machine live and back in time, for operators.',
      retention: 'What is stored, for how long, and what deletes it.',
      performance: 'What a call costs in time and memory, measured.',
      security: 'How to report a fault, and what the service promises.',
    },
  },
  {
    title: 'How it is built',
    guides: {
      architecture: 'Layers, actors, and the path of a call and of a payment.',
      machines: 'The chart of every state machine.',
      decisions: 'What was decided where the interface leaves a choice, and why.',
      proofs: 'Each guarantee with the run that shows it.',
      contributing: 'Commands, tests and rules for changes.',
      changelog: 'What changed in each version.',
    },
  },
]
const REST = 'More'

let files: GuideFiles | undefined

export const listGuideGroups = (): readonly GuideGroup[] => readGuides().groups

export const findGuide = (slug: string): Guide | null => readGuides().bySlug.get(slug) ?? null

/** An image by its path below `docs/`. */
export const findGuideImage = (path: string): StaticFile | null =>
  readGuides().images.get(path) ?? null

/** The slug of the guide that a link in a document leads to; null for files that are no guides. */
export function findLinkedGuideSlug(target: string): string | null {
  const path = target.replace(/^(\.\.?\/)+/, '').replace(/^docs\//, '')
  if (path === TABLES) return TABLES_SLUG
  const other = OTHER_FILES[path]
  if (other !== undefined) return other
  return /^[\w-]+\.md$/.test(path) ? path.slice(0, -3) : null
}

function readGuides(): GuideFiles {
  if (files !== undefined) return files
  const documents = readStaticFiles(findFileOrFolderInPackage('docs'))
  const bySlug = new Map<string, Guide>()
  for (const [path, { body }] of documents)
    if (/^[\w-]+\.md$/.test(path))
      addGuide(bySlug, findLinkedGuideSlug(path), body.toString('utf8'))
  for (const [path, slug] of Object.entries(OTHER_FILES)) {
    const found = findFileOrFolderInPackage(path)
    if (found !== null) addGuide(bySlug, slug, readFileSync(found, 'utf8'))
  }
  const images = new Map([...documents].filter(([path]) => path.endsWith('.webp')))
  files = { bySlug, groups: toGroups(bySlug), images }
  return files
}

function addGuide(guides: Map<string, Guide>, slug: string | null, markdown: string): void {
  if (slug === null) return
  const [, title = slug] = /^# (.+)$/m.exec(markdown) ?? []
  const about = GROUPS.find(({ guides: named }) => slug in named)?.guides[slug] ?? firstOf(markdown)
  guides.set(slug, { slug, title: toPlainText(title), about, markdown })
}

function firstOf(markdown: string): string {
  const [, first = ''] = /^# .+\n+([A-Z`][^]*?)(?:\n\n|$)/.exec(markdown) ?? []
  return toPlainText(first.replace(/\s+/g, ' ').replace(/([.:]) .*$/, '$1'))
}

const toPlainText = (markdown: string): string =>
  markdown.replace(/\[([^\]]+)\]\([^)]*\)/g, '$1').replace(/[`*]/g, '')

function toGroups(bySlug: ReadonlyMap<string, Guide>): GuideGroup[] {
  const groups = GROUPS.map(({ title, guides }) => ({
    title,
    guides: Object.keys(guides).flatMap((slug) => bySlug.get(slug) ?? []),
  }))
  const rest = [...bySlug.values()].filter(
    ({ slug }) => !GROUPS.some(({ guides }) => slug in guides),
  )
  rest.sort((one, other) => one.slug.localeCompare(other.slug))
  return [...groups, { title: REST, guides: rest }].filter(({ guides }) => guides.length > 0)
}

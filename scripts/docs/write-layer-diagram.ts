import { execFileSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { listTypeScriptSources } from '../build/esbuild-options.ts'
import { writeGeneratedSection } from './write-generated-docs.ts'
import { REPOSITORY_ROOT } from '../repository-root.ts'

/** Writes the layer chart of ARCHITECTURE.md from the imports that dependency-cruiser resolves. */

/** Name suffix of the rules in `.dependency-cruiser.cjs` that limit the imports of one folder. */
const RULE_SUFFIX = ' imports only its line'
const TESTS_RULE = 'the service does not import its tests or tools'
/** The top layer has no rule: it may import every folder. */
const TOP = 'app'

interface Rule {
  readonly name: string
  readonly to: { readonly path?: string }
}
interface CruiseResult {
  readonly modules: readonly {
    readonly source: string
    readonly dependencies: readonly { readonly resolved: string }[]
  }[]
  readonly summary: {
    readonly violations: readonly {
      readonly from: string
      readonly to: string
      readonly rule: { readonly name: string }
    }[]
  }
}

const { forbidden } = createRequire(import.meta.url)('../../.dependency-cruiser.cjs') as {
  forbidden: readonly Rule[]
}
const ladder = forbidden.flatMap(({ name }) =>
  name.endsWith(RULE_SUFFIX) ? [name.slice(0, -RULE_SUFFIX.length)] : [],
)
const folderOf = (path: string): string =>
  path.includes('/') ? path.slice(0, path.indexOf('/')) : ''

/** Throws when the rules and the source folders differ. */
function assertSameFolders(): void {
  const outside = new RegExp(forbidden.find(({ name }) => name === TESTS_RULE)?.to.path ?? '^$')
  const present = new Set(listTypeScriptSources('.').map(folderOf))
  const strangers = [...present].filter(
    (folder) => folder !== TOP && !ladder.includes(folder) && !outside.test(`${folder}/`),
  )
  const absent = ladder.filter((folder) => !present.has(folder))
  if (strangers.length > 0) throw new Error(`the rule has no line for ${strangers.join(', ')}`)
  if (absent.length > 0)
    throw new Error(`the rule has a line without sources: ${absent.join(', ')}`)
}

/** Resolved imports of the layers, with violations. */
function cruise(): CruiseResult {
  const program = join(REPOSITORY_ROOT, 'node_modules/dependency-cruiser/bin/dependency-cruise.mjs')
  const options = ['--config', '.dependency-cruiser.cjs', '--output-type', 'json']
  const output = execFileSync(process.execPath, [program, ...options, ...ladder], {
    cwd: REPOSITORY_ROOT,
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  })
  return JSON.parse(output) as CruiseResult
}

assertSameFolders()
const { modules, summary } = cruise()
const broken = summary.violations.filter(({ rule }) => rule.name.endsWith(RULE_SUFFIX))
if (broken.length > 0) {
  const arrows = broken.map(({ from, to }) => `${from} -> ${to}`)
  throw new Error(`the rule does not allow: ${arrows.join(', ')}`)
}

/** Layers that a folder imports, in layer order. */
function importedFolders(folder: string): string[] {
  const resolved = modules
    .filter(({ source }) => folderOf(source) === folder)
    .flatMap(({ dependencies }) => dependencies.map((one) => folderOf(one.resolved)))
  return ladder.filter((other) => other !== folder && resolved.includes(other))
}

const arrows = ladder.flatMap((folder) => {
  const imported = importedFolders(folder)
  return imported.length === 0 ? [] : [`  ${folder} --> ${imported.join(' & ')}`]
})
const chart = ['```mermaid', 'graph TD', ...arrows, '```', '', `\`${TOP}\` composes all of them.`]
writeGeneratedSection('ARCHITECTURE.md', 'layers', chart.join('\n'))

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'
import t from 'tap'
import { ERROR_DEFINITIONS } from '../core/errors.ts'
import { REPOSITORY_ROOT } from '../scripts/repository-root.ts'

const read = (path: string) => readFileSync(join(REPOSITORY_ROOT, path), 'utf8')

/** All files of the repository by their paths from its root; generated and installed ones are not. */
const files = walk(REPOSITORY_ROOT).map((path) => relative(REPOSITORY_ROOT, path))
const sources = files.filter((path) => path.endsWith('.ts'))
const documents = files.filter((path) => path.endsWith('.md'))
/** The sources of the service, without tests, tools and its client. */
const served = sources.filter((path) => !/^(test|bench|scripts|chaos|examples|sdk)\//.test(path))

function walk(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (entry.name.startsWith('.') || ['node_modules', 'dist', 'coverage'].includes(entry.name)) {
      return []
    }
    const path = join(folder, entry.name)
    return entry.isDirectory() ? walk(path) : [path]
  })
}

/** Lines of code, without comments, which may name forbidden patterns. */
const code = (text: string) => text.split('\n').filter((line) => !/^\s*(\/\*|\*|\/\/)/.test(line))

interface Rule {
  readonly name: string
  readonly pattern: RegExp
  /** Where it may stand all the same. */
  readonly home: RegExp
  /** Lines the pattern must catch, or the rule guards nothing. */
  readonly breaches: readonly string[]
}

const rules: readonly Rule[] = [
  {
    name: 'SQL lives in persistence/',
    pattern: /\b(sql|tx)(<.+>)?`|\.unsafe\(|\b(insert into|delete from|select .+ from .+ where)\b/i,
    home: /^persistence\//,
    breaches: [
      'await sql`select 1`',
      'await tx<Row[]>`',
      'sql.unsafe(text)',
      'insert into calls values',
      'select id from agents where id = 1',
    ],
  },
  {
    name: 'process.env is read in app/config.ts',
    pattern: /process\.env\b|import .*\benv\b.* from 'node:process'/,
    home: /^app\/config\.ts$/,
    breaches: ['process.env.PORT', "import { env } from 'node:process'"],
  },
  {
    name: 'time and chance come from core/',
    pattern: /\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(|\bMath\.random\(|\bhrtime\b/,
    home: /^core\//,
    breaches: [
      'Date.now()',
      'new Date()',
      'performance.now()',
      'Math.random()',
      'process.hrtime()',
    ],
  },
  {
    name: 'the console belongs to app/',
    pattern: /\bconsole\.|process\.std(out|err)\b/,
    home: /^app\//,
    breaches: ['console.log(1)', 'process.stdout.write("x")'],
  },
  {
    name: 'requests to the outside go through providers/egress/',
    pattern:
      /(?<![.\w])fetch\(|globalThis\.fetch\b|from 'undici'|import (?!type|\{ STATUS_CODES \})[^\n]* from 'node:https?'/,
    // The node of a chain is the operator's choice.
    home: /^((providers\/(egress|upstream)|app)\/|chain\/evm\/evm-client\.ts)/,
    breaches: [
      'await fetch(url)',
      "import { Agent } from 'undici'",
      "import { get } from 'node:https'",
    ],
  },
  {
    name: 'a default export is a tool',
    pattern: /^export default\b|\bas default\b/,
    home: /^tools\/[\w-]+\/[\w-]+\.ts$/,
    breaches: ['export default defineTool({', 'export { start as default }'],
  },
]

for (const { name, pattern, home, breaches } of rules) {
  t.test(name, async (t) => {
    for (const breach of breaches) t.match(breach, pattern, `catches ${breach}`)
    const others = served.filter((path) => !home.test(path))
    t.ok(others.length > 0)
    const breaking = (path: string) => code(read(path)).filter((line) => pattern.test(line))
    t.strictSame(
      others.flatMap((path) => breaking(path).map((line) => `${path}: ${line}`)),
      [],
    )
  })
}

t.test('no file is longer than 400 lines', async (t) => {
  const scripts = files.filter((path) => /^web\/(inspector|assets)\/.*\.js$/.test(path))
  t.ok(scripts.length > 10)
  t.strictSame(
    [...sources, ...scripts].filter((path) => read(path).trimEnd().split('\n').length > 400),
    [],
  )
})

t.test('pages and the inspector take text as text, and load nothing from elsewhere', async (t) => {
  const pattern =
    /\b(inner|outer)HTML\b|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|https?:\/\/(?!www\.w3\.org\/2000\/svg)|<script(?! type="module" src="\/inspector\/assets\/)|\sstyle=/
  for (const breach of ['a.innerHTML = b', 'eval(a)', '<script>a', "fetch('https://a.b')"])
    t.match(breach, pattern, `catches ${breach}`)
  const page = files.filter((path) => /^web\/(inspector|assets)\/.*\.(js|css|html)$/.test(path))
  t.ok(page.length > 10)
  t.strictSame(
    page.filter((path) => pattern.test(read(path))),
    [],
  )
})

t.test('migrations are numbered without gaps', async (t) => {
  const names = readdirSync(join(REPOSITORY_ROOT, 'persistence/migrations')).sort()
  t.ok(names.length > 0)
  names.forEach((name, index) => {
    t.match(name, new RegExp(`^${String(index + 1).padStart(4, '0')}-[a-z0-9-]+\\.sql$`))
  })
})

/** The files a document links to, as paths from the root; anchors and addresses are left out. */
function linksOf(document: string): string[] {
  const targets = [...read(document).matchAll(/\]\(([^)#\s]+)(#[^)]*)?\)/g)].map(
    ([, to = '']) => to,
  )
  const local = targets.filter((target) => !/^[a-z]+:/.test(target))
  return local.map((target) => normalize(join(dirname(document), target)))
}

t.test('every link between documents resolves', async (t) => {
  for (const document of documents) {
    for (const target of linksOf(document))
      t.ok(existsSync(join(REPOSITORY_ROOT, target)), `${document}: ${target}`)
  }
})

t.test('every document is linked from the README, ARCHITECTURE or CONTRIBUTING', async (t) => {
  const starts = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md']
  const linked = new Set(starts.flatMap(linksOf))
  for (const path of documents.filter((path) => path.startsWith('docs/')))
    t.ok(linked.has(path), path)
})

/** Places in documents by number. Only public standards and manuals are cited so, by their names. */
const UNNAMED = [
  {
    pattern: /\bspec(ification)?s?,? \(?\d/i,
    breaches: ['(spec 2.5)', 'Spec 7: without its tables', 'of the specification (5.2)'],
  },
  {
    pattern: /\b(architecture|data-plane)(\.md)?,? \d/i,
    breaches: ['the way of a call (architecture 4)', 'data-plane 3'],
  },
  {
    pattern:
      /^(?!.*\b(RFC|EIP|CAIP|manual|edition|whitepaper)\b).*(\b(sections?|chapters?|tables?) |§ ?)\d/i,
    breaches: ['checks 1 to 5 of payments section 5', '(payments, sections 3.3 and 13)', 'face §2'],
  },
]
const THIS = 'test/repository-rules.test.ts'
const prose = files.filter(
  (path) => /\.(ts|md|sql|sol|cjs|mjs|conf|yml)$/.test(path) && path !== THIS,
)
const citing = prose.flatMap((path) =>
  read(path)
    .split('\n')
    .map((line) => ({ path, line })),
)

t.test('every cited document is in the repository', async (t) => {
  for (const { pattern, breaches } of UNNAMED) {
    for (const breach of breaches) t.match(breach, pattern, `catches ${breach}`)
    t.strictSame(
      citing.filter(({ line }) => pattern.test(line)),
      [],
    )
  }
  // In comments alone: programs may write documents of these names.
  const comments = citing.filter(
    ({ path, line }) => path.endsWith('.ts') && /^\s*(\/\*|\*|\/\/)/.test(line),
  )
  const cited = comments.flatMap(({ path, line }) =>
    Array.from(line.matchAll(/[\w/-]+\.md\b/g), ([name]) => ({ path, name })),
  )
  t.ok(cited.length > 0)
  t.strictSame(
    cited.filter(({ name }) => !documents.includes(name)),
    [],
  )
})

t.test('every decision that is cited has its row', async (t) => {
  const table = read('docs/decisions.md')
  const cited = citing.flatMap(({ path, line }) =>
    Array.from(line.matchAll(/\bdecisions? (\d+(?:(?:,| and) \d+)*)/gi), ([, numbers = '']) =>
      (numbers.match(/\d+/g) ?? []).map((number) => ({ path, number })),
    ).flat(),
  )
  t.ok(cited.length > 0)
  t.strictSame(
    cited.filter(({ number }) => !table.includes(`id="d${number}"`)),
    [],
  )
})

t.test('every error code that is thrown is in the table', async (t) => {
  const thrown = served.flatMap((path) => [...read(path).matchAll(/new ServiceError\(\s*'(\w+)'/g)])
  const codes = thrown.map(([, code = '']) => code)
  t.ok(codes.length > 0)
  t.strictSame(
    codes.filter((code) => !(code in ERROR_DEFINITIONS)),
    [],
  )
})

t.test('every error code in the table is used', async (t) => {
  const used = served
    .filter((path) => path !== 'core/errors.ts')
    .map(read)
    .join('\n')
  // `invalid` throws its code there.
  const own = read('core/errors.ts')
  const isUsed = (name: string) =>
    used.includes(`'${name}'`) || own.includes(`new ServiceError('${name}'`)
  t.strictSame(
    Object.keys(ERROR_DEFINITIONS).filter((name) => !isUsed(name)),
    [],
  )
})

t.test('every tool file is in the catalogue', async (t) => {
  const tools = sources.filter((path) => /^tools\/[\w-]+\/[\w-]+\.ts$/.test(path))
  const listing = read('tools/tool-catalogue.ts')
  const withTool = tools.filter((path) => /^export default\b/m.test(read(path)))
  t.ok(withTool.length > 0)
  for (const path of withTool) {
    const [, name] =
      new RegExp(`import (\\w+) from './${path.slice('tools/'.length)}'`).exec(listing) ?? []
    t.ok(name !== undefined && new RegExp(`^  ${name},$`, 'm').test(listing), path)
  }
})

t.test('images are built from the lockfile, on bases with a version and a digest', (t) => {
  const dockerfile = read('Dockerfile')
  const bases = [
    ...dockerfile.matchAll(/^FROM (\S+)/gm),
    ...read('docker-compose.yml').matchAll(/^ +image: (?!agent-gas-station$)(\S+)/gm),
  ]
  t.ok(bases.length >= 6)
  for (const [, image = ''] of bases)
    t.match(image, /^[a-z]+:\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}$/, image)
  t.notMatch(dockerfile, /npm (i|install)\b/)
  t.match(dockerfile, /npm ci\b/)
  t.end()
})

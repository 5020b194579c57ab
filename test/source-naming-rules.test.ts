import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import ts from 'typescript'
import { listTypeScriptSources } from '../scripts/build/esbuild-options.ts'
import { REPOSITORY_ROOT } from '../scripts/repository-root.ts'

/** The rules for names and places that a reader relies on: CONTRIBUTING.md, "Style". */

const MAX_FILES_PER_FOLDER = 25

const sources = listTypeScriptSources('.').map((path) => parse(path))

function parse(path: string): { readonly path: string; readonly file: ts.SourceFile } {
  const text = readFileSync(join(REPOSITORY_ROOT, path), 'utf8')
  return { path, file: ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true) }
}

const isExported = (node: ts.Node): boolean =>
  ts.canHaveModifiers(node) &&
  (ts.getModifiers(node) ?? []).some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)

/** The names that a file declares at its top level. */
function topLevelNames(
  file: ts.SourceFile,
): { readonly name: string; readonly exported: boolean }[] {
  return file.statements.flatMap((statement) => {
    const exported = isExported(statement)
    if (ts.isVariableStatement(statement))
      return statement.declarationList.declarations.flatMap(({ name }) =>
        boundNames(name).map((bound) => ({ name: bound, exported })),
      )
    const { name } = statement as ts.Statement & { name?: ts.Node }
    return name !== undefined && ts.isIdentifier(name) ? [{ name: name.text, exported }] : []
  })
}

const boundNames = (name: ts.BindingName): string[] =>
  ts.isIdentifier(name)
    ? [name.text]
    : name.elements.flatMap((element) =>
        ts.isBindingElement(element) ? boundNames(element.name) : [],
      )

/** Words that stand for a limit in no public code base: `MAX_REDIRECTS`, not `MOST_HOPS`. */
const REFUSED_NAMES: readonly [pattern: RegExp, use: string][] = [
  [/^(MOST|LONGEST|LARGEST|GREATEST)(_|$)/, 'MAX_'],
  [/^(SMALLEST|FEWEST|SHORTEST|LEAST)(_|$)/, 'MIN_'],
  [/^demand[A-Z]/, 'assert'],
  [/^[A-Z]\w+Parts$/, 'Deps'],
]
const refusals = (name: string): string[] =>
  REFUSED_NAMES.flatMap(([pattern, use]) => (pattern.test(name) ? [use] : []))

t.test('names use the words of the field', async (t) => {
  for (const name of ['MOST_HOPS', 'LONGEST', 'FEWEST_NODES', 'demandHost', 'SettlerParts'])
    t.equal(refusals(name).length, 1, name)
  t.strictSame(
    sources.flatMap(({ path, file }) =>
      topLevelNames(file).flatMap(({ name }) =>
        refusals(name).map((use) => `${path}: ${name} -> ${use}`),
      ),
    ),
    [],
  )
})

t.test('an exported name is defined in one file', async (t) => {
  const homes = new Map<string, Set<string>>()
  for (const { path, file } of sources)
    for (const { name, exported } of topLevelNames(file))
      if (exported) homes.set(name, (homes.get(name) ?? new Set()).add(path))
  t.ok(homes.size > 1_000)
  t.strictSame(
    [...homes].filter(([, paths]) => paths.size > 1).map(([name, paths]) => [name, ...paths]),
    [],
  )
})

/**
 * Whether a file opens with its purpose: the first thing after its imports is an exported declaration
 * with a docstring, or a docstring of its own that an empty line ends.
 */
function opensWithPurpose(file: ts.SourceFile): boolean {
  const first = file.statements.find((statement) => !ts.isImportDeclaration(statement))
  if (first === undefined) return true
  const { text } = file
  const isDocstring = ({ pos }: ts.CommentRange) => text.startsWith('/**', pos)
  const before = ts.getLeadingCommentRanges(text, first.getFullStart()) ?? []
  const top = ts.getLeadingCommentRanges(text, 0) ?? []
  const standsAlone = ({ end }: ts.CommentRange) => /^\s*\n\s*\n/.test(text.slice(end, end + 40))
  return (
    [...top, ...before].some((range) => isDocstring(range) && standsAlone(range)) ||
    (isExported(first) && before.some(isDocstring))
  )
}

t.test('a file opens with its purpose', async (t) => {
  const opens = (text: string) =>
    opensWithPurpose(ts.createSourceFile('example.ts', text, ts.ScriptTarget.Latest, true))
  t.notOk(opens("import a from 'a'\nconst b = a\nexport const c = b\n"))
  t.notOk(opens('/** About b alone. */\nconst b = 1\nexport const c = b\n'))
  t.ok(opens('/** Why this file exists. */\n\nconst b = 1\nexport const c = b\n'))
  t.ok(opens('/** What c is. */\nexport const c = 1\n'))
  t.strictSame(
    sources
      .filter(({ path, file }) => !path.endsWith('.test.ts') && !opensWithPurpose(file))
      .map(({ path }) => path),
    [],
  )
})

t.test(`no folder holds more than ${MAX_FILES_PER_FOLDER} files`, async (t) => {
  const folders = [...new Set(sources.map(({ path }) => dirname(path)))]
  t.ok(folders.length > 50)
  const filesIn = (folder: string) =>
    readdirSync(join(REPOSITORY_ROOT, folder), { withFileTypes: true }).filter((entry) =>
      entry.isFile(),
    ).length
  t.strictSame(
    folders.filter((folder) => folder !== '.' && filesIn(folder) > MAX_FILES_PER_FOLDER),
    [],
  )
})

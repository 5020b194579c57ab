import { readFileSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build, type Plugin } from 'esbuild'
import { REPOSITORY_ROOT } from '../repository-root.ts'
import { externalImportsPlugin, esbuildOptions, listTypeScriptSources } from './esbuild-options.ts'
import { groupTestFiles, type TestGroup } from './test-groups.ts'

/** Builds what `npm test` runs, in `.cache/test`. */

const TEST_OUTPUT_DIR = join(REPOSITORY_ROOT, '.cache/test')
const GROUPED_TAP = join(REPOSITORY_ROOT, 'scripts/build/grouped-tap.ts')

/** A bundled file resolves paths beside itself as if it still stood by itself. */
const importMetaUrlPlugin: Plugin = {
  name: 'import.meta.url',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const text = readFileSync(path, 'utf8')
      if (!text.includes('import.meta.url')) return null
      const built = join(TEST_OUTPUT_DIR, relative(REPOSITORY_ROOT, path)).replace(/\.ts$/, '.js')
      const url = JSON.stringify(pathToFileURL(built).href)
      return { contents: text.replaceAll('import.meta.url', url), loader: 'ts' }
    })
  },
}

/** Makes the entry file of each group, and puts `grouped-tap.ts` in the place of `tap`. */
const groupEntriesPlugin = (groups: readonly TestGroup[]): Plugin => ({
  name: 'group entries',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^group:/ }, ({ path }) => ({
      path: path.slice('group:'.length),
      namespace: 'group',
    }))
    onResolve({ filter: /^tap$/ }, ({ importer }) =>
      importer === GROUPED_TAP ? { path: 'tap', external: true } : { path: GROUPED_TAP },
    )
    onLoad({ filter: /.*/, namespace: 'group' }, ({ path }) => {
      const files = groups.find(({ name }) => name === path)?.files ?? []
      const entries = files.map((file) => {
        const source = JSON.stringify(join(REPOSITORY_ROOT, file))
        return `[${JSON.stringify(file)}, () => import(${source})]`
      })
      const contents = `import { runTestFiles } from ${JSON.stringify(GROUPED_TAP)}
        runTestFiles([${entries.join(', ')}])`
      return { contents, loader: 'ts', resolveDir: REPOSITORY_ROOT }
    })
  },
})

/**
 * Builds every source by itself, for the programs that tests start, and one entry file a group of
 * tests, `groups/<name>.js`: loading a thousand sources takes longer than most tests do. Returns the
 * groups that were built.
 */
export async function buildTests(): Promise<TestGroup[]> {
  const options = esbuildOptions(TEST_OUTPUT_DIR)
  rmSync(TEST_OUTPUT_DIR, { recursive: true, force: true })
  const sources = listTypeScriptSources('.')
  await build({ ...options, entryPoints: sources, plugins: [externalImportsPlugin] })
  const groups = groupTestFiles(sources.filter((path) => path.endsWith('.test.ts')))
  await build({
    ...options,
    splitting: true,
    chunkNames: 'chunks/[hash]',
    entryPoints: groups.map(({ name, entry }) => ({ in: `group:${name}`, out: `groups/${entry}` })),
    plugins: [groupEntriesPlugin(groups), importMetaUrlPlugin],
  })
  return groups
}

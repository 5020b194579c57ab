import { readFileSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build, type Plugin } from 'esbuild'
import { externalImportsPlugin, esbuildOptions, listTypeScriptSources } from './esbuild-options.ts'
import { REPOSITORY_ROOT } from '../repository-root.ts'

/**
 * Builds what `npm test` runs, in `.cache/test`: every source for itself, for the programs that tests
 * start, and over that each test in one piece with what it imports. Loading a thousand sources takes
 * a test file longer than most tests do.
 */
const TEST_OUTPUT_DIR = join(REPOSITORY_ROOT, '.cache/test')
/** A file that looks for another beside itself finds it, whatever it has become a part of. */
const importMetaUrlPlugin: Plugin = {
  name: 'where it was',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const text = readFileSync(path, 'utf8')
      if (!text.includes('import.meta.url')) return null
      const built = join(TEST_OUTPUT_DIR, relative(REPOSITORY_ROOT, path)).replace(/\.ts$/, '.js')
      const place = JSON.stringify(pathToFileURL(built).href)
      return { contents: text.replaceAll('import.meta.url', place), loader: 'ts' }
    })
  },
}

const buildOptions = esbuildOptions(TEST_OUTPUT_DIR)

rmSync(TEST_OUTPUT_DIR, { recursive: true, force: true })
const sourcePaths = listTypeScriptSources('.')
await build({ ...buildOptions, entryPoints: sourcePaths, plugins: [externalImportsPlugin] })
const tests = sourcePaths.filter((path) => path.endsWith('.test.ts'))
const chunkOptions = { splitting: true, chunkNames: 'chunks/[hash]' }
await build({
  ...buildOptions,
  ...chunkOptions,
  entryPoints: tests,
  plugins: [importMetaUrlPlugin],
})

import { readFileSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build, type Plugin } from 'esbuild'
import { fileByFile, optionsFor, sources } from './build-sources.ts'
import { ROOT } from './root.ts'

/**
 * Builds what `npm test` runs, in `.cache/test`: every source for itself, for the programs that tests
 * start, and over that each test in one piece with what it imports. Loading a thousand sources takes
 * a test file longer than most tests do.
 */
const OUT = join(ROOT, '.cache/test')
/** A file that looks for another beside itself finds it, whatever it has become a part of. */
const whereItWas: Plugin = {
  name: 'where it was',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, ({ path }) => {
      const text = readFileSync(path, 'utf8')
      if (!text.includes('import.meta.url')) return null
      const built = join(OUT, relative(ROOT, path)).replace(/\.ts$/, '.js')
      const place = JSON.stringify(pathToFileURL(built).href)
      return { contents: text.replaceAll('import.meta.url', place), loader: 'ts' }
    })
  },
}

const both = optionsFor(OUT)

rmSync(OUT, { recursive: true, force: true })
const all = sources('.')
await build({ ...both, entryPoints: all, plugins: [fileByFile] })
const tests = all.filter((path) => path.endsWith('.test.ts'))
const chunks = { splitting: true, chunkNames: 'chunks/[hash]' }
await build({ ...both, ...chunks, entryPoints: tests, plugins: [whereItWas] })

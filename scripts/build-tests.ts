import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build, type BuildOptions, type Plugin } from 'esbuild'
import { ROOT } from './root.ts'

/**
 * Builds what `npm test` runs, in `.cache/test`: every source for itself, for the programs that tests
 * start, and over that each test in one piece with what it imports. Loading a thousand sources takes
 * a test file longer than most tests do.
 */
const OUT = join(ROOT, '.cache/test')
const LEFT_OUT: ReadonlySet<string> = new Set(['node_modules', 'dist', 'coverage'])

const sources = (folder: string): string[] =>
  readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const { name } = entry
    if (name.startsWith('.') || LEFT_OUT.has(name)) return []
    const path = join(folder, name)
    return entry.isDirectory() ? sources(path) : name.endsWith('.ts') ? [path] : []
  })

/** Each file stays a file: what it imports is what is made of that. */
const fileByFile: Plugin = {
  name: 'file by file',
  setup({ onResolve }) {
    onResolve({ filter: /^\.{1,2}\/.*\.ts$/ }, ({ path, kind }) =>
      kind === 'entry-point' ? null : { path: path.replace(/\.ts$/, '.js'), external: true },
    )
  },
}

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

const both: BuildOptions = {
  absWorkingDir: ROOT,
  outdir: OUT,
  outbase: ROOT,
  bundle: true,
  packages: 'external',
  platform: 'node',
  format: 'esm',
  target: 'node20',
  sourcemap: 'linked',
  sourcesContent: false,
  logLevel: 'warning',
}

rmSync(OUT, { recursive: true, force: true })
const all = sources('.')
await build({ ...both, entryPoints: all, plugins: [fileByFile] })
const tests = all.filter((path) => path.endsWith('.test.ts'))
const chunks = { splitting: true, chunkNames: 'chunks/[hash]' }
await build({ ...both, ...chunks, entryPoints: tests, plugins: [whereItWas] })

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { BuildOptions, Plugin } from 'esbuild'
import { ROOT } from './root.ts'

const LEFT_OUT: ReadonlySet<string> = new Set(['node_modules', 'dist', 'coverage'])

/** All TypeScript sources below a folder of the project, by their paths from its root. */
export const sources = (folder: string): string[] =>
  readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const { name } = entry
    if (name.startsWith('.') || LEFT_OUT.has(name)) return []
    const path = join(folder, name)
    return entry.isDirectory() ? sources(path) : name.endsWith('.ts') ? [path] : []
  })

/** Each file stays a file: what it imports is what is made of that. */
export const fileByFile: Plugin = {
  name: 'file by file',
  setup({ onResolve }) {
    onResolve({ filter: /^\.{1,2}\/.*\.ts$/ }, ({ path, kind }) =>
      kind === 'entry-point' ? null : { path: path.replace(/\.ts$/, '.js'), external: true },
    )
  },
}

/** How sources are built for Node, below a folder that mirrors the project. */
export const optionsFor = (outdir: string): BuildOptions => ({
  absWorkingDir: ROOT,
  outdir,
  outbase: ROOT,
  bundle: true,
  packages: 'external',
  platform: 'node',
  format: 'esm',
  target: 'node20',
  sourcemap: 'linked',
  sourcesContent: false,
  logLevel: 'warning',
})

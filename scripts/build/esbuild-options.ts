import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { BuildOptions, Plugin } from 'esbuild'
import { REPOSITORY_ROOT } from '../repository-root.ts'

/** Lists the sources of the project and the options that esbuild builds them with. */

const SKIPPED_FOLDERS: ReadonlySet<string> = new Set(['node_modules', 'dist', 'coverage'])

/** All TypeScript sources below a folder of the project, by their paths from its root. */
export const listTypeScriptSources = (folder: string): string[] =>
  readdirSync(join(REPOSITORY_ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const { name } = entry
    if (name.startsWith('.') || SKIPPED_FOLDERS.has(name)) return []
    const path = join(folder, name)
    return entry.isDirectory() ? listTypeScriptSources(path) : name.endsWith('.ts') ? [path] : []
  })

/** Builds each file by itself: its imports stay imports. */
export const externalImportsPlugin: Plugin = {
  name: 'file by file',
  setup({ onResolve }) {
    onResolve({ filter: /^\.{1,2}\/.*\.ts$/ }, ({ path, kind }) =>
      kind === 'entry-point' ? null : { path: path.replace(/\.ts$/, '.js'), external: true },
    )
  },
}

/** How sources are built for Node, below a folder that mirrors the project. */
export const esbuildOptions = (outdir: string): BuildOptions => ({
  absWorkingDir: REPOSITORY_ROOT,
  outdir,
  outbase: REPOSITORY_ROOT,
  bundle: true,
  packages: 'external',
  platform: 'node',
  format: 'esm',
  target: 'node20',
  sourcemap: 'linked',
  sourcesContent: false,
  logLevel: 'warning',
})

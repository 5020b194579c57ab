import { readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { ROOT } from '../../scripts/root.ts'

const DIST = join(ROOT, 'dist')
/** What the compiler writes beside its output: among others, the names of all sources. */
const BUILT = join(DIST, '.tsbuildinfo')

/** This file itself is built, by `npm test`, and everything else with it. */
const AMONG_BUILT = !import.meta.url.endsWith('.ts')
let built: boolean | undefined

/**
 * Arguments that run a program of the service from the project's folder: as it was built, which starts
 * twice as fast, unless a source has changed since then. In a fresh clone `npm install` builds it.
 */
export function programOf(name: 'main' | 'cli'): string[] {
  if (AMONG_BUILT) return [`.cache/test/app/${name}.js`]
  built ??= isBuilt()
  return built ? [`dist/app/${name}.js`] : ['--import', 'tsx', `app/${name}.ts`]
}

/** What `node` needs before it runs that file of the tests. */
export const nodeArgsOf = (file: string): string[] =>
  file.endsWith('.ts') ? ['--import', 'tsx'] : []

function isBuilt(): boolean {
  const builtAt = changedAt(BUILT)
  if (builtAt === null) return false
  const { fileNames } = JSON.parse(readFileSync(BUILT, 'utf8')) as { fileNames: string[] }
  const sources = fileNames.filter((file) => !file.includes('node_modules'))
  return sources.every((file) => (changedAt(resolve(DIST, file)) ?? Infinity) < builtAt)
}

const changedAt = (file: string): number | null =>
  statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? null

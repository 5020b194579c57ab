import { readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'

/** The arguments that start the service and the CLI as processes. */

const DIST = join(REPOSITORY_ROOT, 'dist')
/** What the compiler writes beside its output: among others, the names of all sources. */
const BUILT = join(DIST, '.tsbuildinfo')

/** This file itself is built, by `npm test`, and everything else with it. */
const RUNS_FROM_BUILD = !import.meta.url.endsWith('.ts')
let built: boolean | undefined

/**
 * Arguments that run a program of the service from the project's folder: as it was built, which starts
 * twice as fast, unless a source has changed since then. In a fresh clone `npm install` builds it.
 */
export function serviceProgramArgs(name: 'main' | 'cli'): string[] {
  const program = name === 'cli' ? 'app/cli/main' : 'app/main'
  if (RUNS_FROM_BUILD) return [`.cache/test/${program}.js`]
  built ??= isBuilt()
  return built ? [`dist/${program}.js`] : ['--import', 'tsx', `${program}.ts`]
}

/** What `node` needs before it runs that file of the tests. */
export const typescriptLoaderArgs = (file: string): string[] =>
  file.endsWith('.ts') ? ['--import', 'tsx'] : []

function isBuilt(): boolean {
  const builtAt = modifiedAt(BUILT)
  if (builtAt === null) return false
  const { fileNames } = JSON.parse(readFileSync(BUILT, 'utf8')) as { fileNames: string[] }
  const sources = fileNames.filter((file) => !file.includes('node_modules'))
  return sources.every((file) => (modifiedAt(resolve(DIST, file)) ?? Infinity) < builtAt)
}

const modifiedAt = (file: string): number | null =>
  statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? null

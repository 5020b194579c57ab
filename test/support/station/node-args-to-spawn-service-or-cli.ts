import { readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'

/** The arguments that start the service and the CLI as processes. */

const DIST = join(REPOSITORY_ROOT, 'dist')
/** Build information of the compiler, with the names of all sources. */
const BUILT = join(DIST, '.tsbuildinfo')

/** As `npm start` sets it. */
const NODE_ARGS = ['--max-semi-space-size=16']

/** By its path: a program may start in any folder. */
const TYPESCRIPT = ['--import', import.meta.resolve('tsx')]

/** `npm test` builds this file together with all others. */
const RUNS_FROM_BUILD = !import.meta.url.endsWith('.ts')
let built: boolean | undefined

/**
 * Arguments that run a program of the service from the project's folder: the built one, which starts
 * twice as fast, unless a source has changed since the build. In a fresh clone `npm install` builds it.
 */
export function serviceProgramArgs(name: 'main' | 'cli'): string[] {
  const program = name === 'cli' ? 'app/cli/main' : 'app/main'
  if (RUNS_FROM_BUILD) return [...NODE_ARGS, `.cache/test/${program}.js`]
  built ??= isBuilt()
  return built ? [`dist/${program}.js`] : [...TYPESCRIPT, `${program}.ts`]
}

/** Arguments of `node` for a test file. */
export const typescriptLoaderArgs = (file: string): string[] =>
  file.endsWith('.ts') ? TYPESCRIPT : []

function isBuilt(): boolean {
  const builtAt = modifiedAt(BUILT)
  if (builtAt === null) return false
  const { fileNames } = JSON.parse(readFileSync(BUILT, 'utf8')) as { fileNames: string[] }
  const sources = fileNames.filter((file) => !file.includes('node_modules'))
  return sources.every((file) => (modifiedAt(resolve(DIST, file)) ?? Infinity) < builtAt)
}

const modifiedAt = (file: string): number | null =>
  statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? null

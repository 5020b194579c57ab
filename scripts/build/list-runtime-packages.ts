import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Which installed packages the service runs on. */

interface LockedPackage {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly peerDependenciesMeta?: Readonly<Record<string, { optional?: boolean }>>
}

/** Packages that others depend on and the service never loads, with the reason. */
const OMITTED: Readonly<Record<string, string>> = {
  'sql.js': 'the shell of the sandbox has no sqlite3: it needs threads',
}

/** Packages of which the service serves a bundle that has all it needs, with the reason. */
const SELF_CONTAINED: Readonly<Record<string, string>> = {
  'openapi-explorer': 'browsers load its bundle; the packages that it was built from are in it',
}

export const isPackageServedAsBrowserBundle = (name: string): boolean =>
  Object.hasOwn(SELF_CONTAINED, name)

export const isPackageOmittedFromRuntime = (name: string): boolean => Object.hasOwn(OMITTED, name)

/**
 * The paths in `node_modules` of the dependencies and of all that they need, by the lockfile.
 * Optional packages are none of them: they are native builds of one platform.
 */
export function listRuntimePackages(root: string): string[] {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Readonly<Record<string, LockedPackage>>
  }
  const found = new Set<string>()
  const waiting = ['']
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop())
    for (const name of neededBy(packages[path] ?? {})) {
      const needed = locate(packages, path, name)
      if (needed === null || found.has(needed)) continue
      if (!existsSync(join(root, needed))) throw new Error(`${needed} is not installed`)
      found.add(needed)
      if (!isPackageServedAsBrowserBundle(name)) waiting.push(needed)
    }
  return [...found].sort()
}

function neededBy(one: LockedPackage): string[] {
  const peers = Object.keys(one.peerDependencies ?? {}).filter(
    (name) => one.peerDependenciesMeta?.[name]?.optional !== true,
  )
  return [...Object.keys(one.dependencies ?? {}), ...peers].filter(
    (name) => !isPackageOmittedFromRuntime(name),
  )
}

/** The package that a package of this path gets by a name, as Node looks for it. */
function locate(packages: Readonly<Record<string, unknown>>, from: string, name: string) {
  for (let folder = from; ; folder = folder.replace(/(^|\/)node_modules\/(@[^/]+\/)?[^/]+$/, '')) {
    const path = `${folder === '' ? '' : `${folder}/`}node_modules/${name}`
    if (Object.hasOwn(packages, path)) return path
    if (folder === '') return null
  }
}

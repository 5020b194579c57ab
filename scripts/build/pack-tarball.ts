import { execFileSync } from 'node:child_process'
import {
  cpSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { basename, join, sep } from 'node:path'
import { build } from 'esbuild'
import { REPOSITORY_ROOT } from '../repository-root.ts'
import { esbuildOptions, externalImportsPlugin, listTypeScriptSources } from './esbuild-options.ts'
import {
  isPackageOmittedFromRuntime,
  isPackageServedAsBrowserBundle,
  listRuntimePackages,
} from './list-runtime-packages.ts'

/**
 * Makes the tarball of the package (decision 211): the service, and with it the packages that it runs on, in the
 * versions of the lockfile. So an install resolves nothing and runs no script of theirs, and what the station never
 * loads is left out. They are in `dist/node_modules`, where Node finds them and no installer looks: yarn resolves
 * `dependencies` again although they are bundled (decision 460).
 */

/** Folders of the service; the others are tests and tools. */
const TOOL_FOLDERS = /^(test|bench|scripts|chaos|examples|interop|sdk)[/\\]/

interface Manifest {
  readonly name: string
  readonly version: string
  readonly files: readonly string[]
  readonly dependencies: Readonly<Record<string, string>>
  readonly [field: string]: unknown
}

const readManifest = (folder: string) =>
  JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest

/** Builds the package below a folder and packs it there. Returns the path of the tarball. */
export async function packTarball(folder: string): Promise<string> {
  const stage = join(folder, 'package')
  rmSync(stage, { recursive: true, force: true })
  mkdirSync(stage, { recursive: true })
  const manifest = readManifest(REPOSITORY_ROOT)
  await buildService(join(stage, 'dist'))
  const copied = manifest.files.filter((one) => !one.startsWith('dist'))
  for (const path of [...copied, 'README.md', 'LICENSE'])
    cpSync(join(REPOSITORY_ROOT, path), join(stage, path), { recursive: true })
  for (const path of listRuntimePackages(REPOSITORY_ROOT)) bundlePackage(path, join(stage, 'dist'))
  const { dependencies, ...published } = toPublishedManifest(manifest)
  writeJson(join(stage, 'package.json'), published)
  // So `npm ls` and `npm sbom` in `dist` tell what it holds.
  writeJson(join(stage, 'dist/package.json'), { private: true, type: 'module', dependencies })
  const file = join(folder, `${manifest.name}-${manifest.version}.tgz`)
  // The form of `npm pack`, which would leave bundled files out by the rules of their repositories.
  execFileSync('tar', ['-czf', file, '-C', folder, 'package'], { stdio: 'inherit' })
  rmSync(stage, { recursive: true, force: true })
  return file
}

const buildService = (outdir: string) =>
  build({
    ...esbuildOptions(outdir),
    sourcemap: false,
    entryPoints: listTypeScriptSources('.').filter((path) => !TOOL_FOLDERS.test(path)),
    plugins: [externalImportsPlugin],
  })

/** What concerns the repository only is left out. */
function toPublishedManifest(manifest: Manifest): Manifest {
  const {
    devDependencies: _development,
    scripts: _scripts,
    allowScripts: _allowScripts,
    workspaces: _workspaces,
    private: _private,
    ...published
  } = manifest
  return published as Manifest
}

/** Copies an installed package without what no program loads. */
function bundlePackage(path: string, folder: string): void {
  const source = join(REPOSITORY_ROOT, path)
  cpSync(source, join(folder, path), {
    recursive: true,
    dereference: true,
    filter: (file) => isLoaded(path, file.slice(source.length + 1).replaceAll(sep, '/')),
  })
  // Its own dependencies are beside it, and its optional ones are native builds it does without.
  const { name, version, ...rest } = readManifest(source)
  const { devDependencies, optionalDependencies, scripts, ...kept } = rest
  void [devDependencies, optionalDependencies, scripts]
  const needed = isPackageServedAsBrowserBundle(name) ? {} : (kept.dependencies ?? {})
  const dependencies = Object.entries(needed).filter(([one]) => !isPackageOmittedFromRuntime(one))
  writeJson(join(folder, path, 'package.json'), {
    name,
    version,
    ...kept,
    dependencies: Object.fromEntries(dependencies),
  })
}

/** Types, maps and texts; licences stay. */
const UNLOADED = /\.(map|d\.[cm]?ts|[cm]?tsx?|flow|md|markdown)$/i
const LICENCE = /^(licen[cs]e|notice|copying)[^/]*$/i
const UNLOADED_FOLDERS = /^(node_modules|tests?|__tests__|benchmarks?|examples?|docs?|\.github)$/
/** The CommonJS half of packages that are imported as ES modules, and a program of its own. */
const UNLOADED_HALVES: Readonly<Record<string, RegExp>> = {
  viem: /^(_cjs|_types)$/,
  ox: /^(_cjs|_types)$/,
  'just-bash': /^dist\/bin$/,
  'openapi-explorer': /^dist\/(es|lib)$/,
}

function isLoaded(path: string, file: string): boolean {
  const isCode = /\.([cm]?[jt]s|map)$/.test(file)
  if (!isCode && LICENCE.test(basename(file))) return true
  if (UNLOADED.test(file) || UNLOADED_FOLDERS.test(file)) return false
  return UNLOADED_HALVES[path.replace(/^.*node_modules\//, '')]?.test(file) !== true
}

const writeJson = (file: string, value: unknown) =>
  writeFileSync(file, `${JSON.stringify(value, null, 2)}\n`)

/** Bytes of all files below a folder. */
export const folderBytes = (folder: string): number =>
  readdirSync(folder, { withFileTypes: true })
    .map((entry) => {
      const path = join(folder, entry.name)
      return entry.isDirectory() ? folderBytes(path) : lstatSync(path).size
    })
    .reduce((sum, bytes) => sum + bytes, 0)

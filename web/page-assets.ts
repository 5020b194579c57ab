import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import {
  findFileOrFolderInPackage,
  shortContentHashOf,
  readStaticFiles,
  toStaticFile,
  type StaticFile,
} from './static-files.ts'

/** The stylesheet and the scripts of the pages. */

interface Assets {
  readonly files: ReadonlyMap<string, StaticFile>
  /** A name of all of them together: scripts import each other by their paths. */
  readonly version: string
}

const require = createRequire(import.meta.url)
/** Programs of packages that pages use: bundles without imports. */
const findLibraryFiles = () =>
  [
    [
      'openapi-explorer.min.js',
      require.resolve('openapi-explorer/dist/browser/openapi-explorer.min.js'),
    ],
    ['uplot.js', require.resolve('uplot/dist/uPlot.iife.min.js')],
    ['uplot.css', require.resolve('uplot/dist/uPlot.min.css')],
  ] as const

let assets: Assets | undefined

function readAssets(): Assets {
  const files = new Map(readStaticFiles(findFileOrFolderInPackage('web/assets')))
  for (const [name, path] of findLibraryFiles())
    files.set(name, toStaticFile(name, readFileSync(path)))
  const all = [...files].map(([name, { etag }]) => `${name} ${etag}`).sort()
  return { files, version: shortContentHashOf(all.join('\n')) }
}

/** The file with this name; null when there is none. */
export function findPageAsset(name: string): StaticFile | null {
  assets ??= readAssets()
  return assets.files.get(name) ?? null
}

/** The version that pages name in the addresses of assets: what has it never changes. */
export function pageAssetsVersion(): string {
  assets ??= readAssets()
  return assets.version
}

/** The address of an asset. */
export const toPageAssetPath = (name: string): string => `/assets/${pageAssetsVersion()}/${name}`

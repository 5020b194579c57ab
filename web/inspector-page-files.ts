import { findFileOrFolderInPackage, readStaticFiles, type StaticFile } from './static-files.ts'

/** The files of the inspector's page, read from the package and served as they are. */

let files: ReadonlyMap<string, StaticFile> | undefined

/** The file with this path below `web/inspector`; null when there is none. */
export function findInspectorFile(path: string): StaticFile | null {
  files ??= readStaticFiles(findFileOrFolderInPackage('web/inspector'))
  return files.get(path) ?? null
}

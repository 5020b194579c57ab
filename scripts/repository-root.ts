import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The root folder of the project, found from the sources and from builds. */
export const REPOSITORY_ROOT = findRepositoryRoot(dirname(fileURLToPath(import.meta.url)))

function findRepositoryRoot(folder: string): string {
  if (existsSync(join(folder, 'package.json'))) return folder
  if (folder === dirname(folder)) throw new Error('the folder of the project was not found')
  return findRepositoryRoot(dirname(folder))
}

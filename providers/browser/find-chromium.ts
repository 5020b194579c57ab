import { accessSync, constants } from 'node:fs'
import { delimiter, isAbsolute, join } from 'node:path'

const CHROMIUM_PROGRAM_NAMES = [
  'chromium',
  'chromium-browser',
  'google-chrome-stable',
  'google-chrome',
]

/** Chromium where the operator says, else by its usual names on PATH; null where there is none. */
export function findChromium(path: string | null, searchPath: string): string | null {
  if (path === 'none') return null
  if (path !== null) return isAbsolute(path) && hasExecutePermission(path) ? path : null
  const folders = searchPath.split(delimiter).filter((folder) => folder !== '')
  const places = CHROMIUM_PROGRAM_NAMES.flatMap((name) =>
    folders.map((folder) => join(folder, name)),
  )
  return places.find(hasExecutePermission) ?? null
}

function hasExecutePermission(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

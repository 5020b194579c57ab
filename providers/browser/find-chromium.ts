import { accessSync, constants } from 'node:fs'
import { delimiter, isAbsolute, join } from 'node:path'

/** Finds the Chromium executable. */

const CHROMIUM_PROGRAM_NAMES = [
  'chromium',
  'chromium-browser',
  'google-chrome-stable',
  'google-chrome',
]

/** Returns the configured Chromium, else one on PATH; null without either. */
export function findChromium(path: string | null, searchPath: string): string | null {
  if (path === 'none') return null
  if (path !== null) return isAbsolute(path) && hasExecutePermission(path) ? path : null
  const folders = searchPath.split(delimiter).filter((folder) => folder !== '')
  const candidates = CHROMIUM_PROGRAM_NAMES.flatMap((name) =>
    folders.map((folder) => join(folder, name)),
  )
  return candidates.find(hasExecutePermission) ?? null
}

function hasExecutePermission(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

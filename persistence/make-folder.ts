import { chmodSync, mkdirSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'

/**
 * Makes a folder with those above it, one after the other; throws the error of the system where that fails.
 * Node's own recursive call never returns where a file system refuses every name as absent, as /proc does.
 */
export function makeFolder(folder: string, mode = 0o777): void {
  const missing: string[] = []
  for (let at = resolve(folder); !isFolder(at) && at !== dirname(at); at = dirname(at))
    missing.unshift(at)
  for (const path of missing) makeOne(path, mode)
}

/**
 * Makes the data directory, or a folder in its place, unless it is there. Other users may pass through it under any
 * umask: started by root, the database has a user of its own. What is in it is closed by its own mode.
 */
export function makeDataDir(folder: string): void {
  if (isFolder(folder)) return
  makeFolder(folder)
  chmodSync(folder, 0o755)
}

function makeOne(path: string, mode: number): void {
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    // Another process may have made it meanwhile.
    if (!isFolder(path)) throw error
  }
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory()
  } catch {
    return false
  }
}

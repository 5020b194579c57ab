import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)

/** The version of this package; the manifest lies one level up from the sources, two from `dist`. */
export const VERSION = read('../package.json') ?? read('../../package.json') ?? 'unknown'

function read(path: string): string | null {
  try {
    const manifest = require(path) as { name?: string; version?: string }
    return manifest.name === 'agent-gas-station' ? (manifest.version ?? null) : null
  } catch {
    return null
  }
}

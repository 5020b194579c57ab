import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)

/** The version of this package; its manifest lies above the sources, and above whatever is built of them. */
export const VERSION =
  read('../package.json') ??
  read('../../package.json') ??
  read('../../../package.json') ??
  'unknown'

function read(path: string): string | null {
  try {
    const manifest = require(path) as { name?: string; version?: string }
    return manifest.name === 'agent-gas-station' ? (manifest.version ?? null) : null
  } catch {
    return null
  }
}

import { createRequire } from 'node:module'

/** The version of this package. */

const require = createRequire(import.meta.url)

/** From the manifest above the sources or the build. */
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

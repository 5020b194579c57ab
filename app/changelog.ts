import { readFileSync } from 'node:fs'

/** The changelog of this package, which lies beside its manifest; empty where it was not packed. */
export const CHANGELOG =
  read('../CHANGELOG.md') ?? read('../../CHANGELOG.md') ?? read('../../../CHANGELOG.md') ?? ''

function read(path: string): string | null {
  try {
    return readFileSync(new URL(path, import.meta.url), 'utf8')
  } catch {
    return null
  }
}

import { readFileSync } from 'node:fs'

/** Text of the changelog, from the package root; empty when it is not packaged. */
export const CHANGELOG =
  read('../CHANGELOG.md') ?? read('../../CHANGELOG.md') ?? read('../../../CHANGELOG.md') ?? ''

function read(path: string): string | null {
  try {
    return readFileSync(new URL(path, import.meta.url), 'utf8')
  } catch {
    return null
  }
}

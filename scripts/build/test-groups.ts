import { statSync } from 'node:fs'
import { join } from 'node:path'
import { REPOSITORY_ROOT } from '../repository-root.ts'

/** Test files that run in one process, one after the other. */
export interface TestGroup {
  readonly name: string
  /** The name of its entry file. tap runs entries by name: it begins with the place in the order. */
  readonly entry: string
  /** Paths from the repository's root, in the order they run. */
  readonly files: readonly string[]
  /** Only `npm run test:all` runs it: outages, several nodes, killed processes. */
  readonly long: boolean
}

const MAX_FILES_PER_GROUP = 8

/**
 * Sorts test files into groups by their folder: `test/chain/evm/*.test.ts` into `chain`,
 * `test/e2e/keys/*.test.ts` into `e2e-keys`. A long suite is a group by itself. Returns the groups with
 * the most source text first, so that no long one starts last.
 */
export function groupTestFiles(files: readonly string[]): TestGroup[] {
  const byName = new Map<string, string[]>()
  for (const file of files.toSorted()) {
    const name = groupName(file)
    byName.set(name, [...(byName.get(name) ?? []), file])
  }
  const groups = Array.from(byName).flatMap(([name, members]) => splitGroup(name, members))
  return groups
    .map((group) => ({ group, size: group.files.reduce((sum, file) => sum + sizeOf(file), 0) }))
    .toSorted((a, b) => b.size - a.size)
    .map(({ group }, index) => ({
      ...group,
      entry: `${String(index).padStart(2, '0')}-${group.name}`,
    }))
}

function groupName(file: string): string {
  const [, folder = '', domain = '', ...rest] = file.split('/')
  if (folder.endsWith('.test.ts')) return 'repository'
  if (folder === 'e2e') return `e2e-${domain}`
  return folder === 'long' ? `long-${domain}-${rest.join('-').replace('.test.ts', '')}` : folder
}

/** Groups of equal size, none of more files than one process should run. */
function splitGroup(name: string, files: readonly string[]): Omit<TestGroup, 'entry'>[] {
  const long = name.startsWith('long-')
  const parts = Math.ceil(files.length / MAX_FILES_PER_GROUP)
  if (parts === 1) return [{ name, files, long }]
  return Array.from({ length: parts }, (_, part) => ({
    name: `${name}-${part + 1}`,
    files: files.filter((_file, index) => index % parts === part),
    long,
  }))
}

const sizeOf = (file: string): number => statSync(join(REPOSITORY_ROOT, file)).size

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
const MAX_FILES_PER_LONG_GROUP = 3
/** Long suites that stop databases, nodes or browsers: each has a process of its own. */
const ISOLATED = new Set(
  'adversary browser chaos deployment fleets jobs keys outages persistence schedules webhooks'.split(
    ' ',
  ),
)

/**
 * Sorts test files into groups by their folder: `test/chain/evm/*.test.ts` into `chain`,
 * `test/e2e/keys/*.test.ts` into `e2e-keys`. Of both kinds the groups with the most source text come
 * first, so that none of them starts last. Long ones, which mostly wait, alternate with the others,
 * which mostly compute.
 */
export function groupTestFiles(files: readonly string[]): TestGroup[] {
  const byName = new Map<string, string[]>()
  for (const file of files.toSorted()) {
    const name = groupName(file)
    byName.set(name, [...(byName.get(name) ?? []), file])
  }
  const groups = Array.from(byName).flatMap(([name, members]) => splitGroup(name, members))
  const [long, short] = [true, false].map((kind) =>
    groups.filter((group) => group.long === kind).toSorted((a, b) => sizeOf(b) - sizeOf(a)),
  ) as [Group[], Group[]]
  return [long, short]
    .flatMap((kind) => kind.map((group, index) => ({ group, place: (index + 0.5) / kind.length })))
    .toSorted((a, b) => a.place - b.place)
    .map(({ group }, index) => ({
      ...group,
      entry: `${String(index).padStart(3, '0')}-${group.name}`,
    }))
}

type Group = Omit<TestGroup, 'entry'>

function groupName(file: string): string {
  const [, folder = '', domain = ''] = file.split('/')
  if (folder.endsWith('.test.ts')) return 'repository'
  return folder === 'e2e' || folder === 'long' ? `${folder}-${domain}` : folder
}

/** Groups of about equal size, none of more files than one process should run. */
function splitGroup(name: string, files: readonly string[]): Group[] {
  const long = name.startsWith('long-')
  const parts = Math.ceil(files.length / maxFilesOf(name))
  if (parts === 1) return [{ name, files, long }]
  return Array.from({ length: parts }, (_, part) => ({
    name: `${name}-${part + 1}`,
    files: files.filter((_file, index) => index % parts === part),
    long,
  }))
}

function maxFilesOf(name: string): number {
  if (!name.startsWith('long-')) return MAX_FILES_PER_GROUP
  return ISOLATED.has(name.slice('long-'.length)) ? 1 : MAX_FILES_PER_LONG_GROUP
}

/** Bytes of source text. */
const sizeOf = ({ files }: Group): number =>
  files.reduce((sum, file) => sum + statSync(join(REPOSITORY_ROOT, file)).size, 0)

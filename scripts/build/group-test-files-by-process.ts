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
/** Their files share an installation, so they run in one process. */
const SHARING = new Set(['install', 'interop'])

/** Seconds of the files that take much longer than their size says, on two busy processors. */
const SLOW_FILE_SECONDS: Readonly<Record<string, number>> = {
  'test/long/chaos/limit-races-catch-mutants.test.ts': 175,
  'test/long/webhooks/webhook-failing-receivers-and-crashes.test.ts': 95,
  'test/long/outages/postgres-outages-and-crashes.test.ts': 94,
  'test/long/outages/redis-outages.test.ts': 83,
  'test/long/fleets/fleet-membership-and-credit-draws.test.ts': 76,
  'test/long/tools/agent-act-page-actions.test.ts': 71,
  'test/long/fleets/leave-fleet.test.ts': 59,
  'test/long/adversary/colluding-agents-adversary.test.ts': 57,
  'test/long/accounts/agent-wallet-deposits-and-export.test.ts': 54,
  'test/long/webhooks/webhook-retries.test.ts': 54,
  'test/long/tools/code-sandbox.test.ts': 46,
  'test/long/install/machines.test.ts': 60,
  'test/long/install/managers.test.ts': 50,
  'test/long/outages/lost-database-and-redis-connections.test.ts': 45,
  'test/long/webhooks/owner-alert-delivery-retries.test.ts': 44,
  'test/long/persistence/account-statement-100k-movements.test.ts': 41,
  'test/long/browser/headless-browser.test.ts': 41,
  'test/long/schedules/schedules-redis-outages.test.ts': 39,
  'test/long/browser/agent-act-browser.test.ts': 35,
  'test/long/schedules/schedules-on-several-nodes.test.ts': 33,
  'test/long/jobs/timer-dead-letters-and-replay.test.ts': 30,
  'test/long/chain/signer-recovery-pool.test.ts': 27,
  'test/long/persistence/verify-database-invariants.test.ts': 25,
  'test/long/tools/tx-broadcast-unreachable.test.ts': 25,
}
/** Of the other files: tests in `test/long` take three times as long as others of their size. */
const SECONDS_PER_KB = { long: 2, short: 0.6 }

/**
 * Sorts test files into groups by their folder: `test/chain/evm/*.test.ts` into `chain`,
 * `test/e2e/keys/*.test.ts` into `e2e-keys`. Of both kinds the groups that take longest come first, so
 * that none of them starts last. Long ones, which mostly wait, alternate with the others, which mostly
 * compute.
 */
export function groupTestFiles(files: readonly string[]): TestGroup[] {
  const missing = Object.keys(SLOW_FILE_SECONDS).filter((file) => !files.includes(file))
  if (missing.length > 0) throw new Error(`no slow test file ${missing.join(', ')}`)
  const byName = new Map<string, string[]>()
  for (const file of files.toSorted()) {
    const name = groupName(file)
    byName.set(name, [...(byName.get(name) ?? []), file])
  }
  const groups = Array.from(byName).flatMap(([name, members]) => splitGroup(name, members))
  const [long, short] = [true, false].map((kind) =>
    groups.filter((group) => group.long === kind).toSorted((a, b) => secondsOf(b) - secondsOf(a)),
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
  const domain = name.slice('long-'.length)
  if (SHARING.has(domain)) return Number.MAX_SAFE_INTEGER
  return ISOLATED.has(domain) ? 1 : MAX_FILES_PER_LONG_GROUP
}

/** About how long a group takes. */
const secondsOf = ({ files, long }: Group): number =>
  files.reduce((sum, file) => sum + (SLOW_FILE_SECONDS[file] ?? estimateSeconds(file, long)), 0)

const estimateSeconds = (file: string, long: boolean): number =>
  (statSync(join(REPOSITORY_ROOT, file)).size / 1_000) * SECONDS_PER_KB[long ? 'long' : 'short']

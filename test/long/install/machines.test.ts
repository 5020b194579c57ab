import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ODD_NAME, packStation } from '../../support/install/packed-station.ts'
import { installRegistryPrograms } from '../../support/install/registry-programs.ts'
import {
  GREEN,
  ipv6OnlySkipReason,
  ipv6SkipReason,
  nobodySkipReason,
  runCell,
  type StationCell,
} from '../../support/install/station-cell.ts'
import {
  findPackagedPostgres,
  startPackagedPostgres,
} from '../../support/postgres/packaged-postgres.ts'

/** The install matrix: the installed package starts, works, checks its books and stops on many kinds of machine. */

interface Row extends StationCell {
  readonly name: string
  /** Why this machine cannot run it. */
  readonly skip?: string | false
  readonly url?: RegExp
}

const packed = await packStation(t)
const registry = await installRegistryPrograms(t)
const bin = findPackagedPostgres()
const home = join(packed.folder, 'packaged-postgres')
mkdirSync(home)
const packaged = bin === null ? null : await startPackagedPostgres(bin, home)
t.teardown(() => packaged?.stop())

const nodeRow = (name: 'node22' | 'node24'): Row => {
  const node = registry.file(name, 'bin/node')
  const runs = spawnSync(node, ['--version']).status === 0
  return { name, node, skip: registry.skip || (!runs && 'it does not run here') }
}

const rows: readonly Row[] = [
  {
    name: 'a user without rights, whose home cannot be written, on a package of root',
    skip: nobodySkipReason,
    nobody: true,
    env: { HOME: '/proc/no-home' },
  },
  {
    name: 'umask 077, no home, the locale C, an unknown time zone',
    umask: '077',
    env: { LC_ALL: 'C', TZ: 'Foo/Bar' },
  },
  {
    name: 'umask 000, a Turkish locale, a time zone with quarters of an hour',
    umask: '000',
    env: { LC_ALL: 'tr_TR.UTF-8', LANG: 'tr_TR.UTF-8', TZ: 'Pacific/Chatham', HOME: '/dev/null' },
  },
  {
    name: 'DATA_DIR and TMPDIR with odd names, a German locale',
    env: {
      DATA_DIR: join(packed.folder, `${ODD_NAME}\\z`),
      TMPDIR: join(packed.folder, 'a,"b $c'),
      LC_ALL: 'de_DE.UTF-8',
    },
  },
  {
    name: 'a host with IPv6 only',
    skip: ipv6SkipReason || ipv6OnlySkipReason,
    ipv6Only: true,
    env: { HOST: '::1' },
    url: /^http:\/\/\[::1\]:\d+$/,
  },
  {
    name: 'HOST is every address, in brackets',
    skip: ipv6SkipReason,
    env: { HOST: '[::]' },
    url: /^http:\/\/\[::1\]:\d+$/,
  },
  nodeRow('node22'),
  nodeRow('node24'),
  {
    name: "PostgreSQL of the system's packages",
    skip: packaged === null && 'no PostgreSQL of the system is installed',
    env: {
      DATABASE_URL: `postgres://gas@localhost/postgres?host=${encodeURIComponent(packaged?.socketDir() ?? '')}`,
    },
  },
]

for (const { name, skip = false, url = /^http:\/\/127\.0\.0\.1:\d+$/, ...cell } of rows)
  t.test(name, { skip }, async (t) => {
    const { urls, postgres, ...seen } = await runCell(t, packed, cell)
    t.comment(`${urls.join(' ')}, ${postgres}`)
    t.match(urls, [url])
    t.strictSame(seen, GREEN)
  })

t.test('two stations on one DATA_DIR keep one ledger, and one outlives the other', async (t) => {
  const { urls, postgres, complaints, ...seen } = await runCell(t, packed, { stations: 2 })
  t.comment(`${urls.join(' ')}, ${postgres}`)
  const [call] = GREEN.calls
  const verify = { ...GREEN.verify, found: '1 agents with 0.350000 USDC, 3 calls, 7 transfers' }
  const { complaints: _, ...green } = GREEN
  t.strictSame(seen, { ...green, calls: [call, call, call], exits: [0, 0], verify })
  // The servers of the first one are gone for a moment: a warning, and no error.
  for (const line of complaints) t.match(JSON.parse(line), { level: 40 })
})

import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { AggregateCommand } from '../../actors/aggregate-command-types.ts'
import { createSeededRandom } from '../../chaos/seeded-random.ts'
import { DAY, HOUR } from '../../core/clock.ts'
import { expireBountyCommand } from '../../payments/commands/bounty-commands.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import { REPOSITORY_ROOT } from '../../scripts/repository-root.ts'
import { createTestActorNode, createTestClock } from '../support/actors/test-actor-node.ts'
import { createSampleLedger } from '../support/ledger/sample-database-for-invariants.ts'
import { PAYMENT_TIMER_COMMANDS } from '../support/payments/sample-payment-claims.ts'
import { alwaysFailingScheduleRunTimer } from '../support/random-commands/random-agent-commands.ts'
import { createRandomCommandWorld } from '../support/random-commands/random-command-world.ts'
import { sendRandomCommands } from '../support/random-commands/send-random-commands.ts'
import { GOLDEN_DATABASE_PATH, type GoldenDatabase, type GoldenTable } from './database.ts'
import { leaveOpenWork } from './open-work.ts'

/**
 * Wrote `station-1.0.0.json.gz` at commit d380a03d: everything that `gas verify` looks at, three days of
 * random commands, and a station whose work is open. It is frozen and not written again; a later
 * version gets a file of its own: `node --import tsx test/golden/write-database.ts <path>`.
 */

const RANDOM_COMMANDS = 1_200
const RANDOM_AGENTS = 14
const TIMER_COMMANDS = [
  ...PAYMENT_TIMER_COMMANDS,
  expireBountyCommand,
  alwaysFailingScheduleRunTimer,
] as AggregateCommand<never, void>[]

/** What a test gives its fixtures, for a program: the work at its end. */
function createTeardowns() {
  const works: (() => unknown)[] = []
  return {
    t: {
      teardown: (work: () => unknown) => void works.unshift(work),
      comment: console.error,
      strictSame: <T>(found: unknown, wanted: T): found is T => found === wanted,
    },
    async end(): Promise<void> {
      for (const work of works.splice(0)) await work()
    },
  }
}

/** Commands of the last three days, so that what they leave is due later. */
async function addRandomCommands(sql: Sql): Promise<void> {
  const { t, end } = createTeardowns()
  const clock = createTestClock(Date.now() - 4 * DAY)
  const node = () =>
    createTestActorNode(t, sql, { clock, resident: 12, timerCommands: TIMER_COMMANDS })
  const [one, two] = [node(), node()]
  const parts = { chance: createSeededRandom(27), now: clock.now }
  const world = await createRandomCommandWorld(one, parts, RANDOM_AGENTS)
  const step = Math.floor((3 * DAY) / RANDOM_COMMANDS)
  await sendRandomCommands([one, two], world, {
    count: RANDOM_COMMANDS,
    samples: 0,
    passTime: () => clock.pass(step),
  })
  await end()
}

async function readTables(sql: Sql): Promise<GoldenTable[]> {
  const names = await sql<{ name: string }[]>`
    select relname as name from pg_class
     where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
     order by relname`
  const tables: GoldenTable[] = []
  for (const { name } of names) {
    const [row] = await sql<{ rows: string | null }[]>`
      select json_agg(r)::text as rows from ${sql(name)} r`
    tables.push({ name, rows: row?.rows ?? '[]' })
  }
  return tables
}

const { t, end } = createTeardowns()
const { sql, database, archiveDir } = await createSampleLedger(t)
await addRandomCommands(sql)
const open = await leaveOpenWork(t, database)
const folder = join(REPOSITORY_ROOT, 'persistence/migrations')
const golden: GoldenDatabase = {
  // The sample ledger makes ids of the next hour.
  at: Date.now() + HOUR,
  migrations: readdirSync(folder)
    .sort()
    .map((name) => ({ name, text: readFileSync(join(folder, name), 'utf8') })),
  tables: await readTables(sql),
  sequences: [
    ...(await sql<{ name: string; value: bigint }[]>`
      select sequencename as name, last_value as value from pg_sequences
       where schemaname = 'public' and last_value is not null`),
  ].map(({ name, value }) => ({ name, value: Number(value) })),
  archive: readdirSync(archiveDir).map((name) => ({
    name,
    base64: readFileSync(join(archiveDir, name)).toString('base64'),
  })),
  open,
}
writeFileSync(
  process.argv[2] ?? GOLDEN_DATABASE_PATH,
  gzipSync(JSON.stringify(golden), { level: 9 }),
)
await end()

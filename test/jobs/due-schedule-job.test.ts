import { randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import { createDatabaseAdjustedClock } from '../../core/clock.ts'
import { parseMasterKey, deriveEncryptionKey } from '../../core/key-derivation-and-encryption.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import {
  startJobQueues,
  type DueWorkJobHint,
} from '../../jobs/queues/distributed-job-queue-service.ts'
import { createDueScheduleJob } from '../../jobs/due-schedule-job.ts'
import { parseDatabaseUrl } from '../../persistence/postgres/database-url.ts'
import { createScheduleStore } from '../../persistence/schedules/schedule-store.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'
import { waitUntilTrue } from '../support/schedules/make-schedule-slots-due.ts'

const PAUSE_MS = 250
/** Distinguishes a missed slot, which waits for the next sweep, from a busy machine. */
const HINT_TIMEOUT_MS = 10_000
const [SLOW, SLOWER] = ['slow', 'slower']
const SLOW_ONES: ReadonlySet<string> = new Set([SLOW, SLOWER])
/** Of one agent at once. */
const SHARE = 8

/** A node's look-out over slots of its own, with a record of its looks and of its hints. */
async function lookout(t: Test, clock = createDatabaseAdjustedClock()) {
  const { sql, settings } = await createTestDatabase(t)
  const queue = { target: parseDatabaseUrl(settings.databaseUrl), redis: null, prefix: '' }
  const jobs = startJobQueues({ ...queue, clock, log: () => {} })
  const store = createScheduleStore(
    sql,
    deriveEncryptionKey(parseMasterKey(randomBytes(32).toString('base64')), 'keyring'),
  )
  const [looks, hints, ran]: [number[], string[], number[]] = [[], [], []]
  const begun: string[] = []
  let deaf = false
  let [open, gate] = [() => {}, Promise.resolve()]
  let meanwhile = async () => {}
  const node = createDueScheduleJob({
    clock,
    store: {
      ...store,
      async look(limit) {
        looks.push(performance.now())
        const seen = await store.look(limit)
        await meanwhile()
        return seen
      },
    },
    jobs: {
      ...jobs,
      hintMany(name, more: readonly DueWorkJobHint[]) {
        hints.push(...more.map(({ id }) => id))
        if (!deaf) jobs.hintMany(name, more)
      },
    },
    // A run ends its slot and removes the timer.
    runner: {
      async run({ agentId, scheduleId }, signal) {
        begun.push(agentId)
        const leave = () => {}
        signal.addEventListener('abort', leave)
        if (SLOW_ONES.has(agentId)) await gate
        signal.removeEventListener('abort', leave)
        const [row] = await sql`delete from timers where id = ${`schedule:${scheduleId}`}
          returning (extract(epoch from clock_timestamp() - due_at) * 1000)::float8 as late`
        if (row !== undefined) ran.push(row['late'])
      },
    },
    log: (message, error) => t.fail(`${message}: ${String(error)}`),
  })
  t.teardown(async () => {
    await node.stop()
    await jobs.stop()
  })

  /**
   * Creates `count` slots, `apart` milliseconds apart, the first one `ahead` from now; each has its own
   * agent unless one is named.
   */
  async function slots(count: number, apart: number, ahead: number, agent: string | null = null) {
    const ids = Array.from({ length: count }, (_, at) => newUuidV7(Date.now() + at))
    await sql`
      with made as (select id, clock_timestamp() + make_interval(secs => (${ahead} + ${apart} * (n - 1)) / 1000.0::float8) as due_at
          from unnest(${ids}::uuid[]) with ordinality x(id, n)),
        asked as (insert into schedule_params select id, id, '{}' from made)
      insert into timers (aggregate_id, aggregate_kind, id, due_at, command, input)
        select coalesce(${agent}::text, id::text), 'agent', 'schedule:' || id, due_at, 'schedule.run', jsonb_build_object('scheduleId', id,
          'slot', (extract(epoch from due_at) * 1000)::bigint) from made`
  }

  return {
    ...{ node, slots, looks, hints, ran, begun },
    /** The runs of the slow agents wait. */
    shut: () => void (gate = new Promise<void>((resolve) => (open = resolve))),
    open: () => open(),
    /** Hints are lost from here on, or not any more. */
    lose: (lost: boolean) => void (deaf = lost),
    /** Runs once during the next query. */
    during(work: () => Promise<void>): void {
      meanwhile = async () => {
        meanwhile = async () => {}
        await work()
      }
    },
  }
}

t.test('many slots close together are each enqueued on time with few queries', async (t) => {
  const { node, slots, looks, hints, ran } = await lookout(t)
  const count = 400
  await slots(count, 5, 300)
  const begun = performance.now()
  node.start()
  await waitUntilTrue('all slots run', () => ran.length === count)
  const took = performance.now() - begun
  t.equal(hints.length, count)
  t.equal(new Set(hints).size, count, 'no slot twice')
  const most = 2 + took / PAUSE_MS
  t.ok(looks.length <= most, `${looks.length} looks in ${Math.round(took)} ms`)
  const gaps = looks.slice(1).map((at, n) => at - (looks[n] ?? 0))
  t.ok(Math.min(...gaps) >= PAUSE_MS - 2, `${Math.round(Math.min(...gaps))} ms between two`)
  t.ok(Math.max(...ran) < HINT_TIMEOUT_MS, `the latest was ${Math.round(Math.max(...ran))} ms late`)
})

t.test('a slot stored during a query is not missed', async (t) => {
  const { node, slots, ran, during } = await lookout(t)
  during(async () => {
    await slots(1, 0, 0)
    node.wakeAt(Date.now())
  })
  node.start()
  await waitUntilTrue('it runs', () => ran.length === 1)
  t.ok(Math.max(...ran) < HINT_TIMEOUT_MS, `the latest was ${Math.round(Math.max(...ran))} ms late`)
})

t.test('a lost hint is enqueued again after half a minute', async (t) => {
  const clock = createDatabaseAdjustedClock()
  let ahead = 0
  const mono = () => performance.now() + ahead
  const { node, slots, hints, ran, lose } = await lookout(t, { ...clock, mono })
  await slots(3, 0, 0)
  lose(true)
  await node.look()
  ahead += 29_000
  await node.look()
  t.equal(hints.length, 3, 'not before')
  lose(false)
  ahead += 1_000
  await node.look()
  t.equal(hints.length, 6)
  t.equal(new Set(hints).size, 3)
  await waitUntilTrue('they run', () => ran.length === 3)
})

t.test('slow runs of two agents delay no other agent, and all of them run', async (t) => {
  const { node, slots, ran, begun, shut, open } = await lookout(t)
  const warnings: string[] = []
  const warn = ({ name }: Error) => void warnings.push(name)
  process.on('warning', warn)
  t.teardown(() => process.off('warning', warn))
  shut()
  const [slow, others] = [20, 5]
  await slots(slow, 0, -1_000, SLOW)
  await slots(slow, 0, -1_000, SLOWER)
  await slots(others, 0, 0)
  node.start()
  await waitUntilTrue('the others run', () => ran.length === others)
  await waitUntilTrue('the slow ones have their share', () => begun.length === 2 * SHARE + others)
  t.equal(begun.filter((agent) => agent === SLOW).length, SHARE)
  open()
  await waitUntilTrue('all run', () => ran.length === 2 * slow + others)
  t.equal(begun.length, 2 * slow + others, 'each once')
  t.strictSame(warnings, [], 'however many listen for the end of the node')
})

t.test('quick runs above the share of an agent follow each other', async (t) => {
  const { node, slots, ran, begun } = await lookout(t)
  const [agents, each] = [50, 20]
  for (let at = 0; at < agents; at += 1) await slots(each, 0, 0, `agent-${at}`)
  node.start()
  await waitUntilTrue('all run', () => ran.length === agents * each)
  t.equal(begun.length, agents * each, 'each once')
  t.ok(Math.max(...ran) < HINT_TIMEOUT_MS, `the latest was ${Math.round(Math.max(...ran))} ms late`)
})

import t from 'tap'
import { createSeededRandom } from '../../../chaos/seeded-random.ts'
import type { AggregateCommand } from '../../../actors/aggregate-command-types.ts'
import { DAY } from '../../../core/clock.ts'
import { expireBountyCommand } from '../../../payments/commands/bounty-commands.ts'
import { createTestClock } from '../../support/actors/test-actor-node.ts'
import {
  assertNoInvariantViolations,
  createTestActorNodePair,
} from '../../support/actors/test-actor-node-pairs.ts'
import { compareLedgerMovements } from '../../support/ledger/ledger-movements-in-database.ts'
import { PAYMENT_TIMER_COMMANDS } from '../../support/payments/sample-payment-claims.ts'
import {
  compareSeenStatesWithJournal,
  compareStoredActorsWithJournal,
  findDoubledCommands,
  type JournalComparison,
} from '../../support/random-commands/compare-journal-with-states.ts'
import { alwaysFailingScheduleRunTimer } from '../../support/random-commands/random-agent-commands.ts'
import { createRandomCommandWorld } from '../../support/random-commands/random-command-world.ts'
import { sendRandomCommands } from '../../support/random-commands/send-random-commands.ts'

const SEED = Number(process.env['REPLAY_SEED'] ?? Date.now() % 2 ** 31)
/** `npm run prove` sends 100,000. */
const COMMANDS = Number(process.env['REPLAY_COMMANDS'] ?? 2_500)
const COMMANDS_PER_AGENT = 200
const VERSIONS = 200
/** Some change nothing or are rejected, so that they have no version. */
const SAMPLES = 4 * VERSIONS
/** Fewer than the aggregates in use, so that they are evicted and loaded all the time. */
const RESIDENT = 12

const TIMER_COMMANDS = [
  ...PAYMENT_TIMER_COMMANDS,
  expireBountyCommand,
  alwaysFailingScheduleRunTimer,
] as AggregateCommand<never, void>[]

t.test(
  `the journal of ${COMMANDS} random commands on two nodes makes the state of every actor`,
  { timeout: 60_000 + COMMANDS * 10 },
  async (t) => {
    const clock = createTestClock()
    const options = { clock, resident: RESIDENT, timerCommands: TIMER_COMMANDS }
    const { sql, one, two } = await createTestActorNodePair(t, options)
    const parts = { chance: createSeededRandom(SEED), now: clock.now }
    const agents = Math.max(12, Math.round(COMMANDS / COMMANDS_PER_AGENT))
    const world = await createRandomCommandWorld(one, parts, agents)
    const startedAt = performance.now()
    const sent = await sendRandomCommands([one, two], world, {
      count: COMMANDS,
      samples: SAMPLES,
      passTime: () => clock.pass(Math.round((3 * DAY) / COMMANDS)),
    })
    const seconds = (performance.now() - startedAt) / 1_000
    t.comment(
      `seed ${SEED}, ${seconds.toFixed(1)} s, ${Math.round(COMMANDS / seconds)} commands a second`,
    )
    t.comment(`${sent.repeated} ran again, ${sent.lostReplies} replies lost`)
    for (const [answer, times] of sent.answers) t.comment(`${answer}: ${times}`)
    t.strictSame(sent.errors, [], 'no command ends with an unexpected error')
    t.ok(sent.repeated > COMMANDS / 100, `${sent.repeated} commands ran again`)

    const same = ({ compared, different }: JournalComparison, what: string) =>
      t.strictSame(different, [], `${compared} ${what}`)
    same(await compareStoredActorsWithJournal(sql), 'stored actors equal their journal')
    const past = await compareSeenStatesWithJournal(sql, sent.seen, VERSIONS)
    same(past, `actors at ${past.versions} versions are as their sender saw them`)
    t.equal(past.versions, VERSIONS)
    t.strictSame(await findDoubledCommands(sql), [], 'no command stands in the journal twice')
    t.comment(`${((performance.now() - startedAt) / 1_000).toFixed(1)} s in all`)
    t.strictSame((await compareLedgerMovements(sql)).unknown, [], 'the table has every movement')
    await assertNoInvariantViolations(t, sql)
  },
)

import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import {
  setTaskBudgetCommand,
  endTaskAggregateCommand,
  startTaskCommand,
} from '../../actors/commands/task-session-actor-commands.ts'
import {
  applyStateDelta,
  JOURNAL_FULL_STATE_INTERVAL,
  type ActorState,
  type JournalChange,
} from '../../core/journal-actor-state-delta.ts'
import { LIMITS } from '../../core/limits.ts'
import { fromUsdc } from '../../core/money.ts'
import { admitCallCommand, settleCallCommand } from '../../payments/commands/call-commands.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import {
  assertNoInvariantViolations,
  createTestActorNodePair,
  createSingleTestActorNode,
  sampleTaskInput,
} from '../support/actors/test-actor-node-pairs.ts'
import {
  loseConnectionBeforeCommit,
  loseReplyAfterCommit,
  sampleCallAdmissionRequest,
  settleCallInputOfAdmission,
  touchedAggregatesOfAdmission,
  type TestActorNode,
  type CommitFault,
} from '../support/actors/test-actor-node.ts'

interface HistoryRow {
  readonly version: number
  readonly changed: readonly JournalChange[]
}
const historyOf = (sql: Sql, id: string) => sql<HistoryRow[]>`
  select version::int, changed from journal where aggregate_id = ${id} order by version`

/** The state of an actor at a version, from the latest full state and the deltas after it. */
function stateAt(rows: readonly HistoryRow[], kind: string, id: string | undefined, at: number) {
  const changes = rows
    .filter(({ version }) => version <= at)
    .flatMap(({ version, changed }) =>
      changed
        .filter((change) => change.kind === kind && change.id === id)
        .map((change) => ({ version, change })),
    )
  const from = changes.findLastIndex(({ change }) => change.state !== undefined)
  const [full, ...deltas] = changes.slice(from)
  const state = deltas.reduce<ActorState | undefined>(
    (made, { change }) => made && applyStateDelta(made, change),
    full?.change.state,
  )
  return { state, rows: (changes.at(-1)?.version ?? 0) - (full?.version ?? 0) }
}

async function payCall(at: TestActorNode, id: string, taskId: string | null = null): Promise<void> {
  const asked = sampleCallAdmissionRequest(0.001, { taskId })
  const touch = touchedAggregatesOfAdmission(asked)
  await at.ask(id, admitCallCommand, asked, touch)
  await at.ask(id, settleCallCommand, settleCallInputOfAdmission(asked, id), touch)
}

t.test('one node writes a full state every hundred versions, and deltas between', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const id = await one.born(0.5)
  const { taskId } = await one.ask(id, startTaskCommand, sampleTaskInput('rests'))
  for (let calls = 0; calls < 250; calls++) await payCall(one, id)
  await one.ask(id, setTaskBudgetCommand, { taskId, budget: fromUsdc(2) })
  const rows = await historyOf(sql, id)
  const fullOf = (kind: string) =>
    rows
      .filter(({ changed }) => changed.some((one) => one.kind === kind && one.state !== undefined))
      .map(({ version }) => version)
  t.strictSame(fullOf('agent'), [
    1,
    1 + JOURNAL_FULL_STATE_INTERVAL,
    1 + 2 * JOURNAL_FULL_STATE_INTERVAL,
  ])
  t.strictSame(fullOf('taskSession'), [2, rows.length], 'a full state follows a long rest')
  const [call] = rows.slice(100, 101)
  t.match(call?.changed, [{ set: { '/promo': { $n: '401000' } } }], 'beside it the delta too')
  t.strictSame(rows[5]?.changed, [
    { kind: 'agent', machine: 1, set: { '/promo': { $n: '496000' } } },
  ])
  await assertNoInvariantViolations(t, sql)
})

t.test('every state of two nodes in turn is near a full one, through faults too', async (t) => {
  const { sql, one, two } = await createTestActorNodePair(t)
  const id = await one.born(5)
  const { taskId } = await one.ask(id, startTaskCommand, sampleTaskInput('shared'))
  const spans = [1, 40, 3, 130, 2, 7]
  for (const [turn, calls] of spans.entries()) {
    const node = turn % 2 === 0 ? one : two
    if (turn === 2) node.faults.push(loseReplyAfterCommit)
    if (turn === 4) node.faults.push(loseConnectionBeforeCommit)
    const all = Array.from({ length: calls }, (_, at) =>
      payCall(node, id, at % 3 === 0 ? taskId : null),
    )
    await Promise.all([...all, ...(turn === 5 ? [payCall(one, id), payCall(two, id)] : [])])
  }
  await two.ask(id, endTaskAggregateCommand, { taskId })
  const rows = await historyOf(sql, id)
  t.ok(rows.length > 180, `${rows.length} versions`)
  for (const [kind, actor] of [
    ['agent', undefined],
    ['taskSession', taskId],
  ] as const) {
    for (const { version } of rows.slice(kind === 'agent' ? 0 : 1)) {
      const { state, rows: distance } = stateAt(rows, kind, actor, version)
      if (state === undefined || distance >= JOURNAL_FULL_STATE_INTERVAL)
        t.fail(`${kind} at ${version}: ${distance} versions after a full state`)
    }
    const [last] = await sql<{ state: ActorState }[]>`select state from actors where kind = ${kind}`
    t.ok(isDeepStrictEqual(stateAt(rows, kind, actor, rows.length).state, last?.state), kind)
  }
  await assertNoInvariantViolations(t, sql)
})

t.test('a batch is bounded by its texts, with each changed actor once', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const id = await one.born(0.5)
  const sizes: number[] = []
  const measure: CommitFault = (send, changes) => {
    const texts = changes.flatMap(({ journal, actors }) => [
      ...journal.map(({ changed }) => changed),
      ...actors.map(({ state }) => state),
    ])
    sizes.push(texts.join('').length)
    return send()
  }
  one.faults.push(...Array.from({ length: 40 }, () => measure))
  const large = (LIMITS.groupCommitMaxChars * 3) / 10
  const tasks = await Promise.all(
    Array.from({ length: 8 }, () =>
      one.ask(id, startTaskCommand, sampleTaskInput('x'.repeat(large))),
    ),
  )
  const most = LIMITS.groupCommitMaxChars + 2 * (large + 1_000)
  t.ok(Math.max(...sizes) < most, `${sizes.join()} characters are at most ${most}`)
  sizes.length = 0
  const [{ taskId }] = tasks as [(typeof tasks)[number]]
  const budgets = Array.from({ length: 50 }, (_, cents) => fromUsdc((100 + cents) / 100))
  await Promise.all(budgets.map((budget) => one.ask(id, setTaskBudgetCommand, { taskId, budget })))
  t.ok(sizes.length <= 2, `${sizes.join()}: fifty changes of a large actor fit one batch`)
  await assertNoInvariantViolations(t, sql)
})

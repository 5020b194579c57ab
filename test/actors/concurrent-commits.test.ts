import t from 'tap'
import { startTaskCommand } from '../../actors/commands/task-session-actor-commands.ts'
import { LIMITS } from '../../core/limits.ts'
import { getAgentBalanceCommand } from '../../payments/commands/agent-account-commands.ts'
import {
  awaitErrorCodeOrOk,
  createTestClock,
  createTestPauseGate,
  loseReplyAfterCommit,
  pauseAfterCommit,
  pauseBeforeCommit,
  type CommitFault,
} from '../support/actors/test-actor-node.ts'
import {
  assertNoInvariantViolations,
  createSingleTestActorNode,
  sampleTaskInput,
} from '../support/actors/test-actor-node-pairs.ts'

/** Commits of different agents are in flight at once; those of one agent go one after the other. */

t.test('an agent does not wait for the slow commit of another one', async (t) => {
  const { one, sql } = await createSingleTestActorNode(t)
  const [slow, quick] = [await one.born(5), await one.born(5)]
  const gate = createTestPauseGate()
  one.faults.push(pauseBeforeCommit(gate))
  const start = (id: string, name: string) => one.ask(id, startTaskCommand, sampleTaskInput(name))
  const first = start(slow, 'first')
  await gate.reached
  let isSecondAnswered = false
  const second = start(slow, 'second').then(() => (isSecondAnswered = true))
  await start(quick, 'beside it')
  await start(quick, 'and again')
  t.notOk(isSecondAnswered, 'the next command of the slow agent waits')
  gate.open()
  await Promise.all([first, second])
  const [{ versions } = { versions: [] }] = await sql<{ versions: number[] }[]>`
    select array_agg(version::int order by at, version) as versions from journal where aggregate_id = ${slow}`
  t.strictSame(versions, [1, 2, 3], 'in the order of its commands')
  await assertNoInvariantViolations(t, sql)
})

t.test('commits in flight are bounded, and what waits goes together', async (t) => {
  const { one, sql } = await createSingleTestActorNode(t)
  const agents: string[] = []
  for (let at = 0; at < LIMITS.groupCommitsAtOnce + 3; at += 1) agents.push(await one.born(5))
  const gate = createTestPauseGate(LIMITS.groupCommitsAtOnce)
  const before = one.commits()
  const sizes: number[] = []
  const counted: CommitFault = async (send, changes) => {
    sizes.push(changes.length)
    return send()
  }
  for (let at = 0; at < LIMITS.groupCommitsAtOnce; at += 1) one.faults.push(pauseBeforeCommit(gate))
  one.faults.push(counted)
  const answers: Promise<unknown>[] = []
  for (const [at, id] of agents.entries()) {
    answers.push(one.ask(id, startTaskCommand, sampleTaskInput('x')))
    // Those that find room are sent in a turn of their own each.
    if (at < LIMITS.groupCommitsAtOnce) await new Promise((done) => setImmediate(done))
  }
  await gate.reached
  await new Promise((done) => setImmediate(done))
  t.equal(one.commits() - before, LIMITS.groupCommitsAtOnce)
  gate.open()
  await Promise.all(answers)
  t.strictSame(sizes, [3])
  await assertNoInvariantViolations(t, sql)
})

t.test('others go on beside an agent that has more to commit than a batch takes', async (t) => {
  const { one } = await createSingleTestActorNode(t)
  const [slow, quick] = [await one.born(5), await one.born(5)]
  const gate = createTestPauseGate()
  one.faults.push(pauseBeforeCommit(gate))
  const start = (id: string, name: string) => one.ask(id, startTaskCommand, sampleTaskInput(name))
  const waiting: Promise<unknown>[] = [start(slow, 'first')]
  await gate.reached
  for (let more = 0; more < LIMITS.groupCommitMaxCommands + 50; more += 1)
    waiting.push(one.ask(slow, getAgentBalanceCommand, {}))
  await new Promise((done) => setImmediate(done))
  await start(quick, 'behind a full batch')
  // More text than a batch takes, sent past the agent that waits.
  const text = 'x'.repeat(LIMITS.groupCommitMaxChars / 40)
  for (let sent = 0; sent < 50; sent += 1) await start(quick, text)
  gate.open()
  await Promise.all(waiting)
})

t.test('others go on beside a command that is committed alone and waits', async (t) => {
  const { one, sql } = await createSingleTestActorNode(t)
  const [suspect, quick] = [await one.born(5), await one.born(5)]
  const refuse: CommitFault = async () => {
    throw new Error('the database refuses it')
  }
  const gate = createTestPauseGate()
  one.faults.push(refuse, pauseBeforeCommit(gate))
  const start = (id: string, name: string) => one.ask(id, startTaskCommand, sampleTaskInput(name))
  // Both are in the refused batch; the first is in flight again, the second waits for it.
  const both = [start(suspect, 'first'), start(suspect, 'second')]
  await gate.reached
  await start(quick, 'beside them')
  gate.open()
  await Promise.all(both)
  await assertNoInvariantViolations(t, sql)
})

for (const hasSecond of [false, true])
  t.test(`an unanswered commit is refused in time, more waits: ${hasSecond}`, async (t) => {
    const clock = createTestClock()
    const { one } = await createSingleTestActorNode(t, { clock })
    const [hung, quick] = [await one.born(5), await one.born(5)]
    const gate = createTestPauseGate()
    one.faults.push(pauseBeforeCommit(gate))
    const start = (id: string) =>
      awaitErrorCodeOrOk(one.ask(id, startTaskCommand, sampleTaskInput('x')))
    const first = start(hung)
    await gate.reached
    const second = hasSecond ? start(hung) : null
    clock.tick(LIMITS.commitTimeoutMs + 100)
    t.equal(await start(quick), 'ok', 'another agent is served')
    t.equal(await first, 'unavailable')
    gate.open()
    await second
  })

t.test('a lost reply of one commit leaves the one beside it alone', async (t) => {
  const { one, sql } = await createSingleTestActorNode(t)
  const [lost, held] = [await one.born(5), await one.born(5)]
  const gate = createTestPauseGate()
  one.faults.push(pauseAfterCommit(gate), loseReplyAfterCommit)
  const beside = one.ask(held, startTaskCommand, sampleTaskInput('held'))
  await gate.reached
  await one.ask(lost, startTaskCommand, sampleTaskInput('lost'))
  t.match(await one.ask(lost, getAgentBalanceCommand, {}), {}, 'it is answered from the journal')
  gate.open()
  await beside
  for (const id of [lost, held]) {
    const [{ n } = { n: 0 }] = await sql<{ n: number }[]>`
      select count(*)::int as n from journal where aggregate_id = ${id}`
    t.equal(n, 2, 'each once')
  }
  await assertNoInvariantViolations(t, sql)
})

t.test('a node that closes answers all commits in flight', async (t) => {
  const { one, sql } = await createSingleTestActorNode(t)
  const [first, second] = [await one.born(5), await one.born(5)]
  const gate = createTestPauseGate(2)
  one.faults.push(pauseBeforeCommit(gate), pauseBeforeCommit(gate))
  const answers = [one.ask(first, startTaskCommand, sampleTaskInput('a'))]
  await new Promise((done) => setImmediate(done))
  answers.push(one.ask(second, startTaskCommand, sampleTaskInput('b')))
  await gate.reached
  const closed = one.close()
  gate.open()
  await Promise.all([...answers, closed])
  await assertNoInvariantViolations(t, sql)
})

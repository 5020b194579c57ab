import t from 'tap'
import { startTaskCommand } from '../../actors/commands/task-session-actor-commands.ts'
import { LIMITS } from '../../core/limits.ts'
import { getAgentBalanceCommand } from '../../payments/commands/agent-account-commands.ts'
import {
  awaitErrorCodeOrOk,
  createTestClock,
  createTestPauseGate,
  pauseBeforeCommit,
} from '../support/actors/test-actor-node.ts'
import {
  createSingleTestActorNode,
  sampleTaskInput,
} from '../support/actors/test-actor-node-pairs.ts'

/** A command whose commit was not sent yet is not overdue while the commits before it are answered. */

t.test('a command in the third of three slow commits is not refused', async (t) => {
  const clock = createTestClock()
  const { one } = await createSingleTestActorNode(t, { clock })
  const [first, second, third] = [await one.born(0.5), await one.born(0.5), await one.born(0.5)]
  const [firstCommit, secondCommit] = [createTestPauseGate(), createTestPauseGate()]
  one.faults.push(pauseBeforeCommit(firstCommit), pauseBeforeCommit(secondCommit))
  const start = (id: string) =>
    awaitErrorCodeOrOk(one.ask(id, startTaskCommand, sampleTaskInput('slow')))
  const answers = [start(first)]
  await firstCommit.reached
  // They fill the second commit.
  const full = Array.from({ length: LIMITS.groupCommitMaxCommands }, () =>
    awaitErrorCodeOrOk(one.ask(second, getAgentBalanceCommand, {})),
  )
  answers.push(start(third))
  clock.tick(LIMITS.commitTimeoutMs - 100)
  firstCommit.open()
  await secondCommit.reached
  clock.tick(200)
  const sent = await Promise.all(full)
  t.ok(
    sent.every((code) => code === 'unavailable'),
    'what was sent and is not answered is refused',
  )
  secondCommit.open()
  t.strictSame(await Promise.all(answers), ['ok', 'ok'])
})

import t from 'tap'
import { startTaskCommand } from '../../actors/commands/task-session-actor-commands.ts'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { ZERO_MICROS, fromUsdc } from '../../core/money.ts'
import {
  getAgentBalanceCommand,
  sendCreditsCommand,
} from '../../payments/commands/agent-account-commands.ts'
import {
  readPromoBalance,
  sampleTaskInput,
  createTestActorNodePair,
  createCountingAggregateCommand,
  sampleCreditTransferInput,
  createSingleTestActorNode,
  assertNoInvariantViolations,
} from '../support/actors/test-actor-node-pairs.ts'
import {
  awaitErrorCodeOrOk,
  createTestPauseGate,
  pauseBeforeCommit,
  loseReplyAfterCommit,
  loseConnectionBeforeCommit,
  createTestClock,
} from '../support/actors/test-actor-node.ts'

t.test('commands based on a replaced state run again, in order', async (t) => {
  const { sql, one, two } = await createTestActorNodePair(t)
  const id = await one.born(0.5)
  await two.ask(id, getAgentBalanceCommand, {})
  await one.ask(id, startTaskCommand, sampleTaskInput('elsewhere'))
  const order: string[] = []
  const log = (text: string) =>
    createCountingAggregateCommand((turn) => {
      order.push(text)
      turn.create('taskSession', turn.newId(), {
        taskId: text,
        name: text,
        budget: ZERO_MICROS,
        at: turn.now,
      })
    })
  await Promise.all(['a', 'b', 'c'].map((text) => two.ask(id, log(text), undefined)))
  t.strictSame(order, ['a', 'b', 'c', 'a', 'b', 'c'])
  const [row] = await sql`select version from aggregates where id = ${id}`
  t.equal(row?.['version'], 5n, 'each has landed once')
  await assertNoInvariantViolations(t, sql)
})

t.test('a command whose commit reply was lost is answered and not run again', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const [id, other] = [await one.born(0.5), await one.born(0)]
  one.faults.push(loseReplyAfterCommit)
  const paid = await one.ask(id, sendCreditsCommand, sampleCreditTransferInput(other, 0.2))
  const rows = await sql`select call_id from transfers where kind = 'send'`
  t.strictSame(
    rows.map((row) => row['call_id']),
    [paid.transferId],
    'the ledger has the transfer that was answered',
  )
  t.equal(await readPromoBalance(one, id), fromUsdc(0.3))
  t.equal(await readPromoBalance(one, other), fromUsdc(0.2))
  await assertNoInvariantViolations(t, sql)
})

t.test('a connection that breaks before the commit costs nothing: it is sent again', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const [id, other] = [await one.born(0.5), await one.born(0)]
  one.faults.push(loseConnectionBeforeCommit)
  await one.ask(id, sendCreditsCommand, sampleCreditTransferInput(other, 0.2))
  t.equal(await readPromoBalance(one, id), fromUsdc(0.3))
  one.faults.push(loseConnectionBeforeCommit, loseConnectionBeforeCommit)
  t.equal(
    await awaitErrorCodeOrOk(
      one.ask(id, sendCreditsCommand, sampleCreditTransferInput(other, 0.2)),
    ),
    'unavailable',
    'twice is enough',
  )
  t.equal(await readPromoBalance(one, id), fromUsdc(0.3))
  await assertNoInvariantViolations(t, sql)
})

t.test(
  'an interrupted commit that succeeds during the lookup is answered with its result',
  async (t) => {
    const { sql, one } = await createSingleTestActorNode(t)
    const [id, other] = [await one.born(0.5), await one.born(0)]
    let landing = Promise.resolve()
    one.faults.push(async (sendNow) => {
      await Promise.resolve()
      landing = new Promise((done) => {
        one.faults.push(async (second) => {
          await sendNow()
          done()
          return second()
        })
      })
      return loseConnectionBeforeCommit(sendNow, [])
    })
    const paid = await one.ask(id, sendCreditsCommand, sampleCreditTransferInput(other, 0.2))
    await landing
    const rows = await sql`select call_id from transfers where kind = 'send'`
    t.strictSame(
      rows.map((row) => row['call_id']),
      [paid.transferId],
      'one transfer, and the reply names it',
    )
    t.equal(await readPromoBalance(one, id), fromUsdc(0.3))
    await assertNoInvariantViolations(t, sql)
  },
)

t.test('a command that the database rejects does not affect the others', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const ids = [await one.born(0.5), await one.born(0.5), await one.born(0.5)] as const
  const poison = createCountingAggregateCommand((turn) =>
    turn.transfer({
      debit: 'agent:x:cash',
      credit: 'agent:y:cash',
      amount: fromUsdc(0),
      kind: 'send',
    }),
  )
  const [before, bad, after, beside] = await Promise.allSettled([
    one.ask(ids[0], startTaskCommand, sampleTaskInput('before')),
    one.ask(ids[0], poison, undefined),
    one.ask(ids[0], startTaskCommand, sampleTaskInput('after')),
    one.ask(ids[1], sendCreditsCommand, sampleCreditTransferInput(ids[2], 0.5)),
  ])
  t.match(bad, { status: 'rejected', reason: { code: '23514' } })
  t.notOk((bad as PromiseRejectedResult).reason instanceof ServiceError, 'a bug, not a refusal')
  t.match([before, after, beside], Array(3).fill({ status: 'fulfilled' }))
  t.equal(await readPromoBalance(one, ids[2]), fromUsdc(1))
  await assertNoInvariantViolations(t, sql)
})

t.test('a full mailbox rejects commands', async (t) => {
  const { one } = await createSingleTestActorNode(t)
  const id = await one.born(0.5)
  const at = createTestPauseGate()
  one.faults.push(pauseBeforeCommit(at))
  const asked = Array.from({ length: LIMITS.mailboxMaxCommands }, () =>
    one.ask(id, getAgentBalanceCommand, {}),
  )
  t.equal(await awaitErrorCodeOrOk(one.ask(id, getAgentBalanceCommand, {})), 'overloaded')
  const other = one.born(0)
  at.open()
  t.equal((await Promise.all(asked)).length, LIMITS.mailboxMaxCommands)
  await other
  t.equal(await awaitErrorCodeOrOk(one.ask(id, getAgentBalanceCommand, {})), 'ok')
})

t.test(
  'no command waits longer than its timeout, and an unsent command never commits',
  async (t) => {
    const clock = createTestClock()
    const { sql, one } = await createSingleTestActorNode(t, { clock })
    const id = await one.born(0.5)
    const at = createTestPauseGate()
    one.faults.push(pauseBeforeCommit(at))
    const sent = awaitErrorCodeOrOk(one.ask(id, startTaskCommand, sampleTaskInput('sent')))
    await at.reached
    const unsent = awaitErrorCodeOrOk(one.ask(id, startTaskCommand, sampleTaskInput('unsent')))
    clock.tick(LIMITS.commitTimeoutMs + 1)
    t.strictSame(await Promise.all([sent, unsent]), ['unavailable', 'unavailable'])
    at.open()
    await one.ask(id, startTaskCommand, sampleTaskInput('later'))
    const tasks =
      await sql`select state->'context'->>'name' as name from actors where kind = 'taskSession'`
    t.strictSame(tasks.map((row) => String(row['name'])).sort(), ['later', 'sent'])
    await assertNoInvariantViolations(t, sql)
  },
)

t.test('a command that lost a race is retried while the database answers', async (t) => {
  const clock = createTestClock()
  const { sql, one, two } = await createTestActorNodePair(t, { clock })
  const [id, other] = [await one.born(0.5), await one.born(0.5)]
  const [first, second] = [createTestPauseGate(), createTestPauseGate()]
  one.faults.push(pauseBeforeCommit(first), pauseBeforeCommit(second))
  const raced = awaitErrorCodeOrOk(one.ask(id, startTaskCommand, sampleTaskInput('raced')))
  await first.reached
  const silent = awaitErrorCodeOrOk(one.ask(other, startTaskCommand, sampleTaskInput('silent')))
  await two.ask(id, startTaskCommand, sampleTaskInput('faster'))
  clock.tick(LIMITS.commitTimeoutMs - 500)
  first.open()
  await second.reached
  clock.tick(LIMITS.commitTimeoutMs - 500)
  t.equal(await silent, 'unavailable', 'nothing was heard of its aggregate')
  second.open()
  t.equal(await raced, 'ok')
  await assertNoInvariantViolations(t, sql)
})

t.test('a command that loses every race is rejected at its deadline', async (t) => {
  const clock = createTestClock()
  const { sql, one, two } = await createTestActorNodePair(t, { clock })
  const id = await one.born(0.5)
  const asked = awaitErrorCodeOrOk(one.ask(id, startTaskCommand, sampleTaskInput('unlucky')))
  let over = false
  void asked.then(() => (over = true))
  for (let round = 0; !over; round += 1) {
    const at = createTestPauseGate()
    one.faults.push(pauseBeforeCommit(at))
    await Promise.race([at.reached, asked])
    await two.ask(id, startTaskCommand, sampleTaskInput(`faster ${round}`))
    clock.tick(LIMITS.commitTimeoutMs - 500)
    at.open()
  }
  t.equal(await asked, 'unavailable')
  await assertNoInvariantViolations(t, sql)
})

t.test('a closing runtime answers every command and accepts no new one', async (t) => {
  const clock = createTestClock()
  const { sql, one } = await createSingleTestActorNode(t, { clock })
  const [id, other] = [await one.born(0.5), await one.born(0)]
  const sent = Array.from({ length: 5 }, () =>
    awaitErrorCodeOrOk(one.ask(id, sendCreditsCommand, sampleCreditTransferInput(other, 0.1))),
  )
  const closing = one.close()
  t.equal(await awaitErrorCodeOrOk(one.ask(id, getAgentBalanceCommand, {})), 'unavailable')
  t.strictSame(await Promise.all(sent), Array(5).fill('ok'))
  await closing
  t.equal(one.stats().open, 0)
  await assertNoInvariantViolations(t, sql)
})

t.test('a runtime closes although the database hangs', async (t) => {
  const clock = createTestClock()
  const { one } = await createSingleTestActorNode(t, { clock })
  const id = await one.born(0.5)
  const at = createTestPauseGate()
  one.faults.push(pauseBeforeCommit(at))
  const asked = awaitErrorCodeOrOk(one.ask(id, startTaskCommand, sampleTaskInput('x')))
  await at.reached
  const closing = one.close()
  clock.tick(LIMITS.commitTimeoutMs + 1)
  t.equal(await asked, 'unavailable')
  await closing
  at.open()
})

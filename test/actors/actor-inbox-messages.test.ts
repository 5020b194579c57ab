import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { IdempotencyKeyAnsweredElsewhereError } from '../../actors/aggregate-command-types.ts'
import {
  getActiveTaskCommand,
  endTaskAggregateCommand,
  startTaskCommand,
} from '../../actors/commands/task-session-actor-commands.ts'
import {
  getBackpackCommand,
  revokeBackpackCommand,
} from '../../actors/commands/backpacks-commands.ts'
import { DAY } from '../../core/clock.ts'
import { ZERO_MICROS, fromUsdc } from '../../core/money.ts'
import type { AggregateStore } from '../../persistence/aggregate-store.ts'
import { admitCallCommand, settleCallCommand } from '../../payments/commands/call-commands.ts'
import {
  getAgentBalanceCommand,
  sendCreditsCommand,
} from '../../payments/commands/agent-account-commands.ts'
import {
  readPromoBalance,
  sampleTaskInput,
  createTestBackpack,
  createTestActorNodePair,
  createCountingAggregateCommand,
  sampleCreditTransferInput,
  createSingleTestActorNode,
  assertNoInvariantViolations,
} from '../support/actors/test-actor-node-pairs.ts'
import {
  sampleCallAdmissionRequest,
  awaitErrorCodeOrOk,
  createTestPauseGate,
  pauseAfterCommit,
  pauseBeforeCommit,
  settleCallInputOfAdmission,
} from '../support/actors/test-actor-node.ts'

t.test('a rejection from a stale node is evaluated again', async (t) => {
  const { sql, one, two } = await createTestActorNodePair(t)
  const [poor, rich] = [await one.born(0.01), await one.born(0.5)]
  await two.ask(poor, getAgentBalanceCommand, {})
  await two.ask(rich, getAgentBalanceCommand, {})
  await one.ask(rich, sendCreditsCommand, sampleCreditTransferInput(poor, 0.4))
  t.equal(await readPromoBalance(one, poor), fromUsdc(0.41), 'absorbed on the first node')
  t.equal(
    await awaitErrorCodeOrOk(two.ask(poor, admitCallCommand, sampleCallAdmissionRequest(0.2))),
    'ok',
    'no wrong 402 on the second',
  )
  t.equal(await awaitErrorCodeOrOk(two.ask(poor, getActiveTaskCommand, {})), 'no_active_task')
  await assertNoInvariantViolations(t, sql)
})

t.test('a command that waits for the inbox keeps the ended actor that it named', async (t) => {
  const fetched = createTestPauseGate()
  const store = (from: AggregateStore): AggregateStore => ({
    ...from,
    loadActors: (...wanted) => from.loadActors(...wanted).finally(() => void fetched.pass()),
  })
  const { sql, one, two } = await createTestActorNodePair(t, { store })
  const [id, rich] = [await one.born(0.5), await one.born(0.5)]
  const { backpackId } = await createTestBackpack(one, id, null)
  await one.ask(id, revokeBackpackCommand, { backpackId })
  const landed = createTestPauseGate()
  one.faults.push(pauseAfterCommit(landed))
  const task = one.ask(id, startTaskCommand, sampleTaskInput('before'))
  await landed.reached
  await two.ask(rich, sendCreditsCommand, sampleCreditTransferInput(id, 0.1))
  const touch = [{ kind: 'backpack' as const, id: backpackId }]
  const read = one.ask(id, getBackpackCommand, { backpackId }, { touch })
  await fetched.reached
  await turn()
  await turn()
  // The end of this commit removes ended actors from memory, while the read waits in the next one.
  landed.open()
  await task
  t.equal((await read).state, 'revoked')
  await assertNoInvariantViolations(t, sql)
})

t.test('a settlement on a node that is behind never overspends', async (t) => {
  const { sql, one, two } = await createTestActorNodePair(t)
  const [id, other] = [await one.born(0.5), await one.born(0)]
  const asked = sampleCallAdmissionRequest(0.4)
  await two.ask(id, admitCallCommand, asked)
  await one.ask(id, sendCreditsCommand, sampleCreditTransferInput(other, 0.3))
  t.equal(
    await awaitErrorCodeOrOk(two.ask(id, settleCallCommand, settleCallInputOfAdmission(asked, id))),
    'payment_required',
  )
  t.equal(await readPromoBalance(two, id), fromUsdc(0.2))
  await assertNoInvariantViolations(t, sql)
})

t.test('the inbox is absorbed before a 402 and before a balance', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const [poor, rich] = [await one.born(0.01), await one.born(0.5)]
  await one.ask(rich, sendCreditsCommand, sampleCreditTransferInput(poor, 0.1))
  t.equal(
    await awaitErrorCodeOrOk(
      one.ask(
        poor,
        admitCallCommand,
        sampleCallAdmissionRequest(0.1, { expiresAt: Date.now() + DAY }),
      ),
    ),
    'ok',
  )
  await one.ask(rich, sendCreditsCommand, sampleCreditTransferInput(poor, 0.1))
  t.match(await one.ask(poor, getAgentBalanceCommand, {}), { promo: 110_000n, held: 100_000n })
  await assertNoInvariantViolations(t, sql)
})

t.test('a message is absorbed once, however many replies of a node find it waiting', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const [poor, rich] = [await one.born(0.01), await one.born(0.5)]
  await one.ask(rich, sendCreditsCommand, sampleCreditTransferInput(poor, 0.1))
  const at = createTestPauseGate()
  one.faults.push(pauseAfterCommit(at))
  const first = readPromoBalance(one, poor)
  await at.reached
  const second = readPromoBalance(one, poor)
  const third = awaitErrorCodeOrOk(one.ask(poor, admitCallCommand, sampleCallAdmissionRequest(0.2)))
  at.open()
  t.strictSame(await Promise.all([first, second, third]), [110_000n, 110_000n, 'payment_required'])
  await assertNoInvariantViolations(t, sql)
})

t.test('a message is absorbed once by two concurrent reads of the inbox', async (t) => {
  const waiting: (() => void)[] = []
  const inPairs = (store: AggregateStore): AggregateStore => ({
    ...store,
    async openInbox(id, limit) {
      const rows = await store.openInbox(id, limit)
      await new Promise<void>((resolve) => {
        waiting.push(resolve)
        if (waiting.length === 2) for (const go of waiting.splice(0)) go()
      })
      return rows
    },
  })
  const { sql, one } = await createSingleTestActorNode(t, { store: inPairs })
  const [poor, rich] = [await one.born(0.01), await one.born(0.5)]
  await one.ask(rich, sendCreditsCommand, sampleCreditTransferInput(poor, 0.1))
  const at = createTestPauseGate()
  one.faults.push(pauseAfterCommit(at))
  const first = readPromoBalance(one, poor)
  await at.reached
  const second = readPromoBalance(one, poor)
  at.open()
  t.strictSame(await Promise.all([first, second]), [110_000n, 110_000n])
  await assertNoInvariantViolations(t, sql)
})

t.test('a late inbox read admits no call', async (t) => {
  const [early, late] = [createTestPauseGate(), createTestPauseGate()]
  let readings = 0
  const secondLate = (store: AggregateStore): AggregateStore => ({
    ...store,
    async openInbox(id, limit) {
      const rows = await store.openInbox(id, limit)
      readings += 1
      if (readings === 1) void early.pass()
      if (readings === 2) await late.pass()
      return rows
    },
  })
  const { sql, one } = await createSingleTestActorNode(t, { store: secondLate })
  const [poor, rich] = [await one.born(0.01), await one.born(0.5)]
  await one.ask(rich, sendCreditsCommand, sampleCreditTransferInput(poor, 0.1))
  const [atFirst, atSecond, absorbed] = [
    createTestPauseGate(),
    createTestPauseGate(),
    createTestPauseGate(),
  ]
  one.faults.push(pauseAfterCommit(atFirst), pauseAfterCommit(atSecond), async (commit) => {
    const outcome = await commit()
    void absorbed.pass()
    return outcome
  })
  const first = readPromoBalance(one, poor)
  await atFirst.reached
  const second = readPromoBalance(one, poor)
  atFirst.open()
  await Promise.all([early.reached, atSecond.reached])
  await turns()
  atSecond.open()
  await Promise.all([late.reached, absorbed.reached])
  await turns()
  const third = awaitErrorCodeOrOk(one.ask(poor, admitCallCommand, sampleCallAdmissionRequest(0.2)))
  late.open()
  t.strictSame(await Promise.all([first, second, third]), [110_000n, 110_000n, 'payment_required'])
  await assertNoInvariantViolations(t, sql)
})

t.test('a message is absorbed once by two nodes that read it at the same time', async (t) => {
  const { sql, one, two } = await createTestActorNodePair(t)
  const [poor, rich] = [await one.born(0.01), await one.born(0.5)]
  await two.ask(poor, getAgentBalanceCommand, {})
  await one.ask(rich, sendCreditsCommand, sampleCreditTransferInput(poor, 0.1))
  const at = createTestPauseGate()
  one.faults.push((sendNow) => sendNow(), pauseBeforeCommit(at))
  const first = readPromoBalance(one, poor)
  await at.reached
  t.equal(await readPromoBalance(two, poor), fromUsdc(0.11), 'the second node is faster')
  at.open()
  t.equal(await first, fromUsdc(0.11))
  await assertNoInvariantViolations(t, sql)
})

t.test('a message that is delivered twice is credited once', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const [poor, rich] = [await one.born(0.01), await one.born(0.5)]
  await one.ask(rich, sendCreditsCommand, sampleCreditTransferInput(poor, 0.1))
  const [sent] = await sql`select * from inbox`
  t.equal(await readPromoBalance(one, poor), fromUsdc(0.11))
  const again = createCountingAggregateCommand((turn) =>
    turn.inbox({
      receiver: poor,
      receiverKind: 'agent',
      id: String(sent?.['id']),
      event: { type: 'CREDIT', promo: fromUsdc(0.1), cash: ZERO_MICROS },
    }),
  )
  await one.ask(rich, again, undefined)
  t.equal(await readPromoBalance(one, poor), fromUsdc(0.11))
  await assertNoInvariantViolations(t, sql)
})

t.test('an Idempotency-Key is answered once, even on a node that looked too early', async (t) => {
  const { sql, one, two } = await createTestActorNodePair(t)
  const id = await one.born(0.5)
  const [first, second] = [
    sampleCallAdmissionRequest(0.1, { idempotencyKey: 'k1' }),
    sampleCallAdmissionRequest(0.1, { idempotencyKey: 'k1' }),
  ]
  await one.ask(id, admitCallCommand, first)
  await one.ask(id, settleCallCommand, settleCallInputOfAdmission(first, id), { key: 'k1' })
  // The second node loads its state only now, so its version does not reveal the answer.
  await two.ask(id, admitCallCommand, second)
  const asked = two.ask(id, settleCallCommand, settleCallInputOfAdmission(second, id), {
    key: 'k1',
  })
  const error = await asked.then(
    () => null,
    (reason: unknown) => reason,
  )
  t.ok(error instanceof IdempotencyKeyAnsweredElsewhereError)
  t.match(error, { stored: { callId: first.callId, requestHash: 'hash' } })
  two.releaseHold(id, second.callId)
  t.match(await two.ask(id, getAgentBalanceCommand, {}), { promo: 400_000n, reserved: 0n })
  await assertNoInvariantViolations(t, sql)
})

t.test('two nodes that start with one key charge once', async (t) => {
  const { sql, one, two } = await createTestActorNodePair(t)
  const id = await one.born(0.5)
  const calls = [one, two].map(async (at) => {
    const asked = sampleCallAdmissionRequest(0.1, { idempotencyKey: 'k1' })
    await at.ask(id, admitCallCommand, asked)
    return at.ask(id, settleCallCommand, settleCallInputOfAdmission(asked, id), { key: 'k1' }).then(
      () => 'charged',
      (error: unknown) =>
        error instanceof IdempotencyKeyAnsweredElsewhereError ? 'replayed' : error,
    )
  })
  t.strictSame((await Promise.all(calls)).map(String).sort(), ['charged', 'replayed'])
  t.equal(await readPromoBalance(one, id), fromUsdc(0.4))
  await assertNoInvariantViolations(t, sql)
})

t.test(
  'a row under an answered Idempotency-Key returns that answer for any key in the command',
  async (t) => {
    const { sql, one } = await createSingleTestActorNode(t)
    const id = await one.born(0.5)
    const keyed = () => sampleCallAdmissionRequest(0.1, { idempotencyKey: 'k1' })
    const first = keyed()
    await one.ask(id, admitCallCommand, first)
    await one.ask(id, settleCallCommand, settleCallInputOfAdmission(first, id), { key: 'k1' })
    for (const options of [{}, { key: 'k2' }]) {
      const second = keyed()
      await one.ask(id, admitCallCommand, second)
      const [settled, started] = await Promise.allSettled([
        one.ask(id, settleCallCommand, settleCallInputOfAdmission(second, id), options),
        one.ask(id, startTaskCommand, sampleTaskInput('beside')),
      ])
      t.equal(started.status, 'fulfilled', 'what shares its commit goes on')
      const error: unknown = settled.status === 'rejected' ? settled.reason : null
      t.ok(error instanceof IdempotencyKeyAnsweredElsewhereError)
      t.match(error, { stored: { callId: first.callId, requestHash: 'hash' } })
      one.releaseHold(id, second.callId)
      await one.ask(id, endTaskAggregateCommand, await one.ask(id, getActiveTaskCommand, {}))
    }
    t.equal(await readPromoBalance(one, id), fromUsdc(0.4), 'one of them was charged')
    await assertNoInvariantViolations(t, sql)
  },
)

t.test('a receipt is stored with its command, and the second node finds it', async (t) => {
  const { sql, one, two } = await createTestActorNodePair(t)
  const id = await one.born(0.5)
  const receipt = (at: string) => ({
    operation: 'startTask',
    key: 'k2',
    hash: at,
    keyId: null,
    present: (result: unknown) => ({ status: 200, body: (result as { name: string }).name }),
  })
  const answers = await Promise.allSettled([
    one.ask(id, startTaskCommand, sampleTaskInput('one'), { receipt: receipt('one') }),
    two.ask(id, startTaskCommand, sampleTaskInput('two'), { receipt: receipt('two') }),
  ])
  const rejected = answers.flatMap((one) =>
    one.status === 'rejected' ? [one.reason as unknown] : [],
  )
  t.equal(rejected.length, 1)
  t.ok(rejected[0] instanceof IdempotencyKeyAnsweredElsewhereError)
  const rows = await sql`select response from calls where idempotency_key = 'k2'`
  t.equal(rows.length, 1)
  await assertNoInvariantViolations(t, sql)
})

t.test('the events of a rejection are stored once, whichever node rejects', async (t) => {
  const { sql, one, two } = await createTestActorNodePair(t)
  const id = await one.born(0.5)
  const { backpackId } = await createTestBackpack(one, id, 0.1)
  await two.ask(id, getAgentBalanceCommand, {})
  const asks = Array.from({ length: 6 }, (_, at) =>
    awaitErrorCodeOrOk(
      (at % 2 === 0 ? one : two).ask(
        id,
        admitCallCommand,
        sampleCallAdmissionRequest(0.2, { backpackId }),
      ),
    ),
  )
  t.strictSame(await Promise.all(asks), Array(6).fill('FUSE_TRIPPED'))
  const told = await sql`select backpack_id from outbox where type = 'fuse.tripped'`
  t.strictSame(
    told.map((row) => row['backpack_id']),
    [backpackId],
  )
  await assertNoInvariantViolations(t, sql)
})

/** Everything that is ready has been done. */
async function turns(): Promise<void> {
  for (let count = 0; count < 5; count += 1) await turn()
}

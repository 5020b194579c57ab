import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { AlreadyAnswered } from '../../actors/command.ts'
import { taskActive, taskEnd, taskStart } from '../../actors/commands/tasks.ts'
import { DAY } from '../../core/clock.ts'
import { ZERO, fromUsdc } from '../../core/money.ts'
import type { AggregateStore } from '../../persistence/aggregates.ts'
import { callAdmit, callSettle } from '../../payments/commands/call.ts'
import { balance, transferSend } from '../../payments/commands/purse.ts'
import { money, name, packOf, pair, probe, send, single, soundly } from '../support/nodes.ts'
import { admission, codeOf, gate, heldAfter, heldBefore, settlement } from '../support/runtime.ts'

t.test('a refusal of a node that is behind is asked again', async (t) => {
  const { sql, one, two } = await pair(t)
  const [poor, rich] = [await one.born(0.01), await one.born(0.5)]
  await two.ask(poor, balance, {})
  await two.ask(rich, balance, {})
  await one.ask(rich, transferSend, send(poor, 0.4))
  t.equal(await money(one, poor), fromUsdc(0.41), 'absorbed on the first node')
  t.equal(
    await codeOf(two.ask(poor, callAdmit, admission(0.2))),
    'ok',
    'no wrong 402 on the second',
  )
  t.equal(await codeOf(two.ask(poor, taskActive, {})), 'no_active_task')
  await soundly(t, sql)
})

t.test('a settlement on a node that is behind never overspends', async (t) => {
  const { sql, one, two } = await pair(t)
  const [id, other] = [await one.born(0.5), await one.born(0)]
  const asked = admission(0.4)
  await two.ask(id, callAdmit, asked)
  await one.ask(id, transferSend, send(other, 0.3))
  t.equal(await codeOf(two.ask(id, callSettle, settlement(asked, id))), 'payment_required')
  t.equal(await money(two, id), fromUsdc(0.2))
  await soundly(t, sql)
})

t.test('the inbox is absorbed before a 402 and before a balance', async (t) => {
  const { sql, one } = await single(t)
  const [poor, rich] = [await one.born(0.01), await one.born(0.5)]
  await one.ask(rich, transferSend, send(poor, 0.1))
  t.equal(
    await codeOf(one.ask(poor, callAdmit, admission(0.1, { expiresAt: Date.now() + DAY }))),
    'ok',
  )
  await one.ask(rich, transferSend, send(poor, 0.1))
  t.match(await one.ask(poor, balance, {}), { promo: 110_000n, held: 100_000n })
  await soundly(t, sql)
})

t.test('a message is absorbed once, however many replies of a node find it waiting', async (t) => {
  const { sql, one } = await single(t)
  const [poor, rich] = [await one.born(0.01), await one.born(0.5)]
  await one.ask(rich, transferSend, send(poor, 0.1))
  const at = gate()
  one.faults.push(heldAfter(at))
  const first = money(one, poor)
  await at.reached
  const second = money(one, poor)
  const third = codeOf(one.ask(poor, callAdmit, admission(0.2)))
  at.open()
  t.strictSame(await Promise.all([first, second, third]), [110_000n, 110_000n, 'payment_required'])
  await soundly(t, sql)
})

t.test('a message is absorbed once when two readings of the inbox come back at once', async (t) => {
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
  const { sql, one } = await single(t, { store: inPairs })
  const [poor, rich] = [await one.born(0.01), await one.born(0.5)]
  await one.ask(rich, transferSend, send(poor, 0.1))
  const at = gate()
  one.faults.push(heldAfter(at))
  const first = money(one, poor)
  await at.reached
  const second = money(one, poor)
  at.open()
  t.strictSame(await Promise.all([first, second]), [110_000n, 110_000n])
  await soundly(t, sql)
})

t.test('a reading of the inbox that comes back late lets no call in', async (t) => {
  const [early, late] = [gate(), gate()]
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
  const { sql, one } = await single(t, { store: secondLate })
  const [poor, rich] = [await one.born(0.01), await one.born(0.5)]
  await one.ask(rich, transferSend, send(poor, 0.1))
  const [atFirst, atSecond, absorbed] = [gate(), gate(), gate()]
  one.faults.push(heldAfter(atFirst), heldAfter(atSecond), async (commit) => {
    const outcome = await commit()
    void absorbed.pass()
    return outcome
  })
  const first = money(one, poor)
  await atFirst.reached
  const second = money(one, poor)
  atFirst.open()
  await Promise.all([early.reached, atSecond.reached])
  await turns()
  atSecond.open()
  await Promise.all([late.reached, absorbed.reached])
  await turns()
  const third = codeOf(one.ask(poor, callAdmit, admission(0.2)))
  late.open()
  t.strictSame(await Promise.all([first, second, third]), [110_000n, 110_000n, 'payment_required'])
  await soundly(t, sql)
})

t.test('a message is absorbed once by two nodes that read it at the same time', async (t) => {
  const { sql, one, two } = await pair(t)
  const [poor, rich] = [await one.born(0.01), await one.born(0.5)]
  await two.ask(poor, balance, {})
  await one.ask(rich, transferSend, send(poor, 0.1))
  const at = gate()
  one.faults.push((sendNow) => sendNow(), heldBefore(at))
  const first = money(one, poor)
  await at.reached
  t.equal(await money(two, poor), fromUsdc(0.11), 'the second node is faster')
  at.open()
  t.equal(await first, fromUsdc(0.11))
  await soundly(t, sql)
})

t.test('a message that is delivered twice is credited once', async (t) => {
  const { sql, one } = await single(t)
  const [poor, rich] = [await one.born(0.01), await one.born(0.5)]
  await one.ask(rich, transferSend, send(poor, 0.1))
  const [sent] = await sql`select * from inbox`
  t.equal(await money(one, poor), fromUsdc(0.11))
  const again = probe((turn) =>
    turn.inbox({
      receiver: poor,
      receiverKind: 'agent',
      id: String(sent?.['id']),
      event: { type: 'CREDIT', promo: fromUsdc(0.1), cash: ZERO },
    }),
  )
  await one.ask(rich, again, undefined)
  t.equal(await money(one, poor), fromUsdc(0.11))
  await soundly(t, sql)
})

t.test('a message that cannot be absorbed keeps nobody waiting', async (t) => {
  const { sql, one } = await single(t)
  const [id, other] = [await one.born(0.2), await one.born(0.5)]
  await sql`insert into inbox values (${id}, 'odd', 'agent', '{"type":"NONSENSE"}', now())`
  t.equal(await money(one, id), fromUsdc(0.2))
  t.equal(await codeOf(one.ask(id, callAdmit, admission(0.3))), 'payment_required')
  t.equal(await codeOf(one.ask(other, callAdmit, admission(0.3))), 'ok')
  t.match(one.logged, [{ message: 'inbox not absorbed' }])
})

t.test('an Idempotency-Key is answered once, even on a node that looked too early', async (t) => {
  const { sql, one, two } = await pair(t)
  const id = await one.born(0.5)
  const [first, second] = [
    admission(0.1, { idempotencyKey: 'k1' }),
    admission(0.1, { idempotencyKey: 'k1' }),
  ]
  await one.ask(id, callAdmit, first)
  await one.ask(id, callSettle, settlement(first, id), { key: 'k1' })
  // The second node loads its state only now: no version tells it of the answer.
  await two.ask(id, callAdmit, second)
  const asked = two.ask(id, callSettle, settlement(second, id), { key: 'k1' })
  const error = await asked.then(
    () => null,
    (reason: unknown) => reason,
  )
  t.ok(error instanceof AlreadyAnswered)
  t.match(error, { stored: { callId: first.callId, requestHash: 'hash' } })
  two.letGo(id, second.callId)
  t.match(await two.ask(id, balance, {}), { promo: 400_000n, reserved: 0n })
  await soundly(t, sql)
})

t.test('two nodes that start with one key charge once', async (t) => {
  const { sql, one, two } = await pair(t)
  const id = await one.born(0.5)
  const calls = [one, two].map(async (at) => {
    const asked = admission(0.1, { idempotencyKey: 'k1' })
    await at.ask(id, callAdmit, asked)
    return at.ask(id, callSettle, settlement(asked, id), { key: 'k1' }).then(
      () => 'charged',
      (error: unknown) => (error instanceof AlreadyAnswered ? 'replayed' : error),
    )
  })
  t.strictSame((await Promise.all(calls)).map(String).sort(), ['charged', 'replayed'])
  t.equal(await money(one, id), fromUsdc(0.4))
  await soundly(t, sql)
})

t.test('a row under an answered key meets that answer, whatever key was named', async (t) => {
  const { sql, one } = await single(t)
  const id = await one.born(0.5)
  const keyed = () => admission(0.1, { idempotencyKey: 'k1' })
  const first = keyed()
  await one.ask(id, callAdmit, first)
  await one.ask(id, callSettle, settlement(first, id), { key: 'k1' })
  for (const options of [{}, { key: 'k2' }]) {
    const second = keyed()
    await one.ask(id, callAdmit, second)
    const [settled, started] = await Promise.allSettled([
      one.ask(id, callSettle, settlement(second, id), options),
      one.ask(id, taskStart, name('beside')),
    ])
    t.equal(started.status, 'fulfilled', 'what shares its commit goes on')
    const error: unknown = settled.status === 'rejected' ? settled.reason : null
    t.ok(error instanceof AlreadyAnswered)
    t.match(error, { stored: { callId: first.callId, requestHash: 'hash' } })
    one.letGo(id, second.callId)
    await one.ask(id, taskEnd, await one.ask(id, taskActive, {}))
  }
  t.equal(await money(one, id), fromUsdc(0.4), 'one of them was charged')
  await soundly(t, sql)
})

t.test('a receipt is kept with its command, and found by the node that comes second', async (t) => {
  const { sql, one, two } = await pair(t)
  const id = await one.born(0.5)
  const receipt = (at: string) => ({
    operation: 'startTask',
    key: 'k2',
    hash: at,
    keyId: null,
    present: (result: unknown) => ({ status: 200, body: (result as { name: string }).name }),
  })
  const answers = await Promise.allSettled([
    one.ask(id, taskStart, name('one'), { receipt: receipt('one') }),
    two.ask(id, taskStart, name('two'), { receipt: receipt('two') }),
  ])
  const rejected = answers.flatMap((one) =>
    one.status === 'rejected' ? [one.reason as unknown] : [],
  )
  t.equal(rejected.length, 1)
  t.ok(rejected[0] instanceof AlreadyAnswered)
  const rows = await sql`select response from calls where idempotency_key = 'k2'`
  t.equal(rows.length, 1)
  await soundly(t, sql)
})

t.test('the facts of a refusal are kept once, whichever node refuses', async (t) => {
  const { sql, one, two } = await pair(t)
  const id = await one.born(0.5)
  const { backpackId } = await packOf(one, id, 0.1)
  await two.ask(id, balance, {})
  const asks = Array.from({ length: 6 }, (_, at) =>
    codeOf((at % 2 === 0 ? one : two).ask(id, callAdmit, admission(0.2, { backpackId }))),
  )
  t.strictSame(await Promise.all(asks), Array(6).fill('FUSE_TRIPPED'))
  const told = await sql`select backpack_id from outbox where type = 'fuse.tripped'`
  t.strictSame(
    told.map((row) => row['backpack_id']),
    [backpackId],
  )
  await soundly(t, sql)
})

/** Everything that is ready has been done. */
async function turns(): Promise<void> {
  for (let count = 0; count < 5; count += 1) await turn()
}

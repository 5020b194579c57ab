import t from 'tap'
import { taskStart } from '../../actors/commands/tasks.ts'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { ZERO, fromUsdc } from '../../core/money.ts'
import { balance, transferSend } from '../../payments/commands/purse.ts'
import { money, name, pair, probe, send, single, soundly } from '../support/nodes.ts'
import { codeOf, gate, heldBefore, lostAfter, lostBefore, testClock } from '../support/runtime.ts'

t.test('what stood on a state that another node replaced is run again, in order', async (t) => {
  const { sql, one, two } = await pair(t)
  const id = await one.born(0.5)
  await two.ask(id, balance, {})
  await one.ask(id, taskStart, name('elsewhere'))
  const order: string[] = []
  const log = (text: string) =>
    probe((turn) => {
      order.push(text)
      turn.create('taskSession', turn.id(), {
        taskId: text,
        name: text,
        budget: ZERO,
        at: turn.now,
      })
    })
  await Promise.all(['a', 'b', 'c'].map((text) => two.ask(id, log(text), undefined)))
  t.strictSame(order, ['a', 'b', 'c', 'a', 'b', 'c'])
  const [row] = await sql`select version from aggregates where id = ${id}`
  t.equal(row?.['version'], 5n, 'each has landed once')
  await soundly(t, sql)
})

t.test(
  'a command whose answer was lost after it landed is answered, and not run again',
  async (t) => {
    const { sql, one } = await single(t)
    const [id, other] = [await one.born(0.5), await one.born(0)]
    one.faults.push(lostAfter)
    const paid = await one.ask(id, transferSend, send(other, 0.2))
    const rows = await sql`select call_id from transfers where kind = 'send'`
    t.strictSame(
      rows.map((row) => row['call_id']),
      [paid.transferId],
      'the ledger has the transfer that was answered',
    )
    t.equal(await money(one, id), fromUsdc(0.3))
    t.equal(await money(one, other), fromUsdc(0.2))
    await soundly(t, sql)
  },
)

t.test('a connection that breaks before the commit costs nothing: it is sent again', async (t) => {
  const { sql, one } = await single(t)
  const [id, other] = [await one.born(0.5), await one.born(0)]
  one.faults.push(lostBefore)
  await one.ask(id, transferSend, send(other, 0.2))
  t.equal(await money(one, id), fromUsdc(0.3))
  one.faults.push(lostBefore, lostBefore)
  t.equal(
    await codeOf(one.ask(id, transferSend, send(other, 0.2))),
    'unavailable',
    'twice is enough',
  )
  t.equal(await money(one, id), fromUsdc(0.3))
  await soundly(t, sql)
})

t.test(
  'an interrupted commit that lands while it is looked for is answered with what landed',
  async (t) => {
    const { sql, one } = await single(t)
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
      return lostBefore(sendNow, [])
    })
    const paid = await one.ask(id, transferSend, send(other, 0.2))
    await landing
    const rows = await sql`select call_id from transfers where kind = 'send'`
    t.strictSame(
      rows.map((row) => row['call_id']),
      [paid.transferId],
      'one transfer, and the reply names it',
    )
    t.equal(await money(one, id), fromUsdc(0.3))
    await soundly(t, sql)
  },
)

t.test('a command that the database refuses falls alone', async (t) => {
  const { sql, one } = await single(t)
  const ids = [await one.born(0.5), await one.born(0.5), await one.born(0.5)] as const
  const poison = probe((turn) =>
    turn.transfer({
      debit: 'agent:x:cash',
      credit: 'agent:y:cash',
      amount: fromUsdc(0),
      kind: 'send',
    }),
  )
  const [before, bad, after, beside] = await Promise.allSettled([
    one.ask(ids[0], taskStart, name('before')),
    one.ask(ids[0], poison, undefined),
    one.ask(ids[0], taskStart, name('after')),
    one.ask(ids[1], transferSend, send(ids[2], 0.5)),
  ])
  t.match(bad, { status: 'rejected', reason: { code: '23514' } })
  t.notOk((bad as PromiseRejectedResult).reason instanceof ServiceError, 'a bug, not a refusal')
  t.match([before, after, beside], Array(3).fill({ status: 'fulfilled' }))
  t.equal(await money(one, ids[2]), fromUsdc(1))
  await soundly(t, sql)
})

t.test('a mailbox has a bound', async (t) => {
  const { one } = await single(t)
  const id = await one.born(0.5)
  const at = gate()
  one.faults.push(heldBefore(at))
  const asked = Array.from({ length: LIMITS.mailbox }, () => one.ask(id, balance, {}))
  t.equal(await codeOf(one.ask(id, balance, {})), 'overloaded')
  const other = one.born(0)
  at.open()
  t.equal((await Promise.all(asked)).length, LIMITS.mailbox)
  await other
  t.equal(await codeOf(one.ask(id, balance, {})), 'ok')
})

t.test('nobody waits longer than the answer time, and what was not sent never lands', async (t) => {
  const clock = testClock()
  const { sql, one } = await single(t, { clock })
  const id = await one.born(0.5)
  const at = gate()
  one.faults.push(heldBefore(at))
  const sent = codeOf(one.ask(id, taskStart, name('sent')))
  await at.reached
  const unsent = codeOf(one.ask(id, taskStart, name('unsent')))
  clock.tick(LIMITS.commitAnswerMs + 1)
  t.strictSame(await Promise.all([sent, unsent]), ['unavailable', 'unavailable'])
  at.open()
  await one.ask(id, taskStart, name('later'))
  const tasks =
    await sql`select state->'context'->>'name' as name from actors where kind = 'taskSession'`
  t.strictSame(tasks.map((row) => String(row['name'])).sort(), ['later', 'sent'])
  await soundly(t, sql)
})

t.test('who loses a race has its turn yet, while the database answers', async (t) => {
  const clock = testClock()
  const { sql, one, two } = await pair(t, { clock })
  const [id, other] = [await one.born(0.5), await one.born(0.5)]
  const [first, second] = [gate(), gate()]
  one.faults.push(heldBefore(first), heldBefore(second))
  const raced = codeOf(one.ask(id, taskStart, name('raced')))
  await first.reached
  const silent = codeOf(one.ask(other, taskStart, name('silent')))
  await two.ask(id, taskStart, name('faster'))
  clock.tick(LIMITS.commitAnswerMs - 500)
  first.open()
  await second.reached
  clock.tick(LIMITS.commitAnswerMs - 500)
  t.equal(await silent, 'unavailable', 'nothing was heard of its aggregate')
  second.open()
  t.equal(await raced, 'ok')
  await soundly(t, sql)
})

t.test('but it is told at last that it had none', async (t) => {
  const clock = testClock()
  const { sql, one, two } = await pair(t, { clock })
  const id = await one.born(0.5)
  const asked = codeOf(one.ask(id, taskStart, name('unlucky')))
  let over = false
  void asked.then(() => (over = true))
  for (let round = 0; !over; round += 1) {
    const at = gate()
    one.faults.push(heldBefore(at))
    await Promise.race([at.reached, asked])
    await two.ask(id, taskStart, name(`faster ${round}`))
    clock.tick(LIMITS.commitAnswerMs - 500)
    at.open()
  }
  t.equal(await asked, 'unavailable')
  await soundly(t, sql)
})

t.test('a runtime that closes answers everybody and takes nothing new', async (t) => {
  const clock = testClock()
  const { sql, one } = await single(t, { clock })
  const [id, other] = [await one.born(0.5), await one.born(0)]
  const sent = Array.from({ length: 5 }, () => codeOf(one.ask(id, transferSend, send(other, 0.1))))
  const closing = one.close()
  t.equal(await codeOf(one.ask(id, balance, {})), 'unavailable')
  t.strictSame(await Promise.all(sent), Array(5).fill('ok'))
  await closing
  t.equal(one.stats().open, 0)
  await soundly(t, sql)
})

t.test('a runtime closes although the database hangs', async (t) => {
  const clock = testClock()
  const { one } = await single(t, { clock })
  const id = await one.born(0.5)
  const at = gate()
  one.faults.push(heldBefore(at))
  const asked = codeOf(one.ask(id, taskStart, name('x')))
  await at.reached
  const closing = one.close()
  clock.tick(LIMITS.commitAnswerMs + 1)
  t.equal(await asked, 'unavailable')
  await closing
  at.open()
})

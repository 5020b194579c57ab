import t from 'tap'
import type { Command } from '../../actors/command.ts'
import { backpackGet, backpackRevoke } from '../../actors/commands/backpacks.ts'
import { taskEnd, taskGet, taskStart } from '../../actors/commands/tasks.ts'
import { registry } from '../../actors/registry.ts'
import { DAY } from '../../core/clock.ts'
import { newId } from '../../core/ids.ts'
import { LIMITS } from '../../core/limits.ts'
import { ZERO, fromUsdc } from '../../core/money.ts'
import { callAdmit, callFail, callSettle } from '../../payments/commands/call.ts'
import { balance, transferSend } from '../../payments/commands/purse.ts'
import { slotsLeft, slotTake, slotUse } from '../../payments/commands/visitor.ts'
import { retention } from '../../persistence/retention.ts'
import type { SnapshotCache } from '../../persistence/snapshot-cache.ts'
import type { StoredAggregate } from '../../persistence/stored.ts'
import { testDatabase } from '../support/database.ts'
import { name, packOf, pair, probe, send, single, soundly } from '../support/nodes.ts'
import {
  admission,
  codeOf,
  failure,
  gate,
  heldBefore,
  lostAfter,
  lostBefore,
  node,
  rowOf,
  runningClock,
  settlement,
  testClock,
  touch,
} from '../support/runtime.ts'

t.test('a cache never gets a state of which only the version is committed', async (t) => {
  const clock = testClock()
  const puts: StoredAggregate[] = []
  const cache: SnapshotCache = {
    get: async () => new Map(),
    put: (aggregate) => void puts.push(aggregate),
    drop: () => {},
    stop: async () => {},
  }
  const { sql, one } = await single(t, { clock, cache })
  const id = await one.born(0.5)
  const at = gate()
  one.faults.push(heldBefore(at))
  const slow = codeOf(one.ask(id, taskStart, name('slow')))
  await at.reached
  const unsent = codeOf(one.ask(id, taskStart, name('unsent')))
  clock.tick(LIMITS.commitAnswerMs + 1)
  await Promise.all([slow, unsent])
  const stepped = gate()
  const waits = probe((turn) => {
    void stepped.pass()
    turn.create('taskSession', turn.id(), { taskId: 'x', name: 'next', budget: ZERO, at: turn.now })
  })
  const next = one.ask(id, waits, undefined)
  await stepped.reached
  at.open()
  await next
  await one.close()
  for (const put of puts) {
    const rows = await sql`select changed::text as changed from journal
      where aggregate_id = ${id} and version <= ${put.version}`
    const written = rows.map((row) => String(row['changed'])).join()
    for (const actor of put.actors.filter(({ kind }) => kind === 'taskSession')) {
      t.match(written, actor.id, `version ${put.version} holds what is in the journal`)
    }
  }
  t.ok(puts.length > 1)
})

t.test('holds in memory outlive conflicts, evictions and lost connections', async (t) => {
  const { sql, one, two } = await pair(t)
  const id = await one.born(0.5)
  const asked = admission(0.4)
  await one.ask(id, callAdmit, asked)
  await two.ask(id, taskStart, name('elsewhere'))
  one.faults.push(lostBefore)
  t.equal(await codeOf(one.ask(id, callAdmit, admission(0.2))), 'payment_required')
  t.match(await one.ask(id, balance, {}), { reserved: 400_000n, available: 100_000n })
  one.faults.push(lostBefore)
  const settled = await one.ask(id, callSettle, settlement(asked, id))
  t.equal(settled.balance, fromUsdc(0.1))
  t.match(await one.ask(id, balance, {}), { reserved: 0n, available: 100_000n })
  t.equal(await codeOf(one.ask(id, callSettle, settlement(asked, id))), 'call_settled', 'once only')
  await soundly(t, sql)
})

t.test('a settlement that landed unheard ends its hold', async (t) => {
  const { sql, one } = await single(t)
  const id = await one.born(0.5)
  const asked = admission(0.4)
  await one.ask(id, callAdmit, asked)
  one.faults.push(lostAfter)
  t.equal((await one.ask(id, callSettle, settlement(asked, id))).balance, fromUsdc(0.1))
  t.match(await one.ask(id, balance, {}), { promo: 100_000n, reserved: 0n })
  t.equal(await codeOf(one.ask(id, callFail, failure(asked, id))), 'call_settled')
  await soundly(t, sql)
})

t.test(
  'a settlement whose caller was told 503 is never recorded as failed beside it',
  async (t) => {
    const clock = testClock()
    const loading = gate()
    let slow = false
    const { sql, one } = await single(t, {
      clock,
      store: (store) => ({
        ...store,
        load: async (ids) => {
          if (slow) await loading.pass()
          return store.load(ids)
        },
      }),
    })
    const id = await one.born(0.5)
    const asked = admission(0.4)
    await one.ask(id, callAdmit, asked)
    slow = true
    one.faults.push(lostAfter)
    const settled = codeOf(one.ask(id, callSettle, settlement(asked, id)))
    await loading.reached
    clock.tick(LIMITS.commitAnswerMs + 1)
    t.equal(await settled, 'unavailable')
    slow = false
    loading.open()
    t.equal(await codeOf(one.ask(id, callFail, failure(asked, id))), 'call_settled')
    t.match(await one.ask(id, balance, {}), { promo: 100_000n, reserved: 0n })
    await soundly(t, sql)
  },
)

t.test('an actor at rest is fetched for a command that names it', async (t) => {
  const { sql, one, two } = await pair(t)
  const id = await one.born(0.5)
  const { taskId } = await one.ask(id, taskStart, name('done'))
  await one.ask(id, taskEnd, { taskId })
  t.equal(await codeOf(two.ask(id, taskGet, { taskId })), 'task_not_found', 'it is not in memory')
  const options = { touch: [{ kind: 'taskSession' as const, id: taskId }] }
  t.match(await two.ask(id, taskGet, { taskId }, options), { state: 'completed' })
  const asked = admission(0.1, { taskId })
  t.equal(await codeOf(two.ask(id, callAdmit, asked, touch(asked))), 'task_not_active')
  const unknown = { touch: [{ kind: 'taskSession' as const, id: newId(Date.now()) }] }
  t.equal(
    await codeOf(two.ask(id, taskGet, { taskId: unknown.touch[0]?.id ?? '' }, unknown)),
    'task_not_found',
  )
  await soundly(t, sql)
})

t.test('a failed fetch of an actor leaves what is being committed alone', async (t) => {
  let broken = false
  const { sql, one } = await single(t, {
    clock: runningClock(),
    store: (store) => ({
      ...store,
      loadActors: async (id, wanted) => {
        if (broken) return lostBefore(() => Promise.reject(new Error()), []) as never
        return store.loadActors(id, wanted)
      },
    }),
  })
  const [id, other] = [await one.born(0.5), await one.born(0)]
  const at = gate()
  one.faults.push(heldBefore(at))
  // The lane is busy with somebody else, so that the first transfer waits unsent.
  const busy = one.ask(other, taskStart, name('busy'))
  await at.reached
  const first = codeOf(one.ask(id, transferSend, send(other, 0.3)))
  broken = true
  const options = { touch: [{ kind: 'taskSession' as const, id: 'x' }] }
  t.equal(await codeOf(one.ask(id, taskGet, { taskId: 'x' }, options)), 'unavailable')
  broken = false
  const second = codeOf(one.ask(id, transferSend, send(other, 0.3)))
  await new Promise((done) => setImmediate(done))
  at.open()
  await busy
  t.strictSame(await Promise.all([first, second]), ['ok', 'payment_required'])
  await soundly(t, sql)
})

t.test('the longest unused aggregates are forgotten, but never one with a hold', async (t) => {
  const { sql, one } = await single(t, { resident: 3 })
  const first = await one.born(0.5)
  const asked = admission(0.4)
  await one.ask(first, callAdmit, asked)
  for (let count = 0; count < 6; count++) await one.born(0.1)
  t.equal(one.stats().resident, 3)
  t.match(await one.ask(first, balance, {}), { reserved: 400_000n })
  await one.ask(first, callSettle, settlement(asked, first))
  await soundly(t, sql)
})

t.test('a visitor that was forgotten and comes again is not the one of before', async (t) => {
  const { sql } = await testDatabase(t)
  const clock = testClock()
  const [one, two] = [node(t, sql, { clock }), node(t, sql, { clock })]
  const visitor = 'visitor:203.0.113.7'
  const [tool, limit] = ['search', 3]
  const use = async (on: typeof one) => {
    const slot = { callId: newId(clock.now()), tool, limit }
    await on.ask(visitor, slotTake, slot)
    await on.ask(visitor, slotUse, { ...slot, record: null })
  }
  await use(one)
  clock.pass(8 * DAY)
  clock.tick(8 * DAY)
  await sql`update journal set at = at - interval '8 days' where aggregate_id = ${visitor}`
  await retention(sql).sweep()
  await use(two)
  t.equal(await one.ask(visitor, slotsLeft, { tool, limit }), 2, 'what it has used since counts')
})

t.test('an aggregate has one mailbox, even where every other is busy', async (t) => {
  const { sql } = await testDatabase(t)
  const clock = runningClock()
  const [one, two] = [node(t, sql, { clock }), node(t, sql, { clock, resident: 1 })]
  const [busy, id, other] = [await one.born(0.5), await one.born(0.5), await one.born(0)]
  await two.ask(busy, callAdmit, admission(0.1))
  const sent = [send(other, 0.3), send(other, 0.3)].map((one) =>
    codeOf(two.ask(id, transferSend, one)),
  )
  t.strictSame((await Promise.all(sent)).sort(), ['ok', 'payment_required'])
  await soundly(t, sql)
})

t.test('a snapshot of a newer machine is refused, a damaged one is set aside', async (t) => {
  const { sql, one, two } = await pair(t)
  const [newer, damaged, odd, sound] = [
    await one.born(0.5),
    await one.born(0.5),
    await one.born(0.5),
    await one.born(0.5),
  ]
  await sql`update actors set machine_version = 99 where aggregate_id = ${newer}`
  await sql`update actors set state = '{"value":"nowhere","context":{}}' where aggregate_id = ${damaged}`
  await sql`update actors set kind = 'dragon' where aggregate_id = ${odd}`
  const codes = [newer, damaged, odd, sound].map((id) => codeOf(two.ask(id, balance, {})))
  t.strictSame(await Promise.all(codes), [
    'snapshot_too_new',
    'quarantined',
    'snapshot_too_new',
    'ok',
  ])
  t.equal(await codeOf(two.ask(damaged, balance, {})), 'quarantined', 'again')
  t.equal(await codeOf(two.ask(sound, taskStart, name('next'))), 'ok')
})

t.test('an older snapshot passes the upcasters of its machine, one by one', async (t) => {
  const { sql, one, two } = await pair(t)
  const id = await one.born(0.5)
  const { taskId } = await one.ask(id, taskStart, name('old'))
  const entry = registry.taskSession as unknown as {
    version: number
    upcasters: Record<number, unknown>
  }
  const { version, upcasters } = entry
  t.teardown(() => Object.assign(entry, { version, upcasters }))
  const renames = (text: string) => (state: { context: { name: string } }) => ({
    ...state,
    context: { ...state.context, name: state.context.name + text },
  })
  const later = { [version]: renames(' b'), [version + 1]: renames(' c') }
  Object.assign(entry, { version: version + 2, upcasters: later })
  t.match(await two.ask(id, taskGet, { taskId }), { name: 'old b c', budget: 1_000_000n })
  await two.ask(id, taskEnd, { taskId })
  const [row] = await sql`select machine_version from actors where id = ${taskId}`
  t.equal(row?.['machine_version'], version + 2)
  Object.assign(entry, { version: version + 3, upcasters: {} })
  const fresh = node(t, sql)
  const options = { touch: [{ kind: 'taskSession' as const, id: taskId }] }
  t.equal(
    await codeOf(fresh.ask(id, taskGet, { taskId }, options)),
    'quarantined',
    'a gap is no guess',
  )
})

t.test('ended actors leave memory, and count in no limit', async (t) => {
  const { sql, one } = await single(t)
  const id = await one.born(0.5)
  const packs = await Promise.all(
    Array.from({ length: LIMITS.backpacks }, () => packOf(one, id, null)),
  )
  t.equal(await codeOf(packOf(one, id, null)), 'limit_reached')
  for (const { backpackId } of packs) await one.ask(id, backpackRevoke, { backpackId })
  t.match(await packOf(one, id, null), { state: 'active' })
  const census: Command<undefined, number> = {
    name: 'census',
    kind: 'agent',
    apply: (turn) => turn.all('backpack').length,
  }
  t.equal(await one.ask(id, census, undefined), 1)
  const [ended] = packs
  const backpackId = ended?.backpackId ?? ''
  const options = { touch: [{ kind: 'backpack' as const, id: backpackId }] }
  t.match(await one.ask(id, backpackGet, { backpackId }, options), { state: 'revoked' })
  await soundly(t, sql)
})

t.test('an unknown agent is refused, whichever command asks for it', async (t) => {
  const { one } = await single(t)
  const id = newId(Date.now())
  const asked = admission(0.1)
  const codes = [
    one.ask(id, balance, {}),
    one.ask(id, callAdmit, asked),
    one.ask(id, callSettle, settlement(asked, id)),
    one.ask(id, taskStart, name('x')),
  ].map(codeOf)
  t.strictSame(await Promise.all(codes), Array(4).fill('agent_not_found'))
  t.equal(rowOf(asked, id).cost, asked.amount)
})

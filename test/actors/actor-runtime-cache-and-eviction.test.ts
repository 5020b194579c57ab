import t from 'tap'
import type { AggregateCommand } from '../../actors/aggregate-command-types.ts'
import {
  getBackpackCommand,
  revokeBackpackCommand,
} from '../../actors/commands/backpacks-commands.ts'
import {
  endTaskAggregateCommand,
  getTaskCommand,
  startTaskCommand,
} from '../../actors/commands/task-session-actor-commands.ts'
import { machineRegistry } from '../../actors/machine-registry.ts'
import { DAY } from '../../core/clock.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../core/limits.ts'
import { ZERO_MICROS, fromUsdc } from '../../core/money.ts'
import {
  admitCallCommand,
  failCallCommand,
  settleCallCommand,
} from '../../payments/commands/call-commands.ts'
import {
  getAgentBalanceCommand,
  sendCreditsCommand,
} from '../../payments/commands/agent-account-commands.ts'
import {
  getFreeCallsLeftCommand,
  reserveFreeCallCommand,
  consumeFreeCallCommand,
} from '../../payments/commands/daily-free-call-commands.ts'
import { createRetentionSweeper } from '../../persistence/retention-sweeper.ts'
import type { SnapshotCache } from '../../persistence/redis/redis-aggregate-snapshot-cache.ts'
import type { StoredAggregate } from '../../persistence/stored-aggregate.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'
import {
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
  failCallInputOfAdmission,
  createTestPauseGate,
  pauseBeforeCommit,
  loseReplyAfterCommit,
  loseConnectionBeforeCommit,
  createTestActorNode,
  callRowOfAdmission,
  createStrictlyIncreasingClock,
  settleCallInputOfAdmission,
  createTestClock,
  touchedAggregatesOfAdmission,
} from '../support/actors/test-actor-node.ts'

t.test('a cache never gets a state of which only the version is committed', async (t) => {
  const clock = createTestClock()
  const puts: StoredAggregate[] = []
  const cache: SnapshotCache = {
    get: async () => new Map(),
    put: (aggregate) => void puts.push(aggregate),
    drop: () => {},
    stop: async () => {},
  }
  const { sql, one } = await createSingleTestActorNode(t, { clock, cache })
  const id = await one.born(0.5)
  const at = createTestPauseGate()
  one.faults.push(pauseBeforeCommit(at))
  const slow = awaitErrorCodeOrOk(one.ask(id, startTaskCommand, sampleTaskInput('slow')))
  await at.reached
  const unsent = awaitErrorCodeOrOk(one.ask(id, startTaskCommand, sampleTaskInput('unsent')))
  clock.tick(LIMITS.commitTimeoutMs + 1)
  await Promise.all([slow, unsent])
  const stepped = createTestPauseGate()
  const waits = createCountingAggregateCommand((turn) => {
    void stepped.pass()
    turn.create('taskSession', turn.newId(), {
      taskId: 'x',
      name: 'next',
      budget: ZERO_MICROS,
      at: turn.now,
    })
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
  const { sql, one, two } = await createTestActorNodePair(t)
  const id = await one.born(0.5)
  const asked = sampleCallAdmissionRequest(0.4)
  await one.ask(id, admitCallCommand, asked)
  await two.ask(id, startTaskCommand, sampleTaskInput('elsewhere'))
  one.faults.push(loseConnectionBeforeCommit)
  t.equal(
    await awaitErrorCodeOrOk(one.ask(id, admitCallCommand, sampleCallAdmissionRequest(0.2))),
    'payment_required',
  )
  t.match(await one.ask(id, getAgentBalanceCommand, {}), {
    reserved: 400_000n,
    available: 100_000n,
  })
  one.faults.push(loseConnectionBeforeCommit)
  const settled = await one.ask(id, settleCallCommand, settleCallInputOfAdmission(asked, id))
  t.equal(settled.balance, fromUsdc(0.1))
  t.match(await one.ask(id, getAgentBalanceCommand, {}), { reserved: 0n, available: 100_000n })
  t.equal(
    await awaitErrorCodeOrOk(one.ask(id, settleCallCommand, settleCallInputOfAdmission(asked, id))),
    'call_settled',
    'once only',
  )
  await assertNoInvariantViolations(t, sql)
})

t.test('a settlement that committed without a reply releases its hold', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const id = await one.born(0.5)
  const asked = sampleCallAdmissionRequest(0.4)
  await one.ask(id, admitCallCommand, asked)
  one.faults.push(loseReplyAfterCommit)
  t.equal(
    (await one.ask(id, settleCallCommand, settleCallInputOfAdmission(asked, id))).balance,
    fromUsdc(0.1),
  )
  t.match(await one.ask(id, getAgentBalanceCommand, {}), { promo: 100_000n, reserved: 0n })
  t.equal(
    await awaitErrorCodeOrOk(one.ask(id, failCallCommand, failCallInputOfAdmission(asked, id))),
    'call_settled',
  )
  await assertNoInvariantViolations(t, sql)
})

t.test('a settlement whose caller got 503 is never recorded as failed as well', async (t) => {
  const clock = createTestClock()
  const loading = createTestPauseGate()
  let slow = false
  const { sql, one } = await createSingleTestActorNode(t, {
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
  const asked = sampleCallAdmissionRequest(0.4)
  await one.ask(id, admitCallCommand, asked)
  slow = true
  one.faults.push(loseReplyAfterCommit)
  const settled = awaitErrorCodeOrOk(
    one.ask(id, settleCallCommand, settleCallInputOfAdmission(asked, id)),
  )
  await loading.reached
  clock.tick(LIMITS.commitTimeoutMs + 1)
  t.equal(await settled, 'unavailable')
  slow = false
  loading.open()
  t.equal(
    await awaitErrorCodeOrOk(one.ask(id, failCallCommand, failCallInputOfAdmission(asked, id))),
    'call_settled',
  )
  t.match(await one.ask(id, getAgentBalanceCommand, {}), { promo: 100_000n, reserved: 0n })
  await assertNoInvariantViolations(t, sql)
})

t.test('an ended actor is loaded for a command that names it', async (t) => {
  const { sql, one, two } = await createTestActorNodePair(t)
  const id = await one.born(0.5)
  const { taskId } = await one.ask(id, startTaskCommand, sampleTaskInput('done'))
  await one.ask(id, endTaskAggregateCommand, { taskId })
  t.equal(
    await awaitErrorCodeOrOk(two.ask(id, getTaskCommand, { taskId })),
    'task_not_found',
    'it is not in memory',
  )
  const options = { touch: [{ kind: 'taskSession' as const, id: taskId }] }
  t.match(await two.ask(id, getTaskCommand, { taskId }, options), { state: 'completed' })
  const asked = sampleCallAdmissionRequest(0.1, { taskId })
  t.equal(
    await awaitErrorCodeOrOk(
      two.ask(id, admitCallCommand, asked, touchedAggregatesOfAdmission(asked)),
    ),
    'task_not_active',
  )
  const unknown = { touch: [{ kind: 'taskSession' as const, id: newUuidV7(Date.now()) }] }
  t.equal(
    await awaitErrorCodeOrOk(
      two.ask(id, getTaskCommand, { taskId: unknown.touch[0]?.id ?? '' }, unknown),
    ),
    'task_not_found',
  )
  await assertNoInvariantViolations(t, sql)
})

t.test('a failed load of an actor does not affect a commit in progress', async (t) => {
  let broken = false
  const { sql, one } = await createSingleTestActorNode(t, {
    clock: createStrictlyIncreasingClock(),
    store: (store) => ({
      ...store,
      loadActors: async (id, wanted) => {
        if (broken)
          return loseConnectionBeforeCommit(() => Promise.reject(new Error()), []) as never
        return store.loadActors(id, wanted)
      },
    }),
  })
  const [id, other] = [await one.born(0.5), await one.born(0)]
  const at = createTestPauseGate()
  one.faults.push(pauseBeforeCommit(at))
  // The commit is busy with another agent, so the first transfer waits unsent.
  const busy = one.ask(other, startTaskCommand, sampleTaskInput('busy'))
  await at.reached
  const first = awaitErrorCodeOrOk(
    one.ask(id, sendCreditsCommand, sampleCreditTransferInput(other, 0.3)),
  )
  broken = true
  const options = { touch: [{ kind: 'taskSession' as const, id: 'x' }] }
  t.equal(
    await awaitErrorCodeOrOk(one.ask(id, getTaskCommand, { taskId: 'x' }, options)),
    'unavailable',
  )
  broken = false
  const second = awaitErrorCodeOrOk(
    one.ask(id, sendCreditsCommand, sampleCreditTransferInput(other, 0.3)),
  )
  await new Promise((done) => setImmediate(done))
  at.open()
  await busy
  t.strictSame(await Promise.all([first, second]), ['ok', 'payment_required'])
  await assertNoInvariantViolations(t, sql)
})

t.test('the least recently used aggregates are evicted, but never one with a hold', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t, { resident: 3 })
  const first = await one.born(0.5)
  const asked = sampleCallAdmissionRequest(0.4)
  await one.ask(first, admitCallCommand, asked)
  for (let count = 0; count < 6; count++) await one.born(0.1)
  t.equal(one.stats().resident, 3)
  t.match(await one.ask(first, getAgentBalanceCommand, {}), { reserved: 400_000n })
  await one.ask(first, settleCallCommand, settleCallInputOfAdmission(asked, first))
  await assertNoInvariantViolations(t, sql)
})

t.test('a visitor created again after its removal is a new one', async (t) => {
  const { sql } = await createTestDatabase(t)
  const clock = createTestClock()
  const [one, two] = [
    createTestActorNode(t, sql, { clock }),
    createTestActorNode(t, sql, { clock }),
  ]
  const visitor = 'visitor:203.0.113.7'
  const [tool, limit] = ['search', 3]
  const use = async (on: typeof one) => {
    const slot = { callId: newUuidV7(clock.now()), tool, limit }
    await on.ask(visitor, reserveFreeCallCommand, slot)
    await on.ask(visitor, consumeFreeCallCommand, { ...slot, record: null })
  }
  await use(one)
  clock.pass(8 * DAY)
  clock.tick(8 * DAY)
  await sql`update journal set at = at - interval '8 days' where aggregate_id = ${visitor}`
  await createRetentionSweeper(sql).sweep()
  await use(two)
  t.equal(
    await one.ask(visitor, getFreeCallsLeftCommand, { tool, limit }),
    2,
    'what it has used since counts',
  )
})

t.test('an aggregate gets a mailbox even when all others are busy', async (t) => {
  const { sql } = await createTestDatabase(t)
  const clock = createStrictlyIncreasingClock()
  const [one, two] = [
    createTestActorNode(t, sql, { clock }),
    createTestActorNode(t, sql, { clock, resident: 1 }),
  ]
  const [busy, id, other] = [await one.born(0.5), await one.born(0.5), await one.born(0)]
  await two.ask(busy, admitCallCommand, sampleCallAdmissionRequest(0.1))
  const sent = [sampleCreditTransferInput(other, 0.3), sampleCreditTransferInput(other, 0.3)].map(
    (one) => awaitErrorCodeOrOk(two.ask(id, sendCreditsCommand, one)),
  )
  t.strictSame((await Promise.all(sent)).sort(), ['ok', 'payment_required'])
  await assertNoInvariantViolations(t, sql)
})

t.test('a snapshot of a newer machine is refused, a damaged one is set aside', async (t) => {
  const { sql, one, two } = await createTestActorNodePair(t)
  const [newer, damaged, odd, sound] = [
    await one.born(0.5),
    await one.born(0.5),
    await one.born(0.5),
    await one.born(0.5),
  ]
  await sql`update actors set machine_version = 99 where aggregate_id = ${newer}`
  await sql`update actors set state = '{"value":"nowhere","context":{}}' where aggregate_id = ${damaged}`
  await sql`update actors set kind = 'dragon' where aggregate_id = ${odd}`
  const codes = [newer, damaged, odd, sound].map((id) =>
    awaitErrorCodeOrOk(two.ask(id, getAgentBalanceCommand, {})),
  )
  t.strictSame(await Promise.all(codes), [
    'snapshot_too_new',
    'quarantined',
    'snapshot_too_new',
    'ok',
  ])
  t.equal(
    await awaitErrorCodeOrOk(two.ask(damaged, getAgentBalanceCommand, {})),
    'quarantined',
    'again',
  )
  t.equal(await awaitErrorCodeOrOk(two.ask(sound, startTaskCommand, sampleTaskInput('next'))), 'ok')
})

t.test('an older snapshot passes the upcasters of its machine, one by one', async (t) => {
  const { sql, one, two } = await createTestActorNodePair(t)
  const id = await one.born(0.5)
  const { taskId } = await one.ask(id, startTaskCommand, sampleTaskInput('old'))
  const entry = machineRegistry.taskSession as unknown as {
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
  t.match(await two.ask(id, getTaskCommand, { taskId }), { name: 'old b c', budget: 1_000_000n })
  await two.ask(id, endTaskAggregateCommand, { taskId })
  const [row] = await sql`select machine_version from actors where id = ${taskId}`
  t.equal(row?.['machine_version'], version + 2)
  Object.assign(entry, { version: version + 3, upcasters: {} })
  const fresh = createTestActorNode(t, sql)
  const options = { touch: [{ kind: 'taskSession' as const, id: taskId }] }
  t.equal(
    await awaitErrorCodeOrOk(fresh.ask(id, getTaskCommand, { taskId }, options)),
    'quarantined',
    'a gap is no guess',
  )
})

t.test('ended actors are evicted and count in no limit', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const id = await one.born(0.5)
  const packs = await Promise.all(
    Array.from({ length: LIMITS.backpacks }, () => createTestBackpack(one, id, null)),
  )
  t.equal(await awaitErrorCodeOrOk(createTestBackpack(one, id, null)), 'limit_reached')
  for (const { backpackId } of packs) await one.ask(id, revokeBackpackCommand, { backpackId })
  t.match(await createTestBackpack(one, id, null), { state: 'active' })
  const census: AggregateCommand<undefined, number> = {
    name: 'census',
    kind: 'agent',
    apply: (turn) => turn.all('backpack').length,
  }
  t.equal(await one.ask(id, census, undefined), 1)
  const [ended] = packs
  const backpackId = ended?.backpackId ?? ''
  const options = { touch: [{ kind: 'backpack' as const, id: backpackId }] }
  t.match(await one.ask(id, getBackpackCommand, { backpackId }, options), { state: 'revoked' })
  await assertNoInvariantViolations(t, sql)
})

t.test('every command rejects an unknown agent', async (t) => {
  const { one } = await createSingleTestActorNode(t)
  const id = newUuidV7(Date.now())
  const asked = sampleCallAdmissionRequest(0.1)
  const codes = [
    one.ask(id, getAgentBalanceCommand, {}),
    one.ask(id, admitCallCommand, asked),
    one.ask(id, settleCallCommand, settleCallInputOfAdmission(asked, id)),
    one.ask(id, startTaskCommand, sampleTaskInput('x')),
  ].map(awaitErrorCodeOrOk)
  t.strictSame(await Promise.all(codes), Array(4).fill('agent_not_found'))
  t.equal(callRowOfAdmission(asked, id).cost, asked.amount)
})

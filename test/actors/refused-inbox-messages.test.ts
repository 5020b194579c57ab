import t from 'tap'
import { fromUsdc } from '../../core/money.ts'
import {
  getAgentBalanceCommand,
  sendCreditsCommand,
} from '../../payments/commands/agent-account-commands.ts'
import { admitCallCommand } from '../../payments/commands/call-commands.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import {
  awaitErrorCodeOrOk,
  sampleCallAdmissionRequest,
  type CommitFault,
} from '../support/actors/test-actor-node.ts'
import {
  assertNoInvariantViolations,
  createSingleTestActorNode,
  readPromoBalance,
  sampleCreditTransferInput,
} from '../support/actors/test-actor-node-pairs.ts'

t.test('a message that cannot be absorbed blocks no other command', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const [id, other] = [await one.born(0.2), await one.born(0.5)]
  await sql`insert into inbox values (${id}, 'odd', 'agent', '{"type":"NONSENSE"}', now())`
  t.equal(await readPromoBalance(one, id), fromUsdc(0.2))
  t.equal(
    await awaitErrorCodeOrOk(one.ask(id, admitCallCommand, sampleCallAdmissionRequest(0.3))),
    'payment_required',
  )
  t.equal(
    await awaitErrorCodeOrOk(one.ask(other, admitCallCommand, sampleCallAdmissionRequest(0.3))),
    'ok',
  )
  t.match(one.logged, [{ message: 'inbox not absorbed' }])
  await t.rejects(one.wake(id, 'agent'), 'its answer would say that the inbox is absorbed')
})

t.test('an inbox that the database refuses blocks no command, and is absorbed later', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const [id, rich, other] = [await one.born(0.2), await one.born(0.5), await one.born(0.5)]
  await refuseInboxes(sql)
  await one.ask(rich, sendCreditsCommand, sampleCreditTransferInput(id, 0.1))
  const before = one.commits()
  const [balance, admitted] = await Promise.all([
    readPromoBalance(one, id),
    awaitErrorCodeOrOk(one.ask(id, admitCallCommand, sampleCallAdmissionRequest(0.1))),
    one.ask(other, getAgentBalanceCommand, {}),
  ])
  t.equal(balance, fromUsdc(0.2))
  t.equal(admitted, 'ok')
  t.equal(await readPromoBalance(one, id), fromUsdc(0.2))
  t.ok(one.commits() - before < 20, `${one.commits() - before} commits`)
  t.match(one.logged.at(-1), { message: 'inbox not absorbed', error: { message: 'refused' } })

  t.equal(
    await awaitErrorCodeOrOk(one.ask(id, admitCallCommand, sampleCallAdmissionRequest(0.15))),
    'payment_required',
    'no call holds what is not absorbed',
  )
  await t.rejects(one.wake(id, 'agent'), { message: 'refused' })

  await sql`drop trigger refuse on inbox`
  await one.wake(id, 'agent')
  t.equal(await readPromoBalance(one, id), fromUsdc(0.3))
  await assertNoInvariantViolations(t, sql)
})

t.test('a lock timeout is no refusal: the inbox is absorbed before a 402', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const [id, rich] = [await one.born(0.01), await one.born(0.5)]
  await one.ask(rich, sendCreditsCommand, sampleCreditTransferInput(id, 0.4))
  const timeOut: CommitFault = () => Promise.reject(Object.assign(new Error(), { code: '55P03' }))
  // After each check of the inbox, whether it is absorbed with others or alone.
  one.faults.push(
    (send) => send(),
    timeOut,
    (send) => send(),
    timeOut,
    (send) => send(),
    timeOut,
  )
  await one.ask(id, sendCreditsCommand, sampleCreditTransferInput(rich, 0.2))
  t.equal(one.faults.length, 0)
  t.equal(await readPromoBalance(one, id), fromUsdc(0.21))
  await assertNoInvariantViolations(t, sql)
})

/** From now on no message can be absorbed. */
const refuseInboxes = (sql: Sql) =>
  sql.unsafe(`create function refuse() returns trigger language plpgsql as
    $$ begin raise exception 'refused'; end $$;
    create trigger refuse before update on inbox for each row execute function refuse()`)

import t from 'tap'
import { SECOND } from '../../../core/clock.ts'
import { assertNoInvariantViolations } from '../../support/actors/test-actor-node-pairs.ts'
import { TEST_TREASURY } from '../../support/payments/sample-payment-claims.ts'
import {
  signAuthorizationCancellation,
  SETTLER_TRANSACTION_HANDOVER_MS,
  sendTransactionFrom,
  createRandomEvmAccount,
  encodeTokenCall,
  encodeCancelAuthorization,
  listSettlerTransactions,
  pollUntilTrue,
  startSettlerScenario,
} from '../../support/payments/settler-scenario.ts'

t.test('30 distinct payments at once on two nodes with one key', async (t) => {
  const at = await startSettlerScenario(t, { nodes: 2, receiptMs: 20_000 })
  const made = []
  for (let n = 0; n < 30; n += 1) made.push(await at.paid(0.01))
  const ends = await Promise.all(
    made.map(({ id }, n) => (at.all[n % 2] ?? at).settler.settled(id, 40_000)),
  )
  t.strictSame([...new Set(ends)], ['settled'])
  t.equal(await at.chain.balanceOf(TEST_TREASURY), 300_000n)
  const txs = await listSettlerTransactions(at.sql)
  t.strictSame(
    txs.map(({ nonce }) => Number(nonce)),
    txs.map((_, n) => n),
    'no gap, and no nonce twice',
  )
  t.equal(
    txs.reduce((sum, { carried }) => sum + Number(carried), 0),
    30,
  )
  t.ok(txs.length < 30, 'some went together')
  await assertNoInvariantViolations(t, at.sql)
})

t.test('one payment that three nodes settle at once is sent once', async (t) => {
  const at = await startSettlerScenario(t, { nodes: 3 })
  const { id } = await at.paid(0.03)
  await Promise.all(at.all.map(({ settler }) => settler.settled(id, 10_000)))
  t.equal(await at.chain.balanceOf(TEST_TREASURY), 30_000n)
  t.equal(await at.sent(), 1)
  await assertNoInvariantViolations(t, at.sql)
})

t.test('a node with stale state sends nothing', async (t) => {
  const at = await startSettlerScenario(t, { nodes: 2 })
  const { id, claimed } = await at.paid(0.03)
  let [held, letGo] = [false, () => {}]
  const overtaken = new Promise<void>((resolve) => (letGo = resolve))
  at.gate.beforeAnswers(async (methods) => {
    if (held || !methods.includes('eth_call')) return
    held = true
    await overtaken
  })
  const slow = at.settler.settled(id, 20_000)
  await pollUntilTrue(async () => held)
  t.equal(await at.all[1]?.settler.settled(id, 10_000), 'settled')
  letGo()
  t.equal(await slow, 'settled')
  t.equal(await at.stateOf(claimed), 'settled/delivered')
  const signed = [{ nonce: 0n, attempt: 1, carried: 1, state: 'mined', replaced: false }]
  t.strictSame([...(await listSettlerTransactions(at.sql))], signed, 'nothing else was even signed')
  await assertNoInvariantViolations(t, at.sql)
})

t.test(
  'a node dies between storing and sending: another one sends the same transaction',
  async (t) => {
    const at = await startSettlerScenario(t, { nodes: 2 })
    const { claimed, id } = await at.paid(0.03)
    at.gate.decide((method) => (method === 'eth_sendRawTransaction' ? 'lost' : 'pass'))
    at.settler.kick(id)
    await pollUntilTrue(async () => at.gate.seen.includes('eth_sendRawTransaction'))
    await at.settler.close()
    t.equal(await at.sent(), 0)
    at.gate.decide(() => 'pass')
    at.clock.pass(SETTLER_TRANSACTION_HANDOVER_MS)
    await at.all[1]?.settler.sweep()
    t.equal(await at.all[1]?.settler.settled(id, 10_000), 'settled')
    t.equal(await at.stateOf(claimed), 'settled/delivered')
    await at.all[1]?.settler.sweep()
    t.match(await listSettlerTransactions(at.sql), [{ nonce: 0n, attempt: 1, state: 'mined' }])
    await assertNoInvariantViolations(t, at.sql)
  },
)

t.test(
  'a transaction that is not mined is sent again at a higher fee with its nonce',
  async (t) => {
    const at = await startSettlerScenario(t, { receiptMs: 200 })
    const { id } = await at.paid(0.03)
    await at.chain.client.setAutomine(false)
    t.equal(await at.settler.settled(id, 400), 'pending')
    at.clock.pass(31 * SECOND)
    await at.settler.sweep()
    t.match(await listSettlerTransactions(at.sql), [
      { nonce: 0n, attempt: 1, replaced: true },
      { nonce: 0n, attempt: 1, replaced: false },
    ])
    await at.chain.client.setAutomine(true)
    await at.chain.mine(1)
    t.equal(await at.settler.settled(id, 10_000), 'settled')
    t.equal(await at.sent(), 1)
    await assertNoInvariantViolations(t, at.sql)
  },
)

t.test('the nonce of an obsolete transaction is used by an empty transfer', async (t) => {
  const at = await startSettlerScenario(t, { receiptMs: 200 })
  const { claimed, id, payer, payment } = await at.paid(0.03)
  at.gate.decide((method) => (method === 'eth_sendRawTransaction' ? 'lost' : 'pass'))
  at.settler.kick(id)
  await pollUntilTrue(async () => (await at.stateOf(claimed)) === 'unknown/delivered')
  at.gate.decide(() => 'pass')
  const signature = await signAuthorizationCancellation(payer, payment)
  await sendTransactionFrom(at.chain, createRandomEvmAccount(), {
    to: payment.asset,
    data: encodeCancelAuthorization(payment.from, payment.nonce, signature),
  })
  at.clock.pass(SETTLER_TRANSACTION_HANDOVER_MS)
  t.equal(await at.settler.settled(id, 10_000), 'lost')
  t.equal(await at.sent(), 1)
  const next = await at.paid(0.02)
  t.equal(await at.settler.settled(next.id, 10_000), 'settled', 'nothing is held up')
  await at.settler.sweep()
  t.match(await listSettlerTransactions(at.sql), [
    { nonce: 0n, replaced: true },
    { nonce: 0n, state: 'void' },
    { nonce: 1n, state: 'mined' },
  ])
  t.equal(await at.stateOf(claimed), 'lost/delivered')
  await assertNoInvariantViolations(t, at.sql)
})

t.test('nonces used elsewhere with the same key are skipped', async (t) => {
  const at = await startSettlerScenario(t)
  await sendTransactionFrom(at.chain, at.account, encodeTokenCall('transfer', [TEST_TREASURY, 0n]))
  const first = await at.paid(0.01)
  t.equal(await at.settler.settled(first.id, 10_000), 'settled')
  await sendTransactionFrom(at.chain, at.account, encodeTokenCall('transfer', [TEST_TREASURY, 0n]))
  const { claimed, id } = await at.paid(0.03)
  t.equal(await at.settler.settled(id, 500), 'pending')
  at.clock.pass(SETTLER_TRANSACTION_HANDOVER_MS)
  await at.settler.sweep()
  t.match(
    (await listSettlerTransactions(at.sql)).at(-1),
    { state: 'signed' },
    'it is believed at a second look',
  )
  at.clock.pass(SETTLER_TRANSACTION_HANDOVER_MS)
  await at.settler.sweep()
  t.equal(await at.settler.settled(id, 10_000), 'settled')
  t.equal(await at.stateOf(claimed), 'settled/delivered')
  await assertNoInvariantViolations(t, at.sql)
})

t.test('fees rise up to a maximum', async (t) => {
  const at = await startSettlerScenario(t, { receiptMs: 200 })
  const { id } = await at.paid(0.03)
  await at.chain.client.setAutomine(false)
  t.equal(await at.settler.settled(id, 400), 'pending')
  const fees = async () => {
    const rows = await at.sql<{ max_fee: string; priority_fee: string }[]>`
      select max_fee, priority_fee from settler_txs order by created_at`
    return rows.map((row) => [BigInt(row.max_fee), BigInt(row.priority_fee)] as const)
  }
  const [[market] = [0n]] = await fees()
  let all = await fees()
  for (let before = 0; before < all.length; all = await fees()) {
    before = all.length
    at.clock.pass(31 * SECOND)
    await at.settler.sweep()
  }
  t.ok(all.length > 2 && all.length < 20, `${all.length} were signed`)
  for (const [at, [fee, tip]] of all.slice(1).entries()) {
    const [before, tipBefore] = all[at] ?? [0n, 0n]
    t.ok(fee * 10n >= before * 11n && tip > tipBefore, 'a node takes it in place of the one before')
  }
  const [highest] = all.at(-1) ?? [0n]
  t.ok(highest > 3n * market && highest <= 4n * market, `from ${market} up to ${highest}`)
  at.gate.seen.splice(0)
  at.clock.pass(31 * SECOND)
  await at.settler.sweep()
  t.ok(at.gate.seen.includes('eth_sendRawTransaction'), 'it still goes out')
  t.equal((await fees()).length, all.length)
  await at.chain.client.setAutomine(true)
  await at.chain.mine(1)
  t.equal(await at.settler.settled(id, 10_000), 'settled')
  t.equal(await at.sent(), 1)
  await assertNoInvariantViolations(t, at.sql)
})

t.test('without gas no settle-first call runs, and due payments wait', async (t) => {
  const at = await startSettlerScenario(t, { gas: 1_000n })
  await at.settler.sweep()
  t.equal(at.settler.optimistic('base'), false)
  const { id } = await at.paid(0.03)
  t.equal(await at.settler.settled(id, 500), 'pending')
  await at.chain.fund(at.account.address, 10n ** 18n)
  at.clock.pass(SETTLER_TRANSACTION_HANDOVER_MS)
  await at.settler.sweep()
  t.equal(await at.settler.settled(id, 10_000), 'settled')
  t.equal(at.settler.optimistic('base'), true)
  await assertNoInvariantViolations(t, at.sql)
})

t.test('a call of the station is sent once per purpose', async (t) => {
  const at = await startSettlerScenario(t)
  await at.chain.mint(at.account.address, 50n)
  const sweep = {
    chain: 'base' as const,
    purpose: 'sweep_1',
    ...encodeTokenCall('transfer', [TEST_TREASURY, 50n]),
  }
  t.match(await at.settler.submit(sweep), { state: 'mined', receipt: { status: 'success' } })
  t.match(await at.settler.submit(sweep), { state: 'mined' })
  t.equal(await at.chain.balanceOf(TEST_TREASURY), 50n)
  const doomed = { ...sweep, purpose: 'sweep_2' }
  await t.rejects(at.settler.submit(doomed), { name: 'WouldRevertError' })
  t.equal(await at.sent(), 1)
})

import t, { type Test } from 'tap'
import { releaseFailedCallPaymentCommand } from '../../../payments/commands/payment-claim-commands.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { assertNoInvariantViolations } from '../../support/actors/test-actor-node-pairs.ts'
import {
  runSettlementCommand,
  claimPaymentOnTestNode,
  samplePaymentClaimInput,
  sampleFailedPaidCallOutcome,
  TEST_TREASURY,
} from '../../support/payments/sample-payment-claims.ts'
import {
  advanceChainAndNodeTime,
  SETTLER_TRANSACTION_HANDOVER_MS,
  countMempoolTransactions,
  sendTransactionFrom,
  settlementTransferCallOf,
  createRandomEvmAccount,
  encodeTokenCall,
  listSettlerTransactions,
  AUTHORIZATION_LIFETIME_MS,
  startSettlerScenario,
} from '../../support/payments/settler-scenario.ts'

const payerOf = async (sql: Sql) => {
  const [row] = await sql<{ value: string }[]>`
    select state->>'value' as value from actors where kind = 'payer'`
  return row?.value
}
t.test('a delivered payment is settled without its caller', async (t) => {
  const at = await startSettlerScenario(t)
  const { claimed, id } = await at.paid(0.03)
  t.equal(await at.settler.settled(id, 10_000), 'settled')
  t.equal(await at.chain.balanceOf(TEST_TREASURY), 30_000n)
  t.equal(await at.stateOf(claimed), 'settled/delivered')
  const found = await at.find(claimed)
  const { status } = await at.chain.client.getTransactionReceipt({
    hash: found?.txHash as `0x${string}`,
  })
  t.equal(status, 'success')
  t.match(await listSettlerTransactions(at.sql), [{ nonce: 0n, attempt: 1, state: 'mined' }])
  await assertNoInvariantViolations(t, at.sql)
})

t.test(
  'settle first: the waiting caller is notified, and only then the call may run',
  async (t) => {
    const at = await startSettlerScenario(t)
    const { claimed, id } = await at.paid(0.03, { mode: 'first' })
    t.equal(await at.stateOf(claimed), 'due/waiting')
    t.equal(await at.settler.settled(id, 10_000), 'settled')
    t.equal(await at.stateOf(claimed), 'settled/waiting')
    await assertNoInvariantViolations(t, at.sql)
  },
)

t.test('the tool failed: nothing is ever sent', async (t) => {
  const at = await startSettlerScenario(t)
  const { claimed, id } = await at.paid(0.03, { delivered: false })
  t.equal(await at.settler.settled(id, 300), 'pending', 'not due before it is delivered')
  await runSettlementCommand(
    at.actors,
    claimed,
    releaseFailedCallPaymentCommand,
    sampleFailedPaidCallOutcome(claimed),
  )
  at.settler.kick(id)
  await at.settler.sweep()
  t.equal(await at.stateOf(claimed), 'released/waiting')
  t.equal(await at.sent(), 0)
  await assertNoInvariantViolations(t, at.sql)
})

t.test(
  'the balance is spent after the call: no gas is spent, and it settles when funds return',
  async (t) => {
    const at = await startSettlerScenario(t)
    const { claimed, id, payer } = await at.paid(0.03)
    await sendTransactionFrom(
      at.chain,
      payer,
      encodeTokenCall('transfer', [createRandomEvmAccount().address, 30_000n]),
    )
    t.equal(await at.settler.settled(id, 1_000), 'pending')
    t.equal(await at.stateOf(claimed), 'unknown/delivered')
    t.equal(await at.sent(), 0)
    await assertNoInvariantViolations(t, at.sql)
    await at.chain.mint(payer.address, 30_000n)
    t.equal(await at.settler.settled(id, 10_000), 'settled')
    await assertNoInvariantViolations(t, at.sql)
  },
)

t.test('a delivered payment that expires unpaid is a loss, and the payer is blocked', async (t) => {
  const at = await startSettlerScenario(t)
  const { claimed, id, payer } = await at.paid(0.03)
  await sendTransactionFrom(
    at.chain,
    payer,
    encodeTokenCall('transfer', [createRandomEvmAccount().address, 30_000n]),
  )
  t.equal(await at.settler.settled(id, 500), 'pending')
  await advanceChainAndNodeTime(at, AUTHORIZATION_LIFETIME_MS)
  t.equal(await at.settler.settled(id, 20_000), 'lost')
  t.equal(await at.stateOf(claimed), 'lost/delivered')
  t.equal(await payerOf(at.sql), 'blocked')
  await assertNoInvariantViolations(t, at.sql)
})

/** A payment reported as lost is no longer submitted, and is credited if a third party submits it. */
async function landsAfterAll(
  t: Test,
  at: World,
  { claimed, id, payer, payment }: Awaited<ReturnType<World['paid']>>,
): Promise<void> {
  await at.chain.mint(payer.address, 30_000n)
  at.settler.kick(id)
  await at.settler.sweep()
  t.equal(await at.sent(), 0, 'its sender got a failure')
  await sendTransactionFrom(at.chain, createRandomEvmAccount(), settlementTransferCallOf(payment))
  await advanceChainAndNodeTime(at, AUTHORIZATION_LIFETIME_MS)
  await at.settler.sweep()
  t.equal(await at.stateOf(claimed), 'settled/waiting', 'it landed after all')
  await assertNoInvariantViolations(t, at.sql)
}
type World = Awaited<ReturnType<typeof startSettlerScenario>>

t.test('settle first and rejected: lost, never submitted later, checked once more', async (t) => {
  const at = await startSettlerScenario(t)
  const paid = await at.paid(0.03, { mode: 'first' })
  const { id, payer } = paid
  await sendTransactionFrom(
    at.chain,
    payer,
    encodeTokenCall('transfer', [createRandomEvmAccount().address, 30_000n]),
  )
  t.equal(await at.settler.settled(id, 500), 'pending', 'not at the first look')
  await at.settler.sweep()
  at.clock.pass(SETTLER_TRANSACTION_HANDOVER_MS)
  t.equal(await at.settler.settled(id, 10_000), 'lost')
  t.equal(await payerOf(at.sql), 'trusted', 'nothing was delivered')
  await landsAfterAll(t, at, paid)
})

t.test('settle first without balance at a final block: lost at once', async (t) => {
  const at = await startSettlerScenario(t)
  await at.chain.mine(100)
  const paid = await at.paid(0.03, { mode: 'first' })
  const { claimed, id, payer } = paid
  await sendTransactionFrom(
    at.chain,
    payer,
    encodeTokenCall('transfer', [createRandomEvmAccount().address, 30_000n]),
  )
  t.equal(await at.settler.settled(id, 3_000), 'lost')
  t.equal(await at.stateOf(claimed), 'lost/waiting')
  await landsAfterAll(t, at, paid)
})

t.test('a node that has not seen the payer’s funding yet loses nothing', async (t) => {
  const at = await startSettlerScenario(t)
  await at.chain.mine(100)
  const early = await at.chain.client.getBlockNumber()
  const { claimed, id } = await at.paid(0.03, { mode: 'first' })
  at.gate.behind(early)
  t.equal(await at.settler.settled(id, 1_000), 'pending')
  t.ok(at.gate.seen.includes('eth_estimateGas'), 'it was tried')
  t.equal(await at.stateOf(claimed), 'unknown/waiting')
  at.gate.behind(null)
  at.clock.pass(SETTLER_TRANSACTION_HANDOVER_MS)
  t.equal(await at.settler.settled(id, 10_000), 'settled')
  await assertNoInvariantViolations(t, at.sql)
})

t.test('the answer to a broadcast is lost: the payment is found, and paid once', async (t) => {
  const at = await startSettlerScenario(t)
  const { id } = await at.paid(0.03)
  at.gate.decide((method) => (method === 'eth_sendRawTransaction' ? 'unanswered' : 'pass'))
  t.equal(await at.settler.settled(id, 10_000), 'settled')
  t.equal(await at.sent(), 1)
  await assertNoInvariantViolations(t, at.sql)
})

t.test('a chain that does not answer neither loses nor fails a payment', async (t) => {
  const at = await startSettlerScenario(t)
  const { claimed, id } = await at.paid(0.03)
  const first = await at.paid(0.05, { mode: 'first' })
  await at.settler.sweep()
  at.gate.decide(() => 'lost')
  const other = await at.paid(0.02)
  for (const one of [id, first.id, other.id]) at.settler.kick(one)
  await at.settler.sweep()
  t.equal(at.settler.optimistic('base'), false)
  t.equal(await at.stateOf(other.claimed), 'due/delivered')
  at.gate.decide(() => 'pass')
  at.clock.pass(SETTLER_TRANSACTION_HANDOVER_MS)
  await at.settler.sweep()
  t.equal(await at.settler.settled(other.id, 10_000), 'settled')
  t.equal(await at.settler.settled(first.id, 10_000), 'settled')
  t.equal(await at.stateOf(claimed), 'settled/delivered')
  t.equal(at.settler.optimistic('base'), true)
  await assertNoInvariantViolations(t, at.sql)
})

t.test('the sweep of any node settles a delivery for an agent', async (t) => {
  const at = await startSettlerScenario(t, { nodes: 2 })
  const { claimed } = await at.paid(0.03, { delivered: false })
  const agentId = await at.actors.born(0)
  const { id } = await at.paid(0.02, { delivered: false })
  await at.sql`insert into inbox (receiver, id, receiver_kind, event, at) values
    (${`eip155:8453:${claimed.payment.from}`}, 'x', 'payer', ${at.sql.json({
      type: 'RELEASED',
      settlement: id,
      callId: agentId,
    })}, now())`
  await at.all[1]?.settler.sweep()
  const [row] = await at.sql`select absorbed_at from inbox where id = 'x'`
  t.ok(row?.['absorbed_at'])
})

t.test('a payment claimed again after a release settles with its new signature', async (t) => {
  const at = await startSettlerScenario(t)
  const { claimed, id } = await at.paid(0.03, { delivered: false })
  await runSettlementCommand(
    at.actors,
    claimed,
    releaseFailedCallPaymentCommand,
    sampleFailedPaidCallOutcome(claimed),
  )
  const again = samplePaymentClaimInput(claimed.payment, { mode: 'first', balance: 30_000n })
  t.match(await claimPaymentOnTestNode(at.actors, again), { claim: 'new', mode: 'first' })
  t.equal(await at.settler.settled(id, 10_000), 'settled')
  await assertNoInvariantViolations(t, at.sql)
})

t.test('a node one block behind does not make a paid settlement fail', async (t) => {
  const at = await startSettlerScenario(t, { receiptMs: 200 })
  await at.chain.mine(100)
  const { claimed, id } = await at.paid(0.03, { mode: 'first' })
  const early = await at.chain.client.getBlockNumber()
  // The node that simulates it has the block, the node that is queried next does not.
  at.gate.behind(early, (method) => method !== 'eth_call')
  t.equal(await at.settler.settled(id, 2_000), 'pending')
  t.ok(at.gate.seen.filter((method) => method === 'eth_call').length > 1, 'it was tried')
  t.equal(await at.stateOf(claimed), 'unknown/waiting')
  at.gate.behind(null)
  at.clock.pass(SETTLER_TRANSACTION_HANDOVER_MS)
  t.equal(await at.settler.settled(id, 10_000), 'settled')
  t.equal(await at.sent(), 1)
  await assertNoInvariantViolations(t, at.sql)
})

t.test('a node that has not seen a third party’s payment loses nothing', async (t) => {
  const at = await startSettlerScenario(t)
  await at.chain.mine(100)
  const { claimed, id, payment } = await at.paid(0.03, { mode: 'first' })
  const early = await at.chain.client.getBlockNumber()
  const tx = await sendTransactionFrom(
    at.chain,
    createRandomEvmAccount(),
    settlementTransferCallOf(payment),
  )
  // The node that estimates it has the block, the node that searches for it does not.
  at.gate.behind(early, (method) => method !== 'eth_estimateGas')
  t.equal(await at.settler.settled(id, 1_000), 'pending')
  await at.settler.sweep()
  t.ok(at.gate.seen.includes('eth_estimateGas'), 'it was tried')
  t.equal(await at.stateOf(claimed), 'unknown/waiting')
  at.gate.behind(null)
  at.clock.pass(SETTLER_TRANSACTION_HANDOVER_MS)
  t.equal(await at.settler.settled(id, 10_000), 'settled')
  t.equal((await at.find(claimed))?.txHash, tx)
  t.equal(await at.sent(), 0)
  await assertNoInvariantViolations(t, at.sql)
})

t.test('an undelivered payment that stays unsettled is given up', async (t) => {
  const at = await startSettlerScenario(t, { receiptMs: 200 })
  const { claimed, id, payer } = await at.paid(0.03, { mode: 'first' })
  await at.chain.client.setAutomine(false)
  t.equal(await at.settler.settled(id, 1_000), 'pending')
  t.equal(await countMempoolTransactions(at), 1)
  const more = { wait: false, tip: 10n ** 11n }
  await at.chain.client.dropTransaction({
    hash: ((await at.find(claimed))?.txHash ?? '0x') as '0x',
  })
  await sendTransactionFrom(
    at.chain,
    payer,
    encodeTokenCall('transfer', [createRandomEvmAccount().address, 30_000n]),
    more,
  )
  await at.chain.mine(1)
  t.equal(await at.settler.settled(id, 1_000), 'pending', 'not at the first look')
  at.clock.pass(SETTLER_TRANSACTION_HANDOVER_MS)
  t.equal(await at.settler.settled(id, 10_000), 'lost')
  t.equal(await at.stateOf(claimed), 'lost/waiting')
  await assertNoInvariantViolations(t, at.sql)
})

import t from 'tap'
import { assertNoInvariantViolations } from '../../support/actors/test-actor-node-pairs.ts'
import {
  signAuthorizationCancellation,
  advanceChainAndNodeTime,
  countMempoolTransactions,
  sendTransactionFrom,
  settlementTransferCallOf,
  createRandomEvmAccount,
  encodeTokenCall,
  encodeCancelAuthorization,
  listSettlerTransactions,
  pollUntilTrue,
  AUTHORIZATION_LIFETIME_MS,
  startSettlerScenario,
} from '../../support/payments/settler-scenario.ts'

t.test('a cancelled authorization is lost at once', async (t) => {
  const at = await startSettlerScenario(t)
  const { claimed, id, payer, payment } = await at.paid(0.03)
  const signature = await signAuthorizationCancellation(payer, payment)
  await sendTransactionFrom(at.chain, createRandomEvmAccount(), {
    to: payment.asset,
    data: encodeCancelAuthorization(payment.from, payment.nonce, signature),
  })
  t.equal(await at.settler.settled(id, 10_000), 'lost')
  t.equal(await at.stateOf(claimed), 'lost/delivered')
  t.match(await at.store.counts(), { lost: 1, lostValue: 30_000n })
  t.equal(await at.sent(), 0)
  await assertNoInvariantViolations(t, at.sql)
})

t.test('a cancellation dropped by a reorg: the later settlement is counted', async (t) => {
  const at = await startSettlerScenario(t)
  const { claimed, id, payer, payment } = await at.paid(0.03)
  await at.chain.mine(1)
  await sendTransactionFrom(at.chain, createRandomEvmAccount(), {
    to: payment.asset,
    data: encodeCancelAuthorization(
      payment.from,
      payment.nonce,
      await signAuthorizationCancellation(payer, payment),
    ),
  })
  t.equal(await at.settler.settled(id, 10_000), 'lost')
  await at.chain.reorg(1)
  await sendTransactionFrom(at.chain, createRandomEvmAccount(), settlementTransferCallOf(payment))
  await at.settler.sweep()
  t.equal(await at.stateOf(claimed), 'lost/delivered', 'it is looked at when it can land no more')
  await advanceChainAndNodeTime(at, AUTHORIZATION_LIFETIME_MS)
  await at.settler.sweep()
  t.equal(await at.stateOf(claimed), 'settled/delivered')
  t.equal(await at.sent(), 0)
  await assertNoInvariantViolations(t, at.sql)
})

t.test('a payment submitted first by a third party is settled', async (t) => {
  const at = await startSettlerScenario(t)
  const { claimed, id, payment } = await at.paid(0.03)
  const tx = await sendTransactionFrom(
    at.chain,
    createRandomEvmAccount(),
    settlementTransferCallOf(payment),
  )
  t.equal(await at.settler.settled(id, 10_000), 'settled')
  t.equal((await at.find(claimed))?.txHash, tx)
  t.equal(await at.sent(), 0)
  await assertNoInvariantViolations(t, at.sql)
})

t.test(
  'a payment of a third party in the same block: our transaction reverts, the payment is settled',
  async (t) => {
    const at = await startSettlerScenario(t, { receiptMs: 10_000 })
    const { claimed, id, payment } = await at.paid(0.03)
    await at.chain.client.setAutomine(false)
    const waiting = at.settler.settled(id, 20_000)
    await pollUntilTrue(async () => (await at.stateOf(claimed)) === 'submitted/delivered')
    await pollUntilTrue(async () => (await countMempoolTransactions(at)) === 1)
    const more = { wait: false, tip: 10n ** 11n }
    const tx = await sendTransactionFrom(
      at.chain,
      createRandomEvmAccount(),
      settlementTransferCallOf(payment),
      more,
    )
    await at.chain.mine(1)
    t.equal(await waiting, 'settled')
    t.equal((await at.find(claimed))?.txHash, tx)
    t.match(await listSettlerTransactions(at.sql), [{ nonce: 0n, state: 'reverted' }])
    await assertNoInvariantViolations(t, at.sql)
  },
)

t.test('a reverted transaction is signed again when funds return', async (t) => {
  const at = await startSettlerScenario(t, { receiptMs: 10_000 })
  const { claimed, id, payer } = await at.paid(0.03)
  await at.chain.client.setAutomine(false)
  const waiting = at.settler.settled(id, 20_000)
  await pollUntilTrue(async () => (await countMempoolTransactions(at)) === 1)
  const more = { wait: false, tip: 10n ** 11n }
  await sendTransactionFrom(
    at.chain,
    payer,
    encodeTokenCall('transfer', [createRandomEvmAccount().address, 30_000n]),
    more,
  )
  await at.chain.mine(1)
  await pollUntilTrue(async () => (await at.stateOf(claimed)) === 'unknown/delivered')
  await at.chain.client.setAutomine(true)
  await at.chain.mint(payer.address, 30_000n)
  t.equal(await waiting, 'settled')
  t.match(await listSettlerTransactions(at.sql), [
    { nonce: 0n, attempt: 1, state: 'reverted' },
    { nonce: 1n, attempt: 2, state: 'mined' },
  ])
  await assertNoInvariantViolations(t, at.sql)
})

t.test('a payment that expires before it is mined reverts and is lost', async (t) => {
  const at = await startSettlerScenario(t, { receiptMs: 10_000 })
  const { claimed, id } = await at.paid(0.03)
  await at.chain.client.setAutomine(false)
  const waiting = at.settler.settled(id, 20_000)
  await pollUntilTrue(async () => (await countMempoolTransactions(at)) === 1)
  await advanceChainAndNodeTime(at, AUTHORIZATION_LIFETIME_MS)
  t.equal(await waiting, 'lost')
  t.equal(await at.stateOf(claimed), 'lost/delivered')
  await assertNoInvariantViolations(t, at.sql)
})

t.test('code deployed to the payer voids the signature, and the loss is counted', async (t) => {
  const at = await startSettlerScenario(t)
  const { claimed, id, payer } = await at.paid(0.03)
  await at.chain.client.setCode({ address: payer.address, bytecode: '0xfe' })
  t.equal(await at.settler.settled(id, 500), 'pending')
  t.equal(await at.sent(), 0)
  await advanceChainAndNodeTime(at, AUTHORIZATION_LIFETIME_MS)
  t.equal(await at.settler.settled(id, 10_000), 'lost')
  t.equal(await at.stateOf(claimed), 'lost/delivered')
  await assertNoInvariantViolations(t, at.sql)
})

t.test('a paused token delays the settlement', async (t) => {
  const at = await startSettlerScenario(t)
  const { claimed, id } = await at.paid(0.03)
  await sendTransactionFrom(
    at.chain,
    createRandomEvmAccount(),
    encodeTokenCall('setPaused', [true]),
  )
  t.equal(await at.settler.settled(id, 500), 'pending')
  t.equal(await at.stateOf(claimed), 'unknown/delivered')
  await sendTransactionFrom(
    at.chain,
    createRandomEvmAccount(),
    encodeTokenCall('setPaused', [false]),
  )
  t.equal(await at.settler.settled(id, 10_000), 'settled')
  await assertNoInvariantViolations(t, at.sql)
})

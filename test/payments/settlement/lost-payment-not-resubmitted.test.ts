import t from 'tap'
import { fromUsdc } from '../../../core/money.ts'
import { assertNoInvariantViolations } from '../../support/actors/test-actor-node-pairs.ts'
import {
  advanceChainAndNodeTime,
  SETTLER_TRANSACTION_HANDOVER_MS,
  sendTransactionFrom,
  createRandomEvmAccount,
  encodeTokenCall,
  pollUntilTrue,
  startSettlerScenario,
} from '../../support/payments/settler-scenario.ts'

t.test('a payment given up by one node is not submitted by a slower one', async (t) => {
  const at = await startSettlerScenario(t, { nodes: 2 })
  const [one, two] = at.all as [(typeof at.all)[number], (typeof at.all)[number]]
  const other = await at.paid(0.01)
  t.equal(await one.settler.settled(other.id, 10_000), 'settled')

  const { payer, id, payment, claimed } = await at.paid(0.02, { mode: 'first' })
  // The slow one has seen that it can be carried out, and has not signed it yet.
  let go = () => {}
  const held = new Promise<'pass'>((resolve) => (go = () => resolve('pass')))
  let arrived = false
  at.gate.decide((method) => {
    if (method !== 'eth_getTransactionCount') return 'pass'
    arrived = true
    return held
  })
  const slow = two.settler.settled(id, 60_000)
  await pollUntilTrue(async () => arrived)
  const hoard = createRandomEvmAccount().address
  await sendTransactionFrom(at.chain, payer, encodeTokenCall('transfer', [hoard, payment.amount]))
  t.equal(await one.settler.settled(id, 300), 'pending')
  await advanceChainAndNodeTime(at, SETTLER_TRANSACTION_HANDOVER_MS)
  t.equal(await one.settler.settled(id, 10_000), 'lost', 'its payer has nothing')
  go()
  t.equal(await slow, 'lost')
  await at.chain.mint(payer.address, payment.amount)
  await advanceChainAndNodeTime(at, SETTLER_TRANSACTION_HANDOVER_MS)
  await two.settler.sweep()
  await one.settler.sweep()
  t.equal(await at.chain.balanceOf(payer.address), fromUsdc(0.02), 'its payer got a failure')
  t.equal(await at.stateOf(claimed), 'lost/waiting')
  await assertNoInvariantViolations(t, at.sql)
})
